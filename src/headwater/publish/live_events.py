"""Follows query feeds and yields server-sent events from any position of the stream, in order of arrival.

There are no queues per client. The recent events of a watched feed are kept once for all its clients. A client that is
further behind, on a slow line or after a day, reads from the store until it has caught up.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Sequence

import orjson

from headwater.formats.write.json_feed import build_json_item
from headwater.model import Feed, QueryFeed
from headwater.publish.published_documents import to_entry
from headwater.store.content.feeds import find_feeds
from headwater.store.queries.hits import StoredHit, find_last_hit, list_hits_after
from headwater.store.store import Store

RECENT_EVENTS = 500  # events kept for clients that are up to date
POLL_SECONDS = 1.0  # between two reads of the store without a wake-up
READ_HITS = 100
HEARTBEAT = 15.0  # seconds without events before a comment keeps the connection open

LiveEvent = tuple[int, bytes]  # id of the hit and its event, which is empty for back-filled items


class WatchedQuery:
    """A query feed with at least one client, and its recent events."""

    def __init__(self, query: QueryFeed, start: int) -> None:
        self.query = query
        self.start = self.end = start  # `recent` has all events in (start, end]
        self.recent: deque[LiveEvent] = deque()
        self.wake = asyncio.Event()
        self.watchers = 0
        self.has_events = asyncio.Event()  # replaced after each batch
        self.task: asyncio.Task[None] | None = None

    def add_events(self, events: Sequence[LiveEvent]) -> None:
        self.recent.extend(events)
        self.end = events[-1][0]
        while len(self.recent) > RECENT_EVENTS:
            self.start = self.recent.popleft()[0]
        self.has_events.set()
        self.has_events = asyncio.Event()


class LiveEvents:
    """The live streams of a store. Call `wake` after new hits; hits of other processes are seen within a second."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._watched: dict[int, WatchedQuery] = {}

    @property
    def watcher_count(self) -> int:
        return sum(one.watchers for one in self._watched.values())

    def wake(self, hits: Iterable[StoredHit]) -> None:
        for query_id in {hit.query_id for hit in hits}:
            if (one := self._watched.get(query_id)) is not None:
                one.wake.set()

    async def follow_query(
        self, query: QueryFeed, after: int | None, heartbeat: float = HEARTBEAT
    ) -> AsyncGenerator[bytes, None]:
        """Yield the events after the hit `after`, or from now on, and comments during silence."""
        watched = await self._start_watching(query)
        cursor = watched.end if after is None else after
        try:
            yield b"retry: 3000\n\n"
            while True:
                happened = watched.has_events
                if cursor >= watched.end:
                    try:
                        await asyncio.wait_for(happened.wait(), heartbeat)
                    except TimeoutError:
                        yield b":\n\n"
                    continue
                if cursor >= watched.start:
                    events: Sequence[LiveEvent] = [event for event in watched.recent if event[0] > cursor]
                else:
                    events = await self._read_events(watched.query, cursor)
                    if not events:  # the hits have been deleted
                        cursor = watched.start
                        continue
                cursor = events[-1][0]
                if sent := b"".join(text for _, text in events):
                    yield sent
        finally:
            watched.watchers -= 1
            if not watched.watchers and watched.task is not None:
                watched.task.cancel()
                self._watched.pop(query.id, None)

    async def _start_watching(self, query: QueryFeed) -> WatchedQuery:
        if query.id not in self._watched:
            end = await self._store.read(find_last_hit, query.id)
            if query.id not in self._watched:
                watched = self._watched[query.id] = WatchedQuery(query, end)
                watched.task = asyncio.create_task(self._read_new_hits(watched))
        watched = self._watched[query.id]
        watched.watchers += 1
        return watched

    async def _read_new_hits(self, watched: WatchedQuery) -> None:
        """Read the store once for all clients of a query feed."""
        while True:
            watched.wake.clear()
            with contextlib.suppress(Exception):  # the store logs its failures; retry in a second
                while events := await self._read_events(watched.query, watched.end):
                    watched.add_events(events)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(watched.wake.wait(), POLL_SECONDS)

    async def _read_events(self, query: QueryFeed, after: int) -> list[LiveEvent]:
        hits = await self._store.read(list_hits_after, query.id, after=after, limit=READ_HITS)
        feeds = await self._store.read(find_feeds, {hit.item.feed_id for hit in hits})
        return [(hit.id, format_event(hit, feeds.get(hit.item.feed_id)) if hit.fresh else b"") for hit in hits]


def format_event(hit: StoredHit, feed: Feed | None) -> bytes:
    """Format an item as a server-sent event; its id is the position in the stream."""
    data = orjson.dumps(build_json_item(to_entry(hit.item, feed)))  # JSON escapes line breaks
    return b"id: %d\nevent: item\ndata: %b\n\n" % (hit.id, data)
