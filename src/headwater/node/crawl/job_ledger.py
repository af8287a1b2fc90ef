"""Counts the jobs of a leader: which are in flight, what they spend, and when one without a result is due again.

Decides without a clock or a transport of its own: `Dispatcher` runs it, and so does the simulation of a cluster.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from headwater.node.crawl.spending import BudgetAccount
from headwater.node.crawl.transport import EPOCH_SHIFT
from headwater.schedule.budget import BudgetRecord


@dataclass(slots=True)
class InFlightJob:
    """A job that was sent; `reserved` is its part of the budget. Both are None for a job of the previous leader."""

    generation: int | None
    deadline: float
    reserved: float | None


class JobLedger:
    """The jobs of one term. `now` is the clock of the budget, `boot` a clock that nobody sets."""

    def __init__(self, budget: BudgetAccount, epoch: int = 0, in_flight_seconds: float = math.inf) -> None:
        self._budget = budget
        self._in_flight_seconds = in_flight_seconds
        self._generation = self._first_generation = epoch << EPOCH_SHIFT
        self.in_flight: dict[int, InFlightJob] = {}

    def inherit(self, record: BudgetRecord, age: float, open_seconds: float, now: float) -> None:
        """Count what the previous leader spent by its last record; its open requests end within `open_seconds`."""
        self._budget.inherit(now, record, age, open_seconds)

    def number_job(self) -> int:
        """Return the generation of the next job."""
        self._generation += 1
        return self._generation

    def begin_job(self, feed_id: int, generation: int, host: int, now: float, boot: float) -> None:
        """Reserve the request of a job that is about to be sent."""
        reserved = self._budget.reserve(now, host)
        self.in_flight[feed_id] = InFlightJob(generation, boot + self._in_flight_seconds, reserved)

    def adopt_job(self, feed_id: int, boot: float) -> None:
        """Count a job of the previous leader as in flight; its budget has the request."""
        self.in_flight[feed_id] = InFlightJob(None, boot + self._in_flight_seconds, None)

    def land_job(self, feed_id: int, generation: int, size: int | None, host: int | None, now: float) -> bool:
        """Charge the request of a result, and return whether its feed is free again.

        `size` is that of the document, None if the request was redirected; `host` is None if the feed was removed. The
        result of an earlier job does not end the present one, whose request may still begin. A pushed document had no
        job.
        """
        job = self.in_flight.get(feed_id)
        if not generation or (job is not None and job.generation not in (None, generation)):
            return False
        self.in_flight.pop(feed_id, None)
        if generation < self._first_generation:
            self._budget.charge_inherited(now, size or 0)
            return True
        reserved = None if job is None else job.reserved
        if reserved is None:  # a probe, or its time had run out
            if host is None:
                return True
            reserved = self._budget.reserve(now, host)
        if size is None:
            self._budget.charge_without_document(now, reserved, 0.0)
        else:
            self._budget.charge(now, reserved, size)
        return True

    def cancel_jobs(self, feed_ids: Iterable[int], now: float) -> None:
        """Forget jobs without a result. Their requests may have been sent, so they are charged."""
        for feed in feed_ids:
            job = self.in_flight.pop(feed, None)
            if job is not None and job.reserved is not None:
                self._budget.charge_without_document(now, job.reserved, job.reserved)

    def list_overdue(self, boot: float) -> list[int]:
        """List the feeds whose jobs have brought no result in time."""
        return [feed for feed, job in self.in_flight.items() if job.deadline < boot]

    def extend_deadlines(self, feed_ids: Iterable[int], deadline: float) -> None:
        for feed in feed_ids:
            self.in_flight[feed].deadline = deadline
