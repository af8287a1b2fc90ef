"""Undated, forged, batch, dead and resizing feeds are recognised."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.novelty.feed_kinds import (
    CLOCK_TOLERANCE,
    EARLIEST,
    FeedKind,
    Sighting,
    are_dates_plausible,
    drop_false_dates,
    find_date_problem,
    recognise_feed_kinds,
)
from headwater.times import DAY, HOUR, MINUTE

NOW = 1_700_000_000.0


def visits(dates: list[list[float | None]], new: list[int], every: float = HOUR) -> list[Sighting]:
    first = NOW - (len(dates) - 1) * every
    return [Sighting(first + k * every, tuple(d), n) for k, (d, n) in enumerate(zip(dates, new, strict=True))]


def steady(at: float, items: int = 10) -> list[float | None]:
    return [at - k * 3 * HOUR - 0.3 * HOUR * (k % 3) for k in range(items)]


def test_an_ordinary_feed_has_no_kind() -> None:
    history = visits([steady(NOW - (7 - k) * HOUR) for k in range(8)], [10, 0, 1, 0, 0, 1, 0, 1])
    assert recognise_feed_kinds(history, NOW) == frozenset()


def test_a_feed_without_dates() -> None:
    history = visits([[None] * 5] * 3, [5, 1, 1])
    assert recognise_feed_kinds(history, NOW) == {FeedKind.UNDATED}


def test_a_feed_whose_dates_are_all_equal() -> None:
    history = visits([[NOW - 5 * DAY] * 6] * 3, [6, 1, 1])
    assert FeedKind.EQUAL_DATES in recognise_feed_kinds(history, NOW)
    assert drop_false_dates([NOW - 5 * DAY] * 6, NOW) == (None,) * 6


def test_a_feed_made_on_the_fly() -> None:
    history = [Sighting(NOW + k * HOUR, tuple(NOW + k * HOUR - s for s in range(5)), 5) for k in range(3)]
    assert FeedKind.ON_THE_FLY in recognise_feed_kinds(history, NOW + 2 * HOUR)
    assert drop_false_dates(history[0].published, NOW, NOW - HOUR) == (None,) * 5
    assert drop_false_dates(history[0].published, NOW) == (None,) * 5


def test_three_items_within_two_minutes_of_a_feed_seen_a_minute_ago_may_be_true() -> None:
    dates = (NOW - 50, NOW - 40, NOW - 5)
    assert drop_false_dates(dates, NOW, NOW - MINUTE) == dates


def test_a_feed_from_the_future() -> None:
    history = visits([[NOW + DAY + k * HOUR for k in range(5)]] * 3, [5, 0, 0])
    assert FeedKind.FUTURE_DATES in recognise_feed_kinds(history, NOW)
    assert drop_false_dates(history[0].published, NOW) == (None,) * 5


def test_a_window_that_changes_size() -> None:
    history = visits([steady(NOW, 10), steady(NOW, 20), steady(NOW, 10)], [10, 2, 1])
    assert recognise_feed_kinds(history, NOW) == {FeedKind.CHANGING_WINDOW}


def test_a_feed_that_publishes_in_batches() -> None:
    days: list[list[float | None]] = []
    new = []
    for k in range(16):
        batch = NOW - (15 - k // 4 * 4) * 6 * HOUR - HOUR
        days.append([batch + i * MINUTE for i in range(8)])
        new.append(8 if k % 4 == 0 else 0)
    assert recognise_feed_kinds(visits(days, new, every=6 * HOUR), NOW) == {FeedKind.BATCH}


def test_dead_feed_is_recognised_by_its_dates_or_by_our_refreshes() -> None:
    old = steady(NOW - 200 * DAY)
    assert FeedKind.DEAD in recognise_feed_kinds(visits([old], [10]), NOW)
    undated: list[list[float | None]] = [[None] * 5] * 5
    assert FeedKind.DEAD in recognise_feed_kinds(visits(undated, [5, 0, 0, 0, 0], every=30 * DAY), NOW)
    assert FeedKind.DEAD not in recognise_feed_kinds(visits(undated, [5, 0, 0, 1, 0], every=30 * DAY), NOW)
    assert recognise_feed_kinds([], NOW) == frozenset()


@given(st.lists(st.none() | st.floats(0, 4e9)), st.floats(1e9, 3e9), st.none() | st.floats(1e9, 3e9))
def test_kept_dates_are_given_and_possible(dates: list[float | None], now: float, last: float | None) -> None:
    answer = drop_false_dates(dates, now, last)
    assert len(answer) == len(dates)
    for published, believed in zip(dates, answer, strict=True):
        assert believed is None or (believed == published and EARLIEST <= believed <= now + CLOCK_TOLERANCE)


NEAR = st.floats(-DAY, DAY).map(lambda seconds: NOW + seconds)


@given(st.lists(st.none() | NEAR | st.floats(0, 4e9)), st.none() | NEAR)
def test_plausible_dates_are_all_kept_without_a_problem(dates: list[float | None], last: float | None) -> None:
    if are_dates_plausible(dates, NOW):
        assert drop_false_dates(dates, NOW, last) == tuple(dates)
        assert find_date_problem(dates, NOW, last) is None


def test_a_document_with_different_dates_in_the_past_is_ordinary() -> None:
    assert are_dates_plausible(steady(NOW - HOUR), NOW)
    assert not are_dates_plausible([], NOW)
