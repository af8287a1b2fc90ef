"""Measures how many refreshes per CPU second the lab replays, beside a bare event loop over as many events.

The bare loop is a heap of due times: the next is taken and put back a day later, without documents, learning or scores.
The lab polls a synthetic trace of feeds with power-law rates; `value` also learns, steers and plans,
with the belief alone and with the learned forecast.
Run: `python -m bench.lab [--small]`.
"""

from __future__ import annotations

import argparse
import heapq
import time
from collections.abc import Callable

import numpy as np

from headwater.estimate.models.learned_forecast import LearnedForecast
from headwater.lab.simulation.replay import ReplaySettings, replay_trace
from headwater.lab.simulation.scores import score_replay
from headwater.lab.traces.trace import Trace
from headwater.schedule.strategies.learned_interval import Fix1d
from headwater.schedule.strategy import IntervalStrategy
from headwater.schedule.value.value import Value
from headwater.times import DAY

DAYS, PER_DAY = 28, 4.0


def world(feeds: int, seed: int = 1) -> Trace:
    rng = np.random.default_rng(seed)
    rates = (rng.pareto(0.8, feeds) * 0.05).clip(0.01, 30.0)
    counts = rng.poisson(rates * DAYS)
    owner = np.repeat(np.arange(feeds), counts)
    times = np.floor(rng.uniform(0, DAYS * DAY, len(owner)))
    order = np.lexsort((times, owner))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)
    return Trace(tuple(str(k) for k in range(feeds)), offsets, times[order])


def bare_loop(events: int, feeds: int = 10_000) -> float:
    due = [(k / feeds, k) for k in range(feeds)]
    began = time.process_time()
    for _ in range(events):
        when, feed = due[0]
        heapq.heapreplace(due, (when + 1.0, feed))
    return events / (time.process_time() - began)


def measure_replay(strategy: IntervalStrategy, trace: Trace, stretch: float) -> tuple[float, int]:
    """Return refreshes per CPU second, scores included, and their number."""
    protocol = ReplaySettings(window=20, history_days=1.0, warmup_days=0.0)
    began = time.process_time()
    run = replay_trace(strategy, trace, protocol, PER_DAY, stretch)
    score_replay(run)
    return run.requests / (time.process_time() - began), run.requests


def main(small: bool = False) -> None:
    feeds = 100 if small else 100_000
    floor = bare_loop(100_000 if small else 3_000_000)
    print(f"bare event loop {floor:,.0f} events per CPU second")
    warm = world(50)
    trace = world(feeds)
    runs: tuple[tuple[str, Callable[[], IntervalStrategy], float], ...] = (
        ("fix_1d, four a day", Fix1d, 0.25),
        ("value", lambda: Value(fast=True), 1.0),
        ("value, forecast", lambda: Value(estimator=LearnedForecast(), fast=True), 1.0),
    )
    for name, make, stretch in runs:
        measure_replay(make(), warm, stretch)  # compiles the loops if numba is installed
        strategy = make()
        speed, many = measure_replay(strategy, trace, stretch)
        print(
            f"{name:20} {feeds:,} feeds × {DAYS} days, {many:,} refreshes: {speed:,.0f} per CPU second, "
            f"{speed / floor:.2f} × the bare loop"
        )


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--small", action="store_true", help="a size for tests")
    main(options.parse_args().small)
