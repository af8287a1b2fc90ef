"""Dates are judged from the document to the estimator."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from headwater.model import Document, Ending, Entry, Known, Outcome, Refresh
from headwater.node.quality.feed_explanation import recognise_kinds
from headwater.novelty import judge
from headwater.novelty.feed_kinds import FeedKind
from headwater.times import DAY, HOUR

NOW = 1_800_000_000.0


def outcome(at: float, dates: list[float | None], first: int = 0, ending: Ending = Ending.CHANGED) -> Outcome:
    items = tuple(Entry(id=f"i{first + k}", title=f"Item {first + k}", published=d) for k, d in enumerate(dates))
    return Outcome(ending, "http://a.example/", "http://a.example/", at, 0.0, 200, Document("rss 2.0", items=items))


def judged(sights: list[tuple[float, list[float | None], int]]) -> list[Refresh]:
    """Return the refreshes of a feed's documents, each given as (time, dates, number of its first item)."""
    known, refreshes = Known(1, "http://a.example/"), []
    for at, dates, first in sights:
        verdict = judge(known, outcome(at, dates, first), {})
        known = verdict.known
        refreshes.append(verdict.refresh)
    return refreshes


def test_true_dates_are_kept_without_a_problem() -> None:
    verdict = judge(Known(1, "http://a.example/"), outcome(NOW, [NOW - k * HOUR for k in range(5)]), {})
    assert all(item.dated for item in verdict.new)
    assert len(verdict.refresh.published) == 5
    assert verdict.refresh.message == ""


@pytest.mark.parametrize(
    ("kind", "dates"),
    [
        (FeedKind.UNDATED, lambda at: [None] * 5),
        (FeedKind.EQUAL_DATES, lambda at: [NOW - 9 * DAY] * 5),
        (FeedKind.ON_THE_FLY, lambda at: [at - k for k in range(5)]),
        (FeedKind.FUTURE_DATES, lambda at: [at + DAY + k for k in range(5)]),
    ],
)
def test_false_and_missing_dates_are_dropped_and_named(kind: FeedKind, dates) -> None:  # type: ignore[no-untyped-def]
    sights = [(NOW + k * HOUR, dates(NOW + k * HOUR), 2 * k) for k in range(4)]
    refreshes = judged(sights)
    assert all(refresh.published == () for refresh in refreshes)
    assert [refresh.new for refresh in refreshes] == [5, 2, 2, 2]  # new items are found without dates
    assert recognise_kinds(refreshes, NOW + 4 * HOUR) == {kind}


def test_very_busy_feed_is_not_taken_for_forged() -> None:
    lively = [NOW - 6 * k for k in range(15)]
    first = judge(Known(1, "http://a.example/"), outcome(NOW, lively), {})
    assert len(first.refresh.published) == 15
    assert first.refresh.message == ""
    later = judge(first.known, outcome(NOW + 300, [NOW + 300 - 6 * k for k in range(15)], 50), {})
    assert len(later.refresh.published) == 15
    assert later.refresh.lost == pytest.approx((NOW + 300 - 14 * 6 - NOW) / 6 - 1, abs=1)


def test_one_item_of_the_future_does_not_spoil_the_others() -> None:
    verdict = judge(Known(1, "http://a.example/"), outcome(NOW, [NOW + DAY, *(NOW - k * HOUR for k in range(9))]), {})
    assert [item.dated for item in verdict.new] == [False] + [True] * 9
    assert verdict.refresh.message == ""


def test_new_items_of_one_moment_in_a_partial_document_are_kept() -> None:
    known = replace(Known(1, "http://a.example/"), last_success=NOW - HOUR, window=(("x", "y"),))
    verdict = judge(known, outcome(NOW, [NOW - 600] * 3, ending=Ending.PARTIAL), {})
    assert verdict.refresh.published == (NOW - 600,) * 3


def test_a_feed_that_publishes_in_batches_is_recognised() -> None:
    sights: list[tuple[float, list[float | None], int]] = []
    for k in range(13):
        batch = k // 4  # a batch of eight every fourth hour, each within minutes
        at = NOW + k * HOUR
        sights.append((at, [NOW + batch * 4 * HOUR - 60 * j for j in range(8)], 8 * batch))
    assert FeedKind.BATCH in recognise_kinds(judged(sights), NOW + 13 * HOUR)


def test_a_feed_without_news_for_three_months_is_dead() -> None:
    dates: list[float | None] = [NOW - k * DAY for k in range(5)]
    refreshes = judged([(NOW, dates, 0), (NOW + 95 * DAY, dates, 0)])
    assert FeedKind.DEAD in recognise_kinds(refreshes, NOW + 95 * DAY)
    assert FeedKind.DEAD not in recognise_kinds(refreshes[:1], NOW + DAY)


def test_a_document_that_changes_its_size_is_recognised() -> None:
    sights = [(NOW + k * HOUR, [NOW - j * HOUR for j in range(size)], 0) for k, size in enumerate([5, 20, 8])]
    assert recognise_kinds(judged(sights), NOW + 3 * HOUR) == {FeedKind.CHANGING_WINDOW}
