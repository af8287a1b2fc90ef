"""Encodes results: several in a message, compressed where it pays, and within the size that NATS accepts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import structlog
import zstandard
from msgspec.structs import replace

from headwater.cluster.transport.wire_messages import encode, read_results
from headwater.formats.values.html import measure_markup, shorten_markup
from headwater.model import Document, Markup
from headwater.node.crawl.transport import FetchResult

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


def encode_result(result: FetchResult, largest: int = MAX_DECODED) -> bytes:
    """Encode one result."""
    [(_, body)] = encode_results([result], largest)
    return body


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
