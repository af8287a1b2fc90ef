"""What goes between the machines, and its form on the way: MessagePack of these values."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from headwater.cluster.leases.partitions import partition_of
from headwater.fetch.http.redirects import Handover
from headwater.fetch.http.remote_session import RemoteReply, RemoteRequest
from headwater.model import Outcome, Validators
from headwater.node.crawl.lessons import Lesson
from headwater.store.content.feed_state import FetchPlan

NO_VALIDATORS = Validators()
EPOCH_SHIFT = 32  # a generation begins with the epoch of the controller that gave it out


class ProxiedRequest(msgspec.Struct, frozen=True):
    """One request for somebody who waits for what it brings: where an address that a person gave leads."""

    hop: RemoteRequest
    reply: str  # where the answer goes


class Job(msgspec.Struct, frozen=True):
    """A refresh to be made. `rate` is what the controller believes of the feed, for the estimate of a loss."""

    feed_id: int
    partition: int
    generation: int
    url: str
    reason: str
    validators: Validators = NO_VALIDATORS
    body_hash: str | None = None
    delta: bool = False
    rate: float | None = None
    way: Handover | None = None  # a fetch that another terminal has begun, redirected to a host of ours
    errand: ProxiedRequest | None = None  # instead of a refresh; `feed_id` is a number below zero then
    well: bool = False  # its last refresh succeeded
    wished: bool = False  # a person waits for it

    @property
    def epoch(self) -> int:
        """Of the controller that wanted it."""
        return self.generation >> EPOCH_SHIFT


class FetchResult(msgspec.Struct, frozen=True):
    """What came of a job, by whom, under which epoch of the partition's lease. `unasked`: the terminal reached nobody
    at all, so that it says nothing of the feed."""

    job: Job
    outcome: Outcome
    terminal: str
    epoch: int
    unasked: bool = False


class StoredLesson(msgspec.Struct, frozen=True):
    """What the controller learns from a result that was stored; `late` results teach nothing but that they came.
    `unasked` ones (which an older controller takes for late) were not stored: their feeds are due again."""

    generation: int
    lesson: Lesson
    late: bool = False
    unasked: bool = False


@dataclass(frozen=True, slots=True)
class MemberReport:
    """How a member is doing, for those who look: `counts` since it started, `problem` the last one, in words."""

    name: str
    role: str
    version: str = ""
    started: float = 0.0
    clock: float = 0.0  # its wall clock when it said so
    capacity: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    cpu: float = 0.0  # seconds of CPU since it started
    problem: str | None = None
    host: str = ""
    away_since: float | None = None  # of a terminal that reaches no server though it reaches us
    keep: tuple[int, ...] = ()  # partitions that it needs then, to find out when that is over


@dataclass(frozen=True, slots=True)
class Hello:
    """A terminal that wants partitions, or keeps them; `drained` are those it no longer works on, with their epochs.

    A greeting may be answered late, and by then the partition may be the terminal's again, under another epoch.
    """

    report: MemberReport
    drained: dict[int, int] = field(default_factory=dict)
    leaving: bool = False


@dataclass(frozen=True, slots=True)
class Grant:
    """The answer: partitions with the epochs of their leases, for so many seconds from when it was asked for.

    `surplus` are to be drained: others have fewer; who is `lacking` some gets them when others have let go.
    `controller` is the epoch of who leads, `clock` the database's.
    """

    partitions: dict[int, int]
    surplus: tuple[int, ...]
    seconds: float
    controller: int
    clock: float
    problem: str | None = None
    lacking: bool = False


def make_job(one: FetchPlan, generation: int, reason: str, rate: float | None) -> Job:
    # A delta is merged into the window we keep, so it is only asked for where there is one.
    given = (one.validators, one.body_hash, one.windowed)
    return Job(one.feed_id, partition_of(one.url), generation, one.url, reason, *given, rate, well=one.well)


encode = msgspec.msgpack.Encoder().encode
read_job = msgspec.msgpack.Decoder(Job).decode
read_results = msgspec.msgpack.Decoder(list[FetchResult]).decode
read_lessons = msgspec.msgpack.Decoder(list[StoredLesson]).decode
read_reply = msgspec.msgpack.Decoder(RemoteReply).decode
read_hello = msgspec.msgpack.Decoder(Hello).decode
read_grant = msgspec.msgpack.Decoder(Grant).decode
