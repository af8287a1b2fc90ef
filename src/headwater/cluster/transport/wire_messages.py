"""Defines the messages between members of a cluster, and encodes them as MessagePack."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from headwater.fetch.http.remote_session import RemoteReply
from headwater.node.crawl.transport import FetchResult, Job, StoredLesson


@dataclass(frozen=True, slots=True)
class MemberReport:
    """The state of a member: `counts` since it started, `problem` the present one as a sentence."""

    name: str
    role: str
    version: str = ""
    started: float = 0.0
    clock: float = 0.0  # its wall clock at the report
    capacity: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    cpu: float = 0.0  # seconds of CPU since it started
    problem: str | None = None
    host: str = ""
    away_since: float | None = None  # since when a terminal reaches no server at all
    keep: tuple[int, ...] = ()  # partitions that it then needs for probes
    load: float = 0.0  # jobs in hand relative to its capacity, over the last minutes


@dataclass(frozen=True, slots=True)
class Hello:
    """A terminal's request for partitions. `drained` are those it no longer works on, with their epochs.

    The epochs matter if the answer comes late: the terminal may hold the partition again, under another one.
    """

    report: MemberReport
    drained: dict[int, int] = field(default_factory=dict)
    leaving: bool = False


@dataclass(frozen=True, slots=True)
class Grant:
    """The reply: partitions with the epochs of their leases, for `seconds` from the time of the request.

    `surplus` must be drained for others; while a terminal is `lacking` some, others still drain them. `controller` is
    the epoch of the leader, `clock` the database's time.
    """

    partitions: dict[int, int]
    surplus: tuple[int, ...]
    seconds: float
    controller: int
    clock: float
    problem: str | None = None
    lacking: bool = False


END_OF_TIME = 253_402_300_800.0  # the year 10,000, which dates do not have

encode = msgspec.msgpack.Encoder().encode
read_job = msgspec.msgpack.Decoder(Job).decode
_decode_results = msgspec.msgpack.Decoder(list[FetchResult]).decode
read_lessons = msgspec.msgpack.Decoder(list[StoredLesson]).decode
read_reply = msgspec.msgpack.Decoder(RemoteReply).decode
read_hello = msgspec.msgpack.Decoder(Hello).decode
read_grant = msgspec.msgpack.Decoder(Grant).decode
read_report = msgspec.json.Decoder(MemberReport).decode


def read_addressed_job(body: bytes, address: tuple[int, int] | None) -> Job:
    """Read a job that came under a partition and a feed. Raises msgspec.DecodeError, also for one of another feed."""
    job = read_job(body)
    if (job.partition, job.feed_id) != address:
        raise msgspec.ValidationError(f"It is a job of feed {job.feed_id} in partition {job.partition}")
    return job


def read_results(body: bytes) -> list[FetchResult]:
    """Read results. Raises msgspec.DecodeError, also for an impossible time, by which nobody could schedule."""
    results = _decode_results(body)
    for one in results:
        if not 0 <= one.outcome.started < END_OF_TIME:
            raise msgspec.ValidationError(f"Feed {one.feed_id} was refreshed at {one.outcome.started}")
    return results


def describe_unreadable(error: Exception) -> str:
    """Say why a message was put aside that cannot be decoded."""
    return f"It cannot be read: {error}"


def encode_report(report: MemberReport) -> str:
    """Encode a report for the table of members."""
    return msgspec.json.encode(report).decode()
