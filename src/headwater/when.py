"""Times and numbers as people read them, and time zones."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from headwater.errors import SettingsError

YEAR = 31_557_600.0  # seconds, on average


def parse_time_zone(name: str) -> ZoneInfo:
    """The time zone of this name; SettingsError if there is none.

    >>> parse_time_zone("Europe/Vienna").key
    'Europe/Vienna'
    """
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError) as error:
        told = f"There is no time zone “{name[:100]}”; give one like Europe/Vienna."
        raise SettingsError(told, "time_zone") from error


def format_time(at: float | None) -> str:
    """
    >>> format_time(0)
    '1970-01-01 00:00:00 UTC'
    """
    return "never" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def format_duration(seconds: float) -> str:
    """A duration, rounded to what matters.

    >>> format_duration(42), format_duration(150), format_duration(7200), format_duration(200_000), format_duration(50_000_000)
    ('42 s', '2.5 min', '2 h', '2.3 d', '1.6 y')
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
    """
    >>> format_relative(100, 160), format_relative(220, 160), format_relative(None, 0)
    ('1 min ago', 'in 1 min', 'never')
    """
    if at is None:
        return "never"
    return f"{format_duration(now - at)} ago" if at <= now else f"in {format_duration(at - now)}"


def format_number(value: float) -> str:
    """A number for a sentence: nobody reads 4.6e-06.

    >>> format_number(4.6e-06), format_number(0.0312), format_number(12.345), format_number(0.0), format_number(12_345.6)
    ('less than .001', '0.0312', '12.3', '0', '12,346')
    """
    if 0 < value < 0.001:
        return "less than .001"
    return f"{value:.3g}" if value < 999.5 else f"{value:,.0f}"
