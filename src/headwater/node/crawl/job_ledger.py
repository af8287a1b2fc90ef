"""Counts the jobs and grants of a leader: which are in flight, what they spend, and what a previous leader left.

Decides without a clock, a store or a transport of its own: `Dispatcher` and `GrantDesk` run it, and so does the
simulation of a cluster.

A job leaves its transport when its result is handed in, and a result when it is stored. So everything in flight at a
takeover is either a job that can be listed, or among the results that waited to be stored: a change of leaders never
fetches too much.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headwater.node.crawl.spending import BudgetAccount
from headwater.node.crawl.transport import EPOCH_SHIFT, JobSender
from headwater.schedule.budget import BudgetRecord
from headwater.store.request_grants import GrantRow


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
            self._budget.charge_bytes(now, size or 0)
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


class AdoptedJobs:
    """The jobs of a previous leader: listed once at the takeover, and checked until none of them is left."""

    def __init__(self, sender: JobSender) -> None:
        self._sender = sender
        self._feeds: set[int] = set()  # their jobs were in flight at the takeover, and still are
        self._ended: set[int] = set()  # their jobs have ended; the results may not be stored yet
        self._unstored_up_to: int | None = None  # the newest result at the takeover, until it is stored
        self._ended_by = 0

    async def adopt(self) -> frozenset[int]:
        """Return the feeds whose jobs are in flight."""
        self._feeds = await self._sender.list_in_flight()
        self._unstored_up_to = await self._sender.find_newest_result()
        return frozenset(self._feeds)

    def recheck(self, feeds: Iterable[int]) -> None:
        """Check the jobs of these feeds too: the transport was made anew, and they may be lost."""
        self._feeds |= set(feeds)

    async def has_unstored_results(self) -> bool:
        """Whether results from before the takeover wait to be stored; their feeds are unknown until then."""
        if self._unstored_up_to is not None and await self._sender.is_stored_up_to(self._unstored_up_to):
            self._unstored_up_to = None
        return self._unstored_up_to is not None

    async def pop_ended(self) -> set[int]:
        """Return the feeds whose jobs have ended and whose results, if any, are stored; each feed once."""
        if self._feeds:
            waiting = await self._sender.list_in_flight()
            gone = self._feeds - waiting
            if gone:
                self._feeds &= waiting
                self._ended |= gone
                self._ended_by = await self._sender.find_newest_result()
        if not self._ended or not await self._sender.is_stored_up_to(self._ended_by):
            return set()
        ended, self._ended = self._ended, set()
        return ended


class GrantLedger:
    """The grants of one term."""

    def __init__(self, budget: BudgetAccount) -> None:
        self._budget = budget
        self._open: dict[int, float] = {}  # bytes reserved for the wishes that were granted in this term

    def end_grants(self, rows: Sequence[GrantRow], now: float) -> None:
        """Charge the requests of grants that are over. Their rows were removed, like those not listed any more."""
        listed = {row.id for row in rows}
        over = {row.id for row in rows if row.is_over}
        for id in [id for id in self._open if id in over or id not in listed]:
            reserved = self._open.pop(id)
            self._budget.charge_without_document(now, reserved, reserved)

    def choose_wishes(self, rows: Sequence[GrantRow], now: float) -> list[int]:
        """Reserve requests for as many wishes as the budget allows, oldest first, and return these wishes.

        A wish whose grant was not confirmed keeps its request: it may have been granted.
        """
        waiting = [row.id for row in rows if not (row.is_over or row.is_granted)]
        again, new = ([id for id in waiting if (id in self._open) is is_open] for is_open in (True, False))
        chosen = new[: self._budget.count_for_people(now)]
        for id in chosen:
            self._open[id] = self._budget.reserve_for_person(now)
        self._budget.people_waiting = len(new) - len(chosen)
        return [*again, *chosen]
