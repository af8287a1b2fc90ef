"""Samples the inputs of a server's plan, and predicts the quality of other budgets by the same plan.

A strategy that makes no plan (every one but `value`) has rates only: the prediction is then that of `value`, without
bursts and calibration.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Floats, Rows
from headwater.node.crawl.scheduler import Scheduler
from headwater.node.crawl.snapshot import pack_arrays, unpack_arrays
from headwater.schedule.plan_facts import Beliefs, Calibration, Constraints
from headwater.schedule.politeness.rules import MIN_INTERVAL
from headwater.schedule.promise import PlanInputs
from headwater.schedule.quality.least_budget import PredictedQuality, quality_by_budget
from headwater.schedule.value.objective import Objective
from headwater.schedule.value.value import Value
from headwater.times import DAY

SAMPLE_SIZE = 2000  # feeds that stand for all of them
ASSUMED_RATE = 1.0 / DAY  # of a feed without an estimate
# Plain floats: a NumPy number in the answer cannot be encoded as JSON.
BUDGET_FACTORS = (1 / 8, 1 / 4, 1 / 2, 1 / math.sqrt(2), 1.0, math.sqrt(2), 2.0, 4.0, 8.0)


@dataclass(frozen=True, slots=True)
class BeliefSample:
    """The inputs of a plan for some feeds that stand for all, and the current budget."""

    inputs: PlanInputs
    budget: float

    def encode(self) -> bytes:
        """Pack the sample for other processes."""
        inputs = self.inputs
        parts: dict[str, object] = {"beliefs": inputs.beliefs, "constraints": inputs.constraints}
        parts |= {"objective": inputs.objective, "calibration": inputs.calibration}
        arrays = {
            f"{name}.{field.name}": np.asarray(value)
            for name, part in parts.items()
            for field in fields(part)  # type: ignore[arg-type]
            if field.name != "wanted_by" and (value := getattr(part, field.name)) is not None
        }
        return pack_arrays({**arrays, "budget": np.array(self.budget)}, compressed=True)

    @classmethod
    def decode(cls, packed: bytes) -> BeliefSample:
        arrays = unpack_arrays(packed)
        inputs = PlanInputs(
            Beliefs(**_select(arrays, "beliefs")),
            Constraints(**_select(arrays, "constraints")),
            Objective(**_select(arrays, "objective")),
            Calibration(**_select(arrays, "calibration")),
        )
        return cls(inputs, float(arrays["budget"]))


def _select(arrays: Mapping[str, NDArray[Any]], part: str) -> dict[str, Any]:
    """Return the packed values of a part; single numbers as such."""
    mine = {name.split(".")[1]: value for name, value in arrays.items() if name.startswith(f"{part}.")}
    return {name: value if value.ndim else value.item() for name, value in mine.items()}


def sample_beliefs(scheduler: Scheduler, now: float) -> BeliefSample | None:
    """Return an even sample of the feeds that were read; None if there are no estimates."""
    table, strategy = scheduler.feed_table.table, scheduler.strategy
    rows = np.flatnonzero(scheduler.feed_table.active & np.isfinite(table.last))
    if not len(rows) or strategy.estimator is None:
        return None
    many = np.ones(len(rows))
    if isinstance(strategy, Value):
        rows, many = strategy.sample(table, rows, SAMPLE_SIZE)
    elif len(rows) > SAMPLE_SIZE:
        step = len(rows) / SAMPLE_SIZE
        order = np.argsort(scheduler.estimate_rates(rows), kind="stable")
        rows, many = rows[order[((np.arange(SAMPLE_SIZE) + 0.5) * step).astype(np.intp)]], np.full(SAMPLE_SIZE, step)
    return BeliefSample(gather_inputs(scheduler, rows, many, now), scheduler.budget.cap.requests)


def gather_inputs(scheduler: Scheduler, rows: Rows, many: Floats, now: float) -> PlanInputs:
    """Return the inputs of a plan for some feeds, each standing for `many`."""
    feeds, strategy = scheduler.feed_table, scheduler.strategy
    if isinstance(strategy, Value):
        return strategy.gather_inputs(feeds.table, rows, many, scheduler.limit_host_paces(now))
    table, rates = feeds.table, scheduler.estimate_rates(rows)
    rates = np.where(np.isfinite(rates) & (rates > 0), rates, ASSUMED_RATE)
    inputs = PlanInputs.of(rates, table.window[rows], table.weight[rows] * table.selectivity[rows])
    constraints = replace(
        inputs.constraints,
        earliest=np.maximum(table.pause[rows], MIN_INTERVAL),
        reason=table.reason[rows],
        at_most=table.at_most[rows],
        pushed=table.pushed[rows],
        active=table.active[rows],
        open=table.open[rows],
    )
    return replace(inputs, beliefs=replace(inputs.beliefs, many=many), constraints=constraints)


async def estimate_quality_by_budget(
    sample: BeliefSample | None, budgets: Sequence[float] | None = None
) -> list[PredictedQuality]:
    """Return the curve around the present budget; empty while nothing is believed."""
    if sample is None:
        return []
    wanted = list(budgets) if budgets is not None else [sample.budget * factor for factor in BUDGET_FACTORS]
    return await asyncio.to_thread(quality_by_budget, sample.inputs, wanted)
