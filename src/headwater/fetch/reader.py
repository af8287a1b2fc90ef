"""Reading documents of strangers: ordinary ones at once, large or suspicious ones in a worker process.

A hop to a worker costs about a millisecond, so the ordinary document does not pay for it. What is suspicious is
decided by counting bytes: the costs that grow with the square of a document (open elements, formatting elements,
document types) need many of something, and many of something can be counted faster than parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headwater.errors import NotAFeed
from headwater.fetch.workers import Workers
from headwater.formats import read as read_feed
from headwater.model import Document

Read = Callable[[bytes, str | None, Mapping[str, str] | None], Document]

LARGE = 64 << 10  # beyond this, attributes without end and the like cost more than a tenth of a second
_HARMLESS = 16 << 10  # too short to cost more than some hundredths of a second, whatever it holds
_FEW_TAGS, _MANY_TAGS, _MANY_UNCLOSED = 600, 4000, 500


def is_heavy(body: bytes) -> bool:
    """Whether a document is better read where it can be killed: large, or with more tags than are ever closed."""
    size = len(body)
    if not _HARMLESS < size <= LARGE:
        return size > LARGE
    tags = body.count(b"<") + body.count(b"&lt;")
    if not _FEW_TAGS < tags <= _MANY_TAGS:
        return tags > _MANY_TAGS
    closing = 2 * (body.count(b"</") + body.count(b"&lt;/")) + body.count(b"/>") + body.count(b"/&gt;")
    return tags - closing > _MANY_UNCLOSED


class Reader:
    """Reads documents without letting one of them delay or harm the rest; `NotAFeed` is all it raises for them."""

    def __init__(
        self,
        read: Read = read_feed,
        *,
        workers: int = 2,
        cpu_seconds: int = 5,
        wall_seconds: float = 15.0,
        memory: int = 1 << 30,
    ) -> None:
        self._read = read
        self._workers = Workers(
            f"{read.__module__}:{read.__qualname__}",
            count=workers,
            cpu_seconds=cpu_seconds,
            wall_seconds=wall_seconds,
            memory=memory,
        )

    async def read(self, body: bytes, url: str, headers: Mapping[str, str]) -> Document:
        if is_heavy(body):
            return await self._workers.read(body, url, dict(headers))
        try:
            return self._read(body, url, headers)
        except NotAFeed:
            raise
        except Exception as error:  # whatever a document does to its reader, the loop goes on
            raise NotAFeed(f"The document could not be read ({type(error).__name__}).") from error

    async def close(self) -> None:
        await self._workers.close()
