"""Reads ordinary documents at once, and large or suspicious ones in a worker process.

A worker costs about a millisecond per document, which ordinary documents do not pay. A document is suspicious if it has
very many tags: quadratic costs (open elements, formatting elements) need many of them, and counting bytes is fast.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np
from msgspec.structs import replace

from headwater.errors import NotAFeed
from headwater.fetch.reading.worker_pool import WorkerPool
from headwater.formats.sniff import read_to_keep
from headwater.formats.values.html import clean_early
from headwater.model import Document, Entry, Markup, Window
from headwater.novelty.item_identity import list_raw_hashes, raw_hash
from headwater.novelty.unchanged_items import ItemSources

ReadFunction = Callable[[bytes, str | None, Mapping[str, str] | None], Document[Markup]]

LARGE = 64 << 10  # larger documents can cost more than .1 s to parse
_SMALL = 16 << 10  # smaller documents cannot cost more than some .01 s
_LESS, _SLASH, _AND = np.frombuffer(b"</&", np.uint8)  # as uint8, so that comparing converts nothing
_FEW_TAGS, _MANY_TAGS, _MANY_UNCLOSED = 600, 4000, 500


def is_heavy(body: bytes) -> bool:
    """Return whether a document should be read in a worker: it is large, or has very many unclosed tags."""
    size = len(body)
    if not _SMALL < size <= LARGE:
        return size > LARGE
    signs = np.frombuffer(body, np.uint8)  # three times as fast as `bytes.count`
    opening = signs == _LESS
    unescaped = int(np.count_nonzero(opening))
    most = unescaped + int(np.count_nonzero(signs == _AND))  # an upper bound: every & counts as a tag
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


def read_and_clean(
    body: bytes, url: str | None, headers: Mapping[str, str] | None, kept: Collection[str] = ()
) -> Document[Markup]:
    """Read a feed document as `read_to_keep` does and clean its items, except those whose `raw_hash` is among `kept`.

    A worker process does this for large documents: cleaning can take seconds, and only a process can be stopped.
    """
    document = read_to_keep(body, url, headers)
    kept = frozenset(kept)
    return replace(document, items=tuple([_clean_unless_kept(item, kept) for item in document.items]))


def _clean_unless_kept(item: Entry[Markup], kept: frozenset[str]) -> Entry[Markup]:
    if kept and raw_hash(item) in kept:
        return item
    return replace(item, summary=clean_early(item.summary), content=clean_early(item.content))


class _CleanedItems:
    """Remembers the hashes of the items that workers have cleaned, for a process that does not know the stored items.

    A terminal of a cluster gets jobs without a window. An item that it leaves as published and that turns out not to be
    stored is cleaned when it is stored, and has shown before that cleaning it does not take too long.
    """

    def __init__(self, most: int = 50_000) -> None:
        self._most, self._count = most, 0
        self._hashes: dict[str, list[str]] = {}

    def find_hashes(self, url: str) -> list[str]:
        return self._hashes.get(url, [])

    def remember(self, url: str, document: Document[Markup]) -> None:
        """Note the items of a feed's document, and forget those of the feeds that were read longest ago."""
        self._count -= len(self._hashes.pop(url, ()))
        self._hashes[url] = [raw_hash(item) for item in document.items]
        self._count += len(self._hashes[url])
        while self._count > self._most:
            self._count -= len(self._hashes.pop(next(iter(self._hashes))))


class DocumentReader:
    """Reads documents so that none can delay or harm the others. Raises only NotAFeed."""

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
        self._cleaned = _CleanedItems() if read is read_to_keep else None
        heavy = read_and_clean if read is read_to_keep else read
        self._workers = WorkerPool(
            f"{heavy.__module__}:{heavy.__qualname__}",
            count=workers,
            cpu_seconds=cpu_seconds,
            wall_seconds=wall_seconds,
            memory=memory,
        )

    async def read(
        self, body: bytes, url: str, headers: Mapping[str, str], window: Window | None = None
    ) -> Document[Markup]:
        """Read a document. Items whose bytes are as in `window` are not read, and none as in it is cleaned.

        Without a window, those are not cleaned that were so in the last document of this address.
        """
        if window is None or self._read is not read_to_keep:
            return await self._read_whole(body, url, headers)
        sources = ItemSources(body)
        unchanged = sources.leave_out(window)
        if unchanged is not None:
            try:
                document = unchanged.put_back(await self._read_whole(unchanged.body, url, headers, window))
            except NotAFeed:  # the rest makes no sense alone
                document = None
            if document is not None:
                return document
        return sources.note_sources(await self._read_whole(body, url, headers, window))

    async def _read_whole(
        self, body: bytes, url: str, headers: Mapping[str, str], window: Window = ()
    ) -> Document[Markup]:
        try:
            if is_heavy(body):
                cleaned = None if window else self._cleaned
                kept = list_raw_hashes(window) if cleaned is None else cleaned.find_hashes(url)
                document = await self._workers.read(body, url, dict(headers), kept)
                if cleaned is not None:
                    cleaned.remember(url, document)
                return document
            return self._read(body, url, headers)
        except NotAFeed:
            raise
        except Exception as error:  # a hostile document must not stop the loop
            raise NotAFeed(f"The document could not be read ({type(error).__name__}).") from error

    async def close(self) -> None:
        await self._workers.close()
