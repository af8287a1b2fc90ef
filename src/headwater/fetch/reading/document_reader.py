"""Reading documents of strangers: ordinary ones at once, large or suspicious ones in a worker process.

A hop to a worker costs about a millisecond, so the ordinary document does not pay for it. What is suspicious is
decided by counting bytes: the costs that grow with the square of a document (open elements, formatting elements,
document types) need many of something, and many of something can be counted faster than parsed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress

import numpy as np

from headwater.errors import NotAFeed
from headwater.fetch.reading.worker_pool import WorkerPool
from headwater.formats import read_to_keep
from headwater.model import Document

ReadFunction = Callable[[bytes, str | None, Mapping[str, str] | None], Document]

LARGE = 64 << 10  # beyond this, attributes without end and the like cost more than a tenth of a second
_SMALL = 16 << 10  # too short to cost more than some hundredths of a second, whatever it holds
_FEED_ELEMENT = re.compile(rb"(?i)<(?:\w{1,20}:)?(?:rss|feed|rdf|channel)\b")
_LAST_RESORT = "headwater.formats.lastresort:read_last_resort"
_LESS, _SLASH, _AND = np.frombuffer(b"</&", np.uint8)  # of the type that they are compared with: nothing is converted
_FEW_TAGS, _MANY_TAGS, _MANY_UNCLOSED = 600, 4000, 500


def is_heavy(body: bytes) -> bool:
    """Whether a document is better read where it can be killed: large, or with more tags than are ever closed."""
    size = len(body)
    if not _SMALL < size <= LARGE:
        return size > LARGE
    signs = np.frombuffer(body, np.uint8)  # counted three times as fast as `bytes.count` does
    opening = signs == _LESS
    unescaped = int(np.count_nonzero(opening))
    most = unescaped + int(np.count_nonzero(signs == _AND))  # as if every & began a tag: usually that tells enough
    if most <= _FEW_TAGS:
        return False
    closing = int(np.count_nonzero(opening[:-1] & (signs[1:] == _SLASH)))
    if most <= _MANY_TAGS and most - 2 * closing <= _MANY_UNCLOSED:
        return False
    tags = unescaped + body.count(b"&lt;")
    if not _FEW_TAGS < tags <= _MANY_TAGS:
        return tags > _MANY_TAGS
    unclosed = tags - 2 * closing
    if unclosed <= _MANY_UNCLOSED:
        return False
    return unclosed - 2 * body.count(b"&lt;/") - body.count(b"/>") - body.count(b"/&gt;") > _MANY_UNCLOSED


class DocumentReader:
    """Reads documents without letting one of them delay or harm the rest; `NotAFeed` is all it raises for them.

    What our own reader cannot read although it holds a feed's elements is given to feedparser, which can be made to
    run for minutes and therefore only ever runs in a worker.
    """

    def __init__(
        self,
        read: ReadFunction = read_to_keep,
        *,
        workers: int = 2,
        cpu_seconds: int = 5,
        wall_seconds: float = 15.0,
        memory: int = 1 << 30,
    ) -> None:
        self._read = read
        self._workers = WorkerPool(
            f"{read.__module__}:{read.__qualname__}",
            count=workers,
            cpu_seconds=cpu_seconds,
            wall_seconds=wall_seconds,
            memory=memory,
        )
        self._last_resort = WorkerPool(_LAST_RESORT, count=1, cpu_seconds=2, wall_seconds=wall_seconds, memory=memory)

    async def read(self, body: bytes, url: str, headers: Mapping[str, str]) -> Document:
        try:
            if is_heavy(body):
                return await self._workers.read(body, url, dict(headers))
            return self._read(body, url, headers)
        except NotAFeed as error:
            refused = error
        except Exception as error:  # whatever a document does to its reader, the loop goes on
            refused = NotAFeed(f"The document could not be read ({type(error).__name__}).")
        if refused.what == "unknown" and _FEED_ELEMENT.search(body):
            with suppress(NotAFeed):
                return await self._last_resort.read(body, url, dict(headers))
        raise refused

    async def close(self) -> None:
        await self._workers.close()
        await self._last_resort.close()
