"""Judges promises: what was promised, what was measured, and whether it was kept.

The measures are those of the papers, over the items that a query keeps:

    completeness = caught / (caught + lost)
    freshness    = 1 − Σ (seconds an item was shown unread ÷ W)  /  Σ (share of the feed kept · seconds)
    delay        = mean of fetch − publication; a TARGET DELAY ≤ D asks that 95 of 100 items come within D

A judgement needs enough items: the measured share must differ from the promised one by its standard deviation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from headwater.schedule.quality.quality_target import QualityTarget
from headwater.times import format_duration, format_share

IN_TIME_SHARE = 0.95  # of the items of a query with TARGET DELAY
MIN_ITEMS = 20  # a judgement of fewer would be chance
MANY_ITEMS = 400  # with so many even a narrow miss is one


@dataclass(frozen=True, slots=True)
class PromiseCounts:
    """The counts of some hours: items caught and lost, of the dated ones how many came in time and their delays.

    `missing` and `watched` are the numerator and denominator of staleness, in seconds of whole windows.
    """

    got: int = 0
    lost: float = 0.0
    dated: int = 0
    in_time: int = 0
    waited: float = 0.0
    missing: float = 0.0
    watched: float = 0.0

    def __add__(self, other: PromiseCounts) -> PromiseCounts:
        return PromiseCounts(
            self.got + other.got,
            self.lost + other.lost,
            self.dated + other.dated,
            self.in_time + other.in_time,
            self.waited + other.waited,
            self.missing + other.missing,
            self.watched + other.watched,
        )


@dataclass(frozen=True, slots=True)
class MeasuredQuality:
    """The measured quality of some hours; figures without data are None. `delay` is the mean in seconds."""

    items: int  # published, as far as noticed
    completeness: float | None
    freshness: float | None
    dated: int
    delay: float | None
    in_time: float | None  # share of the dated items that came within the promised delay
    kept: bool | None = None


def measure_quality(counts: PromiseCounts) -> MeasuredQuality:
    """Compute the quality from counts.

    >>> counts = PromiseCounts(got=9, lost=1.0, dated=4, in_time=3, waited=400.0, missing=36.0, watched=3600.0)
    >>> day = measure_quality(counts)
    >>> day.completeness, day.freshness, day.delay, day.in_time
    (0.9, 0.99, 100.0, 0.75)

    A hundredth of an item that was perhaps lost is no data:

    >>> measure_quality(PromiseCounts(lost=0.01)).completeness is None
    True
    """
    published = counts.got + counts.lost
    items = round(published)
    return MeasuredQuality(
        items=items,
        completeness=counts.got / published if items else None,
        freshness=max(1 - counts.missing / counts.watched, 0.0) if counts.watched > 0 and counts.dated else None,
        dated=counts.dated,
        delay=counts.waited / counts.dated if counts.dated else None,
        in_time=counts.in_time / counts.dated if counts.dated else None,
    )


def measure_missing_of_lost(new: float, lost: float, gap: float) -> float:
    """Return the seconds of whole windows for which lost items were shown unread, in the `gap` between two refreshes.

    With n items in the gap each stays in the window for W/n of it.

    >>> measure_missing_of_lost(2, 3.0, 3600.0)
    2160.0
    """
    return lost * gap / (new + lost) if lost > 0 else 0.0


def judge_promise(target: QualityTarget, measured: MeasuredQuality, *, deadline: bool) -> bool | None:
    """Say whether a promise was kept; None where it is too early to tell.

    With `deadline` the delay is one that 95 of 100 items must keep, else a mean.

    >>> promise = QualityTarget(delay=120.0)
    >>> judge_promise(promise, MeasuredQuality(100, 1.0, None, 100, 60.0, 0.99), deadline=True)
    True
    >>> judge_promise(promise, MeasuredQuality(100, 1.0, None, 100, 60.0, 0.5), deadline=True)
    False
    >>> judge_promise(promise, MeasuredQuality(10, 1.0, None, 10, 60.0, 1.0), deadline=True) is None
    True
    """
    found = []
    if target.completeness is not None:
        found.append(_judge_share(target.completeness, measured.completeness, measured.items))
    if target.freshness is not None:
        found.append(_judge_share(target.freshness, measured.freshness, measured.dated))
    if target.delay is not None and deadline:
        found.append(_judge_share(IN_TIME_SHARE, measured.in_time, measured.dated))
    elif target.delay is not None:
        found.append(_judge_mean(target.delay, measured.delay, measured.dated))
    if False in found:
        return False
    return None if None in found or not found else True


def _judge_share(promised: float, measured: float | None, items: int) -> bool | None:
    if measured is None or items < MIN_ITEMS:
        return None
    doubt = math.sqrt(promised * (1 - promised) / items)
    if abs(measured - promised) < doubt and items < MANY_ITEMS:
        return None
    return measured >= promised


def _judge_mean(promised: float, measured: float | None, items: int) -> bool | None:
    """Judge a mean delay; delays scatter about as much as their mean."""
    if measured is None or items < MIN_ITEMS:
        return None
    if abs(measured - promised) < measured / math.sqrt(items) and items < MANY_ITEMS:
        return None
    return measured <= promised


def describe_target(target: QualityTarget, *, deadline: bool) -> str:
    """Write a promise in words.

    >>> describe_target(QualityTarget(completeness=0.99, delay=600.0), deadline=True)
    'completeness at least 99 %, delay at most 10 min for 95 of 100 items'
    """
    parts = [
        f"{name} at least {format_share(share, 50 if share * 100 == int(share * 100) else 1e4)}"
        for name, share in (("completeness", target.completeness), ("freshness", target.freshness))
        if share is not None
    ]
    if target.delay is not None:
        how = " for 95 of 100 items" if deadline else " on average"
        parts.append(f"delay at most {format_duration(target.delay)}{how}")
    return ", ".join(parts)


def describe_figures(
    completeness: float | None = None, freshness: float | None = None, delay: float | None = None, items: float = 1e4
) -> str:
    """Write figures of quality in words; those without data are left out.

    >>> describe_figures(completeness=0.987, delay=90.0)
    'completeness 98.70 %, mean delay 1.5 min'
    """
    shares = (("completeness", completeness), ("freshness", freshness))
    parts = [f"{name} {format_share(share, items)}" for name, share in shares if share is not None]
    if delay is not None:
        parts.append(f"mean delay {format_duration(delay)}")
    return ", ".join(parts)


def describe_period(measured: MeasuredQuality) -> str:
    """Write what was measured in a period, with the number of items.

    >>> describe_period(MeasuredQuality(45, 1.0, None, 45, 63.0, 0.97))
    '45 items, completeness 100 %, mean delay 1.1 min, 97 % in time'
    """
    if not measured.items:
        return "nothing published"
    figures = describe_figures(measured.completeness, measured.freshness, measured.delay, measured.items)
    in_time = "" if measured.in_time is None else f", {format_share(measured.in_time, measured.dated)} in time"
    return f"{measured.items:,} item{'s' if measured.items != 1 else ''}, {figures}{in_time}"


def describe_measured(target: QualityTarget, measured: MeasuredQuality, *, deadline: bool) -> str:
    """Write the measured figures that a promise is about, with the number of items.

    >>> describe_measured(QualityTarget(delay=120.0), MeasuredQuality(45, 1.0, None, 45, 63.0, 1.0), deadline=True)
    '100 % of 45 items within 2 min, 1.1 min on average'
    """
    if not measured.items:
        return "nothing published"
    parts = []
    if target.completeness is not None:
        parts.append(f"{format_share(measured.completeness, measured.items)} of {measured.items:,} items caught")
    if target.freshness is not None and measured.freshness is not None:
        parts.append(f"freshness {format_share(measured.freshness, measured.dated)}")
    if target.delay is not None and measured.delay is not None and measured.in_time is not None:
        mean = f"{format_duration(measured.delay)} on average"
        share = f"{format_share(measured.in_time, measured.dated)} of {measured.dated:,} items"
        parts.append(f"{share} within {format_duration(target.delay)}, {mean}" if deadline else mean)
    elif target.delay is not None:
        parts.append(f"no dates on {measured.items:,} items")
    return "; ".join(parts) or f"{measured.items:,} items"
