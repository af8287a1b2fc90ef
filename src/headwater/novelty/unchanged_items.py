"""Leaves items out of reading whose bytes are those of the last document; most items of a refresh are.

The window remembers a hash of each item's bytes. What is left of a document without its known items is a document,
too: it is read, and the known items are put back in their places, with identity and date.

Everything doubtful is read whole. An item is left out only where every item has a guid of its own, because its name
depends on nothing else then, and where the rest is well formed without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from html import escape
from itertools import pairwise

from msgspec.structs import astuple, replace

from headwater.model import Document, Entry, FetchedEntry, Markup, Window
from headwater.novelty.item_identity import SOURCE_HASH, find_source, has_guid_name, shorten_identity

_MAX_ITEMS = 5_000
_BEHIND_NAME = (b">", b" ", b"\n", b"\r", b"\t")


class ItemSources:
    """The bytes of a document's items: from the start tag of each to the next end tag of its name."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._spans = _find_items(body)
        self._hashes = [_hash_bytes(body[start:end]) for start, end in self._spans]

    def leave_out(self, window: Window) -> UnchangedItems | None:
        """Return the document without the items that are as in the window; None if it has to be read whole."""
        if not self._spans or not window or not all(has_guid_name(stored) for _, stored in window):
            return None
        known = {
            found[0]: FetchedEntry(id=identity, published=found[1], source_hash=found[0], stored=stored)
            for identity, stored in window
            if (found := find_source(stored)) is not None
        }
        items = [known.get(one) for one in self._hashes]
        if not any(items):
            return None
        pieces, done = [], 0
        for (start, end), item in zip(self._spans, items, strict=True):
            if item is not None:
                pieces.append(self._body[done:start])
                done = end
        return UnchangedItems(b"".join((*pieces, self._body[done:])), items)

    def note_sources(self, document: Document[Markup]) -> Document[Markup]:
        """Return the document, its items with the hashes of their bytes where it is certain whose bytes they are."""
        if not _is_sound(document) or len(document.items) != len(self._spans):
            return document
        items = [
            _note_source(item, digest, self._body[start:end])
            for item, digest, (start, end) in zip(document.items, self._hashes, self._spans, strict=True)
        ]
        return replace(document, items=tuple(items))


class UnchangedItems:
    """The known items of a document, each in its place, and the rest of it as `body`."""

    def __init__(self, body: bytes, items: Sequence[FetchedEntry | None]) -> None:
        self.body = body
        self._items = items

    def put_back(self, rest: Document[Markup]) -> Document[Markup] | None:
        """Return the whole document after its rest was read; None if it has to be read whole."""
        rest = ItemSources(self.body).note_sources(rest)
        if not _is_sound(rest) or len(rest.items) != sum(one is None for one in self._items):
            return None
        read = iter(rest.items)
        items = tuple(next(read) if one is None else one for one in self._items)
        guids = {shorten_identity(one.id) for one in items if one.id}
        return replace(rest, items=items) if len(guids) == len(items) else None


def _find_items(body: bytes) -> list[tuple[int, int]]:
    """Return where items start and end; searching for two strings takes a tenth of the time of parsing."""
    spans: list[tuple[int, int]] = []
    places = [(place, name) for name in (b"item", b"entry") if (place := _find_start(body, name, 0)) >= 0]
    if not places:
        return []
    start, name = min(places)
    closing = b"</" + name + b">"
    while start >= 0 and len(spans) <= _MAX_ITEMS:
        at = body.find(closing, start)
        if at < 0:
            break
        at += len(closing)
        spans.append((start, at))
        start = _find_start(body, name, at)
    return spans if len(spans) <= _MAX_ITEMS and not _may_be_hidden(body, spans) else []


def _may_be_hidden(body: bytes, spans: Sequence[tuple[int, int]]) -> bool:
    """Say whether items may stand in a comment or CDATA section, so that they are no items."""
    head = body[: spans[0][0]] if spans else b""
    if head.rfind(b"<!--") > head.rfind(b"-->") or head.rfind(b"<![CDATA[") > head.rfind(b"]]>"):
        return True
    return any(b"<!" in body[end:start] for (_, end), (start, _) in pairwise(spans))


def _find_start(body: bytes, name: bytes, at: int) -> int:
    tag = b"<" + name
    while (at := body.find(tag, at)) >= 0:
        if body[at + len(tag) : at + len(tag) + 1] in _BEHIND_NAME:
            return at
        at += len(tag)
    return -1


def _is_sound(document: Document[Markup]) -> bool:
    return document.encoding == "utf-8" and not document.problems and not document.missing


def _note_source(item: Entry[Markup], digest: str, source: bytes) -> Entry[Markup]:
    """Return an item with the hash of its bytes, if its guid stands in them and its date is one that is kept."""
    if not item.id or (item.published is None and item.updated is not None):
        return item
    if item.id.encode() not in source and escape(item.id, quote=False).encode() not in source:
        return item
    return FetchedEntry(*astuple(item), source_hash=digest)  # type: ignore[misc]  # an Entry has fewer fields


def _hash_bytes(source: bytes) -> str:
    return blake2b(source, digest_size=SOURCE_HASH // 2).hexdigest()
