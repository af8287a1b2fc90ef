"""Reads ttl, skipHours, skipDays and sy:* as intervals and times."""

from __future__ import annotations

import math

from headwater.model import Hints, Known
from headwater.times import DAY, HOUR, WEEK

# RSS 1.0 syndication module: the periods it knows; a frequency divides them.
PERIODS = {"hourly": HOUR, "daily": DAY, "weekly": WEEK, "monthly": 30 * DAY, "yearly": 365 * DAY}
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def syndication_period(hints: Hints) -> float | None:
    """Return the seconds between updates by sy:updatePeriod and sy:updateFrequency (default: daily, 1).

    >>> syndication_period(Hints(update_period="hourly", update_frequency=2))
    1800.0
    """
    if hints.update_period is None and hints.update_frequency is None:
        return None
    period = PERIODS.get((hints.update_period or "daily").strip().lower())
    return None if period is None else period / max(hints.update_frequency or 1, 1)


def hinted_interval(hints: Hints) -> float | None:
    """Return the pause between polls that the document asks for: the longer of ttl and, without a base, sy:*."""
    intervals = [hints.ttl, syndication_period(hints) if hints.update_base is None else None]
    given = [seconds for seconds in intervals if seconds is not None and seconds > 0 and math.isfinite(seconds)]
    return max(given) if given else None


def name_longest_hint(known: Known) -> str:
    """Return the name of the hint that asks for the longest pause between polls; "" if there is none.

    >>> name_longest_hint(Known(1, "", last_success=0.0, fresh_until=300.0, hints=Hints(ttl=60.0)))
    'max-age or Expires'
    """
    fresh = None if known.fresh_until is None else known.fresh_until - (known.last_success or 0.0)
    pauses = {
        "max-age or Expires": fresh,
        "ttl": known.hints.ttl,
        "sy:updatePeriod": syndication_period(known.hints),
    }
    given = {name: pause for name, pause in pauses.items() if pause is not None and pause > 0}
    return max(given, key=given.__getitem__, default="")


def next_syndication_time(hints: Hints, last: float | None) -> float | None:
    """Return the first point of the grid of sy:updateBase after the refresh at `last`; None without a base.

    >>> next_syndication_time(Hints(update_period="hourly", update_base=600.0), 5000.0)  # 600 + 2·3600
    7800.0
    """
    period = syndication_period(hints)
    if period is None or hints.update_base is None or last is None:
        return None
    return hints.update_base + (math.floor((last - hints.update_base) / period) + 1) * period


def skip_hours_mask(hours: tuple[int, ...]) -> int:
    """Return a mask with bit h for every skipped hour; 24 means midnight. Skipping all hours is ignored.

    >>> skip_hours_mask((0, 2, 24))
    5
    """
    mask = sum(1 << hour for hour in {h % 24 for h in hours if 0 <= h <= 24})
    return 0 if mask == (1 << 24) - 1 else mask


def skip_days_mask(days: tuple[str, ...]) -> int:
    """Return a mask with bit d for every skipped weekday, Monday = 0. Skipping all days is ignored.

    >>> skip_days_mask(("Monday", "sunday", "Holiday"))
    65
    """
    mask = sum(1 << DAYS.index(day) for day in {d.strip().lower() for d in days} if day in DAYS)
    return 0 if mask == (1 << 7) - 1 else mask
