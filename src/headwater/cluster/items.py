"""Items on their way from the database to query processors: the relay that publishes the outbox, and who follows it.

The outbox has one order and the relay keeps it: each entry names its position and the one before. Who follows sees a
gap by that (the stream ends sooner than the outbox, or was wiped) and reads the database instead, until both meet.
What was written together goes together: a message for each item would cost more than the item's way into the database.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec
import structlog

from headwater.cluster import fail_points
from headwater.cluster.leases.partitions import partition_of
from headwater.cluster.transport.nats_publisher import OutgoingMessage
from headwater.cluster.transport.nats_streams import NatsStreams
from headwater.cluster.transport.wire_messages import encode
from headwater.loops import pause
from headwater.store.cluster_leases import ClusterLease
from headwater.store.content.feed_state import load_fetch_plans
from headwater.store.content.outbox import OutboxEntry, advance_checkpoint, list_outbox_entries, read_checkpoint
from headwater.store.store import Store

RELAY = "relay"
BATCH = 500  # entries that are read at once
PIECE = 128 << 10  # bytes of a message, unless one entry is larger
MESSAGES = 16  # that are fetched at once by who follows
LOOK, LONGEST = 0.25, 1.0  # seconds between two looks at the outbox, of which other storers do not wake us
BEFORE = 60.0  # seconds before an entry's time from which the stream is read: clocks differ


@dataclass(frozen=True, slots=True)
class Announced:
    """An entry of the outbox on its way; `previous` is the position before it."""

    entry: OutboxEntry
    previous: int


_read = msgspec.msgpack.Decoder(list[Announced] | Announced).decode
log = structlog.get_logger()


def read_announced(body: bytes) -> list[Announced]:
    """The entries of a message; one that an older relay has published has one, by itself."""
    found = _read(body)
    return found if isinstance(found, list) else [found]


def pieces(entries: Sequence[OutboxEntry], previous: int, largest: int) -> Iterator[tuple[OutboxEntry, str, bytes]]:
    """Messages of entries that follow each other, each with its first entry and its id.

    An entry that is too large for any message is left out: who follows sees the gap and reads the database.
    """
    some: list[tuple[OutboxEntry, bytes]] = []
    size = 0
    for entry in entries:
        body = encode(Announced(entry, previous))
        previous = entry.position
        if some and size + len(body) > min(PIECE, largest):
            yield _message(some)
            some, size = [], 0
        if len(body) <= largest:
            some.append((entry, body))
            size += len(body)
        else:
            log.warning("item_not_announced", position=entry.position, bytes=len(body), largest=largest)
    if some:
        yield _message(some)


def _message(some: Sequence[tuple[OutboxEntry, bytes]]) -> tuple[OutboxEntry, str, bytes]:
    first, last = some[0][0], some[-1][0]
    identity = f"{first.position}" if first is last else f"{first.position}-{last.position}"
    return first, identity, encode([msgspec.Raw(body) for _, body in some])


class Relay:
    """Publishes the outbox to ITEMS; one at a time, under a lease."""

    def __init__(self, streams: NatsStreams, store: Store) -> None:
        self._streams = streams
        self._store = store
        self._woken = asyncio.Event()
        self.counts = {"relayed": 0}

    def wake(self) -> None:
        self._woken.set()

    async def run(self, held: ClusterLease, over: asyncio.Event) -> None:
        """Work of the seat."""
        store = self._store.fenced(held)
        await store.write(advance_checkpoint, RELAY, 0)  # from here on retention spares what was not relayed
        position = await store.read(read_checkpoint, RELAY)
        wait = LOOK
        while not over.is_set():
            self._woken.clear()
            entries = await store.read(list_outbox_entries, position, BATCH)
            if not entries:
                await pause(self._woken, wait)
                wait = min(2 * wait, LONGEST)
                continue
            wait = LOOK
            fail_points.here("relay.read")
            publish = partial(self._publish, entries, position)
            await self._streams.retry.retry_until_done("items", "ITEMS", publish, until=lambda problem: over.is_set())
            fail_points.here("relay.published")
            await store.write(advance_checkpoint, RELAY, entries[-1].position)
            fail_points.here("relay.advanced")
            position = entries[-1].position
            self.counts["relayed"] += len(entries)

    async def _publish(self, entries: Sequence[OutboxEntry], previous: int) -> None:
        largest = max(self._streams.link.max_payload - 4096, 4096)
        found = list(pieces(entries, previous, largest))
        feeds = await self._store.read(load_fetch_plans, {first.item.feed_id for first, _, _ in found})
        messages: list[OutgoingMessage] = []
        for first, identity, body in found:
            feed = feeds.get(first.item.feed_id)
            partition = partition_of(feed.url) if feed is not None else 0
            subject = self._streams.full_subject(f"it.{partition}.{first.item.feed_id}")
            messages.append((subject, body, {"Nats-Msg-Id": identity}))
        await self._streams.publish_messages(messages)


class Followed:
    """The outbox as the stream tells it; what the stream does not have comes from the database."""

    def __init__(self, streams: NatsStreams, store: Store) -> None:
        self._streams = streams
        self._store = store
        self._subscription: Any = None
        self._waiting: deque[Announced] = deque()
        self._looked = 0.0
        self.counts = {"from_stream": 0, "from_database": 0}

    async def read(self, after: int, limit: int) -> list[OutboxEntry]:
        """Entries beyond a position, in order; nothing is left out, but the latest may come a moment later."""
        try:
            if self._subscription is None:
                await self._begin(after)
            await self._fetch(limit)
        except Exception as error:
            log.warning("items_not_followed", error=repr(error))
            await self.close()
            return await self._from_database(after, limit)
        while self._waiting and self._waiting[0].entry.position <= after:
            self._waiting.popleft()
        if not self._waiting:
            return await self._in_silence(after, limit)
        if self._waiting[0].previous > after:
            entries = await self._from_database(after, limit)
            if entries:
                return entries
            after = self._waiting[0].previous  # what was between is no more: removed, or read by everybody
        return self._ready(after, limit)

    def _ready(self, after: int, limit: int) -> list[OutboxEntry]:
        ready: list[OutboxEntry] = []
        while self._waiting and len(ready) < limit and self._waiting[0].previous <= after:
            one = self._waiting.popleft()
            if one.entry.position > after:
                ready.append(one.entry)
                after = one.entry.position
        self.counts["from_stream"] += len(ready)
        return ready

    async def _in_silence(self, after: int, limit: int) -> list[OutboxEntry]:
        """Nothing comes: look into the database from time to time, whether the stream has been lost."""
        if time.monotonic() - self._looked < 2.0:
            return []
        self._looked = time.monotonic()
        return await self._from_database(after, limit)

    async def _from_database(self, after: int, limit: int) -> list[OutboxEntry]:
        entries = await self._store.read(list_outbox_entries, after, limit)
        self.counts["from_database"] += len(entries)
        return entries

    async def _begin(self, after: int) -> None:
        from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

        first = await self._store.read(list_outbox_entries, after, 1)
        common: dict[str, Any] = {"ack_policy": AckPolicy.NONE, "inactive_threshold": 60.0}
        if first:
            start = datetime.fromtimestamp(first[0].at - BEFORE, UTC)
            config = ConsumerConfig(deliver_policy=DeliverPolicy.BY_START_TIME, opt_start_time=start, **common)
        else:
            config = ConsumerConfig(deliver_policy=DeliverPolicy.NEW, **common)
        stream, context = self._streams.stream_name("ITEMS"), self._streams.context
        made = await context.add_consumer(stream, config)
        self._subscription = await context.pull_subscribe_bind(made.name, stream)

    async def _fetch(self, limit: int) -> None:
        room = 4 * limit - len(self._waiting)
        if room <= 0:
            return
        with contextlib.suppress(TimeoutError):
            wait = 0.02 if self._waiting else 0.25
            for message in await self._subscription.fetch(min(room, MESSAGES), timeout=wait):
                self._waiting += read_announced(message.data)

    async def close(self) -> None:
        self._waiting.clear()
        if self._subscription is not None:
            with contextlib.suppress(Exception):
                await self._subscription.unsubscribe()
            self._subscription = None
