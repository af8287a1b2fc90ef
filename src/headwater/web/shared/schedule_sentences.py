"""Explains a feed's schedule in sentences: how often, when next and why, hints, losses."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo

from headwater.model import Refresh
from headwater.node.quality.feed_explanation import ScheduleExplanation
from headwater.schedule.value.value import describe_waiting
from headwater.times import format_duration, format_number, format_relative, name_zone


def explain_schedule(
    told: ScheduleExplanation, refreshes: Sequence[Refresh], now: float, zone: tzinfo = UTC
) -> tuple[str, ...]:
    """`refreshes` are the latest, newest first."""
    lines = [
        told.interval,
        told.forecast,
        _explain_rhythm(refreshes, zone),
        _explain_next(told, now, zone),
        *_explain_hints(told),
        told.push,
        _explain_loss(told, refreshes),
    ]
    if told.kinds:
        lines.append(f"It is a special kind of feed: {', '.join(told.kinds)}.")
    return tuple(line for line in lines if line)


def _explain_rhythm(refreshes: Sequence[Refresh], zone: tzinfo = UTC) -> str:
    """Say how often the feed was refreshed lately, by day and by night if that differs.

    >>> from headwater.model import Ending
    >>> _explain_rhythm([Refresh(1, 6 * 3600 - 600 * k, Ending.CHANGED) for k in range(4)])
    'Refreshed about every 10 min.'
    """
    if len(refreshes) < 2:
        return "It was refreshed only once." if refreshes else "It was never refreshed."
    gaps = [(later.at, later.at - earlier.at) for later, earlier in itertools.pairwise(refreshes)]
    hours = [datetime.fromtimestamp(at, zone).hour for at, _ in gaps]
    day = sorted(gap for (_, gap), hour in zip(gaps, hours, strict=True) if 7 <= hour < 22)
    night = sorted(gap for (_, gap), hour in zip(gaps, hours, strict=True) if not 7 <= hour < 22)
    if len(day) >= 3 and len(night) >= 3:
        by_day, by_night = day[len(day) // 2], night[len(night) // 2]
        if max(by_day, by_night) > 1.5 * min(by_day, by_night):
            nights = f"every {format_duration(by_night)} by night ({name_zone(gaps[0][0], zone)})"
            return f"Refreshed about every {format_duration(by_day)} by day and {nights}."
    middle = sorted(gap for _, gap in gaps)[len(gaps) // 2]
    return f"Refreshed about every {format_duration(middle)}."


def _explain_next(told: ScheduleExplanation, now: float, zone: tzinfo) -> str:
    if told.feed.gone_since is not None:
        return (
            f"Its server said {format_relative(told.feed.gone_since, now)} that the feed is permanently removed (410)."
        )
    if told.feed.paused:
        return "It is paused, so there is no next refresh."
    if told.next_refresh is None:
        return "No refresh is planned."
    soon = told.next_refresh <= now + 1
    at = datetime.fromtimestamp(told.next_refresh, zone)
    said = "The next refresh is due now" if soon else f"The next refresh is planned for {at:%H:%M %Z}"
    if not soon:
        said += f", {format_relative(told.next_refresh, now)}"
    if told.held_until is not None and told.held_by:
        earlier = told.next_refresh - told.held_until > 1
        wait = f"; not within the next {format_duration(told.held_until - now)}" if earlier else ""
        return f"{said}{wait}: {told.held_by}."
    if told.value is not None and told.price is not None and math.isfinite(told.value):
        saved, cost = (
            (f"saves {describe_waiting(told.value)} of waiting", describe_waiting(told.price))
            if told.strategy == "value"
            else (f"is worth {format_number(told.value)}", format_number(told.price))
        )
        worth = f"a refresh {saved} now, and the price is {cost}"
        waiting = f"{told.belief.expected_new:.1f} new items are expected and " if told.belief else ""
        return f"{said}, because {waiting}{worth}."
    return f"{said}: {told.why}." if told.why else f"{said}."


def _explain_hints(told: ScheduleExplanation) -> list[str]:
    if not told.asked:
        return ["The server sends no polling hints."]
    return [f"The server's {one.hint} is {one.value}: {one.effect}." for one in told.asked]


def _explain_loss(told: ScheduleExplanation, refreshes: Sequence[Refresh]) -> str:
    lost = sum(one.lost for one in refreshes)
    said = ""
    if lost >= 0.5:
        got = sum(one.new for one in refreshes)
        said = f"About {lost:.0f} of {got + lost:.0f} items were lost in the last week."
    if told.belief is not None and told.belief.chance_of_loss > 0.05:
        said += f" Right now the chance that its window has overflowed is {told.belief.chance_of_loss:.0%}."
    return said.strip()
