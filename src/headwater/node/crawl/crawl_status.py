"""Defines the status of a crawl, with the outcome of each query's TARGET."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TargetOutcome:
    """Whether the TARGET of a query is expected to be reached, with the expected quality and a sentence.

    A target that is measured as broken is not reached. Figures without data are None.
    `times` multiplies the importance of the query for its feeds. `requests_per_minute` is the share of its feeds in the
    budget; if that is not enough, the budget that they would need alone.
    """

    query: str
    reached: bool
    requests_per_minute: float
    completeness: float | None
    freshness: float | None
    delay: float | None
    feeds: int
    message: str
    times: float = 1.0


@dataclass(frozen=True, slots=True)
class CrawlStatus:
    """The state of the crawl at this moment."""

    feeds: int
    under_way: int
    strategy: str
    budget_per_minute: float
    budget_left: int
    next_due: float | None
    held_hosts: int
    spent: int = 0  # requests that the budget counts now: of the last minute, or longer if it is below one a minute
    spent_bytes: float = 0.0
    budget_bytes: float | None = None  # per minute
    problem: str | None = None  # the error of a custom strategy
    target: str | None = None  # in target mode: the expected quality, or why it cannot be reached
    target_reached: bool | None = None
    queries: int = 0
    aims: tuple[TargetOutcome, ...] = ()  # TARGETs of queries, and whether the budget suffices
    network_away_since: float | None = None  # no server responds: the network of this machine seems to be down
    moved_at: float | None = None  # when the crawl last went on; None before it begins
