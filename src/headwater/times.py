"""Formats times, durations and numbers, parses instants and time zones, names MINUTE … YEAR."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from headwater.errors import SettingsError

MINUTE = 60.0  # seconds
HOUR = 3_600.0
DAY = 86_400.0
WEEK = 7 * DAY
YEAR = 31_557_600.0  # on average


def parse_time_zone(name: str) -> ZoneInfo:
    """Find a time zone by name; raises SettingsError if there is none.

    >>> parse_time_zone("Europe/Vienna").key
    'Europe/Vienna'
    """
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError) as error:
        message = f"There is no time zone “{name[:100]}”. Use a name such as Europe/Vienna."
        raise SettingsError(message, "time_zone") from error


def format_time(at: float | None, zone: tzinfo = UTC) -> str:
    """Write a time for people, in their time zone.

    >>> format_time(0), format_time(0, ZoneInfo("Europe/Vienna")), format_time(None)
    ('1970-01-01 00:00:00 UTC', '1970-01-01 01:00:00 CET', 'never')
    """
    return "never" if at is None else datetime.fromtimestamp(at, zone).strftime("%Y-%m-%d %H:%M:%S %Z")


def name_zone(at: float, zone: tzinfo) -> str:
    """Return the name of a time zone's clocks at a time: UTC, CET, …

    >>> name_zone(0, UTC)
    'UTC'
    """
    return datetime.fromtimestamp(at, zone).strftime("%Z")


def find_utc_offset(at: float, zone: tzinfo) -> float:
    """Return by how many seconds the clocks of a time zone were ahead of UTC.

    >>> find_utc_offset(0, ZoneInfo("Europe/Vienna"))
    3600.0
    """
    offset = datetime.fromtimestamp(at, zone).utcoffset()
    return 0.0 if offset is None else offset.total_seconds()


def format_duration(seconds: float) -> str:
    """Write a duration with two digits.

    >>> [format_duration(seconds) for seconds in (42, 150, 7200, 200_000, 50_000_000)]
    ['42 s', '2.5 min', '2 h', '2.3 d', '1.6 y']
    """
    seconds = abs(seconds)
    for size, unit in ((YEAR, "y"), (86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return (
                f"{seconds / size:.0f} {unit}"
                if seconds >= 10 * size
                else f"{seconds / size:.1f} {unit}".replace(".0", "")
            )
    return f"{seconds:.0f} s"


def format_relative(at: float | None, now: float) -> str:
    """Write how long ago or ahead a time is, in whole units.

    >>> format_relative(100, 160), format_relative(13_600, 160), format_relative(None, 0)
    ('1 min ago', 'in 4 h', 'never')
    >>> format_relative(0, 425 * DAY), format_relative(0, 3 * YEAR)
    ('14 months ago', '3 years ago')
    """
    if at is None:
        return "never"
    distance = _format_whole_units(abs(now - at))
    return f"{distance} ago" if at <= now else f"in {distance}"


def format_due(at: float, now: float) -> str:
    """Write when something falls due, which is now once its moment has come.

    >>> format_due(100, 160), format_due(220, 160)
    ('now', 'in 1 min')
    """
    return "now" if at <= now else format_relative(at, now)


def _format_whole_units(seconds: float) -> str:
    for limit, size, unit in (
        (MINUTE, 1.0, "s"),
        (HOUR, MINUTE, "min"),
        (2 * DAY, HOUR, "h"),
        (60 * DAY, DAY, "d"),
        (2 * YEAR, YEAR / 12, "months"),
    ):
        if round(seconds / size) * size < limit:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / YEAR:.0f} years"


def format_number(value: float) -> str:
    """Write a number for a sentence, with three digits.

    >>> [format_number(value) for value in (4.6e-06, 0.0312, 12.345, 0.0, 12_345.6)]
    ['less than .001', '0.0312', '12.3', '0', '12,346']
    """
    if 0 < value < 0.001:
        return "less than .001"
    return f"{value:.3g}" if value < 999.5 else f"{value:,.0f}"


def describe_waiting(item_days: float) -> str:
    """Write item-days of waiting as a time, summed over items.

    >>> describe_waiting(0.01), describe_waiting(8.881e-08)
    ('14 min', 'less than 1 s')
    """
    return format_duration(item_days * DAY) if item_days * DAY >= 1 else "less than 1 s"


def format_share(share: float | None, items: float = 1e4) -> str:
    """Write a share of `items` as a percentage with the digits that so many items support, and never rounded up to all.

    >>> format_share(0.98123), format_share(0.98123, 500), format_share(0.98123, 50), format_share(0.99999, 50)
    ('98.12 %', '98.1 %', '98 %', '99 %')
    >>> format_share(1.0), format_share(0.0), format_share(None)
    ('100 %', '0 %', '–')
    """
    if share is None:
        return "–"
    if share in (0.0, 1.0):
        return f"{share:.0%}".replace("%", " %")
    digits = 0 if items < 100 else 1 if items < 1000 else 2
    return f"{math.floor(share * 100 * 10**digits + 1e-9) / 10**digits:.{digits}f} %"


def format_plain(value: float) -> str:
    """Write a number for an axis: without exponent, and no longer than needed.

    >>> [format_plain(value) for value in (0.0, 1.5e-07, 0.0004, 0.25, 3.0, 1200.0, 2.5e6)]
    ['0', '0.00000015', '0.0004', '0.25', '3', '1,200', '2,500,000']
    """
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.9f}".rstrip("0").rstrip(".") if value else "0"


_INSTANT = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[Tt ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(?: ?[Zz]|[+-]\d{2}:?\d{2})?)?", re.ASCII
)


def parse_instant(text: str) -> float | None:
    """Read a date as epoch seconds: a bare day is its midnight, a time without zone is UTC. None if it is not a date.

    >>> parse_instant("1970-01-02"), parse_instant("1970-01-01T01:00+01:00"), parse_instant("01/03/2024")
    (86400.0, 0.0, None)
    """
    text = text.strip()
    if not _INSTANT.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text.replace(" Z", "Z").replace(" z", "Z").upper())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def format_instant(epoch: float | None) -> str:
    """Write a time in ISO format.

    >>> format_instant(0.0), format_instant(None), format_instant(1e300)
    ('1970-01-01T00:00:00Z', '', '')
    """
    if epoch is None:
        return ""
    try:
        return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):  # beyond the calendar
        return ""
