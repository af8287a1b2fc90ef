"""Every politeness rule holds and gives its reason."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headwater.model import Hints, Known, Validators
from headwater.schedule.politeness.rules import (
    MIN_INTERVAL,
    SAFETY_POLL,
    PolitenessFacts,
    Reason,
    compute_earliest_times,
    compute_pauses,
    find_candidates,
    find_earliest_time,
    is_skipped,
    load_facts,
    measure_skipped,
)
from headwater.times import DAY, HOUR

NOW = 1_000_000 * HOUR  # on the hour, a Saturday in 2084: hour 16 of the day
POLITE = Known(1, "http://a/", Validators('"x"'), last_refresh=NOW, last_success=NOW, last_change=NOW - DAY, failures=0)


def test_new_feed_may_be_polled_at_once() -> None:
    assert find_earliest_time(Known(1, "http://a/"), NOW) == (NOW, Reason.FREE)


def test_politeness_alone_asks_for_two_minutes() -> None:
    """The plan decides whether a feed is worth polling that often."""
    assert find_earliest_time(POLITE, NOW) == (NOW + MIN_INTERVAL, Reason.LEAST)
    assert find_earliest_time(POLITE, NOW + MIN_INTERVAL) == (NOW + MIN_INTERVAL, Reason.FREE)
    assert find_earliest_time(POLITE, NOW, least=5.0)[0] == NOW + 5, "where the operator says so"


def test_a_hint_asks_for_more() -> None:
    assert find_earliest_time(replace(POLITE, hints=Hints(ttl=900.0)), NOW)[0] == NOW + 900
    assert find_earliest_time(replace(POLITE, fresh_until=NOW + 300), NOW)[0] == NOW + 300


@given(st.integers(0, 2**24 - 2), st.integers(0, 2**7 - 2), st.integers(0, 7 * 24 - 1))
def test_the_mask_tested_when_choosing_agrees_with_the_waking_time(hours: int, days: int, hour: int) -> None:
    names = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
    hints = Hints(
        skip_hours=tuple(h for h in range(24) if hours >> h & 1),
        skip_days=tuple(names[d] for d in range(7) if days >> d & 1),
    )
    now = NOW + hour * HOUR
    at, _ = find_earliest_time(Known(1, "http://a/", hints=hints), now)
    skipped = is_skipped(np.array([hours], np.int32), np.array([days], np.int32), now)
    assert bool(skipped[0]) == (at > now)


@given(st.integers(0, 2**24 - 1), st.integers(0, 2**7 - 1))
def test_the_share_of_the_week_counts_its_open_hours(hours: int, days: int) -> None:
    moments = NOW + HOUR * np.arange(7 * 24)
    one = np.array([hours], np.int32), np.array([days], np.int32)
    asleep = np.array([bool(is_skipped(*one, moment)[0]) for moment in moments.tolist()])
    share, wait = measure_skipped(hours, days)
    assert share == pytest.approx(1 - asleep.mean() if not asleep.all() else 1.0)
    assert wait >= 0


@given(st.builds(replace, st.just(POLITE), fresh_until=st.none() | st.floats(NOW - DAY, NOW + 3 * DAY)))
def test_the_pause_of_the_plan_is_the_earliest_time_of_the_rules(known: Known) -> None:
    table = PolitenessFacts.of(1)
    load_facts(table, np.arange(1), [known])
    pause, why = compute_pauses(table)
    at, reason = find_earliest_time(known, NOW)
    assert at - NOW == pytest.approx(float(pause[0]))
    assert Reason(int(why[0])) is reason


def test_manual_refresh_overrides_all_but_refusals() -> None:
    later = NOW + 10 * 60
    slow = replace(POLITE, fresh_until=NOW + DAY / 2, failures=3, hints=Hints(skip_hours=(16,)))
    assert find_earliest_time(slow, later, asked=True) == (later, Reason.FREE)
    assert find_earliest_time(slow, later, asked=True, paused=True) == (later, Reason.FREE)
    refused = replace(slow, not_before=NOW + 5 * HOUR)
    assert find_earliest_time(refused, later, asked=True) == (NOW + 5 * HOUR, Reason.RETRY_AFTER)
    assert find_earliest_time(slow, later, asked=True, host_not_before=NOW + HOUR) == (NOW + HOUR, Reason.HOST)
    assert find_earliest_time(slow, NOW + 1, asked=True) == (NOW + MIN_INTERVAL, Reason.LEAST)


def test_without_validators_and_without_change_a_feed_is_asked_once_an_hour() -> None:
    bare = replace(POLITE, validators=Validators())
    assert find_earliest_time(bare, NOW) == (NOW + HOUR, Reason.UNCHANGING)
    assert find_earliest_time(replace(bare, last_change=NOW), NOW) == (NOW + MIN_INTERVAL, Reason.LEAST)
    silent = replace(bare, last_success=None, last_change=None, failures=1)  # no successful refresh yet
    assert find_earliest_time(silent, NOW) == (NOW + 600, Reason.BACK_OFF)


def test_max_age_is_respected_but_cannot_silence_a_feed() -> None:
    assert find_earliest_time(replace(POLITE, fresh_until=NOW + 3 * HOUR), NOW) == (NOW + 3 * HOUR, Reason.FRESH)
    assert find_earliest_time(replace(POLITE, fresh_until=NOW + 365 * DAY), NOW) == (NOW + DAY, Reason.FRESH)


@pytest.mark.parametrize(
    ("hints", "wait"),
    [
        (Hints(ttl=2 * HOUR), 2 * HOUR),
        (Hints(update_period="hourly", update_frequency=1), HOUR),
        (Hints(update_period="daily", update_frequency=4), 6 * HOUR),
        (Hints(update_period="daily", update_base=NOW - 3 * HOUR), 21 * HOUR),
        (Hints(update_period="fortnightly"), MIN_INTERVAL),
        (Hints(ttl=float("inf")), MIN_INTERVAL),
    ],
)
def test_hints_of_the_document_are_honoured(hints: Hints, wait: float) -> None:
    assert find_earliest_time(replace(POLITE, hints=hints), NOW)[0] == NOW + wait


def test_skipped_hours_and_days_are_skipped() -> None:
    assert find_earliest_time(replace(POLITE, hints=Hints(skip_hours=(16, 17, 18))), NOW) == (
        NOW + 3 * HOUR,
        Reason.SKIPPED,
    )
    weekend = replace(POLITE, hints=Hints(skip_days=("Saturday", "Sunday")))
    assert find_earliest_time(weekend, NOW) == (NOW + 8 * HOUR + DAY, Reason.SKIPPED)


def test_feed_that_skips_the_whole_week_is_polled() -> None:
    absurd = Hints(skip_hours=tuple(range(24)))
    assert find_earliest_time(replace(POLITE, hints=absurd), NOW) == (NOW + MIN_INTERVAL, Reason.LEAST)
    days = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
    assert find_earliest_time(replace(POLITE, hints=Hints(skip_days=days)), NOW)[1] is Reason.LEAST


def test_errors_back_off_by_doubling_and_always_recover() -> None:
    waits = [find_earliest_time(replace(POLITE, failures=k), NOW)[0] - NOW for k in range(1, 40)]
    assert waits[:4] == [600, 1200, 2400, 4800]
    assert waits == sorted(waits)
    assert max(waits) == DAY
    assert find_earliest_time(replace(POLITE, failures=40), NOW)[1] is Reason.BACK_OFF


def test_jitter_only_ever_adds() -> None:
    for known in (replace(POLITE, validators=Validators()), replace(POLITE, failures=9)):
        early, late = find_earliest_time(known, NOW)[0], find_earliest_time(known, NOW, jitter=0.99)[0]
        assert early < late <= early + DAY / 2


def test_pushed_feeds_keep_a_slow_safety_poll() -> None:
    assert find_earliest_time(POLITE, NOW, pushed=True) == (NOW + SAFETY_POLL, Reason.PUSHED)


def test_paused_and_gone_feeds_are_never_due() -> None:
    assert find_earliest_time(POLITE, NOW, paused=True) == (np.inf, Reason.PAUSED)
    assert find_earliest_time(POLITE, NOW, gone=True, paused=True) == (np.inf, Reason.GONE)


def test_every_reason_has_a_sentence() -> None:
    assert all(reason.sentence for reason in Reason)


moments = st.none() | st.floats(NOW - 40 * DAY, NOW)
feeds = st.builds(
    Known,
    feed_id=st.just(1),
    url=st.just("http://a/"),
    validators=st.sampled_from([Validators(), Validators('"e"')]),
    last_refresh=moments,
    last_success=moments,
    last_change=moments,
    not_before=st.none() | st.floats(NOW - DAY, NOW + DAY),
    fresh_until=st.none() | st.floats(NOW - DAY, NOW + 400 * DAY),
    failures=st.integers(0, 200),
    hints=st.builds(
        Hints,
        ttl=st.none() | st.floats(0, 1e9),
        skip_hours=st.lists(st.integers(0, 24), max_size=24).map(tuple),
        skip_days=st.lists(st.sampled_from(["Monday", "Sunday", "Friday", "?"]), max_size=4).map(tuple),
        update_period=st.sampled_from([None, "hourly", "yearly"]),
        update_frequency=st.none() | st.integers(-3, 50),
        update_base=st.none() | st.floats(0, 2 * NOW),
    ),
)


@given(st.lists(feeds, min_size=1, max_size=6))
def test_many_feeds_at_once_get_the_results_of_each_alone(known: list[Known]) -> None:
    table = PolitenessFacts.of(len(known))
    load_facts(table, np.arange(len(known)), known)
    at, why = compute_earliest_times(table, NOW)
    ready, _ = find_candidates(table, NOW)
    for row, one in enumerate(known):
        assert (at[row], why[row]) == find_earliest_time(one, NOW)
        assert ready[row] == (at[row] <= NOW)
        assert (why[row] == Reason.FREE) == ready[row]


@given(feeds)
def test_every_feed_may_be_polled_within_a_week_and_a_half_of_a_refusal(known: Known) -> None:
    at, _ = find_earliest_time(known, NOW, jitter=0.5)
    assert NOW <= at <= max(NOW, known.not_before or 0.0) + 10 * DAY
