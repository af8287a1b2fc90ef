"""The items of a feed are a function of seed, feed and time only."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater.farm.sample_text import TOPICS, make_text
from headwater.farm.timeline import BLOCK, RATES, FarmTimeline, compute_postings, make_profile
from headwater.times import DAY

moments = st.floats(0, 3 * BLOCK)
seeds = st.integers(0, 2**40)
feeds = st.integers(0, 10**6)


@given(seeds, feeds, st.tuples(moments, moments, moments))
def test_any_period_can_be_computed_by_itself(seed: int, feed: int, times: tuple[float, float, float]) -> None:
    a, b, c = sorted(times)
    assert compute_postings(seed, feed, a, b) + compute_postings(seed, feed, b, c) == compute_postings(seed, feed, a, c)


@given(seeds, feeds, moments, st.integers(1, 60))
def test_the_window_is_the_end_of_the_timeline(seed: int, feed: int, at: float, size: int) -> None:
    timeline = FarmTimeline(seed, make_profile(seed, feed))
    window = timeline.newest_postings(at, size)
    everything = compute_postings(seed, feed, 0, np.nextafter(at, np.inf))
    assert window == everything[::-1][:size]
    following = timeline.time_of_next(at)
    assert following > at
    assert compute_postings(seed, feed, np.nextafter(at, np.inf), following) == []
    assert [posting.at for posting in compute_postings(seed, feed, following, np.nextafter(following, np.inf))] == [
        following
    ]


@given(seeds, feeds)
def test_items_are_found_by_their_numbers(seed: int, feed: int) -> None:
    timeline = FarmTimeline(seed, make_profile(seed, feed))
    for posting in compute_postings(seed, feed, BLOCK / 2, 2 * BLOCK)[:50]:
        assert timeline.find_posting(posting.number) == posting
    assert timeline.find_posting(-1) is None
    assert timeline.find_posting(999_999) is None


def test_rates_follow_the_power_law_over_the_feeds() -> None:
    rates = np.array([make_profile(1, feed).rate * DAY for feed in range(4000)])
    low, high = RATES
    assert rates.min() >= low
    assert rates.max() <= high
    # Mean of p(x) ~ x^−.78 on [1, 1000]: ∫x^.22 / ∫x^−.78, per 90 days.
    mean = (1000**1.22 - 1) / 1.22 / ((1000**0.22 - 1) / 0.22) / 90
    assert abs(rates.mean() / mean - 1) < 0.08


def test_feeds_publish_as_often_as_their_rate_says_and_only_when_their_shape_allows() -> None:
    for feed in range(40):
        one = make_profile(9, feed)
        times = np.array([posting.at for posting in compute_postings(9, feed, 0, 4 * BLOCK)])
        wanted = one.rate * 4 * BLOCK
        assert abs(len(times) - wanted) < 5 * np.sqrt(wanted) + 5
        hours = {int(hour) for hour in times % DAY // 3600}
        assert not hours & set(one.silent_hours())
        assert bool(one.silent_hours()) is (one.shape == "peaks")


def test_the_farm_has_variety() -> None:
    some = [make_profile(1, feed) for feed in range(500)]
    for name, least in (("format", 4), ("shape", 3), ("hints", 5), ("validators", 3), ("topic", len(TOPICS))):
        assert len(Counter(getattr(one, name) for one in some)) == least
    assert len({one.title for one in some}) > 300


@given(seeds, feeds, st.integers(0, 10**9), st.sampled_from(sorted(TOPICS)))
def test_items_have_readable_words_of_their_topic(seed: int, feed: int, number: int, topic: str) -> None:
    text = make_text(seed, feed, number, topic)
    assert text == make_text(seed, feed, number, topic)
    assert any(text.title.startswith(who) for who in TOPICS[topic].who)
    assert text.categories[0] == topic
    assert text.content.count("<p>") == text.content.count("</p>") == 3
    assert "{" not in text.summary + text.content
