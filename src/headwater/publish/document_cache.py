"""Caches rendered documents until their items change.

One small query tells whether anything in the store has changed. It runs at most every `CHECK_SECONDS`, for any number
of feeds and readers. Only after a change is the window of a feed read, and only a different window is rendered again.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from headwater.model import Document, Entry, Feed, Item
from headwater.publish import channels
from headwater.publish.published_documents import (
    MEDIA_TYPES,
    PAGE_ITEMS,
    DocumentKey,
    DocumentPlace,
    PageAddress,
    compose_document,
    last_change,
    render_document,
    render_opml,
    to_entries,
)
from headwater.store.content.feeds import find_feeds, list_feeds
from headwater.store.publishing.private_feeds import (
    LIST_PATH,
    PublicAccess,
    load_public_access,
    read_access_version,
    read_publication_version,
)
from headwater.store.queries.hits import find_last_hit, list_hits_after
from headwater.store.readers.accounts import find_owner
from headwater.store.readers.subscriptions import list_subscriptions
from headwater.store.store import Store

CHECK_SECONDS = 0.25
STALE_SECONDS = 60.0  # then a window is read again in any case: KEEP 2 DAYS drops items without arrivals
MAX_BYTES = 64 << 20
MAX_SINCE = 1_000  # items beyond the feed's window in one push
REMEMBERED_STATES = 16  # earlier states of a document for deltas (RFC 3229)


@dataclass(slots=True)
class CachedDocument:
    """A rendered document. `archive` marks a page that does not change any more."""

    body: bytes
    zipped: bytes
    etag: str
    modified: float
    type: str
    archive: bool = False
    links: tuple[tuple[str, str], ...] = ()  # (address, relation): self and hub
    document: Document | None = None
    stamp: Hashable = None
    version: Hashable = None
    read: float = 0.0
    before: OrderedDict[str, frozenset[Hashable]] = field(default_factory=OrderedDict)  # etag → hashes of its entries
    deltas: dict[str, bytes] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return len(self.body) + len(self.zipped)


class DocumentCache:
    """The published documents of a store. `base` is the server's address in their links."""

    def __init__(
        self, store: Store, base: str, *, clock: Callable[[], float] = time.time, hub: tuple[str, ...] = ()
    ) -> None:
        self._store = store
        self.base = base.rstrip("/")
        self._clock = clock
        self.hubs = hub
        self._cached: OrderedDict[DocumentKey, CachedDocument] = OrderedDict()
        self._bytes = 0
        self._version: Hashable = None
        self._access, self._access_version = PublicAccess(), (-1, -1)
        self._checked_at, self._expired = float("-inf"), False
        self._locks: dict[DocumentKey, asyncio.Lock] = {}
        self._check_lock = asyncio.Lock()

    def token_opens(self, token: str | None, path: str) -> bool:
        """Return whether a token opens a private feed."""
        given = hashlib.sha256((token or "").encode("utf-8", "replace")).digest()
        return self._access.tokens.get(given) == path.casefold()

    def is_private(self, path: str) -> bool:
        """Return whether a feed was not public at the last check."""
        return path.casefold() not in self._access.public

    @property
    def is_current(self) -> bool:
        """Whether the last check for changes is recent, as for nearly all requests."""
        return time.monotonic() - self._checked_at <= CHECK_SECONDS

    def find_ready(self, key: DocumentKey) -> CachedDocument | None:
        """Return the document if it is cached and was unchanged at the last check."""
        found = self._cached.get(key)
        return found if found is not None and self._is_fresh(found) else None

    def expire(self) -> None:
        """Make the next request check for changes."""
        self._checked_at, self._expired = float("-inf"), True

    async def find_document(
        self, path: str, format: str, page: PageAddress | None, token: str | None, *, signed_in: bool = False
    ) -> CachedDocument | None:
        """Return the document, or None if it does not exist or the token does not open it.

        Both cases look the same, so that strangers learn nothing about private feeds. `signed_in` is for an account
        that may read the feed, and needs no token.
        """
        if not self.is_current:
            await self.refresh_version()
        if signed_in or not self.is_private(path):
            token = None
        elif not self.token_opens(token, path):
            return None
        key = (path, format, page, token)
        return self.find_ready(key) or await self.load_document(key)

    async def load_document(self, key: DocumentKey) -> CachedDocument | None:
        """Return the current document, or None if it does not exist."""
        await self.refresh_version()
        found = self._cached.get(key)
        if found is not None and self._is_fresh(found):
            self._cached.move_to_end(key)
            return found
        lock = self._locks.setdefault(key, asyncio.Lock())
        try:
            async with lock:  # many concurrent requests read the store once
                found = self._cached.get(key)
                if found is None or not self._is_fresh(found):
                    found = await self._build_document(key, found)
                    self._store_document(key, found)
                return found
        finally:
            if not lock.locked():
                self._locks.pop(key, None)

    def render_delta(self, found: CachedDocument, etags: Sequence[str]) -> bytes | None:
        """Return the document without the entries of one of these earlier states (RFC 3229), or None."""
        known = next((etag for etag in etags if etag in found.before), None)
        if known is None or found.document is None:
            return None
        if known not in found.deltas:
            seen = found.before[known]
            fresh = tuple(entry for entry in found.document.items if _entry_hash(entry) not in seen)
            part = replace(found.document, items=fresh)
            found.deltas[known] = render_document(part)
        return found.deltas[known]

    async def last_hit_id(self, path: str) -> int:
        """Return the id of the last hit of a query feed; 0 for other channels."""
        channel = await channels.find_channel(self._store, path)
        return (
            await self._store.read(find_last_hit, channel.query.id) if isinstance(channel, channels.QueryChannel) else 0
        )

    async def render_since(self, path: str, found: CachedDocument, after: int) -> bytes:
        """Return the document plus the items that arrived after the hit `after` and have already left its window."""
        channel = await channels.find_channel(self._store, path)
        if found.document is None or not isinstance(channel, channels.QueryChannel):
            return found.body
        hits = await self._store.read(list_hits_after, channel.query.id, after=after, limit=MAX_SINCE)
        items = [hit.item for hit in hits if hit.fresh]
        shown = {entry.id for entry in found.document.items}
        more = [entry for entry in to_entries(items, await self._load_feeds(items)) if entry.id not in shown]
        if not more:
            return found.body
        return await asyncio.to_thread(
            render_document, replace(found.document, items=(*found.document.items, *more[::-1]))
        )

    def _is_fresh(self, found: CachedDocument) -> bool:
        return found.version == self._version and (found.archive or self._clock() - found.read < STALE_SECONDS)

    async def refresh_version(self) -> None:
        """Check the store for changes, unless the last check is recent."""
        if time.monotonic() - self._checked_at <= CHECK_SECONDS:
            return
        async with self._check_lock:
            if time.monotonic() - self._checked_at > CHECK_SECONDS:
                self._expired = False
                access_version = await self._store.read(read_access_version)
                version = await self._store.read(read_publication_version)
                if access_version != self._access_version:
                    self._access = await self._store.read(load_public_access)
                self._version, self._access_version = version, access_version
                if not self._expired:  # otherwise the version may be older than the change
                    self._checked_at = time.monotonic()

    def _store_document(self, key: DocumentKey, cached: CachedDocument | None) -> None:
        old = self._cached.pop(key, None)
        self._bytes -= old.size if old else 0
        if cached is None:
            return
        self._cached[key] = cached
        self._bytes += cached.size
        while self._bytes > MAX_BYTES and len(self._cached) > 1:
            _, dropped = self._cached.popitem(last=False)
            self._bytes -= dropped.size

    async def _build_document(self, key: DocumentKey, old: CachedDocument | None) -> CachedDocument | None:
        path, format, page, token = key
        now, version = self._clock(), self._version
        if format == "opml":
            return await self._build_opml(DocumentPlace(self.base, path, format, None, token), old, now, version)
        channel = await channels.find_channel(self._store, path)
        if channel is None:
            return None
        found = await _load_window(channel, page, now)
        if found is None:
            return None
        items = found.items
        feeds = await self._load_feeds(items)
        stamp = (
            found.title,
            found.older,
            found.newer,
            *((item.id, item.version) for item in items),
            *feeds.values(),
        )
        if old is not None and old.stamp == stamp:
            old.version, old.read = version, now
            return old
        place = DocumentPlace(self.base, path, format, page, token)
        entries, changed = to_entries(items, feeds), last_change(items, now) or channel.since
        document = compose_document(
            place, found.title, entries, changed, older=found.older, newer=found.newer, hub=self.hubs
        )
        cached = await asyncio.to_thread(_make_cached, render_document(document), MEDIA_TYPES[format], changed, old)
        cached.archive, cached.document, cached.stamp = found.is_fixed, document, stamp
        cached.version, cached.read, cached.links = version, now, self._list_links(place)
        cached.before[cached.etag] = frozenset(map(_entry_hash, entries))
        while len(cached.before) > REMEMBERED_STATES:
            cached.before.popitem(last=False)
        return cached

    async def _load_feeds(self, items: Sequence[Item]) -> Mapping[int, Feed]:
        return await self._store.read(find_feeds, {item.feed_id for item in items})

    def _list_links(self, place: DocumentPlace) -> tuple[tuple[str, str], ...]:
        return ((place.url, "self"), *((hub, "hub") for hub in self.hubs))

    async def _build_opml(
        self, place: DocumentPlace, old: CachedDocument | None, now: float, version: Hashable
    ) -> CachedDocument | None:
        path = place.path
        tag = path.removeprefix("/tags/") if path.startswith("/tags/") else None
        if tag is None and path != LIST_PATH:
            return None
        feeds = await self._store.read(list_feeds, tag=tag)
        if tag is not None and not feeds:
            return None
        if tag is None:  # the subscriptions of other readers are private
            owner = await self._store.read(find_owner)
            subscribed = {subscription.feed_id for subscription in await self._store.read(list_subscriptions, owner.id)}
            feeds = [feed for feed in feeds if feed.id in subscribed]
        body = await asyncio.to_thread(render_opml, feeds, "Subscriptions" if tag is None else tag)
        cached = _make_cached(body, MEDIA_TYPES["opml"], max((feed.added for feed in feeds), default=0.0), old)
        cached.version, cached.read, cached.links = version, now, self._list_links(place)
        return cached


@dataclass(frozen=True, slots=True)
class _Window:
    """The items of a document, its title, and the archive pages beside it; a fixed one keeps its items."""

    items: Sequence[Item]
    title: str
    older: PageAddress | None
    newer: PageAddress | None = None
    is_fixed: bool = False


async def _load_window(channel: channels.Channel, page: PageAddress | None, now: float) -> _Window | None:
    """Return the items of the current document or of an archive page, or None if there is no such page."""
    if page is None:
        shown = await channel.list_shown(now)
        return _Window(shown, channel.title, await channel.find_newest_page(shown, PAGE_ITEMS))
    found = await channel.find_page(page, PAGE_ITEMS)
    if found is None:
        return None
    older, newer = (None if upto is None else PageAddress("upto", upto) for upto in (found.older, found.newer))
    return _Window(found.items, f"{channel.title}, page {found.number}", older, newer, found.is_fixed)


def _make_cached(body: bytes, type: str, modified: float, old: CachedDocument | None) -> CachedDocument:
    etag = hashlib.blake2b(body, digest_size=12).hexdigest()
    if old is not None:
        # Last-Modified has whole seconds: two changes within one must still differ.
        modified = max(modified, old.modified + 1) if old.etag != etag else old.modified
    before = old.before if old is not None else OrderedDict()
    return CachedDocument(body, gzip.compress(body, 6, mtime=0), etag, modified, type, before=before)


def _entry_hash(entry: Entry) -> Hashable:
    """Return the hash by which states of a document are compared; a changed item counts as new."""
    return hash(entry)
