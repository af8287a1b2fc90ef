"""Corrects `bayes` by a small network that has learned from many feeds when the next items come.

    ln λ(bin) = ln of the belief of `bayes` for that bin + the network's correction, within ±3

The network sees only what a feed's own refreshes have returned (`learned.feed_memory`, `learned.inputs`). It goes on
learning from all feeds of the server, and is mixed with the belief by how well both have done
(`learned.online_learning`). A feed whose items have no dates keeps the belief as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, tzinfo
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Bools, Floats, Ragged, Rows, iterate_blocks
from headwater.estimate.feed_columns import LENGTH, STAMP, Column
from headwater.estimate.learned.feed_memory import MAX_ITEMS, FeedMemory, SeenItems
from headwater.estimate.learned.forecast_record import ForecastRecord
from headwater.estimate.learned.inputs import BINS, Belief, Inputs, compute_inputs
from headwater.estimate.learned.network import Network, Scaling
from headwater.estimate.learned.online_learning import OnlineLearning
from headwater.estimate.models.bayes import Bayes, RateForecast, collect_dates, expect_steps
from headwater.estimate.models.week_rhythm import HALF_HOUR, SLOTS
from headwater.times import DAY, format_duration

MOST_MOVED = 60_000.0  # items; half precision holds no more
FEWEST_MOVED = 0.005  # items in a bin whose correction is worth a sentence
BLOCK = 256  # rows whose bins are computed at a time: they stay within a processor's cache


class LearnedForecast(Bayes):
    """`bayes`, corrected by a network; `network` replaces the one of the package, `learning` lets it go on learning.

    Before a feed has shown dates the belief stands as it is:

    >>> feeds, one = (LearnedForecast(1), Bayes(1)), np.array([0])
    >>> for feed in feeds:
    ...     feed.observe(one, np.array([0.0]), np.array([DAY]), np.array([3.0]), one > 0)
    >>> len({float(feed.expected(one, np.array([DAY]), np.array([2 * DAY]))[0]) for feed in feeds})
    1
    """

    name = "forecast"

    def __init__(
        self, feeds: int = 0, *, network: Network | None = None, learning: bool = True, fast: bool = False
    ) -> None:
        super().__init__(feeds, fast=fast)
        self._network, self._learns = load_network() if network is None else network, learning
        self.memory: FeedMemory = self.adopt("memory", FeedMemory())
        self.learning: OnlineLearning = self.adopt("learning", OnlineLearning(weights=self._network.weights))

    def layout(self) -> Mapping[str, Column]:
        return {
            **super().layout(),
            "step": Column(np.nan),  # a bin of the latest plan, in days
            "moved": Column(0.0, (BINS,), np.float16),  # items by which the latest plan corrected each bin
        }

    def observe(
        self,
        rows: Rows,
        start: Floats,
        end: Floats,
        new: Floats,
        saturated: Bools,
        published: Ragged | None = None,
    ) -> None:
        since = self._columns["at"][rows]
        dates = owner, times, oldest = collect_dates(len(rows), end, published, self.day)
        slow = self.learn_refreshes(rows, start, end, new, saturated, dates)
        elapsed = np.where(np.isfinite(start), end - start, 0.0) / DAY
        surprise = np.log((new + 0.5) / (slow * elapsed + 0.5))
        dated = np.bincount(owner, minlength=len(rows))
        if self._learns:
            usable = np.isfinite(since) & ~saturated & (dated >= new)
            step = self._columns["step"][rows].astype(np.float64)
            self.learning.learn(rows, np.where(usable, since, end), end, step, usable, owner, times)
        begin = np.where(np.isfinite(start), np.minimum(start, end), np.minimum(oldest, end))
        watched = np.where(saturated & np.isfinite(oldest), np.minimum(oldest, end), begin)
        if len(times) > MAX_ITEMS:  # of very many items at once the newest are enough
            late = dated.cumsum()[owner] - np.arange(len(owner)) <= MAX_ITEMS
            owner, times = owner[late], times[late]
        self.memory.observe(rows, SeenItems(begin, watched, end, new, saturated, surprise, owner, times), self.fast)

    def expect_steps(self, rows: Rows, forecast: RateForecast, step: Floats, steps: int = BINS) -> Floats:
        """Return the corrected items up to each step, and keep some bins to learn from."""
        believed, own = expect_steps(forecast, step, steps, self.fast)
        self._columns["step"][rows] = step
        items = believed[:, 1:] - believed[:, :-1]
        for at, scaled, correction in self._ask_network(rows, forecast, step, believed, own):
            plain = items[at]
            if self._learns:
                self.learning.keep(rows[at], forecast.now[at], scaled, plain, correction)
            corrected = plain * self._mix(correction)
            self._columns["moved"][rows[at]] = np.minimum(np.maximum(corrected - plain, -MOST_MOVED), MOST_MOVED)
            items[at] = corrected
        return _accumulate(items)

    def compare_steps(self, rows: Rows, forecast: RateForecast, step: Floats) -> tuple[Floats, Floats]:
        """Return the items up to each edge of the bins, corrected and as believed; nothing is kept to learn from."""
        believed, own = expect_steps(forecast, step, BINS, self.fast)
        items = believed[:, 1:] - believed[:, :-1]
        for at, _, correction in self._ask_network(rows, forecast, step, believed, own):
            items[at] *= self._mix(correction)
        return _accumulate(items), believed

    def _mix(self, correction: Inputs) -> Floats:
        """Return λ / belief of each bin."""
        return np.asarray(1 + self.learning.trust * np.expm1(correction.astype(np.float64)))

    def _ask_network(
        self, rows: Rows, forecast: RateForecast, step: Floats, believed: Floats, own: Floats
    ) -> Iterator[tuple[Rows | slice, tuple[Inputs, Inputs], Inputs]]:
        """Yield the positions of feeds with dates, some at a time, the inputs of their bins and the corrections."""
        network = self._network.with_weights(self.learning.weights)
        known = np.flatnonzero(self.memory.is_dated(rows) & np.isfinite(forecast.now))
        for part in iterate_blocks(len(known), BLOCK):
            at = part if len(known) == len(rows) else known[part]
            inputs = self._compute_inputs(rows, at, forecast, step, believed, own)
            yield at, *network.correct(*inputs, self.fast)

    def _compute_inputs(
        self, rows: Rows, at: Rows | slice, forecast: RateForecast, step: Floats, believed: Floats, own: Floats
    ) -> tuple[Inputs, Inputs]:
        """Return the inputs of the refreshes at some positions."""
        middle = forecast.now[at, None] + (np.arange(BINS) + 0.5) * (step[at] * DAY)[:, None]
        shape = self.rhythm.kind_shapes(rows[at], (middle / HALF_HOUR).astype(np.int64) % SLOTS)
        belief = Belief(forecast.base[at], forecast.parts[at].sum(1), step[at], believed[at], own[at], shape)
        return compute_inputs(self.memory, rows[at], belief, self.fast)

    def expected(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        """Return the items expected between two times: corrected within the bins of the latest plan."""
        forecast = self.forecast(rows)
        plain = self.integrate(forecast, start, end)
        step = self._columns["step"][rows].astype(np.float64)
        known = np.flatnonzero(np.isfinite(step) & np.isfinite(forecast.now))
        if not len(known):
            return plain
        now, step = forecast.now[known], step[known]
        gain = _accumulate(self._columns["moved"][rows[known]])
        line = np.arange(len(known))

        def upto(when: Floats) -> Floats:
            place = np.clip((when[known] - now) / DAY / step, 0.0, BINS - 1e-9)
            whole = place.astype(np.intp)
            return np.asarray(gain[line, whole] + (place - whole) * (gain[line, whole + 1] - gain[line, whole]))

        plain[known] += upto(np.maximum(start, end)) - upto(start)
        return np.maximum(plain, 0.0)

    def past_rate(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        """Return the plain estimate: the corrections learn from windows that did not overflow, the quiet ones."""
        return np.asarray(super().expected(rows, start, end) / np.maximum(end - start, 1.0))

    def record(self) -> ForecastRecord:
        """Return how well the corrections have predicted over the last week."""
        gain, items = self.learning.gain
        return ForecastRecord(gain, items, self.learning.trust)

    def describe_feed(self, row: int, now: float, zone: tzinfo = UTC) -> str:
        """Say where the forecast of a feed differs most from the plain estimate; nothing before its first plan."""
        one = np.array([row], np.intp)
        step = self._columns["step"][one].astype(np.float64)
        forecast = self.forecast(one)
        if not self.memory.is_dated(one)[0] or not np.isfinite(step[0]) or not np.isfinite(forecast.now[0]):
            return ""
        middle = forecast.now[0] + (np.arange(BINS) + 0.5) * step[0] * DAY
        moved = self._columns["moved"][row].astype(np.float64)
        best = int(np.where(middle >= now, np.abs(moved), -1.0).argmax())
        believed = np.diff(expect_steps(forecast, step, BINS, self.fast)[0][0])
        # The plain estimate may have changed since the plan, also to less than the plan took away.
        factor = max(1 + moved[best] / max(believed[best], 1e-12), 0.0)
        if middle[best] < now:
            ahead = format_duration(BINS * step[0] * DAY)
            said = f"The learned forecast looks {ahead} ahead of a refresh, and that time has passed."
        elif abs(factor - 1) < 0.1 or abs(moved[best]) < FEWEST_MOVED:
            said = "The learned forecast agrees with the plain estimate."
        else:
            when, days = datetime.fromtimestamp(middle[best], zone), self.memory.count_days(row, middle[best])
            share = "hardly any of the" if factor < 0.05 else f"{factor:.1f} times as many"
            said = (
                f"The learned forecast expects {share} items {'of' if factor < 0.05 else 'as'} the plain estimate "
                f"around {when:%H:%M %Z}, in about {format_duration(middle[best] - now)}"
            )
            # None says little, because a feed may be known since today. Only what speaks for the correction is said.
            if days and (factor > 1 or days < 4):
                often = f"{days}" if factor > 1 else f"only {days}"
                said += f"; the feed published within an hour of that time on {often} of the last 7 days"
            said += "."
        return f"{said} {self.record().describe()}"

    def load(self, state: Mapping[str, NDArray[Any]]) -> None:
        super().load(self._upgrade(state))

    def _check_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        super()._check_state(self._upgrade(state))

    def _upgrade(self, state: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """Return the state of `bayes` or of this class, with those parts begun anew that it lacks or cannot continue.

        The memory or the latest plan may have had another layout, and samples belong to the network that scaled them.
        """
        stamps = {f"{one.name}/{one.version}" for one in (Bayes, type(self))}
        if STAMP not in state or str(state[STAMP]) not in stamps:
            return state
        empty = type(self)(network=self._network).save()
        lost = tuple(
            part for part in ("memory/", "learning/", "step", "moved") if not _is_continued(part, state, empty)
        )
        if not lost:
            return state
        fresh = type(self)(int(state[LENGTH]), network=self._network).save()
        return {**state, **{key: fresh[key] for key in fresh if key.startswith(lost)}, STAMP: fresh[STAMP]}


def _is_continued(part: str, state: Mapping[str, NDArray[Any]], empty: Mapping[str, NDArray[Any]]) -> bool:
    """Whether a part of a saved state has the layout of an `empty` one, its stamp and its network."""
    keys = [key for key in empty if key.startswith(part)]
    same = [key for key in keys if key.endswith((STAMP, "*network"))]
    return all(key in state and state[key].shape[1:] == empty[key].shape[1:] for key in keys) and all(
        state[key] == empty[key] for key in same
    )


def _accumulate(parts: Floats) -> Floats:
    sums = np.zeros((len(parts), parts.shape[1] + 1))
    np.cumsum(parts, axis=1, out=sums[:, 1:])
    return sums


@cache
def load_network() -> Network:
    """Return the network of the package."""
    with files("headwater.estimate.learned").joinpath("weights.npz").open("rb") as file:
        return read_network(file)


def read_network(file: Any) -> Network:
    """Read a network from an .npz file."""
    with np.load(file, allow_pickle=False) as saved:
        scaling = Scaling(*(saved[key] for key in ("low", "high", "mean", "deviation")))
        return Network(saved["weights"], scaling)
