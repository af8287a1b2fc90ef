"""Declares the transport between dispatcher, fetch pool and ingest, and the values it carries.

    Dispatcher ─ send_jobs ─► receive_jobs ─ FetchPool ─ send_result ─► receive_results ─ Ingest

Memory carries them inside one process, PostgreSQL rows between nodes that share a database, NATS streams between the
roles of a cluster. A job is acknowledged when its result is safe, a result when it is stored. If a process dies in
between, the job is fetched again or the result is stored again, and nothing is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from headwater.fetch.http.redirects import Handover
from headwater.fetch.http.remote_session import RemoteReply, RemoteRequest
from headwater.model import Known, Outcome, Validators, Verdict, Window
from headwater.node.crawl.lessons import Lesson
from headwater.store.content.verdicts import SavedRefresh

NO_VALIDATORS = Validators()
EPOCH_SHIFT = 32  # a generation begins with the epoch of the leader that sent the job


class ProxiedRequest(msgspec.Struct, frozen=True):
    """One request for a waiting caller, such as a page that looks for the feeds of an address."""

    hop: RemoteRequest
    reply: str  # where the reply goes


class Job(msgspec.Struct, frozen=True, omit_defaults=True):
    """A refresh to be made. `rate` is the estimated rate of the feed, from which a loss is estimated.

    `known` is the feed's state if the job never leaves the process. A cluster reads the state when it stores the
    result, so that a repeated or late result is judged by the current state.
    """

    feed_id: int
    partition: int
    generation: int
    url: str
    reason: str
    validators: Validators = NO_VALIDATORS
    body_hash: str | None = None
    delta: bool = False
    rate: float | None = None
    way: Handover | None = None  # where an earlier request of this refresh was redirected to
    errand: ProxiedRequest | None = None  # instead of a refresh; `feed_id` is a number below zero then
    well: bool = False  # its last refresh succeeded
    wished: bool = False  # a person waits for it
    known: Known | None = None
    begin_by: float | None = None  # by the database's clock; its request may not begin later, and it is sent back

    @property
    def epoch(self) -> int:
        """The epoch of the leader that sent it."""
        return self.generation >> EPOCH_SHIFT

    @property
    def window(self) -> Window | None:
        """The items of the feed's last document; None if the job does not have the state."""
        return None if self.known is None else self.known.window


class FetchResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome of a job, with the terminal that fetched it and the epoch of the partition's lease.

    `unasked`: the outcome says nothing about the feed. The terminal reached no server at all; or the request was
    redirected (`way`), and the next one needs a job of its own; or it was too late to begin (`unbegun`).
    """

    job: Job
    outcome: Outcome
    terminal: str = ""
    epoch: int = 0
    unasked: bool = False
    way: Handover | None = None
    unbegun: bool = False

    @property
    def feed_id(self) -> int:
        return self.job.feed_id

    @property
    def url(self) -> str:
        return self.job.url

    @property
    def was_well(self) -> bool:
        return self.job.well


class StoredRefresh(msgspec.Struct, frozen=True):
    """A refresh as it was stored; `known` is the feed's state before it."""

    result: FetchResult
    known: Known
    verdict: Verdict
    saved: SavedRefresh


class StoredLesson(msgspec.Struct, frozen=True, omit_defaults=True):
    """A lesson that the leader reads from the database. A `late` one is only counted.

    An `unasked` one was not stored: its feed is due again; `way` and `unbegun` as in `FetchResult`.
    """

    generation: int
    lesson: Lesson
    late: bool = False
    unasked: bool = False
    way: Handover | None = None
    unbegun: bool = False


class ReceivedJob(NamedTuple):
    """A job in hand; `token` is for the transport that brought it."""

    job: Job
    token: Any = None


class ResultBatch(NamedTuple):
    """Results to be stored together; `token` is for the transport that brought them."""

    results: Sequence[FetchResult]
    token: Any = None


OnSafe = Callable[[Exception | None], Awaitable[None]]
"""Awaited when a result is safe, or with the reason why it cannot be made safe."""


class Intake(Protocol):
    """The fetch pool as a transport sees it: the partitions and the number of jobs that it wants."""

    concurrency: int
    demand_changed: asyncio.Event

    @property
    def room(self) -> int: ...

    @property
    def open_partitions(self) -> Sequence[int]: ...


class JobSender(Protocol):
    """The dispatcher's side of a transport."""

    async def send_jobs(self, jobs: Sequence[Job]) -> set[int]:
        """Send jobs and return the feeds taken on; a feed that has a job in flight is refused."""
        ...

    async def list_in_flight(self) -> set[int]:
        """Return the feeds with a job that nobody has finished."""
        ...

    async def find_newest_result(self) -> int:
        """Return the number of the newest result handed in."""
        ...

    async def is_stored_up_to(self, number: int) -> bool:
        """Whether all results up to that number are stored."""
        ...

    async def count_backlog(self) -> int:
        """Count the results that wait to be stored: while there are any, an overdue job may be among them."""
        ...


class JobReceiver(Protocol):
    """The fetch pool's side of a transport."""

    def receive_jobs(self, intake: Intake) -> AsyncIterator[Sequence[ReceivedJob]]:
        """Yield jobs of the open partitions, as many as there is room for, until closed."""
        ...

    async def ack_job(self, received: ReceivedJob) -> None:
        """Remove a job whose result is safe."""
        ...

    async def give_back(self, received: ReceivedJob) -> None:
        """Return a job that was not begun to the other terminals."""
        ...

    async def drop_job(self, received: ReceivedJob) -> None:
        """Remove a job that is no longer needed."""
        ...

    async def reply(self, received: ReceivedJob, reply: RemoteReply) -> None:
        """Answer a proxied request."""
        ...

    async def send_result(self, result: FetchResult, on_safe: OnSafe) -> None:
        """Take a result over; the next fetch does not wait until it is safe."""
        ...

    def abandon_results(self) -> None:
        """Stop waiting for results that are not safe yet."""
        ...


class ResultReceiver(Protocol):
    """Ingest's side of a transport."""

    def receive_results(self, stop: asyncio.Event) -> AsyncIterator[ResultBatch]:
        """Yield results in batches that grow with the load; ends when `stop` is set and nothing is left in hand."""
        ...

    async def ack_results(self, batch: ResultBatch) -> None:
        """Remove a batch that is stored."""
        ...

    async def keep_results(self, batch: ResultBatch) -> None:
        """Keep a batch that is still being worked on, while the database is away."""
        ...

    async def reject_results(self, batch: ResultBatch, failed: Sequence[tuple[FetchResult, Exception]]) -> None:
        """Remove a batch of which these results cannot be stored, and the others are."""
        ...
