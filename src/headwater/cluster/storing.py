"""The storer as a process: takes results from NATS, writes them, and says that they are safe only then.

While the database is away results wait in the stream and in our hands; none counts as failed for that. A message that
cannot be read, or that fails alone, is put aside with its body after three tries.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from headwater.cluster import fail_points
from headwater.cluster.carried import unpack
from headwater.cluster.messages import Result
from headwater.cluster.seat import pause
from headwater.cluster.storer import Storer
from headwater.cluster.streams import MOST_DELIVERED, Streams
from headwater.errors import HeadwaterError
from headwater.store import jobs
from headwater.store.store import Store

LARGEST_BATCH = 256
WAIT = 1.0

log = structlog.get_logger()


class NatsStoring:
    """Feeds a storer from RESULTS until it is stopped."""

    def __init__(
        self, streams: Streams, store: Store, storer: Storer, on_saved: Callable[[], None] = lambda: None
    ) -> None:
        self._streams = streams
        self._store = store
        self._storer = storer
        self._on_saved = on_saved
        self.problem: str | None = None
        self.put_aside = 0

    async def run(self, stop: asyncio.Event) -> None:
        subscription = None
        while not stop.is_set():
            try:
                if subscription is None:
                    stream = self._streams.stream("RESULTS")
                    subscription = await self._streams.context.pull_subscribe_bind("storers", stream)
                messages = await subscription.fetch(LARGEST_BATCH, timeout=WAIT)
            except TimeoutError:
                continue
            except Exception as error:  # the stream is gone, or NATS is: it comes back
                self.problem = f"Results cannot be fetched: {error or type(error).__name__}"
                log.warning("results_not_fetched", error=repr(error))
                if subscription is not None:
                    with contextlib.suppress(Exception):
                        await subscription.unsubscribe()
                subscription = None
                await pause(stop, random.uniform(0.5, 1.5))
                continue
            await self._take(messages, stop)

    async def _take(self, messages: Sequence[Any], stop: asyncio.Event) -> None:
        readable: list[tuple[Any, Result]] = []
        for message in messages:
            try:
                readable.append((message, unpack(message.data)))
            except Exception as error:
                await self._failed(message, f"It cannot be read: {error}")
        suspicious = [one for one in readable if one[0].metadata.num_delivered > MOST_DELIVERED]
        for one in suspicious:  # whoever had it before did not live to tell, or failed
            await self._settle([one], stop)
        rest = [one for one in readable if one[0].metadata.num_delivered <= MOST_DELIVERED]
        if rest:
            await self._settle(rest, stop)

    async def _settle(self, batch: Sequence[tuple[Any, Result]], stop: asyncio.Event) -> None:
        wait = 0.25
        while True:
            try:
                saved = await self._storer.settle([result for _, result in batch])
                break
            except HeadwaterError as error:
                self.problem = str(error)
                log.warning("batch_waits", results=len(batch), error=str(error), again_in=wait)
                if stop.is_set():
                    return  # not acknowledged: another storer gets it
                for message, _ in batch:
                    await message.in_progress()
                await pause(stop, wait)
                wait = min(2 * wait, 10.0)
            except Exception as error:
                log.error("batch_failed", results=len(batch), error=repr(error))
                if len(batch) > 1:
                    for one in batch:
                        await self._settle([one], stop)
                else:
                    await self._failed(batch[0][0], repr(error))
                return
        self.problem = None
        for message, _ in batch:
            await message.ack()
        fail_points.here("storer.acknowledged")
        if any(one.new_ids or one.updated_ids for one in saved):
            self._on_saved()

    async def _failed(self, message: Any, problem: str) -> None:
        if message.metadata.num_delivered < MOST_DELIVERED:
            await message.nak(delay=random.uniform(0.2, 1.0))
            return
        try:
            await self._store.write(jobs.put_aside, self._streams.strip(message.subject), message.data, problem)
        except HeadwaterError as error:
            log.warning("not_put_aside", error=str(error))
            await message.nak(delay=5.0)
            return
        self.put_aside += 1
        log.error("message_put_aside", subject=message.subject, problem=problem)
        await message.ack()
