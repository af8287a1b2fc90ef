"""Defines what members of a cluster say to each other, and encodes it as MessagePack."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from headwater.fetch.http.remote_session import RemoteReply
from headwater.node.crawl.transport import FetchResult, Job, StoredLesson


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


encode = msgspec.msgpack.Encoder().encode
read_job = msgspec.msgpack.Decoder(Job).decode
read_results = msgspec.msgpack.Decoder(list[FetchResult]).decode
read_lessons = msgspec.msgpack.Decoder(list[StoredLesson]).decode
read_reply = msgspec.msgpack.Decoder(RemoteReply).decode
read_hello = msgspec.msgpack.Decoder(Hello).decode
read_grant = msgspec.msgpack.Decoder(Grant).decode
