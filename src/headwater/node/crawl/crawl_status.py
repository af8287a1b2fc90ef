"""Defines the status of a crawl, with the outcome of each query's TARGET."""

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


@dataclass(frozen=True, slots=True)
class CrawlStatus:
    """What the crawler is doing at this moment."""

    feeds: int
    under_way: int
    strategy: str
    budget_per_minute: float
    budget_left: int
    next_due: float | None
    held_hosts: int
    spent: int = 0  # requests of the last minute
    spent_bytes: float = 0.0
    budget_bytes: float | None = None  # per minute
    problem: str | None = None  # what went wrong with a person's own strategy
    target: str | None = None  # in target mode: what is reached, or that it cannot be
    target_reached: bool | None = None
    queries: int = 0
    aims: tuple[TargetOutcome, ...] = ()  # TARGETs of queries, and whether the budget suffices
    network_away_since: float | None = None  # nobody answers: the network of this machine seems to be away
