"""Compares what a plan said with what came, and corrects the next plan: slowly, since faster corrections swing.

`demand` is refreshes planned ÷ those of the plan. At any instant the mean of 1/pause over the feeds is the rate of
requests, so it is known at once and a full queue cannot hide it. `use` is the share of the budget to plan for: it rises
while requests are left over and nothing waits. The delay of items is compared with the one foretold for their feeds,
once a feed has been polled a few times: a start is not a habit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from headwater.arrays import Bools, Floats, Rows
from headwater.estimate.feed_columns import Column, FeedColumns
from headwater.schedule.promise import Calibration, Plan
from headwater.schedule.strategy import Observed
from headwater.times import DAY, HOUR

SETTLED_POLLS = 6  # polls after which a feed's items count
DELAY_DOUBT = 20.0  # items by which the ratio of delays is drawn to 1
DEMAND_MEMORY, DELAY_MEMORY, WAIT_MEMORY = 7.0, 1.0, 1.0  # days; a shorter one lets the price swing with the hour
FIRST_USE, LEAST_USE, MOST_USE, USE_STEP = 1.0, 0.7, 1.5, 0.15  # the share of the budget, and its step per day
QUEUE_SHARE = 0.1  # of the median interval: the wait in the queue that is too long


class PlanCalibration(FeedColumns):
    """Measures a plan; `build` makes the corrections for the next one."""

    name = "calibration"

    def layout(self) -> Mapping[str, Column]:
        return {"delay": Column(np.nan), "lost": Column(np.nan)}  # as foretold by the latest plan, uncorrected

    def shared(self) -> Mapping[str, Any]:
        return {
            "demand": 1.0,
            "since": np.inf,  # the first plan
            "use": FIRST_USE,
            "wait": 0.0,
            "left": 0.0,  # the share of choices that left requests over
            "median": HOUR,  # interval
            "measured": np.zeros(3),  # items, seconds waited, seconds foretold
            "at": np.full(3, -np.inf),  # times of the latest plan, choice and item
        }

    @property
    def demand(self) -> float:
        return float(self._shared["demand"])

    @property
    def use(self) -> float:
        return float(self._shared["use"])

    @property
    def wait(self) -> float:
        """The mean seconds that a due feed waits in the queue."""
        return float(self._shared["wait"])

    @property
    def delay_factor(self) -> tuple[float, float]:
        """Return measured ÷ foretold delay, and the number of items behind it."""
        items, waited, foretold = self._shared["measured"].tolist()
        if items <= 0 or foretold <= 0:
            return 1.0, 0.0
        doubt = DELAY_DOUBT * foretold / items
        return (waited + doubt) / (foretold + doubt), items

    def build(self, lost: Floats | None = None) -> Calibration:
        """Return the corrections for a plan; `lost` is noticed ÷ predicted loss of its feeds."""
        factor, items = self.delay_factor
        return Calibration(demand=self.demand, use=self.use, wait=self.wait, delay=factor, delay_items=items, lost=lost)

    def lost_share(self, rows: Rows) -> Floats:
        """Return the share of items whose loss was foretold; NaN before a plan."""
        return self._columns["lost"][rows].astype(np.float64)

    def note_plan(self, rows: Rows, made: Plan, pause: Floats, now: float) -> None:
        """Note a plan of these feeds and the pauses until their next refreshes."""
        calibration = made.calibration
        self._columns["delay"][rows] = (made.delay - calibration.fetch) / calibration.delay
        factor = 1.0 if calibration.lost is None else calibration.lost
        self._columns["lost"][rows] = made.lost / factor
        asked = np.isfinite(made.interval) & np.isfinite(pause) & (pause > 0) & ~made.constraints.away
        if not asked.any():
            return
        weight = made.beliefs.cost[asked] * made.constraints.open[asked]
        interval = made.interval[asked]
        median = float(np.median(interval))
        self._shared["since"] = np.minimum(self._shared["since"], now)
        age = (now - float(self._shared["since"])) / DAY
        memory = max(min(1 + age, DEMAND_MEMORY), 5 * median / DAY)
        share = self._fade("plan", now, memory)
        ratio = float((weight / pause[asked]).sum() / (weight / interval).sum())
        before = float(self._shared["demand"])
        self._shared["demand"] = np.array(before + share * (min(max(ratio, 0.2), 5.0) - before))
        self._shared["median"] = np.array(median)
        crowded = self.wait > QUEUE_SHARE * median
        if crowded or float(self._shared["left"]) > 0.5:
            step = (-1 if crowded else 1) * min(share * memory, 1.0) * USE_STEP
            self._shared["use"] = np.array(min(max(self.use + step, LEAST_USE), MOST_USE))

    def note_choice(self, late: Floats, left: int, now: float) -> None:
        """Note how long the chosen feeds have waited, and how many requests were left over."""
        share = self._fade("choice", now, WAIT_MEMORY)
        self._shared["left"] += share * (float(left > 0) - self._shared["left"])
        if len(late):  # if requests are left over, nothing has waited for the budget
            late = np.minimum(np.where(np.isfinite(late) & (left <= 0), np.maximum(late, 0.0), 0.0), DAY)
            self._shared["wait"] += share * (float(late.mean()) - self._shared["wait"])

    def observe(self, seen: Observed, polls: Floats, away: Bools) -> None:
        """Compare the delay of the items that came with the one foretold for their feeds."""
        if seen.published is None or not len(seen.published.times):
            return
        foretold = self._columns["delay"][seen.rows].astype(np.float64)
        settled = (polls >= SETTLED_POLLS) & ~away & np.isfinite(foretold) & np.isfinite(seen.start)
        owner = seen.published.owner()
        # Items dated before the last refresh were dated late, or came late: no interval explains them.
        counted = settled[owner] & (seen.published.times > seen.start[owner])
        owner = owner[counted]
        if not len(owner):
            return
        waited = np.maximum(seen.end[owner] - seen.published.times[counted], 0.0)
        share = self._fade("item", float(seen.end.max()), DELAY_MEMORY)
        sums = np.array([len(owner), waited.sum(), foretold[owner].sum()])
        self._shared["measured"] = self._shared["measured"] * (1 - share) + sums

    def _fade(self, kind: str, now: float, memory: float) -> float:
        """Return the share of a memory (days) that has passed since the last event of this kind."""
        place = ("plan", "choice", "item").index(kind)
        last = float(self._shared["at"][place])
        self._shared["at"][place] = max(now, last)
        return 1 - math.exp(-max(now - last, 0.0) / DAY / memory) if math.isfinite(last) else 0.0
