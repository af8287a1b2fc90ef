"""Deliveries by NATS: one publisher claims what is due and hands it out, all publishers send.

The table of deliveries stays the truth: a claim that comes to nothing is due again when its time has passed, a message
that fails is due later by the same back-off, and what never succeeds is dead there and shown to its owner.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any

import msgspec
import structlog

from headwater.cluster.transport.nats_streams import KINDS, NatsStreams
from headwater.cluster.transport.pull_consumer import pull_messages
from headwater.cluster.transport.wire_messages import encode
from headwater.loops import pause
from headwater.publish.delivery.deliverer import LEASE, Deliverer
from headwater.store.cluster_leases import ClusterLease
from headwater.store.publishing.deliveries import Delivery, claim_due_batches
from headwater.store.store import Store

DISPATCHER = "dispatcher"
LOOK = 0.5
AT_ONCE = 8

read_batch = msgspec.msgpack.Decoder(list[Delivery]).decode
log = structlog.get_logger()


class Dispatch:
    """Claims what is due and publishes it to OUT; one at a time, under a lease."""

    def __init__(self, streams: NatsStreams, store: Store) -> None:
        self._streams = streams
        self._store = store
        self.counts = {"dispatched": 0}

    async def run(self, held: ClusterLease, over: asyncio.Event) -> None:
        """Work of the seat."""
        store = self._store.fenced(held)
        while not over.is_set():
            batches = await store.write(claim_due_batches, time.time(), LEASE)
            for batch in batches:
                await self._streams.retry.retry_until_done(
                    "deliveries", "OUT", partial(self._publish, batch), until=lambda problem: over.is_set()
                )
            self.counts["dispatched"] += len(batches)
            if not batches:
                await pause(over, LOOK)

    async def _publish(self, batch: list[Delivery]) -> None:
        first = batch[0]
        identity = {"Nats-Msg-Id": f"{first.batch or first.id}-{first.attempts}"}
        await self._streams.publish_messages(
            [(self._streams.full_subject(f"out.{first.kind}"), encode(batch), identity)]
        )


class Publisher:
    """Sends what comes from OUT until it is stopped."""

    def __init__(self, streams: NatsStreams, deliverer: Deliverer) -> None:
        self._streams = streams
        self._deliverer = deliverer
        self.counts = {"delivered": 0}

    async def run(self, stop: asyncio.Event) -> None:
        await asyncio.gather(*(self._follow(kind, stop) for kind in KINDS))

    async def _follow(self, kind: str, stop: asyncio.Event) -> None:
        async def fetch(subscription: Any) -> list[Any]:
            return list(await subscription.fetch(AT_ONCE, timeout=1.0))

        async for messages in pull_messages(self._streams, "OUT", kind, fetch, stop):
            await asyncio.gather(*map(self._send, messages))

    async def _send(self, message: Any) -> None:
        try:
            await self._deliverer.deliver_batch(read_batch(message.data))
        except Exception as error:  # the claim in the table passes, and it is due again
            log.error("delivery_failed", error=repr(error))
            await message.nak(delay=5.0)
            return
        self.counts["delivered"] += 1
        await message.ack()
