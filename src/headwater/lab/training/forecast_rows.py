"""Makes training rows for the learned forecast: refreshes of `value` on traces, and the items that came after them.

`value` polls a trace at a fixed price on the belief of `bayes` alone, with pauses multiplied by noise, so that the
network also sees refreshes that a corrected forecast would choose. Each row has the inputs of a refresh and of every
sixth bin after it, the items believed and the items published.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Bools, Floats, Rows, iterate_blocks
from headwater.estimate.learned.inputs import BINS
from headwater.estimate.learned.network import Network
from headwater.estimate.models.bayes import RateForecast, expect_steps
from headwater.estimate.models.learned_forecast import BLOCK, LearnedForecast
from headwater.lab.simulation.replay import ReplaySettings, replay_trace
from headwater.lab.traces.trace import Trace
from headwater.schedule.strategy import Observed, Table
from headwater.schedule.value.value import Value
from headwater.times import DAY

PRICES = (0.0025, 0.0085, 0.03, 0.1, 0.35, 1.2)  # item-days
NOISE = 0.4  # standard deviation of the logarithm of the noise of a pause
EVERY = 6  # a row has every sixth bin
MIN_FEEDS = 400  # of one replay: at low prices few feeds would give all the rows
CHECKED = 0.1  # share of the feeds that choose the best epoch
MAX_DAYS = 1000.0  # of a longer trace only the last days are polled


@dataclass(frozen=True, slots=True)
class ForecastRows:
    """Refreshes with their inputs, and the items believed and published in some of their bins (NaN: unknown)."""

    refresh: NDArray[np.float32]
    bin: NDArray[np.float16]
    believed: NDArray[np.float32]
    published: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.refresh)

    def take(self, places: NDArray[np.intp]) -> ForecastRows:
        return ForecastRows(*(getattr(self, one.name)[places] for one in fields(self)))

    @classmethod
    def join(cls, parts: list[ForecastRows]) -> ForecastRows:
        return cls(*(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(cls)))


def is_held_out(names: tuple[str, ...], share: float) -> Bools:
    """Whether each feed is kept from training: by its name, so the same feeds are held out everywhere."""
    return _place_by_name(names) < share * 1000


def is_checked(names: tuple[str, ...], share: float) -> Bools:
    """Whether each feed chooses the best epoch: a tenth of all, neither trained on nor among the `share` held out."""
    place = _place_by_name(names)
    return (place >= share * 1000) & (place < share * 1000 + CHECKED * 1000)


def _place_by_name(names: tuple[str, ...]) -> Rows:
    return np.array([zlib.crc32(name.encode()) % 1000 for name in names], np.intp)


class RecordingForecast(LearnedForecast):
    """Corrects nothing, and records what the network would see at some refreshes."""

    name = "recording_forecast"

    def __init__(self, network: Network, trace: Trace, share: float, rng: np.random.Generator, fast: bool) -> None:
        super().__init__(network=network, learning=False, fast=fast)
        self._rng, self._share, self._trace = rng, share, trace
        self._span = trace.end - trace.start + 400 * DAY
        self._axis = trace.item_feeds() * self._span + (trace.times - trace.start)
        self.parts: list[ForecastRows] = []

    def expect_steps(self, rows: Rows, forecast: RateForecast, step: Floats, steps: int = BINS) -> Floats:
        believed, own = expect_steps(forecast, step, steps, self.fast)
        at = np.flatnonzero(self.memory.is_dated(rows) & (self._rng.random(len(rows)) < self._share))
        for part in iterate_blocks(len(at), BLOCK):
            self._record(rows, at[part], forecast, step, believed, own)
        return believed

    def _record(
        self, rows: Rows, at: Rows, forecast: RateForecast, step: Floats, believed: Floats, own: Floats
    ) -> None:
        per_refresh, per_bin = self._compute_inputs(rows, at, forecast, step, believed, own)
        bins = self._rng.integers(EVERY, size=len(at))[:, None] + np.arange(0, BINS, EVERY)
        width = (step[at] * DAY)[:, None]
        begin = forecast.now[at, None] + bins * width
        origin = rows[at, None] * self._span - self._trace.start
        upto = [np.searchsorted(self._axis, origin + edge, "right") for edge in (begin, begin + width)]
        line = np.arange(len(at))[:, None]
        self.parts.append(
            ForecastRows(
                per_refresh,
                per_bin[line, bins].astype(np.float16),
                np.diff(believed[at], axis=1)[line, bins].astype(np.float32),
                np.where(begin + width <= self._trace.end, upto[1] - upto[0], np.nan).astype(np.float32),
            )
        )


class NoisyValue(Value):
    """`value` at a fixed price, with noise in its pauses."""

    name = "noisy_value"

    def __init__(self, price: float, estimator: LearnedForecast, rng: np.random.Generator, fast: bool) -> None:
        super().__init__(price=price, estimator=estimator, fast=fast)
        self._rng = rng

    def next_interval(self, table: Table, seen: Observed) -> Floats:
        pause = super().next_interval(table, seen)
        return np.asarray(pause * np.exp(NOISE * self._rng.standard_normal(len(pause))))


def make_rows(trace: Trace, price: float, wanted: int, network: Network, seed: int, fast: bool) -> ForecastRows:
    """Poll some feeds of a trace, chosen by `seed`, at one price and return about `wanted` rows."""
    rng = np.random.default_rng([seed, trace.feeds, len(trace.times), round(price * 1e6)])
    if trace.days > MAX_DAYS:
        trace = trace.select_period(trace.end - MAX_DAYS * DAY, np.inf)
    # A feed of rate λ is refreshed every √(2 · price / λ) days or so. Three times as many are polled as are recorded.
    rate = trace.counts / trace.days
    polls = trace.days * float(np.clip(np.sqrt(rate / (2 * price)), 1 / 31, 720).mean())
    feeds = max(int(3 * wanted / polls), MIN_FEEDS)
    if feeds < trace.feeds:
        trace = trace.select_feeds(np.sort(rng.permutation(trace.feeds)[:feeds]))
    forecast = RecordingForecast(network, trace, min(wanted / (polls * trace.feeds), 1.0), rng, fast)
    replay_trace(NoisyValue(price, forecast, rng, fast), trace, ReplaySettings(warmup_days=0.0))
    return ForecastRows.join(forecast.parts)
