"""Refreshes a feed when that is worth the price; the default strategy of the server.

A refresh has two benefits: the items it brings stop waiting, and fewer are pushed out of the window unread. An item-day
of waiting costs `delay` × weight × selectivity, a lost item costs `loss` such days, and `freshness` adds a cost for
every feed's missing share of the window. A refresh costs the price ν × the feed's cost. The resulting rule is “refresh
when T·G′(T) − G(T) reaches ν”. `promise.plan` solves the prices at which the budget is spent, hosts keep their pace and
our own thrift holds; `refresh_plan` chooses the best moment at that price on the forecast of `bayes`, or of its
learned correction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from headwater.arrays import Bools, Floats, Rows
from headwater.estimate.feed_columns import Column
from headwater.estimate.learned.forecast_record import ForecastRecord
from headwater.estimate.models.bayes import Bayes, RateForecast, integrate_forecast
from headwater.estimate.models.learned_forecast import LearnedForecast
from headwater.schedule.plan_facts import RESERVE, Beliefs, Constraints
from headwater.schedule.politeness.rules import Reason
from headwater.schedule.promise import (
    Plan,
    PlanInputs,
    PriceCurves,
    follow_plan,
    follow_prices,
)
from headwater.schedule.quality.loss_forecast import forecast_loss
from headwater.schedule.quality.overflow import compute_curves
from headwater.schedule.selection import Budget, Choice, take_best
from headwater.schedule.strategy import NEVER_READ, Decision, IntervalStrategy, Observed, Table
from headwater.schedule.value.feed_habits import FeedHabits
from headwater.schedule.value.objective import Objective
from headwater.schedule.value.plan_calibration import PlanCalibration
from headwater.schedule.value.refresh_plan import (
    STEPS,
    USUAL_STEPS,
    PlanTask,
    bound_interval,
    expect_overflow,
    measure_saving,
    plan_next_refresh,
)
from headwater.schedule.weights import chance_window_shows_wanted
from headwater.times import DAY, HOUR, MINUTE, describe_waiting, format_duration, format_number

SHORTEST, LONGEST = 120.0, 31 * DAY
FIRST_PRICE = 0.1  # item-days, until the first plan
SOLVE_SECONDS = 600.0  # between two plans of a server if nothing has changed
RUSH_SECONDS = 15.0  # between two plans while the budget moves or feeds are being added
SAMPLE = 4000  # feeds that a plan looks at; more are represented by them
MOVED = 0.05  # share by which the budget must move to plan anew, and a price before planned pauses follow it
RECORDED = 200  # feeds by which the gain of the learned forecast is measured
LONGEST_PAUSE = 3.0  # intervals of the plan; the forecast chooses the moment within them
RANKED = 1000  # overdue feeds whose worth is computed exactly; of more, the best by waiting alone


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
    version = 2
    steering = 3 * HOUR  # in the lab; a server plans more often, since it changes
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
        self.objective = Objective(loss, freshness, delay)
        self.reserve = RESERVE  # item-days that a refresh must save; 0 where a wanted quality sets the budget
        self.current: Plan | None = None  # the latest plan, of the feeds `planned`
        self.planned: Rows = np.empty(0, np.intp)
        self._solved_at, self._solved_rate, self._solved_known = -np.inf, 0.0, 0
        self._host_of: Rows = np.empty(0, np.intp)
        self.plan, self.delay, self.loss, self.freshness, self.dispersion = plan, delay, loss, freshness, dispersion
        super().__init__(feeds, scale=scale)
        self.beliefs: Bayes = self.adopt("estimator", Bayes() if estimator is None else estimator)
        self.beliefs.fast |= fast
        self.estimator = self.beliefs
        self.habits: FeedHabits = self.adopt("habits", FeedHabits())
        self.calibration: PlanCalibration = self.adopt("calibration", PlanCalibration())
        if price is not None:
            self._shared["price"][...] = price
            self.steering = DAY / 4  # nothing to plan; the lab handles the feeds of a quarter of a day together

    def layout(self) -> dict[str, Column]:
        return {
            **super().layout(),
            "paid": Column(np.nan),  # the price at which the next refresh was planned, in item-days
            "gain": Column(0.0),  # worth of waiting a day, half of it, by cost
        }

    def shared(self) -> Mapping[str, Any]:
        return {"price": FIRST_PRICE}

    @property
    def price(self) -> float:
        """ν: the least worth of a refresh, in item-days."""
        return float(self._shared["price"])

    def next_interval(self, table: Table, seen: Observed) -> Floats:
        rows = seen.rows
        self.beliefs.observe(rows, seen.start, seen.end, seen.new, seen.saturated, seen.published)
        if self._fixed is None:
            polls, away, factor = self.habits.polls(rows), self.habits.is_away(rows), self.habits.lost_factor(rows)
            held = np.isfinite(seen.start) & (table.open[rows] < 1)  # skipped hours may have lengthened the pause
            planned = np.subtract(self.due[rows], seen.start, out=np.full(len(rows), np.inf), where=held)
            waits = self.habits.expect_waits(seen)
            self.calibration.observe(seen, polls, away, factor, np.maximum(planned, self.shortest), waits)
            own = self.beliefs.measure_own_time(rows, seen.start, seen.end)
            self.habits.observe(seen, self.beliefs.slow_rate(rows), own)
        price = self._price_refresh(table, rows)
        self._columns["paid"][rows] = price
        self._columns["gain"][rows] = self._gain(table, rows)
        pause = np.minimum(self._compute_pause(table, rows, price), self._find_longest_pause(table, rows, price))
        return np.minimum(pause, table.at_most[rows])

    def _find_longest_pause(self, table: Table, rows: Rows, price: Floats) -> Floats:
        """Return the longest pause in seconds that the plan's beliefs allow, a few of its intervals.

        A forecast may believe a feed of rare batches dead. The plan counts its items, and promises by them.
        """
        if self._fixed is not None or self.current is None:
            return np.full(len(rows), np.inf)
        beliefs = self.believe(table, rows)
        curves = PriceCurves.of(beliefs, compute_curves(beliefs.window, beliefs.burst), self.objective)
        return LONGEST_PAUSE * curves.interval(price)

    def observe_failures(self, table: Table, rows: Rows, at: Floats, failures: Rows) -> None:
        self.habits.observe_failures(rows, failures)

    def _price_refresh(self, table: Table, rows: Rows) -> Floats:
        """Return the price of a refresh of each row: the greatest of ν, its host's price and the reserve of thrift."""
        if self._fixed is not None or self.current is None:
            return self.price * table.cost[rows]
        made = self.current
        host = self._host_of[rows] if len(self._host_of) > int(rows.max(initial=-1)) else np.zeros(len(rows), np.intp)
        of_host = made.host_price[np.minimum(host, len(made.host_price) - 1)] if len(made.host_price) else 0.0
        return np.asarray(
            table.cost[rows] * np.maximum(np.maximum(made.price, of_host), self.reserve * table.heavy[rows])
        )

    def _gain(self, table: Table, rows: Rows) -> Floats:
        return np.asarray(0.5 * self.value_item_days(table, rows) * self.mean_rate(rows) / table.cost[rows])

    def mean_rate(self, rows: Rows) -> Floats:
        """Return the items per day that each feed publishes on average over its days."""
        return self.habits.rate(rows) if self._fixed is None else self.beliefs.slow_rate(rows)

    def _compute_pause(self, table: Table, rows: Rows, price: Floats) -> Floats:
        """Return the seconds from the last refresh of each row to its next."""
        if not self.plan:
            return self._interval_by_index(table, rows, price)
        return DAY * plan_next_refresh(self._build_task(table, rows, price), self.fast)

    def value_item_days(self, table: Table, rows: Rows) -> Floats:
        """Return the cost of an item-day of waiting at each feed; never 0, so that no feed is forgotten."""
        wanted = self.delay * table.weight[rows] * table.selectivity[rows]
        if not self.freshness:
            return np.maximum(wanted, 1e-6)
        window = np.maximum(table.window[rows], 1.0)
        shown = self.freshness * chance_window_shows_wanted(table.selectivity[rows], window) / window
        return np.maximum(wanted + shown, 1e-6)

    def _build_task(self, table: Table, rows: Rows, price: Floats) -> PlanTask:
        forecast = self.beliefs.forecast(rows)
        usual = self._find_usual_interval(table, rows, price, forecast)
        return self._make_task(
            table, rows, price, usual, self.beliefs.expect_steps(rows, forecast, usual / USUAL_STEPS, STEPS)
        )

    def _find_usual_interval(self, table: Table, rows: Rows, price: Floats, forecast: RateForecast) -> Floats:
        """Return the days at which the mean rate of each row reaches the price, or that politeness asks for."""
        window = np.maximum(table.window[rows], 1.0)
        rate = np.maximum(forecast.base + 0.5 * np.maximum(forecast.parts, 0.0).sum(1), 1e-6)
        usual = np.sqrt(2 * price / (self.value_item_days(table, rows) * rate))
        least = np.maximum(table.pause[rows], SHORTEST) / DAY
        return np.asarray(np.clip(np.minimum(usual, bound_interval(window, rate)), least, LONGEST / DAY))

    def _make_task(self, table: Table, rows: Rows, price: Floats, usual: Floats, items: Floats) -> PlanTask:
        return PlanTask(
            items,
            self.value_item_days(table, rows),
            self._value_items(table, rows),
            price,
            np.maximum(table.window[rows], 1.0),
            usual,
            self.dispersion,
        )

    def record_forecast(self, table: Table) -> ForecastRecord | None:
        """Return how well the learned forecast has predicted, and the waiting it saves now; None without one."""
        if not isinstance(self.beliefs, LearnedForecast):
            return None
        record = self.beliefs.record()
        known = np.flatnonzero(np.isfinite(table.last) & table.active)
        if not len(known):
            return record
        rows, _ = self.sample(table, known, RECORDED)
        price = self._price_refresh(table, rows)
        rows, price = rows[price > 0], price[price > 0]
        if not len(rows):  # refreshes are free: there is nothing to choose
            return record
        forecast = self.beliefs.forecast(rows)
        usual = self._find_usual_interval(table, rows, price, forecast)
        corrected, plain = self.beliefs.compare_steps(rows, forecast, usual / USUAL_STEPS)
        saving = measure_saving(self._make_task(table, rows, price, usual, corrected), plain)
        return replace(record, saving=saving)

    def _interval_by_index(self, table: Table, rows: Rows, price: Floats) -> Floats:
        """Return the interval, in seconds, at which the index reaches the price; used without a plan."""
        low, high = np.full(len(rows), SHORTEST / DAY), np.full(len(rows), LONGEST / DAY)
        forecast = self.beliefs.forecast(rows)
        for _ in range(24):
            middle = np.sqrt(low * high)
            enough = self._compute_index(table, rows, integrate_forecast(forecast, middle), middle) >= price
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return np.asarray(high * DAY)

    def _compute_index(self, table: Table, rows: Rows, items: Floats, age: Floats) -> Floats:
        """Return ν(T): half of age × items for the waiting, plus T·dL/dT − L for the loss L.

        The derivative is a difference over a tenth.
        """
        window, worth = np.maximum(table.window[rows], 1.0), self.value_item_days(table, rows)
        lost = expect_overflow(items, window, self.dispersion)
        soon = expect_overflow(items * 1.1, window, self.dispersion)
        return np.asarray(
            worth * items * age / 2 + self._value_items(table, rows) * np.maximum((soon - lost) * 10 - lost, 0.0)
        )

    def _value_items(self, table: Table, rows: Rows) -> Floats:
        """Return the cost of a lost item at each feed."""
        return np.asarray(self.loss * table.weight[rows] * table.selectivity[rows])

    # the plan

    @property
    def has_price(self) -> bool:
        """Whether the price is fixed or a plan has solved it, also before a restart."""
        return self._fixed is not None or self.price != FIRST_PRICE

    def note_change(self) -> None:
        self._solved_at = -np.inf

    def steer(self, table: Table, now: float, budget: Budget) -> None:
        """Plan anew: solve the prices for the budget, and let planned pauses follow them."""
        if self._fixed is not None or budget.rate <= 0:
            return
        known = np.flatnonzero(np.isfinite(table.last) & table.active)
        if not len(known):
            return
        self._host_of = np.arange(len(table)) if budget.host is None else budget.host
        rows, many = self.sample(table, known)
        made = self.gather_inputs(table, rows, many, budget.pace).plan_for(budget.rate * MINUTE)
        self.current, self.planned = made, rows
        self._shared["price"] = np.array(made.price)
        self._solved_at, self._solved_rate, self._solved_known = now, budget.rate, len(known)
        if len(rows) == len(known):
            self._follow_prices(table, rows, made)
        else:
            self._follow_price_roughly(table, known)
        self._columns["gain"][known] = self._gain(table, known)
        pause = np.maximum(self.due[rows] - table.last[rows], table.pause[rows])
        self.calibration.note_plan(rows, made, pause, now)

    def gather_inputs(self, table: Table, rows: Rows, many: Floats, pace: Floats | None) -> PlanInputs:
        """Return the inputs of a plan for some feeds, each standing for `many`.

        `pace` limits the requests per minute of each host. Feeds that stand for others cannot show how full a host is.
        """
        return PlanInputs(
            self.believe(table, rows, many),
            self.constrain(table, rows, pace if (many == 1).all() else None),
            self.objective,
            self.calibration.build(rows, self.habits.lost_factor(rows)),
        )

    def believe(self, table: Table, rows: Rows, many: Floats | float = 1.0) -> Beliefs:
        """Return the beliefs in some feeds, each standing for `many`."""
        habits = self.habits
        return Beliefs(
            rate=habits.rate(rows),
            sure=habits.evidence(rows),
            burst=habits.burst(rows),
            window=np.maximum(table.window[rows], 1.0),
            worth=table.weight[rows] * table.selectivity[rows],
            wanted=table.selectivity[rows],
            cost=table.cost[rows],
            heavy=table.heavy[rows],
            fail=habits.fail(rows),
            closed=table.closed[rows],
            many=np.broadcast_to(np.asarray(many, np.float64), len(rows)),
        )

    def constrain(self, table: Table, rows: Rows, pace: Floats | None = None) -> Constraints:
        """Return the constraints of some feeds; `pace` limits the requests per minute of each host."""
        host = self._host_of[rows] if len(self._host_of) > int(rows.max(initial=-1)) else np.arange(len(rows))
        hosts = int(host.max(initial=0)) + 1
        limits = np.full(hosts, np.inf)
        if pace is not None:
            limits[: len(pace)] = pace[:hosts]
        return Constraints(
            earliest=np.maximum(table.pause[rows], self.shortest),
            reason=np.where(table.pause[rows] > self.shortest, table.reason[rows], Reason.LEAST).astype(np.int8),
            at_most=table.at_most[rows],
            pushed=table.pushed[rows],
            active=table.active[rows],
            away=self.habits.is_away(rows),
            open=table.open[rows],
            host=host,
            pace=limits,
            reserve=self.reserve,
        )

    def predict(self, table: Table, rows: Rows) -> Plan | None:
        """Return the intervals and results of some feeds at the current prices; None before the first plan."""
        if self.current is None:
            return None
        constraints = self.constrain(table, rows)
        made = self.current
        short = int(constraints.host.max(initial=0)) + 1 - len(made.host_price)
        if short > 0:
            made = replace(made, host_price=np.append(made.host_price, np.zeros(short)))
        calibration = self.calibration.build(rows, self.habits.lost_factor(rows))
        return follow_plan(made, self.believe(table, rows), constraints, self.objective, calibration)

    def predict_saved(self, table: Table, row: int, budget: float) -> Plan | None:
        """Return the plan of one feed at the prices it was last planned with; None before its first plan.

        It needs only the saved state, so that any process can explain a feed.
        """
        paid = float(self._columns["paid"][row])
        if not np.isfinite(paid) or not self.has_price:
            return None
        rows, price = np.array([row], np.intp), self.price
        paid /= float(table.cost[row])
        of_host = paid if paid > 1.1 * max(price, self.reserve * float(table.heavy[row])) else 0.0
        beliefs, constraints = self.believe(table, rows), Constraints.of(1)
        constraints = replace(
            constraints,
            earliest=np.maximum(table.pause[rows], self.shortest),
            reason=np.where(table.pause[rows] > self.shortest, table.reason[rows], Reason.LEAST).astype(np.int8),
            at_most=table.at_most[rows],
            pushed=table.pushed[rows],
            active=table.active[rows],
            away=self.habits.is_away(rows),
            reserve=self.reserve,
        )
        calibration = self.calibration.build(rows, self.habits.lost_factor(rows))
        return follow_prices(beliefs, constraints, price, np.array([of_host]), budget, self.objective, calibration)

    def sample(self, table: Table, known: Rows, most: int = SAMPLE) -> tuple[Rows, Floats]:
        """Return the feeds that a plan looks at, and how many each stands for: evenly by worth × rate."""
        if len(known) <= most:
            return known, np.ones(len(known))
        by_worth = known[np.argsort(self._columns["gain"][known], kind="stable")]
        many = len(known) / most
        rows = np.sort(by_worth[((np.arange(most) + 0.5) * many).astype(np.intp)])
        return rows, np.full(most, many)

    def _follow_prices(self, table: Table, rows: Rows, made: Plan) -> None:
        """Scale pauses that were planned at another price, bound them by the plan's intervals, and keep deadlines."""
        due, paid = self.due[rows], self._columns["paid"][rows].astype(np.float64)
        moved = np.isfinite(due) & ~(np.abs(made.asked / paid - 1) <= MOVED)
        if moved.any():
            part = rows[moved]
            beliefs = self.believe(table, part)
            curves = PriceCurves.of(beliefs, compute_curves(beliefs.window, beliefs.burst), self.objective)
            before = np.where(np.isfinite(paid[moved]), paid[moved], FIRST_PRICE)
            # Intervals as they can be: a pause that was cut short at two minutes must not be stretched from there.
            least = np.maximum(table.pause[part], self.shortest)
            scale = np.clip(curves.interval(made.asked[moved]), least, self.longest) / np.clip(
                curves.interval(before), least, self.longest
            )
            pause = self._stretch_pause(table, part, due[moved] - table.last[part], scale)
            self.due[part] = table.last[part] + np.clip(pause, least, self.longest)
            self._columns["paid"][part] = made.asked[moved]
        # A pause planned before there was a price, or by a forecast that has given the feed up, can be many intervals.
        self.due[rows] = np.minimum(self.due[rows], table.last[rows] + LONGEST_PAUSE * made.free)
        wanted = np.flatnonzero(np.isfinite(table.at_most[rows]) & np.isfinite(self.due[rows]))
        part = rows[wanted]
        self.due[part] = np.minimum(self.due[part], table.last[part] + made.interval[wanted])

    def _stretch_pause(self, table: Table, rows: Rows, pause: Floats, scale: Floats) -> Floats:
        """Return planned pauses in seconds, scaled, but none stretched beyond half a window.

        Scaling knows only mean rates. A busy hour would fill the window of a feed that is left alone for longer.
        """
        rate = np.maximum(self.beliefs.slow_rate(rows), 1e-6)
        safe = DAY * bound_interval(np.maximum(table.window[rows], 1.0), rate)
        return np.where(scale > 1, np.maximum(pause, np.minimum(pause * scale, safe)), pause * scale)

    def _follow_price_roughly(self, table: Table, rows: Rows) -> None:
        """Scale the pauses of many feeds: where waiting decides, T grows as the root of the price."""
        asked = self._price_refresh(table, rows)
        paid = self._columns["paid"][rows].astype(np.float64)
        paid = np.where(np.isfinite(paid), paid, FIRST_PRICE)
        moved = np.flatnonzero(np.isfinite(self.due[rows]) & (np.abs(asked / paid - 1) > MOVED))
        part = rows[moved]
        after, before = (self._estimate_intervals(table, part, one[moved]) for one in (asked, paid))
        pause = self._stretch_pause(table, part, self.due[part] - table.last[part], after / before)
        pause = np.minimum(pause, LONGEST_PAUSE * after)
        self.due[part] = table.last[part] + np.minimum(np.clip(pause, self.shortest, self.longest), table.at_most[part])
        self._columns["paid"][part] = asked[moved]

    def estimate_intervals(self, table: Table, rows: Rows) -> Floats:
        """Return about the seconds between two refreshes of each feed at the present prices, without a deadline."""
        return np.maximum(
            self._estimate_intervals(table, rows, self._price_refresh(table, rows)),
            table.pause[rows],
        )

    def _estimate_intervals(self, table: Table, rows: Rows, price: Floats) -> Floats:
        """Return T = √(price / gain), within what is possible."""
        gain = np.maximum(self._columns["gain"][rows].astype(np.float64) * table.cost[rows], 1e-12)
        return np.asarray(np.clip(np.sqrt(price / gain) * DAY, self.shortest, self.longest))

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
        if self._is_plan_old(table, now, budget):
            self.steer(table, now, budget)
        signalled = np.flatnonzero(table.divergence[: len(self)] > 0)
        if len(signalled):
            self.apply_signals(table, signalled, table.divergence[signalled], now)
        ready = self.due <= now
        if candidates is not None:
            ready &= candidates
        rows = np.flatnonzero(ready)
        choice = self._take_most_valuable(table, rows, now, budget)
        if self._fixed is None and budget.now > 0:
            late = now - np.maximum(self.due[choice.rows], table.last[choice.rows] + table.pause[choice.rows])
            self.calibration.note_choice(late, budget.now - len(choice.rows), now)
        return choice

    def _is_plan_old(self, table: Table, now: float, budget: Budget) -> bool:
        """Whether it is time to plan: after ten minutes, or a while after the budget moved or a tenth more feeds came.

        Where bytes or parallel fetches limit the budget, it moves a little with every fetch.
        """
        if now >= self._solved_at + SOLVE_SECONDS:
            return True
        if now < self._solved_at + RUSH_SECONDS:
            return False
        moved = abs(budget.rate - self._solved_rate) > MOVED * self._solved_rate
        return moved or bool(np.isfinite(table.last).sum() > 1.1 * self._solved_known)

    def _take_most_valuable(self, table: Table, rows: Rows, now: float, budget: Budget) -> Choice:
        """Return the due feeds whose refresh is worth most now by its cost; those with a deadline come first."""
        last = table.last[rows]
        age = np.where(np.isfinite(last), now - last, 0.0) / DAY
        waiting = np.where(np.isfinite(last), self._columns["gain"][rows] * age**2, np.inf)
        urgent = np.isfinite(table.at_most[rows])
        worth = np.where(urgent, 1e12 + np.minimum(now - self.due[rows], 1e9), waiting)
        if len(rows) <= max(budget.now, 0):
            return take_best(rows, worth, budget)
        some = np.arange(len(rows))
        if len(rows) > max(RANKED, 4 * budget.now):
            some = np.sort(np.argpartition(-worth, max(RANKED, 4 * budget.now) - 1)[: max(RANKED, 4 * budget.now)])
        known = some[np.isfinite(waiting[some]) & ~urgent[some]]
        if len(known) and self._fixed is None:
            beliefs = self.believe(table, rows[known])
            curves = PriceCurves.of(beliefs, compute_curves(beliefs.window, beliefs.burst), self.objective)
            worth[known] = curves.worth(now - table.last[rows[known]]) / beliefs.cost
        return take_best(rows[some], worth[some], budget)

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
        """Explain some rows. Nothing is forecast anew: that would keep other bins to learn from than the lab keeps."""
        at, since = np.full(len(rows), now), table.last[rows]
        spans = np.append(since, at), np.append(at, at + MINUTE)  # since the last refresh, and in the next minute
        expected, soon = self.beliefs.expected(np.tile(rows, 2), *spans).reshape(2, -1)
        chance = forecast_loss(expected, table.window[rows], self.habits.burst(rows)).chance
        figures = (
            soon * (DAY / MINUTE),
            expected,
            chance,
            self._compute_index(table, rows, expected, (now - since) / DAY),
            np.maximum(self.due[rows], now),
            self._price_refresh(table, rows),
        )
        for rate, items, lost, worth, due, price in np.stack(figures, axis=1).tolist():
            wait = "now" if due <= now else f"in {format_duration(due - now)}"
            risk = f", chance of loss {100 * lost:.0f} %" if lost >= 0.01 else ""
            reason = (
                f"publishes about {format_number(rate)} items a day at this hour; {format_number(items)} new expected"
                f"{risk}; a refresh saves {describe_waiting(worth)} of waiting now, the price is "
                f"{describe_waiting(price)}; planned {wait}"
            )
            yield Decision(reason, worth, price, due)
