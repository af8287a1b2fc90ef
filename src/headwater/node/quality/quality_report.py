"""The report on completeness, freshness, delay and losses that the server makes once a minute, and its saved form.

Any process can show the last report, so this module loads nothing of the scheduler.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from headwater.estimate.learned.forecast_record import ForecastRecord
from headwater.schedule.quality.tally_period import TallyPeriod
from headwater.schedule.value.plan_check import PlanCheck
from headwater.store.saved_state import load_state, save_state
from headwater.store.store import Store

REPORT = "quality"
VERSION = 1


@dataclass(frozen=True, slots=True)
class LosingFeed:
    """A feed that loses items: those noticed in the last day, those probably pushed out now, and advice."""

    feed_id: int
    title: str
    url: str
    got: int
    lost: float
    lost_now: float
    chance_of_loss: float
    per_day: float | None
    window: int
    helps: str


@dataclass(frozen=True, slots=True)
class QualityReport:
    """A report. `hour` and `day` are counted; `lost_now` and the figures derived from it are estimated.

    Completeness and freshness are None before anything was published, so that nobody shows a figure without data.
    """

    at: float
    strategy: str
    estimator: str | None
    price: float | None
    problem: str | None
    feeds: int
    hour: TallyPeriod
    day: TallyPeriod
    completeness: float | None  # of the day, as far as losses were noticed
    expected_completeness: float | None  # the same with probable losses that were not noticed yet
    lost_now: float
    freshness: float | None
    saturated: int  # feeds with a chance of loss above a half
    budget_requests: float
    used_requests: int
    budget_bytes: float | None
    used_bytes: float
    target: str | None
    target_reached: bool | None
    losing: tuple[LosingFeed, ...]
    plan_check: PlanCheck | None = None  # None where the strategy makes no plan
    forecast: ForecastRecord | None = None  # None where no learned forecast is used

    @property
    def published(self) -> float:
        """The items of the last day from which completeness is computed."""
        return self.day.got + self.day.lost


async def save_report(store: Store, report: QualityReport, now: float) -> None:
    await store.write(save_state, REPORT, VERSION, msgspec.json.encode(report), now)


async def load_last_report(store: Store) -> QualityReport | None:
    """Load the latest report; None if there is none of this version."""
    saved = await store.read(load_state, REPORT)
    if saved is None or saved[0] != VERSION:
        return None
    try:
        return msgspec.json.decode(saved[1], type=QualityReport)
    except msgspec.DecodeError:  # of another version; the next report is a minute away
        return None
