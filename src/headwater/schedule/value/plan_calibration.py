"""Compares a plan with the items that came, and corrects the next plan: slowly, since faster corrections swing.

`demand` is refreshes planned ÷ those of the plan. At any instant the mean of 1/pause over the feeds is the rate of
requests, so it is known at once and a full queue cannot hide it. `use` is the share of the budget to plan for: while
the budget is too small, it rises as long as requests are left over and nothing waits. The delay of items is compared
with the one that the gaps before their refreshes explain, once a feed has been polled a few times: a start is not a
habit. Once a day a forecast is compared with the day that came, which sets how wide the stated doubts are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from headwater.arrays import Bools, Floats, Rows
from headwater.estimate.feed_columns import Column, FeedColumns
from headwater.schedule.plan_facts import Calibration
from headwater.schedule.politeness.rules import BACK_OFF
from headwater.schedule.promise import Plan
from headwater.schedule.quality.promise_record import MIN_ITEMS
from headwater.schedule.strategy import Observed
from headwater.schedule.value.feed_habits import SETTLED_POLLS
from headwater.schedule.value.plan_check import PlanCheck
from headwater.times import DAY, HOUR

DELAY_DOUBT = 33.0  # refreshes by which the ratio of delays is drawn to 1: 1/3 each, and .1² that the ratio is expected
DEMAND_MEMORY, DELAY_MEMORY, WAIT_MEMORY = 7.0, 7.0, 1.0  # days; a shorter one lets the price swing with the hour
GRAIN = 2.0**20  # parts of a second or an item in sums that must not depend on their order
CHECK_HOURS = 25  # that a comparison of predicted and measured looks back: the present one and a day
FIRST_USE, MIN_USE, MAX_USE, USE_STEP = 1.0, 0.7, 1.5, 0.15  # the share of the budget, and its step per day
GAP_POLLS, GAP_DOUBT = 50.0, 5.0  # polls of a feed that its gaps remember; polls for which the next, planned one stands
GAP_RANGE = (0.1, 10.0)  # intervals that a gap counts as, if back-off does not explain a longer one
FIRST_WIDTHS = (1.4, 1.6)  # of the doubts of delay and completeness: days scatter more widely than the model says
WIDTH_STEP, WIDTH_RANGE = 0.2, (0.5, 5.0)  # of the logarithm of a width, for a day outside its doubt; its bounds
OUTSIDE = 0.05  # the share of days that may lie outside
QUEUE_SHARE = 0.1  # of the median interval: the wait in the queue that is too long


class PlanCalibration(FeedColumns):
    """Measures a plan; `build` makes the corrections for the next one."""

    name = "calibration"
    version = 6

    def layout(self) -> Mapping[str, Column]:
        return {
            "delay": Column(np.nan),  # as foretold by the latest plan, uncorrected
            "lost": Column(np.nan),
            "interval": Column(np.nan),  # of that plan, in seconds
            "polls": Column(0.0),  # whose gaps were compared with it
            "gap": Column(0.0),  # sums over them: gap ÷ interval, and its square
            "square": Column(0.0),
            "planned": Column(np.nan),  # the pause until the next poll ÷ interval
        }

    def shared(self) -> Mapping[str, Any]:
        return {
            "demand": 1.0,
            "since": np.inf,  # the first plan
            "use": FIRST_USE,
            "wait": 0.0,
            "left": 0.0,  # the share of choices that left requests over
            "median": HOUR,  # interval
            "explained": np.zeros(4),  # dated items, seconds waited, explained by gaps, squares of these
            # By hour: the hour; dated items, seconds waited, foretold; published items, lost ones, foretold.
            "checked": np.zeros((CHECK_HOURS, 7)),
            "at": np.full(3, -np.inf),  # times of the latest plan, choice and item
            "widths": np.array(FIRST_WIDTHS),
            "forecast": np.full(6, np.nan),  # time and budget, delay, its doubt, completeness, its doubt; of a day
            "came": np.zeros(4),  # since then: dated items, seconds waited, published items, lost ones
        }

    @property
    def demand(self) -> float:
        return float(self._shared["demand"])

    @property
    def use(self) -> float:
        """The share of the budget to plan for."""
        return float(self._shared["use"])

    @property
    def wait(self) -> float:
        """The mean seconds that a due feed waits in the queue."""
        return float(self._shared["wait"])

    @property
    def delay_factor(self) -> tuple[float, float]:
        """Return measured delay ÷ that which the gaps explain, and the number of items behind it.

        Items of one refresh wait together, and long gaps weigh most: a sum of squares says how many refreshes decide.
        """
        items, waited, explained, squares = self._shared["explained"].tolist()
        if explained <= 0:
            return 1.0, 0.0
        doubt = DELAY_DOUBT * squares / explained
        return (waited + doubt) / (explained + doubt), items

    def build(self, rows: Rows, lost: Floats | None = None) -> Calibration:
        """Return the corrections for a plan of these feeds; `lost` is noticed ÷ predicted loss of each."""
        factor, items = self.delay_factor
        polls, gap, square, planned = (
            self._columns[name][rows].astype(np.float64) for name in ("polls", "gap", "square", "planned")
        )
        # The pause that is planned already stands for a few polls: it is all that is known of a feed polled rarely.
        known = np.isfinite(planned)
        more, planned = np.where(known, GAP_DOUBT, 0.0), np.where(known, planned, 1.0)
        some = np.maximum(polls + more, 1e-9)
        return Calibration(
            demand=self.demand,
            use=self.use,
            wait=self.wait,
            delay=factor,
            delay_items=items,
            delay_width=float(self._shared["widths"][0]),
            loss_width=float(self._shared["widths"][1]),
            lost=lost,
            gap=(gap + more * planned) / some,
            square=(square + more * planned**2) / some,
            watched=np.where(known, 1.0, polls / (polls + GAP_DOUBT)),
        )

    def check_plan(self) -> PlanCheck:
        """Compare prediction and measurement for the items of the last day."""
        checked = self._shared["checked"]
        latest = checked[:, 0].max() - CHECK_HOURS
        dated, waited, quoted, published, lost, expected = checked[checked[:, 0] > latest, 1:].sum(0).tolist()
        return PlanCheck(
            dated=round(dated),
            delay_predicted=quoted / dated if dated >= 1 else None,
            delay_measured=waited / dated if dated >= 1 else None,
            published=round(published),
            completeness_predicted=1 - expected / published if published >= 1 else None,
            completeness_measured=1 - lost / published if published >= 1 else None,
        )

    def quote(self, rows: Rows, lost_factor: Floats) -> tuple[Floats, Floats]:
        """Return the delay (seconds) and the share of lost items now predicted for these feeds; NaN before a plan."""
        delay = self._columns["delay"][rows].astype(np.float64) * self.delay_factor[0]
        return delay, np.minimum(self.lost_share(rows) * lost_factor, 1.0)

    def lost_share(self, rows: Rows) -> Floats:
        """Return the share of items whose loss was foretold; NaN before a plan."""
        return self._columns["lost"][rows].astype(np.float64)

    def note_plan(self, rows: Rows, made: Plan, pause: Floats, now: float) -> None:
        """Note a plan of these feeds and the pauses until their next refreshes."""
        calibration = made.calibration
        self._columns["delay"][rows] = (made.delay - calibration.fetch) / calibration.delay
        factor = 1.0 if calibration.lost is None else calibration.lost
        self._columns["lost"][rows] = made.lost / factor
        self._columns["interval"][rows] = made.interval
        gap = pause + np.where(np.isfinite(made.constraints.at_most), 0.0, self.wait)
        known = np.isfinite(gap) & (gap > 0) & np.isfinite(made.interval)
        self._columns["planned"][rows] = np.where(known, np.clip(gap / made.interval, *GAP_RANGE), np.nan)
        asked = np.isfinite(made.interval) & np.isfinite(pause) & (pause > 0) & ~made.constraints.away
        if not asked.any():
            return
        self._check_forecast(made, now)
        self._shared["since"] = np.minimum(self._shared["since"], now)
        asked &= ~made.by_deadline  # a deadline is kept as it is
        if not asked.any():
            return
        weight = made.beliefs.cost[asked] * made.constraints.open[asked]
        interval = made.interval[asked]
        median = float(np.median(interval))
        age = (now - float(self._shared["since"])) / DAY
        memory = max(min(1 + age, DEMAND_MEMORY), 5 * median / DAY)
        share = self._fade("plan", now, memory)
        ratio = float((weight / pause[asked]).sum() / (weight / interval).sum())
        before = float(self._shared["demand"])
        self._shared["demand"] = np.array(before + share * (min(max(ratio, 0.2), 5.0) - before))
        self._shared["median"] = np.array(median)
        self._adapt_use(made.price > 0, min(share * memory, 1.0) * USE_STEP)

    def _adapt_use(self, scarce: bool, step: float) -> None:
        """Plan for more where requests are left over, for less where feeds wait; with enough budget, for what there is.

        What is left of a budget that no feed needs says nothing about one that is too small.
        """
        use, crowded = self.use, self.wait > QUEUE_SHARE * float(self._shared["median"])
        if not scarce:
            use += min(max(FIRST_USE - use, -step), step)
        elif crowded or float(self._shared["left"]) > 0.5:
            use += -step if crowded else step
        self._shared["use"] = np.array(min(max(use, MIN_USE), MAX_USE))

    def _check_forecast(self, made: Plan, now: float) -> None:
        """Once a day, compare a forecast with the day that came, and forecast the next one.

        A day outside the doubt widens it, each day inside narrows it a little, so that nineteen of twenty lie inside in
        the long run whatever their law (adaptive conformal inference). The first day of a server is not a habit.
        """
        at, budget, *said = self._shared["forecast"].tolist()
        if now < float(self._shared["since"]) + DAY or now < at + DAY:
            return
        dated, waited, published, lost = self._shared["came"].tolist()
        if now < at + 1.5 * DAY and made.budget == budget:
            delay, delay_doubt, completeness, loss_doubt = said
            if dated >= MIN_ITEMS:
                self._adapt_width(0, abs(waited / dated - delay) > 2 * delay_doubt)
            if published >= MIN_ITEMS:
                self._adapt_width(1, abs(1 - lost / published - completeness) > 2 * loss_doubt)
        promise = made.promise()
        figures = (promise.delay, promise.delay_doubt, promise.completeness, promise.completeness_doubt)
        self._shared["forecast"] = np.array([now, made.budget, *(np.nan if one is None else one for one in figures)])
        self._shared["came"] = np.zeros(4)

    def _adapt_width(self, which: int, outside: bool) -> None:
        step = WIDTH_STEP * ((1 - OUTSIDE) if outside else -OUTSIDE)
        width = float(self._shared["widths"][which]) * math.exp(step)
        self._shared["widths"][which] = min(max(width, WIDTH_RANGE[0]), WIDTH_RANGE[1])

    def note_choice(self, late: Floats, left: int, now: float) -> None:
        """Note how long the chosen feeds have waited, and how many requests were left over."""
        share = self._fade("choice", now, WAIT_MEMORY)
        self._shared["left"] += share * (float(left > 0) - self._shared["left"])
        if len(late):  # if requests are left over, nothing has waited for the budget
            late = np.minimum(np.where(np.isfinite(late) & (left <= 0), np.maximum(late, 0.0), 0.0), DAY)
            self._shared["wait"] += share * (float(late.mean()) - self._shared["wait"])

    def observe(
        self, seen: Observed, polls: Floats, away: Bools, lost_factor: Floats, longest: Floats, waits: Floats
    ) -> None:
        """Compare the delay and the loss of what came with those foretold for their feeds.

        A gap counts up to `longest` seconds: what skipped hours have added is told apart. `waits` are the mean waits in
        seconds that the gaps before these refreshes explain. The factor of the delay compares with them: how long gaps
        are is learned for each feed, and one long night would else shorten or lengthen the forecasts of all feeds.
        """
        if not len(seen.rows):
            return
        self._shared["explained"] *= 1 - self._fade("item", float(seen.end.max()), DELAY_MEMORY)
        hour = seen.end.max() // HOUR
        checked = self._shared["checked"][int(hour) % CHECK_HOURS]
        if checked[0] != hour:
            checked[:] = hour, 0, 0, 0, 0, 0, 0
        self._learn_gaps(seen, np.minimum(seen.end - seen.start, longest), ~away & np.isfinite(seen.start))
        foretold = self._columns["delay"][seen.rows].astype(np.float64)
        settled = (polls >= SETTLED_POLLS) & ~away & np.isfinite(foretold) & np.isfinite(seen.start)
        if seen.lost is not None and settled.any():
            lost = seen.lost[settled]
            published = seen.new[settled] + lost
            share = self.quote(seen.rows[settled], lost_factor[settled])[1]
            checked[4:] += [_sum_grains(one) for one in (published, lost, published * share)]
            self._shared["came"][2:] += (published.sum(), lost.sum())
        if seen.published is None or not len(seen.published.times):
            return
        owner = seen.published.owner()
        # Items dated before the last refresh were dated late, or came late: no interval explains them.
        counted = settled[owner] & (seen.published.times > seen.start[owner])
        owner = owner[counted]
        if not len(owner):
            return
        waited = np.maximum(seen.end[owner] - seen.published.times[counted], 0.0)
        quoted = foretold[owner] * self.delay_factor[0]
        self._shared["came"][:2] += (len(owner), waited.sum())
        checked[1:4] += len(owner), _sum_grains(waited), _sum_grains(quoted)
        together = np.bincount(owner, waits[owner])  # summed exactly, whatever the order of the refreshes
        sums = (math.fsum(one) for one in (waited, together, together**2))
        self._shared["explained"] += np.array([len(owner), *sums])

    def _learn_gaps(self, seen: Observed, gap: Floats, counted: Bools) -> None:
        """Compare the times between two polls with the intervals of the plan, over the last polls of each feed."""
        interval = self._columns["interval"][seen.rows].astype(np.float64)
        counted = counted & np.isfinite(interval)
        rows = seen.rows[counted]
        # Two failures in a row lengthen short intervals most; more than two are an outage.
        least, most = GAP_RANGE
        longest = np.maximum(most, 1.1 * (1 + 3 * BACK_OFF / interval[counted]))
        ratio = np.clip(gap[counted] / interval[counted], least, longest)
        for name, more in (("polls", np.ones(len(rows))), ("gap", ratio), ("square", ratio**2)):
            self._columns[name][rows] = self._columns[name][rows] * (1 - 1 / GAP_POLLS) + more

    def _fade(self, kind: str, now: float, memory: float) -> float:
        """Return the share of a memory (days) that has passed since the last event of this kind."""
        place = ("plan", "choice", "item").index(kind)
        last = float(self._shared["at"][place])
        self._shared["at"][place] = max(now, last)
        return 1 - math.exp(-max(now - last, 0.0) / DAY / memory) if math.isfinite(last) else 0.0


def _sum_grains(values: Floats) -> float:
    """Return the sum of values rounded to a millionth; it is exact, whatever their order and their batches."""
    return float(np.rint(values * GRAIN).sum() / GRAIN)
