"""Gamma posterior on two time scales; the estimator of `value`.

For each memory τ it keeps n = Σ exp(−age/τ) over the items and x = ∫ exp(−age/τ) over the observed time, both in own
time (`week_rhythm`). The slowest rate is the mean of a Gamma posterior, (n + a) / (x + b); each faster one is shrunk to
the next slower by κ days of doubt. The forecast returns to the slow rate as the memories fade:

    λ(u) = r_slow + Σ (r_k − r_{k+1}) · exp(−u / τ_k)

Two things are learned from all feeds: a table of corrections, over the logarithm of the rate, of how many items feeds
of an estimated slow rate really brought, and the week of similar feeds (`week_rhythm`). Without dates, a window that
came back all new gives a lower bound; the count is then replaced by its expectation given that bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwater.arrays import Bools, Floats, Ragged, Rows
from headwater.estimate.estimator import Estimator
from headwater.estimate.feed_columns import Column
from headwater.estimate.models.week_rhythm import HALF_HOUR, SLOTS, WeekRhythm, to_own_time
from headwater.estimate.poisson import poisson_tail
from headwater.numba_support import NUMBA_AVAILABLE, compile_with_numba
from headwater.times import DAY

BINS, PER_OCTAVE, LOWEST = 64, 3.0, -10.0  # corrections from 2^-10 to 2^11 items a day
DOUBT = 10.0  # items of doubt in each correction
PRIOR_SHAPE, PRIOR_MEANS = 0.5, 4.0 ** np.arange(-3.5, 5.0)  # the Gammas of the wide prior: items a day
FORGET = 0.985  # share of the corrections kept from one day to the next: two months' memory


@dataclass(frozen=True, slots=True)
class RateForecast:
    """The forecast of some rows from `now` on: λ(u) = base + Σ parts·exp(−u/scales), u in days of own time."""

    now: Floats
    clocks: Floats
    base: Floats
    parts: Floats
    scales: Floats


class Bayes(Estimator):
    """Estimate a rate on several time scales, each shrunk to the slower one.

    >>> feed = Bayes(1, shaped=False)
    >>> nothing = np.array([False])
    >>> for day in range(60):
    ...     feed.observe(np.array([0]), np.array([day * DAY]), np.array([(day + 1) * DAY]), np.array([3.0]), nothing)
    >>> round(float(feed.expected(np.array([0]), np.array([60 * DAY]), np.array([61 * DAY]))[0]))
    3
    """

    name = "bayes"

    def __init__(
        self,
        feeds: int = 0,
        *,
        scales: Sequence[float] = (0.5, 20.0),
        doubts: Sequence[float] = (0.5,),
        prior: tuple[float, float] | None = None,
        shaped: bool = True,
        shrink: float = 8.0,
        trusting: bool = True,
        reset: float = np.inf,
        dispersion: float = 6.0,
        day: float = DAY,
        fast: bool = False,
    ) -> None:
        """`scales` are memories in days, fast to slow; `doubts` the days by which each but the last is drawn to the
        next; `prior` the items and days the slowest starts with (None: the wide prior). `reset` is the CUSUM height (in
        standard deviations, widened by `dispersion`) at which the slow memory is dropped. `day` is the length of a day
        in seconds. `fast` compiles the loops over many rows (`compiled`)."""
        self.scales = np.array(scales, dtype=np.float64)
        self.doubts = tuple(doubts)
        self.prior = prior
        self.trusting, self.reset, self.dispersion, self.day = trusting, reset, dispersion, day
        self.fast = fast
        super().__init__(feeds)
        self.rhythm: WeekRhythm = self.adopt("rhythm", WeekRhythm(weight=shrink, shaped=shaped))
        self._recent: tuple[Rows, Floats] | None = None

    def layout(self) -> Mapping[str, Column]:
        several = (len(self.scales),)
        return {
            "items": Column(0.0, several),
            "observed": Column(0.0, several),
            "drift": Column(0.0, (2,)),
            "at": Column(-np.inf, dtype=np.float64),
        }

    def shared(self) -> Mapping[str, Any]:
        return {"believed": np.zeros(BINS), "brought": np.zeros(BINS), "trust": np.ones(BINS), "refreshed": -np.inf}

    def observe(
        self,
        rows: Rows,
        start: Floats,
        end: Floats,
        new: Floats,
        saturated: Bools,
        published: Ragged | None = None,
    ) -> None:
        self.learn_refreshes(rows, start, end, new, saturated, collect_dates(len(rows), end, published, self.day))

    def learn_refreshes(
        self, rows: Rows, start: Floats, end: Floats, new: Floats, saturated: Bools, dates: tuple[Rows, Floats, Floats]
    ) -> Floats:
        """Learn from refreshes and their dated items (`collect_dates`); return the slow rates believed before them."""
        owner, times, oldest = dates
        self._update_daily(end)
        clocks = self.rhythm.clocks(rows, self.fast)
        self._recent = (rows, clocks)
        place = np.arange(len(rows))
        first = ~np.isfinite(start)
        dated = np.bincount(owner, minlength=len(rows)) if len(owner) else np.zeros(len(rows), np.intp)
        known = dated > 0
        begin = np.where(first, np.where(known, oldest, end), np.minimum(start, end))
        # After an overflow only the span that the document shows was observed.
        gap = saturated & known
        to, since = self._to_own_time(clocks, place, end), self._to_own_time(clocks, place, begin)
        seen_from = np.where(gap, self._to_own_time(clocks, place, np.where(known, oldest, end)), since)
        elapsed, watched = np.maximum(to - since, 0.0), np.maximum(to - seen_from, 0.0)
        items, observed = (
            self._columns["items"][rows].astype(np.float64),
            self._columns["observed"][rows].astype(np.float64),
        )
        counted = self._impute_censored(items, observed, elapsed, new, saturated & ~known)
        believed = self._posterior_mean(items, observed)
        # Overflowed windows count by what they show: the others alone are the quiet hours of a feed.
        self._learn_corrections(rows, items, observed, believed, watched, np.where(gap, dated, counted), ~first)

        fade = np.exp(-elapsed[:, None] / self.scales)
        age = np.maximum(to[owner] - self._to_own_time(clocks, owner, times), 0.0)
        items *= fade
        observed = observed * fade + self.scales * (1.0 - np.exp(-watched[:, None] / self.scales))
        # Items without dates are spread over the interval: the mean of exp(−age/τ) over it.
        spread = np.where(elapsed[:, None] > 1e-9, (1.0 - fade) * self.scales / np.maximum(elapsed[:, None], 1e-9), 1.0)
        undated = np.where(first, 0.0, np.maximum(counted - dated, 0.0))
        items += undated[:, None] * spread
        for k, scale in enumerate(self.scales):
            items[:, k] += np.bincount(owner, weights=np.exp(-age / scale), minlength=len(rows))
        # The first document always starts with an item: n items span n − 1 gaps.
        opening = first & known
        items[opening] = np.maximum(items[opening] - np.exp(-watched[opening, None] / self.scales), 0.0)
        self._columns["items"][rows] = items
        self._columns["observed"][rows] = observed
        self._columns["at"][rows] = end
        past = times < end[owner]  # a date in the future is not believable, and teaches no hour
        self.rhythm.learn(rows, owner[past], times[past], elapsed)
        return believed * self._correction(believed) if self.trusting else believed

    def _to_own_time(self, clocks: Floats, place: Rows, when: Floats) -> Floats:
        return to_own_time(clocks, place, when * (DAY / self.day))

    def _update_daily(self, end: Floats) -> None:
        latest = float(end.max()) if len(end) else -np.inf
        if latest < float(self._shared["refreshed"]) + self.day:
            return
        self._shared["refreshed"] = np.array(latest)
        self.rhythm.update_shapes()
        believed, brought = self._shared["believed"], self._shared["brought"]
        self._shared["trust"] = _smooth_bins(brought + DOUBT) / _smooth_bins(believed + DOUBT)
        believed *= FORGET
        brought *= FORGET

    def _impute_censored(
        self, items: Floats, observed: Floats, elapsed: Floats, new: Floats, censored: Bools
    ) -> Floats:
        """Replace the counts of undated windows that came back all new by E[N | N ≥ new]."""
        if not censored.any():
            return new
        counted = new.astype(np.float64).copy()
        base, _ = self._split_rates(items[censored], observed[censored])
        counted[censored] = expect_given_at_least(new[censored], base * elapsed[censored])
        return counted

    def _learn_corrections(
        self,
        rows: Rows,
        items: Floats,
        observed: Floats,
        believed: Floats,
        elapsed: Floats,
        new: Floats,
        settled: Bools,
    ) -> None:
        """Compare expectation and count: update the common corrections and each feed's CUSUM."""
        mean = believed * elapsed
        if self.trusting and settled.any():
            bins = np.clip(np.rint(_to_bins(believed[settled])), 0, BINS - 1).astype(np.intp)
            self._shared["believed"] += np.bincount(bins, weights=mean[settled], minlength=BINS)
            self._shared["brought"] += np.bincount(bins, weights=new[settled], minlength=BINS)
        if not np.isfinite(self.reset):
            return
        surprise = np.where(settled, (new - mean) / np.sqrt(self.dispersion * np.maximum(mean, 0.25)), 0.0)
        drift = self._columns["drift"][rows].astype(np.float64)
        drift[:, 0] = np.maximum(drift[:, 0] + np.clip(surprise, -3, 3) - 0.5, 0.0)
        drift[:, 1] = np.maximum(drift[:, 1] - np.clip(surprise, -3, 3) - 0.5, 0.0)
        changed = (drift > self.reset).any(1)
        if changed.any():
            # Observations older than a few refreshes belong to another regime: keep a tenth of their weight.
            items[changed] *= 0.1
            observed[changed] *= 0.1
            drift[changed] = 0.0
        self._columns["drift"][rows] = drift

    def _posterior_mean(self, items: Floats, observed: Floats) -> Floats:
        if self.prior is None:
            return mix_priors(items[:, -1], observed[:, -1])
        a, b = self.prior
        return np.asarray((items[:, -1] + a) / (observed[:, -1] + b))

    def _split_rates(self, items: Floats, observed: Floats) -> tuple[Floats, Floats]:
        """Return the slow rate, and how far each faster rate differs from the next slower one, per day of own time."""
        slow = self._posterior_mean(items, observed)
        if self.trusting:
            slow = slow * self._correction(slow)
        parts = np.zeros((len(slow), len(self.scales) - 1))
        rate = slow
        for k in range(len(self.scales) - 2, -1, -1):
            faster = (items[:, k] + self.doubts[k] * rate) / (observed[:, k] + self.doubts[k])
            parts[:, k] = faster - rate
            rate = faster
        return slow, parts

    def _correction(self, rate: Floats) -> Floats:
        at = np.clip(_to_bins(rate), 0.0, BINS - 1.001)
        below = at.astype(np.intp)
        trust = self._shared["trust"]
        return np.asarray(trust[below] + (at - below) * (trust[below + 1] - trust[below]))

    def _find_clocks(self, rows: Rows) -> Floats:
        """Return the clocks of some rows; for those just refreshed, as they were before."""
        recent = self._recent
        return recent[1] if recent is not None and recent[0] is rows else self.rhythm.clocks(rows, self.fast)

    def measure_own_time(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        """Return the days of own time between two times of each row; 0 where there is no first one."""
        clocks, place = self._find_clocks(rows), np.arange(len(rows))
        begin = np.where(np.isfinite(start), np.minimum(start, end), end)
        return self._to_own_time(clocks, place, end) - self._to_own_time(clocks, place, begin)

    def forecast(self, rows: Rows) -> RateForecast:
        """Return the forecast of these rows from their last refresh on."""
        clocks = self._find_clocks(rows)
        base, parts = self._split_rates(
            self._columns["items"][rows].astype(np.float64), self._columns["observed"][rows].astype(np.float64)
        )
        return RateForecast(self._columns["at"][rows], clocks, base, parts, self.scales[:-1])

    def expected(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        return self.integrate(self.forecast(rows), start, end)

    def integrate(self, forecast: RateForecast, start: Floats, end: Floats) -> Floats:
        """Return the items expected between two times, one pair of times per forecast."""
        place = np.arange(len(start))
        origin = np.where(np.isfinite(forecast.now), forecast.now, start)
        lower = self._to_own_time(forecast.clocks, place, start) - self._to_own_time(forecast.clocks, place, origin)
        upper = self._to_own_time(forecast.clocks, place, end) - self._to_own_time(forecast.clocks, place, origin)
        return np.maximum(
            integrate_forecast(forecast, np.maximum(upper, lower)) - integrate_forecast(forecast, lower), 0.0
        )

    def expect_steps(self, rows: Rows, forecast: RateForecast, step: Floats, steps: int) -> Floats:
        """Return the items expected up to each of `steps` steps (days) after the forecast's begin, from 0 on."""
        return expect_steps(forecast, step, steps, self.fast)[0]

    def slow_rate(self, rows: Rows) -> Floats:
        """Return the slow rate, in items per day."""
        return self._split_rates(
            self._columns["items"][rows].astype(np.float64), self._columns["observed"][rows].astype(np.float64)
        )[0]


def mix_priors(items: Floats, days: Floats) -> Floats:
    """Return the mean rate after so many items in so many days, under a mixture of Gammas from rare to lively feeds.

    A single Gamma wide enough for both would believe a feed with thirty items in four hours to publish four a day.

    >>> mix_priors(np.array([30.0, 0.0]), np.array([1 / 6, 30.0])).round(2).tolist()
    [178.62, 0.01]
    """
    inverse = PRIOR_SHAPE / PRIOR_MEANS
    known = inverse + days[:, None]
    fit = PRIOR_SHAPE * np.log(inverse / known) - items[:, None] * np.log(known)
    weight = np.exp(fit - fit.max(axis=1, keepdims=True))
    rate = (items[:, None] + PRIOR_SHAPE) / known
    return np.asarray((weight * rate).sum(1) / weight.sum(1))


def expect_given_at_least(least: Floats, mean: Floats) -> Floats:
    """Return E[N | N ≥ least] for N ~ Poisson(mean): the likely count behind a window that came back all new.

    >>> round(float(expect_given_at_least(np.array([1.0]), np.array([1.0]))[0]), 3)  # 1 / (1 − 1/e)
    1.582
    """
    chance = poisson_tail(least, mean)
    likely = chance > 1e-9
    hidden = mean * poisson_tail(least - 1.0, mean) / np.where(likely, chance, 1.0)
    return np.where(likely, np.maximum(hidden, least), least)


def integrate_forecast(forecast: RateForecast, own: Floats) -> Floats:
    """Return ∫ λ over the first `own` days of own time of each row; before its last refresh the slow rate applies."""
    total = forecast.base * own
    for k, scale in enumerate(forecast.scales):
        total = total + forecast.parts[:, k] * scale * (1.0 - np.exp(-np.maximum(own, 0.0) / scale))
    return np.asarray(total)


def expect_steps(forecast: RateForecast, step: Floats, steps: int, fast: bool = False) -> tuple[Floats, Floats]:
    """Return the items expected and the own time (days) that passes up to each step; both begin with 0."""
    shape = (len(step), steps + 1)
    # A feed of which nothing was observed has no last refresh. Its week is even, so any start gives the same.
    now = np.where(np.isfinite(forecast.now), forecast.now, 0.0)
    if fast and NUMBA_AVAILABLE:
        items, own = np.empty(shape), np.empty(shape)
        parts = np.ascontiguousarray(forecast.parts)
        compile_with_numba(_expect_steps_kernel)(
            now, forecast.clocks, forecast.base, parts, forecast.scales, step, items, own
        )
        return items, own
    when = now[:, None] + np.arange(steps + 1) * (step * DAY)[:, None]
    own = to_own_time(forecast.clocks, np.broadcast_to(np.arange(len(step))[:, None], shape), when)
    own = own - own[:, :1]
    items = forecast.base[:, None] * own
    for k, scale in enumerate(forecast.scales):
        items += (forecast.parts[:, k] * scale)[:, None] * (1.0 - np.exp(-own / scale))
    return np.maximum.accumulate(np.maximum(items, 0.0), axis=1), own


def _expect_steps_kernel(
    now: Any, clocks: Any, base: Any, parts: Any, scales: Any, step: Any, items: Any, own: Any
) -> None:
    """Compute `expect_steps` row by row in plain loops, for numba."""
    for row in range(len(now)):
        origin = 0.0
        for k in range(items.shape[1]):
            when = now[row] + k * (step[row] * 86_400.0)
            week = math.floor(when / 604_800.0)
            slot = (when - week * 604_800.0) / HALF_HOUR
            whole = min(int(slot), SLOTS - 1)
            below = clocks[row, whole]
            there = week * 7.0 + below + (slot - whole) * (clocks[row, whole + 1] - below)
            if k == 0:
                origin = there
            there -= origin
            total = base[row] * there
            for s in range(len(scales)):
                total += parts[row, s] * scales[s] * (1.0 - math.exp(-there / scales[s]))
            total = max(total, 0.0)
            items[row, k] = max(total, items[row, k - 1]) if k > 0 else total
            own[row, k] = there


def _smooth_bins(values: Floats) -> Floats:
    """Smooth over five bins with triangular weights, because neighbouring rates are alike."""
    return np.convolve(np.pad(values, 2, mode="edge"), np.array([1.0, 2.0, 3.0, 2.0, 1.0]), "valid")


def _to_bins(rate: Floats) -> Floats:
    return np.asarray((np.log2(np.maximum(rate, 1e-12)) - LOWEST) * PER_OCTAVE)


def collect_dates(feeds: int, end: Floats, published: Ragged | None, day: float) -> tuple[Rows, Floats, Floats]:
    """Return owner and time of each dated item, never after the refresh, and each row's oldest time."""
    oldest = np.full(feeds, np.inf)
    if published is None or not len(published.times):
        return np.empty(0, np.intp), np.empty(0), oldest
    owner = published.owner()
    times = np.minimum(published.times, end[owner])
    counts = published.counts
    some = counts > 0
    oldest[some] = times[published.offsets[:-1][some]]
    return owner, times, oldest
