"""Sia & Cho: optimal retrieval times within the day (section 3.2).

The daily pattern λ(t) is the histogram of postings by hour (4.3): constant within an hour. The total delay is the area
under the number of unread postings. With A(t) = ∫λ and τ_{m+1} = τ_1 + T:

    D = ∫A + A(T)·τ_1 − Σ (τ_{j+1} − τ_j)·A(τ_j)

Inside an hour it is least where λ(τ_j)(τ_{j+1} − τ_j) = ∫_{τ_{j−1}}^{τ_j} λ, the equation of Theorem 3. At the end of a
busy hour the rate drops below what the equation asks for, and that end is the best moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headwater.arrays import Bools, Floats, Rows
from headwater.errors import SettingsError
from headwater.estimate.feed_columns import Column
from headwater.estimate.models.cluster_pattern import ClusterPattern
from headwater.schedule.selection import Budget, Choice, take_best
from headwater.schedule.strategies.resource_allocation import AllocationStrategy, allocate_for_delay
from headwater.schedule.strategy import NEVER_READ, Decision, Observed, Table
from headwater.times import DAY

SEARCH_GRID = 288  # the first two times are tried every five minutes
KEPT_CHOICES = 64  # the best of them are refined
MAX_REFINED = 12  # retrievals a day beyond which the limit for very many is good enough
MAX_PLANNED_PER_DAY = 96  # retrievals a day that are planned one by one
SHAPE_TOLERANCE = 0.04  # patterns that differ in a smaller share of a day's items keep their planned times


class PostingCurve:
    """A daily pattern with its running integral, continued over all days."""

    def __init__(self, shape: Floats, period: float = DAY) -> None:
        self.period = period
        self._rates = np.asarray(shape, np.float64)
        self.width = period / len(shape)
        self._sums = np.concatenate([[0.0], np.cumsum(self._rates) * self.width])
        self.total = float(self._sums[-1])
        self._whole = float((self._sums[1:] + self._sums[:-1]).sum() / 2 * self.width)  # ∫A over one period

    def _locate(self, t: Floats) -> tuple[Rows, Rows, Floats]:
        """Return the lap and the slot that hold t, and the distance from the start of the slot."""
        place = t / self.width
        slot = np.floor(place).astype(np.intp)
        lap, inside = np.divmod(slot, len(self._rates))
        return lap, inside, (place - slot) * self.width

    def rate(self, t: Floats) -> Floats:
        return self._rates[self._locate(t)[1]]

    def integrate(self, t: Floats) -> Floats:
        """Return ∫_0^t λ, for any t."""
        lap, inside, beyond = self._locate(t)
        return np.asarray(lap * self.total + self._sums[inside] + self._rates[inside] * beyond)

    def best_between(self, low: Floats, high: Floats) -> Floats:
        """Return the best time of one retrieval between its two neighbours.

        Within a slot the delay is a parabola of the retrieval time, so every slot has one candidate: the vertex, or the
        edge nearest to it.
        """
        first = np.floor(low / self.width)
        slots = int(np.max(np.ceil(high / self.width) - first)) if low.size else 0
        edge: Floats = (first[..., None] + np.arange(slots, dtype=np.float64)) * self.width
        left = np.clip(edge, low[..., None], high[..., None])
        right = np.clip(edge + self.width, low[..., None], high[..., None])
        rate = np.maximum(self.rate(edge + self.width / 2), 1e-15)
        before = self.integrate(low)[..., None]
        vertex = (before - self.integrate(left) + rate * (left + high[..., None])) / (2 * rate)
        tried = np.clip(vertex, left, right)
        cost = -tried * before - (high[..., None] - tried) * self.integrate(tried)
        return np.take_along_axis(tried, np.argmin(cost, axis=-1)[..., None], axis=-1)[..., 0]

    def total_delay(self, times: Floats) -> Floats:
        """Return the total delay per period of each plan, one row of ascending times each."""
        ends = np.concatenate([times[:, 1:], times[:, :1] + self.period], axis=1)
        return np.asarray(self._whole + self.total * times[:, 0] - ((ends - times) * self.integrate(times)).sum(axis=1))


def search_times(curve: PostingCurve, m: int, grid: int = SEARCH_GRID) -> Floats:
    """Find the best plan by exhaustive search: every choice of the first two times, the others by Theorem 3.

    A choice is pruned as soon as its next time would lie beyond the period or where nothing is posted.
    """
    step = curve.period / grid
    points = np.arange(grid, dtype=np.float64) * step
    if m == 1:
        plans: Floats = np.linspace(0.0, curve.period, grid * 8, endpoint=False)[:, None]
    else:
        first, gap = np.meshgrid(points, points[1:], indexing="ij")
        plans = np.stack([first.ravel(), (first + gap).ravel()], axis=1)
    for _ in range(m - 2):
        last, rate = plans[:, -1], curve.rate(plans[:, -1])
        pile = curve.integrate(last) - curve.integrate(plans[:, -2])
        alive = (rate > 1e-12 * curve.total / curve.period) & (pile > 0)
        plans, last, rate, pile = plans[alive], last[alive], rate[alive], pile[alive]
        following = last + pile / rate
        alive = following < plans[:, 0] + curve.period
        plans = np.column_stack([plans[alive], following[alive]])
    if not len(plans):
        return refine_times(curve, m)
    # The equation knows no edges between hours: the best choices are moved to where the delay is least.
    best = np.argsort(curve.total_delay(plans), kind="stable")[:KEPT_CHOICES]
    return _refine(curve, plans[best])


def refine_times(curve: PostingCurve, m: int, starts: int = 4) -> Floats:
    """Find the best plan by iterative refinement, from even spacing and from the spacing that is best for large m."""
    even = np.arange(m) / m
    phase = np.arange(starts)[:, None] / (starts * m)
    return _refine(curve, np.concatenate([(even + phase) * curve.period, spread_many_times(curve, m, phase)]))


def _refine(curve: PostingCurve, plans: Floats, sweeps: int = 60) -> Floats:
    """Move every other time to where the delay between its neighbours is least, then the times between, until nothing
    moves; return the best plan."""
    m = plans.shape[1]
    # Times that are not neighbours do not affect each other; the last of an odd number is a neighbour of the first.
    points = np.arange(m)
    inner = points[: m - m % 2] if m > 1 else points
    turns = [turn for turn in (inner[::2], inner[1::2], points[len(inner) :]) if len(turn)]
    best = curve.total_delay(plans)
    for _ in range(sweeps):
        for turn in turns:
            round_ = np.concatenate([plans[:, -1:] - curve.period, plans, plans[:, :1] + curve.period], axis=1)
            plans[:, turn] = curve.best_between(round_[:, turn], round_[:, turn + 2])
        now = curve.total_delay(plans)
        if np.all(best - now < 5e-5 * now):
            break
        best = now
    return _wrap_into_period(curve, plans[np.argmin(curve.total_delay(plans))])


def spread_many_times(curve: PostingCurve, m: int, phase: Floats) -> Floats:
    """Return the best spacing for very large m: a density proportional to √λ. One row per phase."""
    t = np.linspace(0.0, curve.period, 1537)
    root = np.sqrt(np.maximum(curve.rate(t), 0.0)) + 1e-9
    share = np.concatenate([[0.0], np.cumsum((root[1:] + root[:-1]) / 2)])
    return np.interp(np.arange(m) / m + phase, share / share[-1], t)


def plan_retrieval_times(shape: Floats, m: int, *, period: float = DAY, method: str = "refine") -> Floats:
    """Return the best `m` times of the period to retrieve a feed whose postings follow `shape`, ascending.

    >>> twelve_to_one = np.zeros(24)
    >>> twelve_to_one[12] = 1.0
    >>> float(plan_retrieval_times(twelve_to_one, 1, period=24.0)[0].round(9))  # when the last posting is there
    13.0
    """
    curve = PostingCurve(shape, period)
    if curve.total <= 0 or np.ptp(np.asarray(shape)) <= 1e-12 * curve.total / period:
        return np.asarray(np.arange(m) * (period / m))
    if m > MAX_REFINED:
        return _wrap_into_period(curve, spread_many_times(curve, m, np.full((1, 1), 0.5 / m))[0])
    return search_times(curve, m) if method == "search" else refine_times(curve, m)


def _wrap_into_period(curve: PostingCurve, times: Floats) -> Floats:
    return np.sort(np.mod(times, curve.period))


class RetrievalScheduleStrategy(AllocationStrategy):
    """Gives each feed a whole number of refreshes a day, at the retrieval times of its cluster's pattern.

    Fractions carry over (column `owed`), so that in the long run a feed gets exactly its frequency: one refresh in
    three days, or three in two. A refresh that was due yesterday and did not fit the budget stays due. A feed without a
    pattern is refreshed at even intervals.
    """

    estimator: ClusterPattern

    def __init__(self, feeds: int = 0, *, estimator: ClusterPattern | None = None, method: str = "refine") -> None:
        if method not in ("refine", "search"):
            raise SettingsError(f"The method of retrieval times must be refine or search, not “{method}”.")
        self._clusters = (estimator.clusters if estimator is not None else 12) + 1
        self.method = method
        self._plans: dict[tuple[int, int], Floats] = {}
        super().__init__(feeds, estimator=estimator)

    def layout(self) -> Mapping[str, Column]:
        return {
            **super().layout(),
            "due": Column(-np.inf, dtype=np.float64),
            "owed": Column(np.nan),
            "today": Column(0, dtype=np.int16),
            "shape": Column(0, dtype=np.int16),
        }

    def shared(self) -> Mapping[str, Any]:
        return {**super().shared(), "shapes": np.full((self._clusters, 24), 1 / 24)}

    @property
    def due(self) -> Floats:
        return self._columns["due"]

    def load(self, state: Mapping[str, Any]) -> None:
        super().load(state)
        self._plans.clear()

    def plan_period(self, table: Table, now: float, rate: float) -> None:
        last_day = float(self._shared["until"])
        super().plan_period(table, now, rate)
        c, rows = self._columns, np.arange(len(table))
        day = float(np.floor(now / self.period) * self.period)
        self._shared["until"][...] = day + self.period
        self._update_shapes()
        # A day that follows a planned one is planned whole; a day begun in the middle gets only its remaining share.
        begins = day if last_day == day else now
        left = (day + self.period - begins) / self.period
        each = np.minimum(self.period / c["every"] * left, MAX_PLANNED_PER_DAY)
        # Feeds of one rate would all fall due on the same days; the time of their last refresh spreads them.
        phase = np.mod(np.where(np.isfinite(table.last), table.last, 0.0) * 0.0161803398875, 1.0)
        owed = np.where(np.isnan(c["owed"]), phase, c["owed"]) + each
        whole = np.floor(owed)
        c["owed"][:] = owed - whole
        c["today"][:] = whole
        c["shape"][:] = self.estimator.cluster(rows)
        late = np.isfinite(table.last) & (c["due"] < begins) & np.isfinite(c["due"])
        seen = rows[np.isfinite(table.last) & ~late]
        c["due"][seen] = self._find_next_planned(seen, np.full(len(seen), begins), table.last[seen])

    def _update_shapes(self) -> None:
        """Take over the day's patterns of the estimator; a pattern that hardly changed keeps its planned times."""
        planned, plans = self._shared["shapes"].copy(), self._plans
        self._plans = {}
        for k, line in enumerate(self.estimator.shapes):
            apart = np.abs(planned - line).sum(axis=1) / 2
            old = int(np.argmin(apart))
            near = apart[old] <= SHAPE_TOLERANCE
            self._shared["shapes"][k] = planned[old] if near else line
            if near:
                self._plans |= {(k, many): times for (shape, many), times in plans.items() if shape == old}

    def _find_next_planned(self, rows: Rows, after: Floats, last: Floats) -> Floats:
        """Return the first planned time of the present day from `after` on; +inf if none is left."""
        c = self._columns
        start = float(self._shared["until"]) - self.period
        due = np.where(c["shape"][rows] == 0, last + c["every"][rows], np.inf)
        code = c["shape"][rows].astype(np.intp) * (MAX_PLANNED_PER_DAY + 1) + c["today"][rows]
        for pair in np.unique(code):  # a few hundred at most, whatever the number of feeds
            shape, many = divmod(int(pair), MAX_PLANNED_PER_DAY + 1)
            if many == 0 or shape == 0:
                continue
            times = self._plan_times(shape, many)
            mine = np.flatnonzero(code == pair)
            at = np.searchsorted(times, after[mine] - start, side="left")
            due[mine] = np.where(at < many, start + times[np.minimum(at, many - 1)], np.inf)
        return due

    def _plan_times(self, shape: int, many: int) -> Floats:
        if (shape, many) not in self._plans:
            line = self._shared["shapes"][shape]
            self._plans[shape, many] = plan_retrieval_times(line, many, period=self.period, method=self.method)
        return self._plans[shape, many]

    def observe(self, table: Table, seen: Observed) -> None:
        super().observe(table, seen)
        self.due[seen.rows] = self._find_next_planned(seen.rows, seen.end + 1.0, seen.end)

    def choose(self, table: Table, now: float, budget: Budget, candidates: Bools | None = None) -> Choice:
        self.plan_if_stale(table, now, budget)
        ready = self.due <= now
        if candidates is not None:
            ready &= candidates
        rows = np.flatnonzero(ready)
        return take_best(rows, now - self.due[rows], budget)

    def explain(self, table: Table, row: int, now: float) -> Decision:
        due, many = float(self.due[row]), int(self._columns["today"][row])
        if due == -np.inf:
            return Decision(NEVER_READ, np.inf, 0.0, now)
        if due == np.inf:
            return Decision(f"planned {many} times today, all of them done", -np.inf, 0.0, None)
        if self._columns["shape"][row] == 0:
            every = float(self._columns["every"][row])
            return Decision(f"no daily pattern yet: every {every / 60:.0f} min", now - due, 0.0, due)
        wait = "now" if due <= now else f"in {(due - now) / 60:.0f} min"
        return Decision(f"planned {many} times today at the best moments of its pattern: {wait}", now - due, 0.0, due)


class Retrieval(RetrievalScheduleStrategy):
    """Refresh every feed m_i = M/n times, at the times of Theorems 2 and 3 (Sia & Cho, “retrieval scheduling only”).

    >>> Retrieval().allocate(np.array([1.0, 9.0]), np.ones(2), 4.0).tolist()
    [2.0, 2.0]
    """

    name = "retrieval"
    fair = True
    monotone = True

    def allocate(self, rates: Floats, weights: Floats, total: float) -> Floats:
        return np.full(len(rates), total / max(len(rates), 1))


class Combined(RetrievalScheduleStrategy):
    """Refresh m_i = k·√(w_i·λ_i) times, at the times of Theorems 2 and 3 (Sia & Cho, “combined”).

    >>> Combined().allocate(np.array([1.0, 9.0]), np.ones(2), 4.0).tolist()
    [1.0, 3.0]
    """

    name = "combined"
    fair = True
    monotone = True

    def allocate(self, rates: Floats, weights: Floats, total: float) -> Floats:
        return allocate_for_delay(rates, weights, total)
