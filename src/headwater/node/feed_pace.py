"""Reads and checks the interval and the weight that a person gives a feed."""

from __future__ import annotations

import math
import re

from headwater.errors import InputError
from headwater.times import DAY, HOUR, MINUTE, format_duration

MAX_INTERVAL = 31 * DAY  # the scheduler never waits longer
MAX_WEIGHT = 1000.0
AUTOMATIC = ("", "auto", "none", "default")  # words that clear a setting
_UNITS = {"d": DAY, "h": HOUR, "min": MINUTE, "s": 1.0}  # the largest first
_DURATION = re.compile(
    r"(\d{1,9}(?:\.\d{1,6})?)\s*(?:(s|sec|secs|seconds?)|(m|min|mins|minutes?)|(h|hrs?|hours?)|(d|days?))",
    re.ASCII | re.IGNORECASE,
)


def parse_interval(text: str, least: float) -> float | None:
    """Read the longest pause between two refreshes; None where the scheduler decides. Raises InputError.

    >>> parse_interval("10m", 120.0), parse_interval("1.5 hours", 120.0), parse_interval("auto", 120.0)
    (600.0, 5400.0, None)
    """
    text = text.strip()
    if text.lower() in AUTOMATIC:
        return None
    found = _DURATION.fullmatch(text)
    if found is None:
        raise InputError(f"“{text[:50]}” is not a duration: write 10m, 2h or 1d, or “auto”.", "interval")
    unit = next(size for size, name in zip((1.0, MINUTE, HOUR, DAY), found.groups()[1:], strict=True) if name)
    return check_interval(float(found[1]) * unit, least)


def check_interval(seconds: float, least: float) -> float:
    """Return the interval if a feed can be polled that often. Raises InputError."""
    if not max(least, 1.0) <= seconds <= MAX_INTERVAL:
        shortest, longest = format_duration(max(least, 1.0)), format_duration(MAX_INTERVAL)
        raise InputError(
            f"An interval of {format_interval(seconds)} is not possible: this server polls a feed at most every "
            f"{shortest} and at least every {longest}.",
            "interval",
        )
    return seconds


def format_interval(seconds: float) -> str:
    """Write an interval exactly, so that `parse_interval` reads the same.

    >>> format_interval(600.0), format_interval(5401.0), format_interval(2 * DAY)
    ('10 min', '5401 s', '2 d')
    """
    size, unit = next((size, unit) for unit, size in _UNITS.items() if seconds % size == 0 or size == 1.0)
    return f"{seconds / size:.6f}".rstrip("0").rstrip(".") + f" {unit}"


def parse_weight(text: str) -> float:
    """Read how much an item of the feed counts; words that clear it mean 1. Raises InputError.

    >>> parse_weight("2.5"), parse_weight("auto")
    (2.5, 1.0)
    """
    if text.strip().lower() in AUTOMATIC:
        return 1.0
    try:
        weight = float(text)
    except ValueError as error:
        raise InputError(
            f"“{text.strip()[:50]}” is not a number: a weight of 1 is normal, 2 counts twice.", "weight"
        ) from error
    if not (math.isfinite(weight) and 0 <= weight <= MAX_WEIGHT):
        raise InputError("A weight must lie between 0 and 1000; 1 is normal.", "weight")
    return weight
