"""The documents that have been asked for, kept as bytes until what they show changes.

Whether anything has changed at all is one small question to the store, asked at most every `LOOK` seconds however many
feeds and readers there are. Only then is a feed's window read, and only if it differs is the document written anew.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headwater.model import Document, Entry, Feed, Item
from headwater.publish import channels
from headwater.publish.documents import PAGE, TYPES, Key, Place, changed, compose, entries, render, render_list
from headwater.store.store import Store
from headwater.store.values import Access

LOOK = 0.25
STALE = 60.0  # seconds after which a window is read in any case: KEEP 2 DAYS loses items while nothing arrives
MOST_BYTES = 64 << 20
MOST_SINCE = 1_000  # items that one push may carry beyond a feed's window
REMEMBERED = 16  # earlier states of a document that RFC 3229 can tell the difference from


@dataclass(slots=True)
class Cached:
    """A document ready to be sent. `archive` is a page that will not change any more."""

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
    before: OrderedDict[str, frozenset[Hashable]] = field(default_factory=OrderedDict)  # etag → what it showed
    deltas: dict[str, bytes] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return len(self.body) + len(self.zipped)


class Documents:
    """The published documents of a store. `base` is the address that stands in them."""

    def __init__(
        self, store: Store, base: str, *, clock: Callable[[], float] = time.time, hub: tuple[str, ...] = ()
    ) -> None:
        self._store = store
        self.base = base.rstrip("/")
        self._clock = clock
        self.hub = hub
        self._kept: OrderedDict[Key, Cached] = OrderedDict()
        self._bytes = 0
        self._version: Hashable = None
        self._access = Access()
        self._looked, self._expired = float("-inf"), False
        self._turn: dict[Key, asyncio.Lock] = {}
        self._looking = asyncio.Lock()

    async def may_read(self, path: str, token: str | None) -> bool:
        """Whether a feed is public, or the token opens it."""
        await self.look()
        return not self.is_private(path) or self.opens(token, path)

    def opens(self, token: str | None, path: str) -> bool:
        """Whether a token opens a private feed."""
        given = hashlib.sha256((token or "").encode("utf-8", "replace")).digest()
        return self._access.tokens.get(given) == path.casefold()

    def is_private(self, path: str) -> bool:
        """As far as was known at the last look."""
        return bool(self._access.private) and path.casefold() in self._access.private

    @property
    def current(self) -> bool:
        """Whether the store was asked for changes a moment ago: the way of nearly all requests."""
        return time.monotonic() - self._looked <= LOOK

    def ready(self, key: Key) -> Cached | None:
        """The document if it is here and was unchanged at the last look."""
        found = self._kept.get(key)
        return found if found is not None and self._fresh(found) else None

    def expire(self) -> None:
        """Something has changed: the next who asks looks."""
        self._looked, self._expired = float("-inf"), True

    async def find(self, path: str, format: str, page: int | None, token: str | None) -> Cached | None:
        """The document for somebody with this token, or without one; the same None for what is not there and for what
        is not for them: strangers learn nothing."""
        if not self.current:
            await self.look()
        if not self.is_private(path):
            token = None
        elif not self.opens(token, path):
            return None
        key = (path, format, page, token)
        return self.ready(key) or await self.get(key)

    async def get(self, key: Key) -> Cached | None:
        """The document as it is now; None where there is nothing of that name."""
        await self.look()
        found = self._kept.get(key)
        if found is not None and self._fresh(found):
            self._kept.move_to_end(key)
            return found
        turn = self._turn.setdefault(key, asyncio.Lock())
        try:
            async with turn:  # a hundred readers at once, one reading
                found = self._kept.get(key)
                if found is None or not self._fresh(found):
                    found = await self._make(key, found)
                    self._keep(key, found)
                return found
        finally:
            if not turn.locked():
                self._turn.pop(key, None)

    def delta(self, found: Cached, etags: Sequence[str]) -> bytes | None:
        """The document without what a reader has seen who holds one of these earlier states (RFC 3229)."""
        known = next((etag for etag in etags if etag in found.before), None)
        if known is None or found.document is None:
            return None
        if known not in found.deltas:
            seen = found.before[known]
            fresh = tuple(one for one in found.document.items if _sign(one) not in seen)
            part = Document(**{name: getattr(found.document, name) for name in Document.__slots__} | {"items": fresh})
            found.deltas[known] = render(part)
        return found.deltas[known]

    async def last_hit(self, path: str) -> int:
        """Where the stream of a query feed ends now; 0 for anything else."""
        channel = await channels.find(self._store, path)
        return await self._store.publishing.last_hit(channel.query.id) if isinstance(channel, channels.Queried) else 0

    async def since(self, path: str, found: Cached, after: int) -> bytes:
        """The document together with what has come since the hit `after` and has left its window again."""
        channel = await channels.find(self._store, path)
        if found.document is None or not isinstance(channel, channels.Queried):
            return found.body
        hits = await self._store.queries.stream(channel.query.id, after=after, limit=MOST_SINCE)
        items = [hit.item for hit in hits if hit.fresh]
        shown = {entry.id for entry in found.document.items}
        more = [entry for entry in entries(items, await self._feeds(items)) if entry.id not in shown]
        if not more:
            return found.body
        return await asyncio.to_thread(render, replace(found.document, items=(*found.document.items, *more[::-1])))

    def _fresh(self, found: Cached) -> bool:
        return found.version == self._version and (found.archive or self._clock() - found.read < STALE)

    async def look(self) -> None:
        """Ask the store whether anything has changed, unless that was asked a moment ago."""
        if time.monotonic() - self._looked <= LOOK:
            return
        async with self._looking:
            if time.monotonic() - self._looked > LOOK:
                self._expired = False
                seen = await self._store.publishing.version()
                if seen != self._version:
                    self._access = await self._store.publishing.access()
                self._version = seen
                if not self._expired:  # else this answer may be older than what has changed
                    self._looked = time.monotonic()

    def _keep(self, key: Key, made: Cached | None) -> None:
        old = self._kept.pop(key, None)
        self._bytes -= old.size if old else 0
        if made is None:
            return
        self._kept[key] = made
        self._bytes += made.size
        while self._bytes > MOST_BYTES and len(self._kept) > 1:
            _, gone = self._kept.popitem(last=False)
            self._bytes -= gone.size

    async def _make(self, key: Key, old: Cached | None) -> Cached | None:
        path, format, page, token = key
        now, at = self._clock(), self._version
        if format == "opml":
            return await self._list(Place(self.base, path, format, None, token), old, now, at)
        channel = await channels.find(self._store, path)
        if channel is None:
            return None
        count = await channel.count()
        archives = count // PAGE
        if page is not None and not 1 <= page <= archives:
            return None
        items = await (channel.shown(now) if page is None else channel.past((page - 1) * PAGE, PAGE))
        feeds = await self._feeds(items)
        signs = (channel.title, archives, *((item.id, item.version) for item in items), *feeds.values())
        if old is not None and old.stamp == signs:
            old.version, old.read = at, now
            return old
        place = Place(self.base, path, format, page, token)
        shown, when = entries(items, feeds), changed(items, now) or channel.since
        document = compose(place, channel.title, shown, when, archives=archives, hub=self.hub)
        made = await asyncio.to_thread(_cached, render(document), TYPES[format], when, old)
        made.archive, made.document, made.stamp, made.version, made.read = page is not None, document, signs, at, now
        made.links = self._links(place)
        made.before[made.etag] = frozenset(map(_sign, shown))
        while len(made.before) > REMEMBERED:
            made.before.popitem(last=False)
        return made

    async def _feeds(self, items: Sequence[Item]) -> Mapping[int, Feed]:
        return await self._store.feeds_by_id({item.feed_id for item in items})

    def _links(self, place: Place) -> tuple[tuple[str, str], ...]:
        return ((place.url, "self"), *((hub, "hub") for hub in self.hub))

    async def _list(self, place: Place, old: Cached | None, now: float, at: Hashable) -> Cached | None:
        path = place.path
        tag = path.removeprefix("/tags/") if path.startswith("/tags/") else None
        if tag is None and path != "/feeds":
            return None
        feeds = await self._store.feeds(tag=tag)
        if tag is not None and not feeds:
            return None
        if tag is None:  # what others read is nobody's business
            owner = await self._store.accounts.owner()
            mine = {one.feed_id for one in await self._store.reading.subscriptions(owner.id)}
            feeds = [feed for feed in feeds if feed.id in mine]
        body = await asyncio.to_thread(render_list, feeds, "Subscriptions" if tag is None else tag)
        made = _cached(body, TYPES["opml"], max((feed.added for feed in feeds), default=0.0), old)
        made.version, made.read, made.links = at, now, self._links(place)
        return made


def _cached(body: bytes, type: str, modified: float, old: Cached | None) -> Cached:
    etag = hashlib.blake2b(body, digest_size=12).hexdigest()
    if old is not None:
        # Last-Modified has whole seconds: two changes within one must still differ.
        modified = max(modified, old.modified + 1) if old.etag != etag else old.modified
    before = old.before if old is not None else OrderedDict()
    return Cached(body, gzip.compress(body, 6, mtime=0), etag, modified, type, before=before)


def _sign(entry: Entry) -> Hashable:
    """By what a later state of a document shows the same: the entry itself; a changed item counts as new."""
    return hash(entry)
