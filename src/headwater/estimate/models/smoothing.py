"""Horincar's thesis, 7.2: `single`, `periodic`, `hybrid` and `smoothed`, rates by exponential smoothing."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headwater.arrays import Bools, Floats, Ragged, Rows, iterate_blocks
from headwater.errors import SettingsError
from headwater.estimate.estimator import MIN_RATE, PRIOR_RATE, FirstRefreshEstimator
from headwater.estimate.feed_columns import Column
from headwater.estimate.slot_rates import SlotEstimator
from headwater.times import DAY


class PeriodicRate(SlotEstimator, FirstRefreshEstimator):
    """Estimate one rate per slot of the day or week by exponential smoothing (Horincar's thesis, eq. 7.3).

        λ_j ← α · (λ_j / Div_est) · x + (1 − α) · λ_j          for every slot j of the interval

    The x new items are spread over the interval in proportion to the expectation of its slots, so a count is enough and
    dates are not needed. The thesis uses `slots=24` and a day; `slots=168, period=WEEK` is a week of hours.

    >>> e = PeriodicRate(1, slots=2, period=20.0, alpha=0.5, rate=1.0)  # two slots of 10 s, one item a second
    >>> row = np.array([0])
    >>> e.observe(row, np.array([0.0]), np.array([10.0]), np.array([30.0]), np.array([False]))
    >>> e.per_slot(row).tolist()  # the first slot goes halfway from 10 to 30, the second was not touched
    [[20.0, 10.0]]
    """

    name = "periodic"

    def __init__(
        self,
        feeds: int = 0,
        *,
        slots: int = 24,
        period: float = DAY,
        alpha: float = 0.1,
        rate: float = PRIOR_RATE,
        least: float = MIN_RATE,
    ) -> None:
        self.alpha, self._least = alpha, least
        super().__init__(feeds, slots=slots, period=period, rate=rate)

    def learn_first(self, rows: Rows, end: Floats, rate: Floats, published: Ragged | None) -> None:
        known = ~np.isnan(rate)
        flat = np.maximum(rate[known], self._least)[:, None] * self.width
        self.set_slots(rows[known], np.repeat(flat, self.slots, axis=1))

    def learn(
        self,
        rows: Rows,
        start: Floats,
        end: Floats,
        new: Floats,
        saturated: Bools,
        published: Ragged | None,
        alpha: Floats | float | None = None,
    ) -> None:
        a = np.broadcast_to(np.asarray(self.alpha if alpha is None else alpha, np.float64), new.shape)
        ratio = new / np.maximum(self.expected(rows, start, end), 1e-12)
        factor = a * ratio + (1 - a)
        for part in iterate_blocks(len(rows)):
            items = self.per_slot(rows[part])
            touched = self.coverage(start[part], end[part]) > 0
            items = np.where(touched, items * factor[part, None], items)
            self.set_slots(rows[part], np.maximum(items, self._least * self.width))


class SingleRate(FirstRefreshEstimator):
    """Estimate one posting rate λ per feed by exponential smoothing (Horincar's thesis, eq. 7.2).

        λ ← α · x/Δt + (1 − α) · λ          Div_est(t) = λ · (t − T_r)

    x new items came in the Δt seconds between two refreshes; T_r is the last refresh. A saturated window is taken at
    face value, as in the thesis: x is then too small, which `likelihood` corrects.

    >>> e = SingleRate(1, alpha=0.5, rate=2.0)
    >>> row = np.array([0])
    >>> e.observe(row, np.array([0.0]), np.array([10.0]), np.array([40.0]), np.array([False]))
    >>> e.expected(row, np.array([10.0]), np.array([11.0])).tolist()  # halfway between 2 and 40/10
    [3.0]
    """

    name = "single"

    def __init__(
        self, feeds: int = 0, *, alpha: float = 0.1, rate: float = PRIOR_RATE, least: float = MIN_RATE
    ) -> None:
        self.alpha, self._prior, self._least = alpha, rate, least
        super().__init__(feeds)

    def layout(self) -> Mapping[str, Column]:
        return {"rate": Column(self._prior)}

    def learn_first(self, rows: Rows, end: Floats, rate: Floats, published: Ragged | None) -> None:
        known = ~np.isnan(rate)
        self._columns["rate"][rows[known]] = np.maximum(rate[known], self._least)

    def learn(
        self,
        rows: Rows,
        start: Floats,
        end: Floats,
        new: Floats,
        saturated: Bools,
        published: Ragged | None,
        alpha: Floats | float | None = None,
    ) -> None:
        a = self.alpha if alpha is None else alpha
        rate = a * new / (end - start) + (1 - a) * self._columns["rate"][rows]
        self._columns["rate"][rows] = np.maximum(rate, self._least)

    def expected(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        return self._columns["rate"][rows] * np.maximum(end - start, 0.0)

    def delay(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        return np.asarray(self._columns["rate"][rows] * np.maximum(end - start, 0.0) ** 2 / 2)


class HybridRate(FirstRefreshEstimator):
    """Use `single` or `periodic` per feed, whichever had the smaller |x − Div_est| at its last refresh (thesis 7.2.3).

    Both learn from every refresh; only the answer switches. With `errors` above 1 the moving mean of that many errors
    decides instead of the last one.

    >>> e, row, no = HybridRate(1, alpha=1.0, slots=2, period=20.0, rate=1.0), np.array([0]), np.array([False])
    >>> for start, new in ((0.0, 30.0), (10.0, 10.0), (20.0, 30.0)):  # three a second, one, three: a pattern
    ...     e.observe(row, np.array([start]), np.array([start + 10]), np.array([new]), no)
    >>> e.expected(row, np.array([30.0]), np.array([40.0])).tolist()  # single says 30, periodic 10: it was right
    [10.0]
    """

    name = "hybrid"

    def __init__(
        self,
        feeds: int = 0,
        *,
        alpha: float = 0.1,
        slots: int = 24,
        period: float = DAY,
        rate: float = PRIOR_RATE,
        errors: int = 1,
    ) -> None:
        if errors < 1:
            raise SettingsError(f"errors must be at least 1, not {errors}: it is the number of errors that decide.")
        self._errors = errors
        super().__init__(feeds)
        self._single: SingleRate = self.adopt("single", SingleRate(alpha=alpha, rate=rate))
        self._periodic: PeriodicRate = self.adopt(
            "periodic", PeriodicRate(alpha=alpha, slots=slots, period=period, rate=rate)
        )

    def layout(self) -> Mapping[str, Column]:
        lead = {"lead": Column(0.0)} if self._errors > 1 else {}
        return {"periodic_wins": Column(0, dtype=np.int8)} | lead

    def learn_first(self, rows: Rows, end: Floats, rate: Floats, published: Ragged | None) -> None:
        self._single.learn_first(rows, end, rate, published)
        self._periodic.learn_first(rows, end, rate, published)

    def learn(
        self, rows: Rows, start: Floats, end: Floats, new: Floats, saturated: Bools, published: Ragged | None
    ) -> None:
        by_single = np.abs(new - self._single.expected(rows, start, end))
        by_periodic = np.abs(new - self._periodic.expected(rows, start, end))
        lead = by_single - by_periodic
        if self._errors > 1:
            before = self._columns["lead"][rows]
            lead = self._columns["lead"][rows] = before + (lead - before) / self._errors
        self._columns["periodic_wins"][rows] = lead > 0
        self._single.learn(rows, start, end, new, saturated, published)
        self._periodic.learn(rows, start, end, new, saturated, published)

    def expected(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        periodic = self._columns["periodic_wins"][rows] == 1
        return np.where(periodic, self._periodic.expected(rows, start, end), self._single.expected(rows, start, end))

    def delay(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        periodic = self._columns["periodic_wins"][rows] == 1
        answer = self._single.delay(rows, start, end)
        answer[periodic] = self._periodic.delay(rows[periodic], start[periodic], end[periodic])
        return answer


class AdaptiveSmoothing(FirstRefreshEstimator):
    """Run `single` or `periodic` with an α that follows the stability of its errors (thesis 7.2.4).

        ratio = mean of the last n1 |errors| / mean of the last n2      α ← α · grow if ratio > unstable
        side  = |sum of the last n3 errors| / sum of their |errors|     else α · drift_grow if side > drift
                                                                        else α · shrink

    An error is x − Div_est of one refresh. α moves before the model learns from that refresh, so a jump is followed at
    once, and stays within [lowest, highest]. On a stable feed chance alone lifts the
    ratio above 1 at nearly every second refresh, so `unstable` lies well above 1. A rate that drifts keeps the ratio at
    1 but its errors on one side; `drift=1` leaves that out, as the thesis does (decision 0251). Neither raises α unless
    |sum of the errors| > 1 + ¾√(sum of their Div_est): a slow feed is silent four times in a row, and then has an item,
    by chance (decision 0340).

    >>> e = AdaptiveSmoothing(1, alpha=0.2, n1=1, n2=2, shrink=0.5, grow=2, unstable=1, drift=1, rate=1)
    >>> row, no = np.array([0]), np.array([False])
    >>> for new in (14.0, 50.0):  # expected are 10, then 10.4: the error jumps from 4 to 39.6
    ...     e.observe(row, np.array([0.0]), np.array([10.0]), np.array([new]), no)
    >>> e.alpha(row).round(3).tolist()  # 4/4 ≤ 1: halved to .1; then 39.6/21.8 > 1: doubled
    [0.2]
    """

    name = "smoothed"

    def __init__(
        self,
        feeds: int = 0,
        *,
        inner: str = "single",
        alpha: float = 0.1,
        lowest: float = 0.04,
        highest: float = 0.7,
        n1: int = 2,
        n2: int = 25,
        n3: int = 4,
        shrink: float = 0.9,
        grow: float = 8.0,
        unstable: float = 3.0,
        drift: float = 0.8,
        drift_grow: float = 1.25,
        slots: int = 24,
        period: float = DAY,
        rate: float = PRIOR_RATE,
    ) -> None:
        if not 0 < n1 < n2:
            raise SettingsError(f"n1 must be less than n2 for the stability ratio, not n1 = {n1} and n2 = {n2}.")
        if n3 < 1:
            raise SettingsError(f"n3 must be at least 1, not {n3}: it is the number of errors that show a drift.")
        if inner not in ("single", "periodic"):
            raise SettingsError(f"The option inner must be single or periodic, not “{inner}”.")
        self._start, self._bounds, self._factors = alpha, (lowest, highest), (shrink, grow, drift_grow)
        self._unstable, self._drift = unstable, drift
        self.n1, self.n2, self.n3 = n1, n2, min(n3, n2)
        super().__init__(feeds)
        model = SingleRate(rate=rate) if inner == "single" else PeriodicRate(slots=slots, period=period, rate=rate)
        self._model: SingleRate | PeriodicRate = self.adopt("model", model)

    def layout(self) -> Mapping[str, Column]:
        return {
            "alpha": Column(self._start),
            "errors": Column(np.nan, (self.n2,)),
            "expectations": Column(np.nan, (max(self.n1, self.n3),)),
        }

    def alpha(self, rows: Rows) -> Floats:
        return self._columns["alpha"][rows].astype(np.float64)

    def learn_first(self, rows: Rows, end: Floats, rate: Floats, published: Ragged | None) -> None:
        self._model.learn_first(rows, end, rate, published)

    def learn(
        self, rows: Rows, start: Floats, end: Floats, new: Floats, saturated: Bools, published: Ragged | None
    ) -> None:
        expected = self._model.expected(rows, start, end)
        self._columns["errors"][rows] = np.column_stack([self._columns["errors"][rows][:, 1:], new - expected])
        self._columns["expectations"][rows] = np.column_stack([self._columns["expectations"][rows][:, 1:], expected])
        self._adjust(rows)
        self._model.learn(rows, start, end, new, saturated, published, alpha=self.alpha(rows))

    def _adjust(self, rows: Rows) -> None:
        """Move α by the last errors, of which the newest is about to be learned from."""
        rows = rows[~np.isnan(self._columns["errors"][rows][:, -self.n1 :]).any(axis=1)]
        errors, expectations = self._columns["errors"][rows], self._columns["expectations"][rows]
        sizes = np.abs(errors)
        jumps = sizes[:, -self.n1 :].mean(axis=1) > np.nanmean(sizes, axis=1) * self._unstable * (1 + 1e-6)
        jumps &= _exceed_chance(errors[:, -self.n1 :], expectations[:, -self.n1 :])
        # A missing error is NaN, and so is the sum: too few errors say nothing about a drift.
        drifts = np.abs(errors[:, -self.n3 :].sum(axis=1)) > self._drift * sizes[:, -self.n3 :].sum(axis=1) * (1 + 1e-6)
        drifts &= _exceed_chance(errors[:, -self.n3 :], expectations[:, -self.n3 :])
        shrink, grow, drift_grow = self._factors
        moved = self.alpha(rows) * np.where(jumps, grow, np.where(drifts, drift_grow, shrink))
        self._columns["alpha"][rows] = np.clip(moved, *self._bounds)

    def expected(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        return self._model.expected(rows, start, end)

    def delay(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        return self._model.delay(rows, start, end)


def _exceed_chance(errors: Floats, expectations: Floats) -> Bools:
    """Return whether the errors add up to more than one item and three quarters of the deviation of a Poisson count."""
    return np.asarray(np.abs(errors.sum(axis=1)) > 1 + 0.75 * np.sqrt(expectations.sum(axis=1)))
