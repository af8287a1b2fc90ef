"""Finds the constant at which a strategy makes a given number of requests.

The intervals of interval strategies are stretched, ranking strategies get another budget, `value` another price. The
number of requests is monotonic in each constant, so a secant on logarithms finds it in a few replays; on long traces
the first of them use a sample of the feeds. The search stops for a strategy whose requests hardly depend on its
constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from headwater.lab.simulation.replay import Replay, ReplaySettings, replay_trace
from headwater.lab.traces.trace import Trace
from headwater.schedule.strategy import IntervalStrategy, Strategy

TOLERANCE = 0.005  # of the wanted requests
MAX_REPLAYS = 5
SAMPLE_REFRESHES = 100_000  # refreshes; replays three times as long search on a sample first
MIN_RESPONSE = 0.05  # the search stops if requests change by less than this share of what the knob predicts

MakeStrategy = Callable[[float], tuple[Strategy, float, float]]  # constant → strategy, its polls per day, stretch


@dataclass(frozen=True, slots=True)
class CostKnob:
    """A constant of a strategy that sets its cost: `make` builds the strategy with it, the search begins at `start`.

    `answer` is the elasticity d log requests / d log constant.

    A strategy that knows something of each feed of the trace cannot be tried on a sample of them (`sampled`).
    """

    make: MakeStrategy
    start: float
    answer: float
    sampled: bool = True


def interval_knob(new: Callable[[], Strategy], per_day: float) -> CostKnob:
    """Vary the cost by stretching all intervals."""
    return CostKnob(lambda constant: (new(), per_day, constant), 1.0, -1.0)


def budget_knob(new: Callable[[], Strategy], per_day: float) -> CostKnob:
    """Vary the cost by giving the strategy another budget."""
    return CostKnob(lambda constant: (new(), constant, 1.0), per_day, 1.0)


def price_knob(new: Callable[[float], Strategy], per_day: float, start: float) -> CostKnob:
    """Vary the cost by fixing another price."""
    return CostKnob(lambda constant: (new(constant), per_day, 1.0), start, -0.55)


def choose_knob(new: Callable[[], Strategy], per_day: float) -> CostKnob:
    """Stretch interval strategies; give the others another budget."""
    return interval_knob(new, per_day) if isinstance(new(), IntervalStrategy) else budget_knob(new, per_day)


@dataclass(frozen=True, slots=True)
class FittedReplay:
    """The replay whose requests come nearest to the wanted number, its constant, and its deviation (a share)."""

    replay: Replay
    constant: float
    off: float

    @property
    def is_close(self) -> bool:
        return abs(self.off) <= 2 * TOLERANCE


def replay_at_cost(knob: CostKnob, trace: Trace, protocol: ReplaySettings, per_day: float) -> FittedReplay:
    """Replay with the constant at which there are `per_day` polls per feed and day in the measured span."""
    begin, _, end = protocol.time_span(trace)
    refreshes = trace.feeds * (end - begin) / 86_400 * per_day
    start = knob.start
    if (
        refreshes > 3 * SAMPLE_REFRESHES and trace.feeds > 200 and knob.sampled and knob.answer < 0
    ):  # a budget is nearly spent as it is
        part = sample_by_activity(trace, max(int(trace.feeds * SAMPLE_REFRESHES / refreshes), 100))
        start = _search_constant(
            knob, part, ReplaySettings(*_shift_settings(protocol, trace, part)), per_day, start, 5 * TOLERANCE
        ).constant
    return _search_constant(knob, trace, protocol, per_day, start, TOLERANCE)


def sample_by_activity(trace: Trace, many: int) -> Trace:
    """Sample about `many` feeds, slow and busy ones in proportion: every k-th by number of items."""
    step = max(trace.feeds // many, 1)
    by_items = np.argsort(trace.counts, kind="stable")
    return trace.select_feeds(np.sort(by_items[step // 2 :: step]))


def _shift_settings(protocol: ReplaySettings, whole: Trace, part: Trace) -> tuple[int, float, float, float | None]:
    """Keep the moments of history and warm-up for a part that may begin later than the whole."""
    later = (part.start - whole.start) / 86_400
    return protocol.window, max(protocol.history_days - later, 0.0), protocol.warmup_days, protocol.tick


def _search_constant(
    knob: CostKnob, trace: Trace, protocol: ReplaySettings, per_day: float, start: float, close: float
) -> FittedReplay:
    tried: list[tuple[float, float]] = []
    best: FittedReplay | None = None
    at, answer = math.log(start), knob.answer
    for _ in range(MAX_REPLAYS):
        strategy, rate, stretch = knob.make(math.exp(at))
        run = replay_trace(strategy, trace, protocol, rate, stretch)
        off = math.log(max(run.per_day, 1e-9) / per_day)
        if best is None or abs(off) < abs(math.log1p(best.off)):
            best = FittedReplay(run, math.exp(at), math.expm1(off))
        if abs(off) <= close:
            break
        if tried and abs(at - tried[-1][0]) > 1e-12:
            measured = (off - tried[-1][1]) / (at - tried[-1][0])
            if measured / knob.answer < MIN_RESPONSE and abs(at - tried[-1][0]) > 0.05:
                break
            # Whole refreshes per day make steps that can mislead a secant; keep it near the elasticity of the knob.
            answer = min(max(measured / knob.answer, 0.25), 4.0) * knob.answer if measured else knob.answer
        tried.append((at, off))
        step = off / answer
        at -= min(max(step, -2.5), 2.5)
    assert best is not None
    return best
