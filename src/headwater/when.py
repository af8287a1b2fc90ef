"""Times and numbers as people read them, and time zones."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from headwater.errors import SettingsError

YEAR = 31_557_600.0  # seconds, on average


def zone(name: str) -> ZoneInfo:
    """The time zone of this name; SettingsError if there is none.

    >>> zone("Europe/Vienna").key
    'Europe/Vienna'
    """
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError) as error:
        told = f"There is no time zone “{name[:100]}”; give one like Europe/Vienna."
        raise SettingsError(told, "time_zone") from error


def exactly(at: float | None) -> str:
    """
    >>> exactly(0)
    '1970-01-01 00:00:00 UTC'
    """
    return "never" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def span(seconds: float) -> str:
    """A duration, rounded to what matters.

    >>> span(42), span(150), span(7200), span(200_000), span(50_000_000)
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


def relative(at: float | None, now: float) -> str:
    """
    >>> relative(100, 160), relative(220, 160), relative(None, 0)
    ('1 min ago', 'in 1 min', 'never')
    """
    if at is None:
        return "never"
    return f"{span(now - at)} ago" if at <= now else f"in {span(at - now)}"


def figure(value: float) -> str:
    """A number for a sentence: nobody reads 4.6e-06.

    >>> figure(4.6e-06), figure(0.0312), figure(12.345), figure(0.0), figure(12_345.6)
    ('less than .001', '0.0312', '12.3', '0', '12,346')
    """
    if 0 < value < 0.001:
        return "less than .001"
    return f"{value:.3g}" if value < 999.5 else f"{value:,.0f}"
