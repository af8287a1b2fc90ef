"""Explains a feed's schedule in sentences: how often, when next and why, hints, losses."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo

from headwater.model import Refresh
from headwater.node.quality.feed_explanation import ScheduleExplanation
from headwater.times import describe_waiting, format_duration, format_number, format_relative, name_zone


def explain_schedule(
    explanation: ScheduleExplanation, refreshes: Sequence[Refresh], now: float, zone: tzinfo = UTC
) -> tuple[str, ...]:
    """Explain the schedule of a feed in sentences; `refreshes` are its latest, newest first."""
    lines = [
        explanation.interval,
        explanation.forecast,
        _explain_rhythm(refreshes, zone),
        _explain_next(explanation, now, zone),
        *_explain_hints(explanation),
        explanation.push,
        _explain_loss(explanation, refreshes, now),
    ]
    if explanation.kinds:
        lines.append(f"It is a special kind of feed: {', '.join(explanation.kinds)}.")
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


def _explain_next(explanation: ScheduleExplanation, now: float, zone: tzinfo) -> str:
    if explanation.feed.gone_since is not None:
        since = format_relative(explanation.feed.gone_since, now)
        return f"Its server said {since} that the feed is permanently removed (410)."
    if explanation.feed.paused:
        return "It is paused, so there is no next refresh."
    if explanation.next_refresh is None:
        return "No refresh is planned."
    soon = explanation.next_refresh <= now + 1
    at = datetime.fromtimestamp(explanation.next_refresh, zone)
    sentence = "The next refresh is due now" if soon else f"The next refresh is planned for {at:%H:%M %Z}"
    if not soon:
        sentence += f", {format_relative(explanation.next_refresh, now)}"
    if explanation.held_until is not None and explanation.held_by:
        earlier = explanation.next_refresh - explanation.held_until > 1
        wait = f"; not within the next {format_duration(explanation.held_until - now)}" if earlier else ""
        return f"{sentence}{wait}: {explanation.held_by}."
    if explanation.value is not None and explanation.price is not None and math.isfinite(explanation.value):
        saved, cost = (
            (f"saves {describe_waiting(explanation.value)} of waiting", describe_waiting(explanation.price))
            if explanation.strategy == "value"
            else (f"is worth {format_number(explanation.value)}", format_number(explanation.price))
        )
        worth = f"a refresh {saved} now, and the price is {cost}"
        waiting = f"{explanation.belief.expected_new:.1f} new items are expected and " if explanation.belief else ""
        return f"{sentence}, because {waiting}{worth}."
    return f"{sentence}: {explanation.why}." if explanation.why else f"{sentence}."


def _explain_hints(explanation: ScheduleExplanation) -> list[str]:
    if not explanation.asked:
        return ["The server sends no polling hints."]
    return [f"The server's {one.hint} is {one.value}: {one.effect}." for one in explanation.asked]


def _explain_loss(explanation: ScheduleExplanation, refreshes: Sequence[Refresh], now: float) -> str:
    lost = sum(one.lost for one in refreshes)
    sentence = ""
    if lost >= 0.5:
        got = sum(one.new for one in refreshes)
        period = format_duration(now - refreshes[-1].at)  # a busy feed's refreshes of a week are not all in the list
        sentence = f"About {lost:.0f} of {got + lost:.0f} items were lost in the last {period}."
    if explanation.belief is not None and explanation.belief.chance_of_loss > 0.05:
        chance = 100 * explanation.belief.chance_of_loss
        sentence += f" Right now the chance that its window has overflowed is {chance:.0f} %."
    return sentence.strip()
