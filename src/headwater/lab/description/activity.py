"""Measures how much, how regularly and in which daily shape the feeds of a trace publish (thesis chapter 6).

All counts are by hour of the day, UTC. Only hours with items are kept, never a dense array of feeds × days × hours, so
memory is linear in items.

The names of publication habits come from a study of 200,000 feeds that the thesis reports (5.1), which describes them
but gives no rules. The rules are ours and stand beside each name, so that anybody can judge the shares.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Bools, Floats
from headwater.lab.traces.trace import Trace
from headwater.times import DAY

HOURS = 24
# Items per day; the thesis has below 1, 1–10, above 10 and above 48.
CLASS_EDGES = (1.0, 5.0, 10.0, 24.0, 48.0)
CLASS_NAMES = ("< 1", "1–5", "5–10", "10–24", "24–48", "≥ 48")


class DayShape(IntEnum):
    """The shape of a day of publications."""

    PEAKS = 0
    UNIFORM = 1
    WAVES = 2


@dataclass(frozen=True, slots=True)
class HourlyCounts:
    """Counts of every feed by hour of the day: `total[f, h]`, and the sum of squares over days."""

    days: int
    total: Floats
    squares: Floats

    @property
    def mean(self) -> Floats:
        return self.total / self.days

    @property
    def sd(self) -> Floats:
        return np.sqrt(np.maximum(self.squares / self.days - self.mean**2, 0.0))


def count_days(trace: Trace) -> int:
    """Return the number of calendar days that the trace touches."""
    return int(trace.end // DAY - trace.start // DAY) + 1


def count_by_hour(trace: Trace) -> HourlyCounts:
    """Count items by feed, day and hour."""
    days = count_days(trace)
    hour = ((trace.times - trace.start // DAY * DAY) // 3600.0).astype(np.int64)
    cells, counts = np.unique(trace.item_feeds().astype(np.int64) * (days * HOURS) + hour, return_counts=True)
    feed, hour_of_day = cells // (days * HOURS), cells % HOURS
    total, squares = np.zeros((2, trace.feeds, HOURS))
    np.add.at(total, (feed, hour_of_day), counts)
    np.add.at(squares, (feed, hour_of_day), counts.astype(float) ** 2)
    return HourlyCounts(days, total, squares)


def daily_rates(trace: Trace) -> Floats:
    """Return the items per day of each feed over the whole trace."""
    return trace.counts / max(trace.days, 1.0 / HOURS)


def classify_rates(per_day: Floats) -> NDArray[np.int64]:
    """Return the activity class of each feed as an index of `CLASS_NAMES`.

    >>> classify_rates(np.array([0.5, 1.0, 30.0])).tolist()
    [0, 1, 4]
    """
    return np.searchsorted(CLASS_EDGES, per_day, side="right")


def measure_variation(counts: HourlyCounts) -> Floats:
    """Return CV = 1/24 · Σ σᵢ/μᵢ over the hours with μᵢ ≠ 0 (thesis 6.3).

    It is small for feeds that repeat their day.
    """
    mean, sd = counts.mean, counts.sd
    ratio = np.divide(sd, mean, out=np.zeros_like(sd), where=mean > 0)
    return np.asarray(ratio.sum(1) / HOURS)


def classify_shapes(slots: Floats, high: float = 1.5, low: float = 0.5, share: float = 1.0) -> NDArray[np.int64]:
    """Classify rows of slot rates by algorithm 6.1.

    Peaks: every slot is ≥ ε₁ or < ε₂ times the mean. Uniform: none is. Waves: anything else. With `share` below 1 that
    share of the slots is enough (the thesis' 80 % variant).

    >>> classify_shapes(np.array([[4.0, 0, 4, 0], [1, 1, 1, 1], [0, 1, 2, 1]])).tolist()
    [0, 1, 2]
    """
    average = slots.mean(1, keepdims=True)
    outside = ((slots >= high * average) | (slots < low * average)).sum(1)
    count = slots.shape[1]
    enough = share * count - 1e-9
    peaks: Bools = outside >= enough
    uniform: Bools = (count - outside) >= enough
    return np.where(peaks, DayShape.PEAKS, np.where(uniform, DayShape.UNIFORM, DayShape.WAVES)).astype(np.int64)


HABIT_RULES = {
    "zombie": "nothing in the last 60 days, or in the last half of a trace shorter than 120 days",
    "on-the-fly": "four of five items repeat a title of the same feed under another date",
    "chunked": "at least three items, four of five of which come within a minute of another",
    "constant": "mean gap ≤ 2 h, and gaps longer than that fill at most a tenth of the time",
    "spontaneous": "mean gap ≥ 1 day",
    "sliced": "everything between constant and spontaneous: bursts and pauses",
}
HABITS = tuple(HABIT_RULES)
# Shares that thesis 5.1 cites for 200,000 feeds; the other 17.9 % were empty or could not be read.
PUBLISHED_HABITS = {
    "zombie": 0.25, "spontaneous": 0.32, "sliced": 0.18, "constant": 0.04, "chunked": 0.03, "on-the-fly": 0.001
}  # fmt: skip


def classify_habits(trace: Trace) -> NDArray[np.int64]:
    """Return the habit of each feed as an index of `HABITS`; the first rule that fits wins."""
    silent = min(60 * DAY, (trace.end - trace.start) / 2)
    found = np.full(trace.feeds, HABITS.index("sliced"))
    repeats = _repeat_shares(trace)
    for feed in range(trace.feeds):
        times = trace.feed_times(feed)
        found[feed] = HABITS.index(_classify_feed(times, trace.end, silent, repeats[feed]))
    return found


def _classify_feed(times: Floats, end: float, silent: float, repeated: float) -> str:
    if not len(times) or end - times[-1] > silent:
        return "zombie"
    if repeated >= 0.8:
        return "on-the-fly"
    if len(times) < 2:
        return "spontaneous"
    gaps = np.diff(times)
    close = gaps <= 60.0
    together = np.append(close, False) | np.insert(close, 0, False)
    if len(times) >= 3 and together.mean() >= 0.8:
        return "chunked"
    mean = float(gaps.mean())
    if mean <= 2 * 3600.0 and float(gaps[gaps > 2 * 3600.0].sum()) <= 0.1 * float(gaps.sum()):
        return "constant"
    return "spontaneous" if mean >= DAY else "sliced"


def _repeat_shares(trace: Trace) -> Floats:
    """Return the share of each feed's items whose title it also uses with another date; 0 without titles."""
    share = np.zeros(trace.feeds)
    if trace.titles is None:
        return share
    for feed in range(trace.feeds):
        start, end = int(trace.offsets[feed]), int(trace.offsets[feed + 1])
        titled = {(trace.titles[k], trace.times[k]) for k in range(start, end) if trace.titles[k]}
        often = Counter(title for title, _ in titled)
        share[feed] = sum(often[title] > 1 for title, _ in titled) / max(len(titled), 1)
    return share
