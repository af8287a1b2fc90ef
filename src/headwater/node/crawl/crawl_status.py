"""What became of the TARGET of a query, as the status and `query explain` show it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TargetOutcome:
    """What a query asks for: whether it is expected to be met, what is expected, by what, and in words.

    `times` is how much more than its importance its feeds count for it; `requests_per_minute` is what they get, or
    where that does not suffice, what would if there were no others.
    """

    query: str
    reached: bool
    requests_per_minute: float
    completeness: float
    freshness: float
    delay: float
    feeds: int
    message: str
    times: float = 1.0
