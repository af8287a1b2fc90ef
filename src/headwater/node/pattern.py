"""At which hours of the week a feed publishes: what is believed beside what was counted."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.estimate.base import DAY, HOUR, WEEK
from headwater.node.explaining import ScheduleExplanation
from headwater.store.store import Store

PATTERN_WEEKS = 4
HOURS_PER_WEEK = 168


@dataclass(frozen=True, slots=True)
class WeeklyPattern:
    """Items in each hour of a week, Monday 00:00 UTC first; `counted` over `weeks` of the past."""

    believed: tuple[float, ...] | None
    counted: tuple[int, ...]
    weeks: float


async def load_weekly_pattern(store: Store, told: ScheduleExplanation, now: float) -> WeeklyPattern:
    """Of the feed that was explained."""
    times = [at for at in await store.pages.published(told.feed.id, now - PATTERN_WEEKS * WEEK) if at <= now]
    counted = [0] * HOURS_PER_WEEK
    for at in times:
        counted[int((at - 4 * DAY) % WEEK // HOUR)] += 1  # 1 January 1970 was a Thursday
    weeks = min(max((now - min(times, default=now)) / WEEK, 1.0), float(PATTERN_WEEKS))
    return WeeklyPattern(None if told.belief is None else told.belief.by_weekday_hour, tuple(counted), weeks)
