"""Describes a trace: activity, regularity, daily shapes and patterns, subjects, duplicates."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Floats, Rows
from headwater.errors import TraceError
from headwater.estimate.clustering import kmeans
from headwater.estimate.models.cluster_pattern import ENOUGH_ITEMS
from headwater.lab.description import activity
from headwater.lab.description.activity import CLASS_NAMES, DayShape
from headwater.lab.experiment import to_json_value
from headwater.lab.traces import trace_queries
from headwater.lab.traces.trace import Trace


@dataclass(frozen=True, slots=True)
class PatternClusters:
    """K centres, largest cluster first, and the cluster of each point."""

    centres: Floats
    of: Rows

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.bincount(self.of, minlength=len(self.centres))


def hour_shares(totals: Floats) -> Floats:
    """Return counts by hour as shares of each feed's postings (Sia & Cho 4.3.1)."""
    return np.asarray(totals / np.maximum(totals.sum(1, keepdims=True), 1.0))


def cluster_patterns(points: Floats, k: int) -> PatternClusters:
    """Group daily patterns as the strategies do; few distinct points give fewer than K centres."""
    if not len(points):
        raise TraceError("The trace has no feed to group; give one with more items.")
    centres, of = kmeans(points, k)
    order = np.argsort(-np.bincount(of, minlength=len(centres)), kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return PatternClusters(centres[order], place[of])


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """Two fits of a power law to the number of items per feed.

    `line` is the slope b of Sia & Cho's curve y = a·x^b (figure 7) by least squares on both logarithms, one point per
    count that occurs, and `scale` its a. `likelihood` is the exponent γ on [1, largest] by maximum likelihood, which
    weighs a count by how often it occurs.
    """

    scale: float
    line: float
    likelihood: float
    largest: int


def fit_power_law(counts: NDArray[np.int64]) -> PowerLaw | None:
    """Fit both over the feeds with items; None if fewer than ten of them or three different counts are left."""
    positive = counts[counts > 0]
    values, often = np.unique(positive, return_counts=True)
    if len(positive) < 10 or len(values) < 3:
        return None
    slope, height = np.polyfit(np.log(values), np.log(often), 1)
    return PowerLaw(float(np.exp(height)), float(slope), _most_likely_exponent(positive), int(values[-1]))


def _most_likely_exponent(counts: NDArray[np.int64]) -> float:
    """Return the γ of greatest likelihood for p(x) = x^−γ / Σ_k k^−γ, x = 1 … largest, by golden section."""
    support = np.log(np.arange(1, int(counts.max()) + 1, dtype=float))
    mean_log = float(np.log(counts).mean())

    def cost(gamma: float) -> float:
        weights: Floats = -gamma * support
        top = weights.max()
        return gamma * mean_log + float(top + np.log(np.exp(weights - top).sum()))

    low, high = -2.0, 6.0
    ratio = (np.sqrt(5.0) - 1.0) / 2.0
    for _ in range(60):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, right) if cost(left) < cost(right) else (left, high)
    return float((low + high) / 2.0)


CLUSTER_COUNT = 12


@dataclass(frozen=True, slots=True)
class TraceDescription:
    """Everything that `headwater lab describe` prints; arrays have one entry per feed."""

    feeds: int
    items: int
    days: float
    per_day: Floats
    classes: NDArray[np.int64]
    variation: Floats
    shapes: NDArray[np.int64]
    shapes_relaxed: NDArray[np.int64]
    thresholds: tuple[float, float, float]
    clusters: PatternClusters | None
    law: PowerLaw | None
    habits: NDArray[np.int64]
    subjects: dict[str, int]
    duplicates: dict[str, int]
    share_of_top: float

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "feeds": self.feeds,
            "items": self.items,
            "days": self.days,
            "activity": dict(zip(CLASS_NAMES, np.bincount(self.classes, minlength=len(CLASS_NAMES)), strict=True)),
            "top_17_percent_produce": self.share_of_top,
            "periodicity": {
                "cv_at_most_1_above_10_per_day": self.regular_share(10.0),
                "cv_at_most_1_above_48_per_day": self.regular_share(48.0),
                "median_cv": float(np.median(self.variation)),
            },
            "shapes": {
                "high": self.thresholds[0],
                "low": self.thresholds[1],
                "all_slots": self.count_shapes(self.shapes),
                "share": self.thresholds[2],
                "share_of_slots": self.count_shapes(self.shapes_relaxed),
            },
            "patterns": None
            if self.clusters is None
            else [
                {"feeds": size, "hours": centre}
                for size, centre in zip(self.clusters.sizes, self.clusters.centres, strict=True)
            ],
            "power_law": None if self.law is None else asdict(self.law),
            "habits": dict(
                zip(
                    activity.HABITS,
                    np.bincount(self.habits, minlength=len(activity.HABITS)),
                    strict=True,
                )
            ),
            "habit_rules": activity.HABIT_RULES,
            "subjects": self.subjects,
            "duplicates": self.duplicates,
        }
        plain_form: dict[str, Any] = to_json_value(found)
        return plain_form

    def regular_share(self, above: float) -> float:
        """Return the share with CV ≤ 1 among the feeds with more than `above` items a day; NaN without such feeds."""
        busy = self.per_day > above
        return float((self.variation[busy] <= 1.0).mean()) if busy.any() else float("nan")

    def count_shapes(self, shapes: NDArray[np.int64]) -> dict[str, dict[str, int]]:
        """Count the feeds of each shape by activity class."""
        return {
            name: {shape.name.lower(): int(((self.classes == place) & (shapes == shape)).sum()) for shape in DayShape}
            for place, name in enumerate(CLASS_NAMES)
        }


def describe_trace(trace: Trace, high: float = 1.5, low: float = 0.5, share: float = 0.8) -> TraceDescription:
    """Describe a trace; `high` and `low` are the thesis' ε₁ and ε₂, `share` belongs to its less strict variant."""
    if not high > 1.0:
        raise TraceError(f"ε₁ (--high) is {high:g}; it must be above 1.")
    if not 0.0 <= low < 1.0:
        raise TraceError(f"ε₂ (--low) is {low:g}; it must be at least 0 and below 1.")
    if not 0.5 < share <= 1.0:
        raise TraceError(f"--share is {share:g}; it must be above .5 and at most 1.")
    counts = activity.count_by_hour(trace)
    per_day = activity.daily_rates(trace)
    enough = trace.counts >= ENOUGH_ITEMS
    clusters = None
    if enough.any():
        clusters = cluster_patterns(hour_shares(counts.total[enough]), CLUSTER_COUNT)
    by_size = np.sort(trace.counts)[::-1]
    top = max(round(0.17 * trace.feeds), 1)
    return TraceDescription(
        feeds=trace.feeds,
        items=len(trace.times),
        days=trace.days,
        per_day=per_day,
        classes=activity.classify_rates(per_day),
        variation=activity.measure_variation(counts),
        shapes=activity.classify_shapes(counts.mean, high, low),
        shapes_relaxed=activity.classify_shapes(counts.mean, high, low, share),
        thresholds=(high, low, share),
        clusters=clusters,
        law=fit_power_law(trace.counts),
        habits=activity.classify_habits(trace),
        subjects={name: int(which.sum()) for name, which in trace_queries.find_subjects(trace).items()},
        duplicates=count_duplicates(trace),
        share_of_top=float(by_size[:top].sum() / len(trace.times)),
    )


def count_duplicates(trace: Trace) -> dict[str, int]:
    """Count items with the time of another item of the feed, or the title of one of the same or another feed."""
    owner = trace.item_feeds()
    same_moment = int(((np.diff(trace.times) == 0) & (np.diff(owner) == 0)).sum())
    found = {"same_feed_same_time": same_moment}
    if trace.titles is not None:
        titled = [(int(owner[k]), title) for k, title in enumerate(trace.titles) if title]
        within = Counter(titled)
        across = Counter(title for _, title in within)
        found["titled_items"] = len(titled)
        found["same_feed_same_title"] = sum(often - 1 for often in within.values())
        found["other_feed_same_title"] = sum(often - 1 for often in across.values())
    return found
