"""Dates as scripts write them and templates show them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_INSTANT = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[Tt ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(?: ?[Zz]|[+-]\d{2}:?\d{2})?)?", re.ASCII
)


def parse_instant(text: str) -> float | None:
    """Epoch seconds of a date; a bare day is its midnight and a time without zone is UTC. None if it is no date.

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
    """
    >>> format_instant(0.0), format_instant(None), format_instant(1e300)
    ('1970-01-01T00:00:00Z', '', '')
    """
    if epoch is None:
        return ""
    try:
        return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):  # beyond the calendar
        return ""
