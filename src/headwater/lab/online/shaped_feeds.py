"""Draws feeds of a known daily shape, selects real ones from a trace, and makes the models that learn from them."""

from __future__ import annotations

import inspect
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from headwater.errors import TraceError
from headwater.estimate import load
from headwater.estimate.class_spec import ClassSpec, parse_spec
from headwater.estimate.estimator import Estimator
from headwater.estimate.registry import build_estimator
from headwater.lab.description import activity
from headwater.lab.description.activity import DayShape
from headwater.lab.simulation.estimator_error import CYCLE_SECONDS, CYCLES_PER_DAY, ItemCounts
from headwater.lab.traces import daily_shapes
from headwater.lab.traces.synthetic_world import list_shapes
from headwater.lab.traces.trace import load_trace
from headwater.times import DAY

SHAPES = ("peaks", "uniform", "waves")
MODELS = ("single", "periodic", "hybrid")
PER_FEED = 48.0  # items a day, the same for all feeds, so that only shapes differ
FEEDS = 10
WARMUP_DAYS, MEASURED_DAYS = 14, 14


def draw_counts(shape: str, feeds: int, days: int, rng: np.random.Generator) -> ItemCounts:
    """Draw the items of feeds of one shape in every cycle of ten minutes."""
    kind: Any = shape
    choices = list_shapes(kind)
    chosen = [choices[int(rng.integers(len(choices)))] for _ in range(feeds)]
    edges = np.arange(CYCLES_PER_DAY + 1) * CYCLE_SECONDS
    day = np.array([np.diff(daily_shapes.integrate_shape(each, edges)) for each in chosen]).T * PER_FEED / DAY
    return np.asarray(rng.poisson(np.tile(day, (days, 1))))


def make_model(name: str, alpha: float) -> Estimator:
    """Make an estimator, with this smoothing factor if it takes one."""
    spec = parse_spec(name)
    takes_alpha = "alpha" in inspect.signature(load(name)).parameters
    return build_estimator(ClassSpec(spec.name, {"alpha": alpha, **spec.options}) if takes_alpha else spec)


@cache
def select_real_counts(path: Path) -> dict[str, ItemCounts]:
    """Return the items by cycle of up to ten feeds of each shape with at least ten items a day, over four weeks."""
    trace = load_trace(path)
    last = trace.select_period(trace.end - 28 * DAY, trace.end + 1)
    labels = activity.classify_shapes(activity.count_by_hour(last).mean, share=0.8)
    found: dict[str, ItemCounts] = {}
    for shape in DayShape:
        busy = np.flatnonzero((last.counts >= 280) & (labels == shape))[:FEEDS]
        if not len(busy):
            continue
        chosen = last.select_feeds(busy)
        cycle = ((chosen.times - last.start) // CYCLE_SECONDS).astype(np.int64)
        counts = np.zeros((28 * CYCLES_PER_DAY, len(busy)), dtype=np.int64)
        inside = cycle < len(counts)
        np.add.at(counts, (cycle[inside], chosen.item_feeds()[inside]), 1)
        found[shape.name.lower()] = counts
    if not found:
        raise TraceError(f"The trace {path.name} has no feed with ten items a day in its last four weeks.")
    return found
