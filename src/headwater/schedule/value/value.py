"""Refreshes a feed when that is worth the price; the default strategy of the server.

A refresh has two benefits: the items it brings stop waiting, and fewer are pushed out of the window unread. An item-day
of waiting costs `delay` × weight × selectivity, a lost item costs `loss` such days, and `freshness` adds a cost for
every feed's missing share of the window. A refresh costs the price ν × the feed's cost. The resulting rule is “refresh
when T·G′(T) − G(T) reaches ν”. `refresh_plan` improves on that interval by choosing the best time on the forecast of
`bayes`. `price` steers ν so that the budget is spent, unless ν is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from headwater.arrays import Bools, Floats, Rows
from headwater.estimate.models.bayes import Bayes, integrate_forecast
from headwater.schedule.selection import Budget, Choice
from headwater.schedule.strategies.ranking import map_blocks
from headwater.schedule.strategy import NEVER_READ, Decision, IntervalStrategy, Observed, Table
from headwater.schedule.value.price import PriceControl, price_for_budget, steer_price
from headwater.schedule.value.refresh_plan import PlanTask, expect_overflow, plan_next_refresh
from headwater.schedule.weights import chance_window_shows_wanted
from headwater.times import DAY, format_duration, format_number

SHORTEST, LONGEST = 120.0, 31 * DAY
FIRST_PRICE = 0.1  # item-days, until the first steering


class Value(IntervalStrategy):
    """Refresh where T·Λ(T) − ∫Λ + 3 d·(T·L′(T) − L(T)) ≥ ν, at the best time of the plan (ours; docs/value.md).

    `price` fixes ν (in item-days) instead of steering it; `plan=False` uses the interval of the index as it is. The
    objective has three weights: `delay` (cost of an item-day of waiting), `loss` (cost of a lost item, in item-days)
    and `freshness` (cost of a day of a wholly missing window, shared by the items of the window). `fast` compiles the
    loops, which pays off for thousands of refreshes at a time, as in the lab; the results are the same.

    >>> one, table = np.ones(1), Table.of(1, window=20.0)
    >>> strategy = Value(1, price=0.5, estimator=Bayes(shaped=False))
    >>> for day in range(90):  # one item a day: T = √(2ν/λ) = 1 day
    ...     strategy.observe(table, Observed(np.array([0]), day * DAY * one, (day + 1) * DAY * one, one, one, one > 1))
    >>> round(float(strategy.due[0]) / DAY - 90, 1)
    1.0
    """

    name = "value"
    steering = 3600.0
    shortest = SHORTEST
    longest = LONGEST

    def __init__(
        self,
        feeds: int = 0,
        *,
        scale: float = 1.0,
        estimator: Bayes | None = None,
        price: float | None = None,
        plan: bool = True,
        delay: float = 1.0,
        loss: float = 3.0,
        freshness: float = 0.0,
        dispersion: float = 6.0,
        fast: bool = False,
    ) -> None:
        self._fixed, self.fast = price, fast
        self.plan, self.delay, self.loss, self.freshness, self.dispersion = plan, delay, loss, freshness, dispersion
        super().__init__(feeds, scale=scale)
        self.beliefs: Bayes = self.adopt("estimator", estimator if estimator is not None else Bayes(fast=fast))
        self.estimator = self.beliefs
        if price is not None:
            self._shared["price"][...] = price
            self.steering = DAY / 4  # nothing to steer; the lab handles the feeds of a quarter of a day together

    def shared(self) -> Mapping[str, Any]:
        return {"price": FIRST_PRICE, "control": np.zeros(3), "steered": -np.inf, "spent": 0.0}

    @property
    def price(self) -> float:
        """ν: the least worth of a refresh, in item-days."""
        return float(self._shared["price"])

    def next_interval(self, table: Table, seen: Observed) -> Floats:
        self.beliefs.observe(seen.rows, seen.start, seen.end, seen.new, seen.saturated, seen.published)
        self._shared["spent"] += float(table.cost[seen.rows].sum())
        return self._compute_pause(table, seen.rows)

    def _compute_pause(self, table: Table, rows: Rows) -> Floats:
        """Return the seconds from the last refresh of each row to its next."""
        if not self.plan:
            return self._interval_by_index(table, rows)
        return DAY * plan_next_refresh(self._build_task(table, rows), self.fast)

    def value_item_days(self, table: Table, rows: Rows) -> Floats:
        """Return the cost of an item-day of waiting at each feed; never 0, so that no feed is forgotten."""
        wanted = self.delay * table.weight[rows] * table.selectivity[rows]
        if not self.freshness:
            return np.maximum(wanted, 1e-6)
        window = np.maximum(table.window[rows], 1.0)
        shown = self.freshness * chance_window_shows_wanted(table.selectivity[rows], window) / window
        return np.maximum(wanted + shown, 1e-6)

    def _build_task(self, table: Table, rows: Rows) -> PlanTask:
        forecast = self.beliefs.forecast(rows)
        worth = self.value_item_days(table, rows)
        price = self.price * table.cost[rows]
        window = np.maximum(table.window[rows], 1.0)
        rate = np.maximum(forecast.base + 0.5 * np.maximum(forecast.parts, 0.0).sum(1), 1e-6)
        usual = np.minimum(np.sqrt(2 * price / (worth * rate)), 0.5 * window / rate + 0.02)
        return PlanTask(
            forecast.now,
            forecast.clocks,
            forecast.base,
            forecast.parts,
            forecast.scales,
            worth,
            self.loss * table.weight[rows] * table.selectivity[rows],
            price,
            window,
            np.clip(usual, SHORTEST / DAY, LONGEST / DAY),
            self.dispersion,
        )

    def _interval_by_index(self, table: Table, rows: Rows) -> Floats:
        """Return the interval, in seconds, at which the index reaches the price; used without a plan."""
        task = self._build_task(table, rows)
        low, high = np.full(len(rows), SHORTEST / DAY), np.full(len(rows), LONGEST / DAY)
        forecast = self.beliefs.forecast(rows)
        for _ in range(24):
            middle = np.sqrt(low * high)
            enough = self._compute_index(task, integrate_forecast(forecast, middle), middle) >= task.price
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return np.asarray(high * DAY)

    def _compute_index(self, task: PlanTask, items: Floats, age: Floats) -> Floats:
        """Return ν(T): half of age × items for the waiting, plus T·dL/dT − L for the loss L.

        The derivative is a difference over a tenth.
        """
        lost = expect_overflow(items, task.window, self.dispersion)
        soon = expect_overflow(items * 1.1, task.window, self.dispersion)
        return np.asarray(task.worth * items * age / 2 + task.loss * np.maximum((soon - lost) * 10 - lost, 0.0))

    def steer(self, table: Table, now: float, budget: Budget) -> None:
        """Set the price from the forecasts and from the requests spent."""
        last = float(self._shared["steered"])
        if now < last + self.steering:
            return
        if self._fixed is not None or budget.rate <= 0:
            return
        known = np.flatnonzero(np.isfinite(table.last))
        if 2 * len(known) < len(table) or not len(known):
            return  # too early for a price; try again at the next call, not in an hour
        self._shared["steered"] = np.array(now)
        spent = float(self._shared["spent"])
        self._shared["spent"] = np.array(0.0)
        per_day = budget.rate * DAY
        control = PriceControl(*self._shared["control"].tolist())
        if np.isfinite(last):
            control = steer_price(control, spent, (now - last) / DAY, per_day)
        self._shared["control"] = np.array([control.correction, control.spent, control.weight])
        worth = self.value_item_days(table, known) * self.beliefs.slow_rate(known)
        before, share = self.price, per_day * len(known) / len(table)
        self._shared["price"] = np.array(price_for_budget(worth, table.cost[known], share) * np.exp(control.correction))
        if not before / 2 < self.price < before * 2:
            self._replan(table, known)

    def _replan(self, table: Table, rows: Rows) -> None:
        """Plan again after the price has changed much (at the start, or after a change of the budget)."""
        rows = rows[np.isfinite(self.due[rows])]
        pause = map_blocks(lambda part: self._compute_pause(table, part), rows)
        self.due[rows] = table.last[rows] + np.clip(pause * self.scale, SHORTEST, LONGEST)

    def apply_signals(self, table: Table, rows: Rows, waiting: Floats, now: float) -> None:
        """Bring feeds forward for which a signal (a ping, a count) reports `waiting` items.

        More items come at rate λ. At the best interval √(2ν/λ) there are √(2λν) items to fetch. The best pause before
        fetching them together is therefore (√(2λν) − waiting)/λ, and none if that many are waiting already.
        """
        price = self.price * table.cost[rows] / self.value_item_days(table, rows)
        rate = np.maximum(self.beliefs.slow_rate(rows), 1e-9)
        pause = np.maximum(np.sqrt(2 * rate * price) - waiting, 0.0) / rate
        self.due[rows] = np.minimum(self.due[rows], now + pause * DAY)

    def choose(self, table: Table, now: float, budget: Budget, candidates: Bools | None = None) -> Choice:
        self.steer(table, now, budget)
        signalled = np.flatnonzero(table.divergence[: len(self)] > 0)
        if len(signalled):
            self.apply_signals(table, signalled, table.divergence[signalled], now)
        return super().choose(table, now, budget, candidates)

    def explain(self, table: Table, row: int, now: float) -> Decision:
        return self._explain_rows(table, np.array([row]), now)[0]

    def why(self, table: Table, row: int, now: float) -> str:
        return self.explain(table, row, now).reason

    def reasons(self, table: Table, rows: Rows, now: float) -> list[str]:
        return [decision.reason for decision in self._explain_rows(table, rows, now)]

    def _explain_rows(self, table: Table, rows: Rows, now: float) -> list[Decision]:
        known = np.isfinite(table.last[rows])
        decisions = self._explain_known(table, rows[known], now) if known.any() else iter(())
        new = Decision(NEVER_READ, np.inf, self.price, now)
        return [next(decisions) if is_known else new for is_known in known.tolist()]

    def _explain_known(self, table: Table, rows: Rows, now: float) -> Iterator[Decision]:
        at, since, price = np.full(len(rows), now), table.last[rows], self.price
        task = self._build_task(table, rows)
        expected = self.beliefs.expected(rows, since, at)
        spread = np.sqrt(self.dispersion * np.maximum(expected, 1e-9))
        figures = (
            self.beliefs.rate(rows, at) * DAY,
            expected,
            1 / (1 + np.exp(-1.702 * np.clip((expected - task.window) / spread, -20, 20))),
            self._compute_index(task, expected, (now - since) / DAY),
            np.maximum(self.due[rows], now),
        )
        for rate, items, lost, worth, due in np.stack(figures, axis=1).tolist():
            wait = "now" if due <= now else f"in {format_duration(due - now)}"
            reason = (
                f"publishes about {format_number(rate)} items a day at this hour; {format_number(items)} new expected, "
                f"chance of loss {lost:.1%}; a refresh is worth {format_number(worth)} item-days now, "
                f"the price is {format_number(price)}; "
                f"planned {wait}"
            )
            yield Decision(reason, worth, price, due)
