"""Defines the messages between members of a cluster, and encodes them as MessagePack.

Results travel several in a message, compressed where it pays, and within the size that NATS accepts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
import structlog
import zstandard
from msgspec.structs import replace

from headwater.fetch.http.remote_session import RemoteReply
from headwater.formats.values.html import measure_markup, shorten_markup
from headwater.model import Document, Markup
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
    """Say why a message cannot be decoded."""
    return f"It cannot be read: {error}"


def encode_report(report: MemberReport) -> str:
    """Encode a report for the table of members."""
    return msgspec.json.encode(report).decode()


MIN_COMPRESSED = 16 << 10
ZSTD_MAGIC = b"(\xb5/\xfd"  # the first bytes of zstandard; a list in MessagePack begins with others
MAX_DECODED = 64 << 20
SHORTENED = "Texts were shortened: the document was too large for NATS (max_payload)."

log = structlog.get_logger()


def encode_results(results: Sequence[FetchResult], largest: int) -> Iterator[tuple[Sequence[FetchResult], bytes]]:
    """Encode results in as few messages as possible, none larger than `largest`; yield each with its results."""
    body = _encode_compressed(results)
    if len(body) <= largest or len(results) == 1:
        yield results, body if len(body) <= largest else _encode_shortened(results[0], largest)
        return
    half = len(results) // 2
    yield from encode_results(results[:half], largest)
    yield from encode_results(results[half:], largest)


def decode_results(body: bytes) -> list[FetchResult]:
    if body.startswith(ZSTD_MAGIC):
        body = zstandard.ZstdDecompressor().decompress(body, max_output_size=MAX_DECODED)
    return read_results(body)


def _encode_shortened(result: FetchResult, largest: int) -> bytes:
    """Encode a result that is too large: texts are shortened, the longest first, and all items stay."""
    body = _encode_compressed([result])
    longest = 100_000
    while len(body) > largest and result.outcome.document is not None and longest >= 100:
        log.warning("result_shortened", feed=result.job.feed_id, bytes=len(body), texts_of=longest)
        result = replace(
            result, outcome=replace(result.outcome, document=_shorten_document(result.outcome.document, longest))
        )
        body = _encode_compressed([result])
        longest //= 10
    return body


def _encode_compressed(results: Sequence[FetchResult]) -> bytes:
    body = encode(results)
    return body if len(body) < MIN_COMPRESSED else zstandard.ZstdCompressor(level=1).compress(body)


def _shorten_document(document: Document[Markup], longest: int) -> Document[Markup]:
    items = tuple(
        replace(entry, content=None, summary=shorten_markup(entry.summary, longest))
        if measure_markup(entry.content) + measure_markup(entry.summary) > longest
        else entry
        for entry in document.items
    )
    problems = document.problems if SHORTENED in document.problems else (*document.problems, SHORTENED)
    return replace(document, items=items, problems=problems)
