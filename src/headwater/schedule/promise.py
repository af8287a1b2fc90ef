"""Plans when each feed is refreshed, and says what that brings: the one model of budget and quality.

`plan` is pure and has one row per feed. The scheduler obeys its intervals; what-if, targets, explanations and health
quote its predictions. A refresh after T days is worth

    V(T) = worth · λT²/2 + loss · h(λT)        h: the index of loss (`quality.overflow`)

item-days, and each feed is refreshed when that reaches its price: the greatest of the price ν at which the budget is
spent, the price at which its host's pace is kept, and the reserve price of our own thrift. A deadline (a TARGET, a
person's interval) shortens the interval; politeness comes last and always wins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Bools, Floats, Rows
from headwater.schedule.plan_facts import UNCALIBRATED, Beliefs, Calibration, Constraints
from headwater.schedule.politeness.rules import BACK_OFF, MIN_INTERVAL, SAFETY_POLL, Reason
from headwater.schedule.quality.overflow import (
    DISPERSIONS,
    MEANS,
    OverflowCurves,
    compute_curves,
    measure_doubt_of_laws,
)
from headwater.schedule.value.objective import Objective
from headwater.schedule.weights import chance_window_shows_wanted
from headwater.times import DAY, MINUTE

LONGEST = 31 * DAY
UNLIMITED = 1e12  # requests per minute
MODEL_DOUBT = 0.08  # standard deviation of a predicted delay, as a share, that no data removes
LEAST_EVIDENCE = 0.5  # batches' worth of evidence behind any rate
_LOWEST, _HIGHEST = -14.0, 20.0  # logarithms of the prices (item-days) between which ν is searched
_ROUNDS = 24


class Why(IntEnum):
    """The constraint that sets a feed's interval; `Plan.binding` has one per feed."""

    BUDGET = 0
    THRIFT = 1
    HOST = 2
    DEADLINE = 3
    SERVER = 4
    LEAST = 5
    LONGEST = 6
    PUSHED = 7
    AWAY = 8
    INACTIVE = 9


@dataclass(frozen=True, slots=True)
class Promise:
    """The quality predicted for some feeds, each figure with its standard deviation over a day; delay in seconds.

    `items` is the number of items expected in a day. Without any the figures are None.
    """

    items: float
    delay: float | None
    delay_doubt: float | None
    completeness: float | None
    completeness_doubt: float | None
    freshness: float | None


@dataclass(frozen=True, slots=True)
class Plan:
    """When each feed is refreshed (`interval`, seconds; inf: never) and what that brings.

    `delay` (seconds), its mean square over items, `lost` (share of items), `stale` (share of the window) and the
    variance of the items lost in a day are predictions per feed. `budget` is in requests per minute. `asked` is the
    price of each feed's refresh in item-days, `free` the interval that it alone would give. `boldness` is the share of
    the budget that was left to explore with.
    """

    beliefs: Beliefs
    constraints: Constraints
    calibration: Calibration
    budget: float
    price: float
    host_price: Floats
    boldness: float
    asked: Floats
    interval: Floats
    free: Floats
    binding: NDArray[np.int8]
    delay: Floats
    delay_square: Floats
    lost: Floats
    stale: Floats
    lost_variance: Floats

    def promise(self, rows: Rows | None = None, share: Floats | None = None) -> Promise:
        """Predict the quality of some feeds, or of all; `share` is the share of each feed's items that counts.

        Items of feeds that are away or paused do not count.
        """
        rows = np.arange(len(self.interval), dtype=np.intp) if rows is None else rows
        counted = self.constraints.active[rows] & ~self.constraints.away[rows] & np.isfinite(self.interval[rows])
        rows = rows[counted]
        part = np.ones(len(rows)) if share is None else share[counted]
        beliefs = self.beliefs
        many = beliefs.many[rows]
        items = many * beliefs.rate[rows] * part
        total = float(items.sum())
        if total <= 0:
            return Promise(0.0, None, None, None, None, None)
        lost, delay = self.lost[rows], self.delay[rows]
        caught = items * (1 - lost)
        got = max(float(caught.sum()), 1e-300)
        mean = float((caught * delay).sum()) / got
        # The items of a batch wait together, so the variance is φ times that of single items, and a counted rate is
        # only as sure as the batches behind it. A row that stands for many feeds varies as their sum.
        bursts = 1 + (beliefs.burst[rows] @ DISPERSIONS - 1) * part
        apart = self.delay_square[rows] - 2 * delay * mean + mean**2
        chance = caught * bursts * np.maximum(apart, 0.0)
        unsure = caught**2 / many * (delay - mean) ** 2 / np.maximum(beliefs.sure[rows] / bursts, LEAST_EVIDENCE)
        doubt = float(np.hypot(MODEL_DOUBT * mean, np.sqrt((chance + unsure).sum()) / got))
        missing = float((many * part * self.lost_variance[rows]).sum())
        weight = many * beliefs.worth[rows] if share is None else many * part
        fresh = None
        if float(weight.sum()) > 0:
            fresh = 1 - float((weight * self.stale[rows]).sum() / weight.sum())
        return Promise(
            items=total,
            delay=mean,
            delay_doubt=self.calibration.delay_width * doubt,
            completeness=got / total,
            completeness_doubt=self.calibration.loss_width * float(np.sqrt(missing)) / total,
            freshness=fresh,
        )

    def count_requests(self) -> Floats:
        """Return the requests per minute of each row, as planned pauses really are."""
        asked = _count_requests(self.beliefs, self.constraints, self.interval)
        return np.where(self.by_deadline, asked, asked * self.calibration.demand)

    @property
    def spent(self) -> float:
        """The requests per minute of all rows."""
        return float(self.count_requests().sum())

    @property
    def spare(self) -> float:
        """The requests per minute that are left of the budget."""
        return max(self.budget - self.spent, 0.0)

    @property
    def by_deadline(self) -> Bools:
        """The rows whose pause is that of their deadline."""
        return np.asarray(self.constraints.at_most < self.free)


def plan(
    beliefs: Beliefs,
    constraints: Constraints,
    budget: float,
    objective: Objective | None = None,
    calibration: Calibration = UNCALIBRATED,
) -> Plan:
    """Plan the intervals of all feeds for a budget of requests per minute, and predict what they bring.

    >>> one = plan(Beliefs.of(np.array([144.0]), np.array([1e6])), Constraints.of(1), 0.1)
    >>> round(float(one.interval[0])), round(float(one.delay[0])), float(one.lost[0])  # a request every ten minutes
    (600, 300, 0.0)
    """
    objective = Objective() if objective is None else objective
    curves = compute_curves(beliefs.window, beliefs.burst)
    room = _find_room(beliefs, constraints, budget, calibration)
    price, host_price = _find_prices(beliefs, constraints, curves, objective, room)
    made = _follow_prices(beliefs, constraints, curves, price, host_price, 0.0, budget, objective, calibration)
    if price > 0 or room <= 0:
        return made
    boldness = max(1 - float(_count_requests(beliefs, constraints, made.interval).sum()) / room, 0.0)
    bold = replace(beliefs, rate=_explore(beliefs, boldness))
    price, host_price = _find_prices(bold, constraints, curves, objective, room)
    return _follow_prices(beliefs, constraints, curves, price, host_price, boldness, budget, objective, calibration)


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """Everything that a plan depends on beside the budget; what-if is `plan_for` at other budgets."""

    beliefs: Beliefs
    constraints: Constraints
    objective: Objective
    calibration: Calibration = UNCALIBRATED

    @classmethod
    def of(cls, rates: Floats, windows: Floats, weights: Floats, *, shortest: float = MIN_INTERVAL) -> PlanInputs:
        """Return the inputs of feeds without bursts, failures or hints; `rates` are items per second."""
        beliefs = Beliefs.of(np.maximum(rates, 1e-9) * DAY, np.maximum(windows, 1.0), np.maximum(weights, 1e-12))
        return cls(beliefs, Constraints.of(len(rates), max(shortest, 1.0)), Objective())

    def plan_for(self, budget: float) -> Plan:
        """Plan for a budget of requests per minute."""
        return plan(self.beliefs, self.constraints, budget, self.objective, self.calibration)

    def plan_fastest(self) -> Plan:
        """Plan without a limit of requests: as often as politeness and the pace of hosts allow."""
        return self.plan_for(UNLIMITED)

    def without_thrift(self) -> PlanInputs:
        return replace(self, constraints=replace(self.constraints, reserve=0.0))

    def value_feeds(self, worth: Floats) -> PlanInputs:
        """Return the inputs with another worth of each feed."""
        return replace(self, beliefs=replace(self.beliefs, worth=worth))


def follow_plan(
    made: Plan, beliefs: Beliefs, constraints: Constraints, objective: Objective, calibration: Calibration
) -> Plan:
    """Plan other feeds at the prices of a plan, for instance those that its sample has left out.

    `constraints.host` means the hosts of that plan.
    """
    prices = made.price, made.host_price
    return follow_prices(beliefs, constraints, *prices, made.budget, objective, calibration, boldness=made.boldness)


def follow_prices(
    beliefs: Beliefs,
    constraints: Constraints,
    price: float,
    host_price: Floats,
    budget: float,
    objective: Objective,
    calibration: Calibration,
    *,
    boldness: float = 0.0,
) -> Plan:
    """Plan some feeds at given prices."""
    curves = compute_curves(beliefs.window, beliefs.burst)
    prices = price, host_price, boldness
    return _follow_prices(beliefs, constraints, curves, *prices, budget, objective, calibration, stretched=False)


def _explore(beliefs: Beliefs, boldness: float) -> Floats:
    """Return the rates by which feeds are refreshed: with spare budget an uncertain rate counts as a higher one."""
    return np.asarray(beliefs.rate * (1 + boldness / np.sqrt(np.maximum(beliefs.sure, 0.1))))


def _follow_prices(
    beliefs: Beliefs,
    constraints: Constraints,
    curves: OverflowCurves,
    price: float,
    host_price: Floats,
    boldness: float,
    budget: float,
    objective: Objective,
    calibration: Calibration,
    *,
    stretched: bool = True,
) -> Plan:
    """Return the intervals at these prices, within the constraints, and what they bring."""
    bold = replace(beliefs, rate=_explore(beliefs, boldness))
    reserve = constraints.reserve * beliefs.heavy
    of_host = host_price[constraints.host]
    asked = beliefs.cost * np.maximum(price, np.maximum(of_host, reserve))
    free = PriceCurves.of(bold, curves, objective).interval(asked)
    interval = _constrain(free, constraints)
    if stretched:
        room = _find_room(beliefs, constraints, budget, calibration)
        interval = _stretch_to_limits(beliefs, constraints, interval, room)
    delay, delay_square, lost, stale, variance = _predict(beliefs, constraints, curves, interval, calibration)
    return Plan(
        beliefs=beliefs,
        constraints=constraints,
        calibration=calibration,
        budget=budget,
        price=price,
        host_price=host_price,
        boldness=boldness,
        asked=asked,
        interval=interval,
        free=free,
        binding=_find_binding(interval, free, price, of_host, reserve, constraints),
        delay=delay,
        delay_square=delay_square,
        lost=lost,
        stale=stale,
        lost_variance=variance,
    )


def _find_room(beliefs: Beliefs, constraints: Constraints, budget: float, calibration: Calibration) -> float:
    """Return the requests per minute to plan for.

    Deadlines are kept to the second and come first, so `use` and `demand` correct only the part of the budget that they
    leave. They would else take all of a room that waits in the queue have made small, and the others would get nothing.
    """
    held = 0.0
    if np.isfinite(constraints.at_most).any():
        latest = _constrain(np.full(len(beliefs), np.inf), constraints)
        asked = _count_requests(beliefs, constraints, latest)
        held = min(float(asked[np.isfinite(constraints.at_most)].sum()), budget)
    return held + max(budget - held, 0.0) * calibration.use / max(calibration.demand, 1e-6)


def _find_prices(
    beliefs: Beliefs, constraints: Constraints, curves: OverflowCurves, objective: Objective, room: float
) -> tuple[float, Floats]:
    """Return the price ν at which `room` is spent, and the hosts' prices."""
    prices = PriceCurves.of(beliefs, curves, objective)
    reserve = constraints.reserve * beliefs.heavy
    host_price = _find_host_prices(beliefs, constraints, prices, reserve)
    floor = np.maximum(host_price[constraints.host], reserve)

    def spend(price: float) -> float:
        interval = _constrain(prices.interval(beliefs.cost * np.maximum(price, floor)), constraints)
        return float(_count_requests(beliefs, constraints, interval).sum())

    return _find_price(spend, room), host_price


@dataclass(frozen=True, slots=True)
class PriceCurves:
    """The worth V of a pause, for each feed, and its inverse; both rise."""

    rate: Floats
    waiting: Floats  # worth of an item-day
    losing: Floats  # worth of a lost item, in item-days
    curves: OverflowCurves
    log_values: Floats  # ln V at MEANS

    @classmethod
    def of(cls, beliefs: Beliefs, curves: OverflowCurves, objective: Objective) -> PriceCurves:
        rate = np.maximum(beliefs.rate, 1e-9)
        waiting = objective.delay * beliefs.worth
        if objective.freshness:
            window = np.maximum(beliefs.window, 1.0)
            waiting = waiting + objective.freshness * chance_window_shows_wanted(beliefs.wanted, window) / window
        waiting = np.maximum(waiting, 1e-6)  # never 0, so that no feed is forgotten
        losing = objective.completeness * beliefs.worth
        values = waiting[:, None] * MEANS**2 / (2 * rate[:, None]) + losing[:, None] * curves.index
        return cls(rate, waiting, losing, curves, np.log(values))

    def worth(self, seconds: Floats) -> Floats:
        """Return V of a pause of so many seconds per feed, in item-days."""
        items = self.rate * seconds / DAY
        return np.asarray(
            self.waiting * items**2 / (2 * self.rate) + self.losing * self.curves.read(self.curves.index, items)
        )

    def interval(self, price: Floats) -> Floats:
        """Return the seconds after which V reaches a price, per feed."""
        wanted = np.log(np.maximum(price, 1e-300))
        upto = (self.log_values < wanted[:, None]).sum(axis=1)
        high = np.clip(upto, 1, len(MEANS) - 1)
        rows = np.arange(len(wanted))
        below, above = self.log_values[rows, high - 1], self.log_values[rows, high]
        share = (wanted - below) / np.maximum(above - below, 1e-12)
        steps = np.log(MEANS)
        items = np.exp(steps[high - 1] + np.clip(share, 0.0, 1.0) * (steps[high] - steps[high - 1]))
        # Beyond the tables only the waiting grows.
        low = upto == 0
        items = np.where(low, MEANS[0] * np.exp((wanted - self.log_values[:, 0]) / 2), items)
        far = np.maximum(price - self.losing * self.curves.index[:, -1], 0.0)
        items = np.where(upto == len(MEANS), np.maximum(np.sqrt(2 * self.rate * far / self.waiting), MEANS[-1]), items)
        return np.asarray(items / self.rate * DAY)


def _constrain(interval: Floats, constraints: Constraints) -> Floats:
    """Clip intervals to the deadlines and then to what politeness allows."""
    interval = np.minimum(np.minimum(interval, LONGEST), constraints.at_most)
    interval = np.maximum(interval, constraints.earliest)
    interval = np.where(constraints.pushed, np.maximum(SAFETY_POLL, constraints.earliest), interval)
    return np.where(constraints.active, interval, np.inf)


def _expect_back_off(fail: Floats) -> tuple[Floats, Floats]:
    """Return the polls per success and the seconds that back-off adds to the time between two successes.

    More than two failures in a row are an outage, which is told apart.
    """
    fail = np.clip(fail, 0.0, 0.9)
    return 1 + fail + fail**2, BACK_OFF * (fail + 2 * fail**2)


def _count_requests(beliefs: Beliefs, constraints: Constraints, interval: Floats) -> Floats:
    """Return the requests per minute of each row at these intervals; failed polls are repeated."""
    polls, extra = _expect_back_off(beliefs.fail)
    rate = beliefs.many * beliefs.cost * polls * constraints.open * MINUTE / (interval + extra)
    return np.where(constraints.away, 0.0, rate)


def _find_price(spend: Callable[[float], float], room: float) -> float:
    """Return the least price at which no more than `room` is spent, or nearly; 0 if none is needed."""
    if spend(0.0) <= room:
        return 0.0
    low, high = _LOWEST, _HIGHEST
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        low, high = (middle, high) if spend(float(np.exp(middle))) > room else (low, middle)
    return float(np.exp(high))


def _find_host_prices(beliefs: Beliefs, constraints: Constraints, prices: PriceCurves, reserve: Floats) -> Floats:
    """Return for each host the price at which its feeds just keep its pace; 0 where they keep it anyway.

    It does not depend on ν, so all hosts are bisected together.
    """
    hosts = len(constraints.pace)
    if not np.isfinite(constraints.pace).any():
        return np.zeros(hosts)

    def count(price: Floats) -> Floats:
        free = prices.interval(beliefs.cost * np.maximum(price[constraints.host], reserve))
        asked = _count_requests(beliefs, constraints, _constrain(free, constraints))
        return np.asarray(np.bincount(constraints.host, asked, minlength=hosts), np.float64)

    crowded = count(np.zeros(hosts)) > constraints.pace
    if not crowded.any():
        return np.zeros(hosts)
    low, high = np.full(hosts, _LOWEST), np.full(hosts, _HIGHEST)
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        over = count(np.exp(middle)) > constraints.pace
        low, high = np.where(over, middle, low), np.where(over, high, middle)
    return np.where(crowded, np.exp(high), 0.0)


def _stretch_to_limits(beliefs: Beliefs, constraints: Constraints, interval: Floats, room: float) -> Floats:
    """Lengthen intervals where deadlines ask for more than a host's pace, or all together for more than the budget."""
    extra = _expect_back_off(beliefs.fail)[1]
    asked = np.bincount(
        constraints.host, _count_requests(beliefs, constraints, interval), minlength=len(constraints.pace)
    )
    factor = np.maximum(asked / constraints.pace, 1.0)[constraints.host]
    interval = (interval + extra) * factor - extra
    asked_in_all = float(_count_requests(beliefs, constraints, interval).sum())
    if asked_in_all > room * (1 + 1e-9):
        interval = (interval + extra) * (asked_in_all / max(room, 1e-12)) - extra
    return np.asarray(interval)


def _find_binding(
    interval: Floats, free: Floats, price: float, host_price: Floats, reserve: Floats, constraints: Constraints
) -> NDArray[np.int8]:
    """Return the constraint that sets each interval."""
    binding = np.full(len(interval), int(Why.BUDGET), np.int8)
    binding[(reserve >= price) & (reserve >= host_price)] = Why.THRIFT
    binding[(host_price > reserve) & (host_price >= price)] = Why.HOST
    binding[free > LONGEST] = Why.LONGEST
    binding[(constraints.at_most < np.minimum(free, LONGEST)) & (interval <= constraints.at_most * 1.001)] = (
        Why.DEADLINE
    )
    polite = interval <= constraints.earliest * (1 + 1e-9)
    polite &= constraints.earliest > np.minimum(free, constraints.at_most)
    binding[polite] = Why.SERVER
    binding[polite & (constraints.reason == Reason.LEAST)] = Why.LEAST
    binding[constraints.pushed] = Why.PUSHED
    binding[constraints.away] = Why.AWAY
    binding[~constraints.active] = Why.INACTIVE
    return binding


def _predict(
    beliefs: Beliefs, constraints: Constraints, curves: OverflowCurves, interval: Floats, calibration: Calibration
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Return per feed: delay of a caught item and its mean square, share lost, share missing, variance of a day's loss.

    The time between two successful polls has the mean m₁ and the mean square m₂: the interval, the wait in the queue
    and the back-offs of single failures.
    """
    fail = np.clip(beliefs.fail, 0.0, 0.9)
    whole = np.where(np.isfinite(interval), interval, LONGEST) + np.where(
        interval <= constraints.at_most, 0.0, calibration.wait
    )
    gaps = np.stack([whole, whole + BACK_OFF, whole + 3 * BACK_OFF])
    chances = np.stack([1 - fail, fail * (1 - fail), fail**2])
    mean, square = (chances * gaps).sum(0), (chances * gaps**2).sum(0)
    if calibration.gap is not None and calibration.square is not None and calibration.watched is not None:
        # Measured gaps have all in them but skipped hours: waits, back-offs and the forecast's choice of moments.
        seen, base = calibration.watched, np.where(np.isfinite(interval), interval, LONGEST)
        mean = (1 - seen) * mean + seen * calibration.gap * base
        square = (1 - seen) * square + seen * calibration.square * base**2
    rate = np.maximum(beliefs.rate, 1e-9) / DAY
    items = rate * mean
    factor = 1.0 if calibration.lost is None else calibration.lost
    lost, delay = _predict_items(curves, rate, mean, square)
    chance = curves.read(curves.chance, items)
    # The mean square of a uniform delay is 4/3 of its square; of gaps that vary, more (their third moment is taken
    # for that of a log-normal law).
    delay_square = 4 / 3 * square / mean**2 * delay**2
    asleep = 1 - constraints.open
    if asleep.any():  # the gap around a run of skipped hours begins in the open hours before it
        run = 2 * beliefs.closed / np.maximum(asleep, 1e-9)
        longer = run + square / mean / 2
        asleep = np.minimum(asleep * longer / np.maximum(run, 1e-9), 1.0)
        lost_asleep, delay_asleep = _predict_items(curves, rate, longer, longer**2)
        caught, caught_asleep = (1 - asleep) * (1 - lost), asleep * (1 - lost_asleep)
        part = caught_asleep / np.maximum(caught + caught_asleep, 1e-6)
        delay_square += part * (4 / 3 * delay_asleep**2 - delay_square)
        delay += part * (delay_asleep - delay)
        lost += asleep * (lost_asleep - lost)
        chance += asleep * (curves.read(curves.chance, rate * longer) - chance)
    delay = calibration.delay * delay + calibration.fetch
    delay_square = calibration.delay**2 * delay_square
    area = curves.read_area_share(items)
    stale = np.clip(items * (0.5 - area) / np.maximum(beliefs.window, 1.0), 0.0, 1.0)
    polls, excess = DAY / mean, lost * items
    scatter = polls * 2 * excess**2 / np.maximum(chance, 1e-12)  # E (N − W)₊², geometric
    # The expectation itself is uncertain: the law of the batches and their number are estimates.
    batches = np.maximum(beliefs.sure / (beliefs.burst @ DISPERSIONS), LEAST_EVIDENCE)
    unsure = measure_doubt_of_laws(beliefs.window, items, beliefs.burst) ** 2 + excess**2 / batches
    variance = factor * scatter + (factor * polls) ** 2 * unsure
    return delay, np.maximum(delay_square, delay**2), np.clip(lost * factor, 0.0, 1.0), stale, variance


def _predict_items(curves: OverflowCurves, rate: Floats, gap: Floats, square: Floats) -> tuple[Floats, Floats]:
    """Return the share of items lost and the mean delay of the caught ones, in seconds.

    `rate` is in items per second, `gap` and `square` are the mean time between two polls and its mean square. An item
    of age u is still shown with chance 1 − L′(rate·u), so those caught after a long gap are its newest.
    """
    # Two gaps have this mean and this mean square: as likely as each other, or, where gaps vary more, nothing and one.
    spread = square / gap**2
    varied = np.sqrt(np.clip(spread - 1, 0.0, 1.0))
    missed, waited = np.zeros(len(gap)), np.zeros(len(gap))
    for factor, weight in ((1 + varied, 0.5), (1 - varied, 0.5)):
        factor = np.maximum(factor, 1e-6) * np.maximum(spread / 2, 1.0)
        share = weight / np.maximum(spread / 2, 1.0) * factor  # of the items
        items = rate * gap * factor
        lost = np.clip(curves.read_lost(items) / items, 0.0, 1.0)
        missed += share * lost
        waited += share * gap * factor * np.clip(0.5 - lost + curves.read_area_share(items), 0.0, None)
    return missed, waited / np.maximum(1 - missed, 1e-6)
