"""Scores a replay: completeness, window freshness, delay and cost as the thesis defines them (chapter 2), and finds.

Items published in the measured span count. An item that left its document before a poll is *lost*: it lowers
completeness and has no delay. An item that still waits in its document at the end is *pending*: it is not lost, and its
delay is its age, so that a policy cannot gain by never polling.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from headwater.arrays import Floats, Rows
from headwater.lab.simulation.replay import Replay


def saturation_coefficient(window: ArrayLike, refreshes: ArrayLike, rate: ArrayLike) -> Floats:
    """Return the share of a source's items that is lost: 1 − W·r/λ where W·r < λ, else 0 (thesis 2.1.7).

    `refreshes` and `rate` (items) are per the same unit of time.

    >>> saturation_coefficient(10, [0.5, 1.0, 2.0], 10).tolist()  # ten items an hour, a window of ten
    [0.5, 0.0, 0.0]
    """
    published = np.asarray(rate, dtype=np.float64)
    kept = np.asarray(window) * np.asarray(refreshes, dtype=np.float64)
    return np.where(kept < published, 1.0 - kept / np.maximum(published, 1e-300), 0.0)


@dataclass(frozen=True, slots=True)
class FindScores:
    """Minutes from publication to the next poll, and polls per find: averages over feeds, and over finds.

    These are the measures of Urbansky et al., inferred from their Table 1. Polling every day is half a day late in both
    averages, so an item is late until the next poll, whether or not the document still shows it. An interval of one
    mean gap needs 1.6 polls for a new item: 63 % of Poisson intervals that long are not empty, and 1/.63 = 1.58, so a
    *find* is a poll that brings at least one item.
    """

    delay_of_feeds: float
    delay_of_polls: float
    polls_of_feeds: float
    polls_of_polls: float


def score_finds(run: Replay) -> FindScores:
    """Measure the finds of the measured span; items after the last poll of their feed are not counted."""
    owner = run.trace.item_feeds()
    met = find_next_poll(run)
    counted = np.isfinite(met) & (run.trace.times >= run.measured)
    feed, at, late = owner[counted], met[counted], (met - run.trace.times)[counted] / 60
    # The items of one find are adjacent: they share feed and poll time.
    begins = np.flatnonzero(np.append(True, (np.diff(feed) > 0) | (np.diff(at) > 0))) if len(feed) else np.zeros(0, int)
    per_find = np.add.reduceat(late, begins) / np.diff(np.append(begins, len(late))) if len(feed) else np.zeros(0)
    many = np.bincount(feed[begins], minlength=run.trace.feeds)
    some = many > 0
    total = np.bincount(feed[begins], weights=per_find, minlength=run.trace.feeds)
    return FindScores(
        delay_of_feeds=float((total[some] / many[some]).mean()) if some.any() else 0.0,
        delay_of_polls=float(per_find.mean()) if len(per_find) else 0.0,
        polls_of_feeds=float((run.polls[some] / many[some]).mean()) if some.any() else 0.0,
        polls_of_polls=run.requests / max(int(many.sum()), 1),
    )


def find_next_poll(run: Replay) -> Floats:
    """Return when each item's feed was next polled after its publication; NaN if never.

    A lost item was passed over by the poll that brought the next obtained one.

    >>> from headwater.lab.simulation.replay import ReplaySettings, replay_trace
    >>> from headwater.lab.traces.trace import Trace
    >>> from headwater.schedule import STRATEGIES
    >>> trace = Trace.from_lists([[0.0, 10.0, 20.0, 30.0, 7000.0]])
    >>> run = replay_trace(STRATEGIES["fix_1h"](), trace, ReplaySettings(window=1, history_days=0, warmup_days=0))
    >>> find_next_poll(run)[1:4].tolist() == [run.obtained[3]] * 3
    True
    """
    met, owner = run.obtained.copy(), run.trace.item_feeds()
    place = np.where(np.isnan(met), len(met), np.arange(len(met)))
    following = np.minimum.accumulate(place[::-1])[::-1]
    inside = following < run.trace.offsets[owner + 1]
    met[inside] = run.obtained[following[inside]]
    return met


@dataclass(frozen=True, slots=True)
class MeanDeviation:
    """A mean and its standard deviation."""

    mean: float
    sd: float


@dataclass(frozen=True, slots=True)
class ReplayScores:
    """All measures of a replay. Delays are in seconds; deviations are over feeds, `completeness.mean` over all
    items."""

    requests: int
    items: int
    lost: int
    pending: int
    completeness: MeanDeviation
    freshness: MeanDeviation
    mean_delay_s: float
    median_delay_s: float
    p95_delay_s: float
    sd_delay_s: float
    max_delay_s: float
    mean_delay_per_feed_s: float
    polls_per_item: float
    polls_per_item_per_feed: float
    error: float
    bytes: float


def score_replay(run: Replay) -> ReplayScores:
    """Compute all measures of one replay."""
    trace = run.trace
    owner = trace.item_feeds()
    lost, pending = _classify_missing(run, owner)
    counted = (trace.times >= run.measured) & (trace.times <= run.end)
    upto = np.where(pending, run.end, run.obtained)
    delay = np.maximum(upto - trace.times, 0.0)[counted & ~lost]
    published = np.bincount(owner[counted], minlength=trace.feeds)
    missed = np.bincount(owner[counted & lost], minlength=trace.feeds)
    items, n_lost = int(published.sum()), int(missed.sum())
    active = published > 0
    share = 1.0 - missed[active] / published[active]
    late = np.bincount(owner[counted & ~lost], weights=delay, minlength=trace.feeds)
    got = published - missed
    with_items = got > 0
    fresh = measure_window_freshness(run, owner)
    per_item = run.requests / max(items - n_lost, 1)
    mean = float(delay.mean()) if len(delay) else 0.0
    median, p95 = (float(x) for x in np.percentile(delay, [50, 95])) if len(delay) else (0.0, 0.0)
    return ReplayScores(
        requests=run.requests,
        items=items,
        lost=n_lost,
        pending=int((pending & counted).sum()),
        completeness=MeanDeviation(1.0 - n_lost / max(items, 1), float(share.std()) if len(share) else 0.0),
        freshness=MeanDeviation(float(fresh.mean()), float(fresh.std())),
        mean_delay_s=mean,
        median_delay_s=median,
        p95_delay_s=p95,
        sd_delay_s=float(delay.std()) if len(delay) else 0.0,
        max_delay_s=float(delay.max()) if len(delay) else 0.0,
        mean_delay_per_feed_s=float((late[with_items] / got[with_items]).mean()) if with_items.any() else 0.0,
        polls_per_item=per_item,
        polls_per_item_per_feed=float((run.polls[with_items] / got[with_items]).mean()) if with_items.any() else 0.0,
        error=mean * per_item,
        bytes=run.bytes,
    )


def _classify_missing(run: Replay, owner: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Return which items are lost, and which wait in their document at the end."""
    missing = np.isnan(run.obtained)
    last = run.trace.offsets[owner + 1]
    shown = np.arange(len(owner)) >= last - run.windows[owner]
    # A missing item before an obtained one was passed over; after the newest obtained one it is pending.
    newest = np.full(run.trace.feeds, -1, dtype=np.int64)
    np.maximum.at(newest, owner[~missing], np.flatnonzero(~missing))
    waiting = missing & shown & (np.arange(len(owner)) > newest[owner])
    return missing & ~waiting, waiting


def measure_window_freshness(run: Replay, owner: Rows | None = None) -> Floats:
    """Return F_W of each feed: the mean share of its window that we have over the measured time; 1 while it is empty.

    With n(t) items in the window, an item that is in it but not obtained costs ∫ dt / n(t). That integral is a
    difference of one running integral per feed, so each item costs one subtraction.
    """
    trace = run.trace
    owner = trace.item_feeds() if owner is None else owner
    window = run.windows[owner]
    at = np.arange(len(owner))
    place = at - trace.offsets[owner]  # this is the feed's (place + 1)-th item
    following = np.append(trace.times[1:], run.end)
    is_last = at + 1 == trace.offsets[owner + 1]
    until_next = np.where(is_last, run.end, following) - trace.times
    steps = until_next / np.minimum(place + 1, window)
    running = np.cumsum(steps) - steps  # ∫ dt / n(t) up to this item; only differences within a feed are used

    pushed = at + window
    inside = pushed < trace.offsets[owner + 1]
    out = np.where(inside, trace.times[np.minimum(pushed, len(at) - 1)], run.end)
    here = np.where(np.isnan(run.obtained), np.inf, run.obtained)
    begin = np.clip(trace.times, run.measured, run.end)
    stop = np.clip(np.minimum(here, out), begin, run.end)

    late = np.flatnonzero(stop > begin)
    cost = _integrate_staleness(run, owner[late], running, stop[late]) - _integrate_staleness(
        run, owner[late], running, begin[late]
    )
    stale = np.bincount(owner[late], weights=cost, minlength=trace.feeds)
    return np.clip(1.0 - stale / (run.end - run.measured), 0.0, 1.0)


def _integrate_staleness(run: Replay, feed: Rows, running: Floats, when: Floats) -> Floats:
    """Return the running integral of a feed at `when`, which is not before its first item."""
    trace = run.trace
    span = run.end - trace.start + 1.0
    # All feeds lie on one sorted axis; rounding at a boundary changes nothing, because the integral is continuous.
    axis = (trace.times - trace.start) + trace.item_feeds() * span
    item = np.searchsorted(axis, (when - trace.start) + feed * span, side="right") - 1
    item = np.clip(item, trace.offsets[feed], trace.offsets[feed + 1] - 1)
    shown = np.minimum(item - trace.offsets[feed] + 1, run.windows[feed])
    integral: Floats = running[item] + (when - trace.times[item]) / shown
    return integral
