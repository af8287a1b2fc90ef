"""Turns stored refreshes into the arrays that a strategy learns from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np

from headwater.arrays import Ragged, Rows
from headwater.model import Known, Outcome, Refresh, Verdict
from headwater.node.crawl.feed_table import FeedTable
from headwater.novelty.feed_kinds import CLOCK_TOLERANCE, EARLIEST, find_named_kinds
from headwater.novelty.publication_dates import order_dates
from headwater.schedule.strategy import Observed, Strategy, Table


class Lesson(msgspec.Struct, frozen=True):
    """The facts of one refresh that a strategy learns from, without the document.

    `known` is the feed's state after it, `before` the time of the previous success, `shown` the plausible dates of all
    items in the document. `fresh_for` and `retry_after` are from the response.
    """

    refresh: Refresh
    known: Known
    url: str
    before: float | None = None
    gone: bool = False
    shown: tuple[float, ...] = ()
    fresh_for: float | None = None
    retry_after: float | None = None


def make_lesson(before: Known, outcome: Outcome, verdict: Verdict) -> Lesson:
    """Make the lesson of a refresh that has been judged."""
    return Lesson(
        verdict.refresh,
        verdict.known,
        before.url,
        before.last_success,
        verdict.gone,
        _list_shown_dates(outcome, verdict.refresh),
        outcome.fresh_for,
        outcome.retry_after,
    )


def build_observation(table: Table, rows: Rows, lessons: Sequence[Lesson]) -> Observed:
    """Collect the refreshes of these rows as arrays, in the given order; all of them must have succeeded."""
    refreshes = [lesson.refresh for lesson in lessons]
    return Observed(
        rows=rows,
        start=table.last[rows],
        end=np.array([refresh.at for refresh in refreshes]),
        new=np.array([float(refresh.new) for refresh in refreshes]),
        window=np.array([float(refresh.window or 0) for refresh in refreshes]),
        saturated=np.array([refresh.saturated for refresh in refreshes], bool),
        published=Ragged.of([refresh.published for refresh in refreshes]),
        shown=Ragged.of([lesson.shown for lesson in lessons]),
        bytes=np.array([float(refresh.bytes) for refresh in refreshes]),
        hint=np.array([np.nan if lesson.fresh_for is None else lesson.fresh_for for lesson in lessons]),
        lost=np.array([refresh.lost for refresh in refreshes], np.float64),
    )


def replay_refreshes(strategy: Strategy, feed_table: FeedTable, refreshes: Sequence[Refresh]) -> None:
    """Teach the strategy the refreshes of the log that it has missed, oldest first."""
    turns: list[list[tuple[int, Lesson]]] = []
    seen: Counter[int] = Counter()
    for refresh in sorted(refreshes, key=lambda one: one.at):
        row = feed_table.find_row(refresh.feed_id)
        if row is None or not refresh.ending.ok or refresh.at <= feed_table.learned_until[row]:
            continue
        if seen[row] == len(turns):
            turns.append([])
        turns[seen[row]].append((row, Lesson(refresh, Known(refresh.feed_id, ""), "", shown=refresh.published)))
        seen[row] += 1
    rows = np.array(list(seen), np.intp)
    feed_table.table.last[rows] = feed_table.learned_until[rows]
    for turn in turns:
        teach_strategy(strategy, feed_table, turn)


def teach_strategy(strategy: Strategy, feed_table: FeedTable, well: Sequence[tuple[int, Lesson]]) -> None:
    """Teach the strategy successful refreshes, at most one per row."""
    rows = np.array([row for row, _ in well], np.intp)
    table = feed_table.table
    seen = build_observation(table, rows, [lesson for _, lesson in well])
    strategy.observe(table, seen)
    table.last[rows] = feed_table.learned_until[rows] = seen.end
    table.divergence[rows] = np.nan  # the refresh has everything that a hub announced
    shown = seen.window > 0
    table.window[rows[shown]] = seen.window[shown]


def _list_shown_dates(outcome: Outcome, refresh: Refresh) -> tuple[float, ...]:
    if outcome.document is None or find_named_kinds(refresh.message):
        return ()
    last = refresh.at + CLOCK_TOLERANCE
    dates = [entry.published for entry in outcome.document.items]
    return order_dates([date for date in dates if date is not None and EARLIEST <= date <= last], refresh.at)
