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
from headwater.cluster.messages import Result, encode
from headwater.cluster.pulling import pulled
from headwater.cluster.seat import pause
from headwater.cluster.storer import Storer
from headwater.cluster.streams import MOST_DELIVERED, STORERS, Streams
from headwater.cluster.timing import awake
from headwater.errors import HeadwaterError
from headwater.store import jobs
from headwater.store.store import Store

MOST_MESSAGES, MOST_RESULTS = 64, 256  # that are fetched at once; that are written in one transaction, or a few more
WAIT = 1.0
TOGETHER, LEAST = 0.2, 0.01  # seconds that results wait for others to be written with, unless there are enough
SOME = 3  # messages that are waited for at once

Carried = tuple[Any, Sequence[Result]]  # a message, and the results in it
Opened = tuple[Any, Sequence[Result] | Exception]  # or why it cannot be read

log = structlog.get_logger()


def opened(message: Any) -> Opened:
    try:
        return message, unpack(message.data)
    except Exception as error:
        return message, error


def number(found: Sequence[Opened]) -> int:
    """Of results."""
    return sum(len(results) for _, results in found if not isinstance(results, Exception))


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
        async for found in pulled(self._streams, "RESULTS", STORERS, self._fetched, stop):
            await self._take(found, stop)

    async def _fetched(self, subscription: Any) -> list[Opened]:
        """The first message, and those that come within a moment of it, until there is enough for a transaction."""
        found = [opened(message) for message in await subscription.fetch(1, timeout=WAIT)]
        end = awake() + TOGETHER
        with contextlib.suppress(Exception):  # what is wrong shows at the next one; these are to be dealt with
            while number(found) < MOST_RESULTS and len(found) < MOST_MESSAGES and (left := end - awake()) > LEAST:
                there, room = found[-1][0].metadata.num_pending, MOST_MESSAGES - len(found)
                found += map(opened, await subscription.fetch(min(max(there, SOME), room), timeout=left))
        return found

    async def _take(self, found: Sequence[Opened], stop: asyncio.Event) -> None:
        batch: list[Carried] = []
        for message, results in found:
            if isinstance(results, Exception):
                await self._failed(message, message.data, f"It cannot be read: {results}")
                continue
            if message.metadata.num_delivered > MOST_DELIVERED:  # whoever had it did not live to tell, or failed
                await self._settle([(message, results)], stop)
                continue
            batch.append((message, results))
            if number(batch) >= MOST_RESULTS:
                await self._settle(batch, stop)
                batch = []
        if batch:
            await self._settle(batch, stop)

    async def _settle(self, batch: Sequence[Carried], stop: asyncio.Event) -> None:
        """All of them in one transaction; if that fails, message by message, and then result by result."""
        try:
            written = await self._written(batch, [one for _, results in batch for one in results], stop)
        except Exception as error:
            log.error("batch_failed", messages=len(batch), error=repr(error))
            for message, results in batch:
                if len(batch) > 1:
                    await self._settle([(message, results)], stop)
                else:
                    await self._one_by_one(message, results, stop)
            return
        if written:
            self.problem = None
            for message, _ in batch:
                await message.ack()
            fail_points.here("storer.acknowledged")

    async def _one_by_one(self, message: Any, results: Sequence[Result], stop: asyncio.Event) -> None:
        """What can be written is; the message comes again for the rest, which is put aside in the end."""
        failed: list[tuple[Result, Exception]] = []
        for one in results:
            try:
                if not await self._written([(message, [one])], [one], stop):
                    return
            except Exception as error:
                failed.append((one, error))
        if failed:
            bad, why = failed[0]
            await self._failed(message, encode([one for one, _ in failed]), f"Feed {bad.job.feed_id}: {why!r}")
        else:
            await message.ack()

    async def _written(self, batch: Sequence[Carried], results: Sequence[Result], stop: asyncio.Event) -> bool:
        """While the database is away, wait; False if we were stopped meanwhile, and another storer gets them."""
        wait = 0.25
        while True:
            try:
                saved = await self._storer.settle(results)
            except HeadwaterError as error:
                self.problem = str(error)
                log.warning("batch_waits", results=len(results), error=str(error), again_in=wait)
                if stop.is_set():
                    return False
                for message, _ in batch:
                    await message.in_progress()
                await pause(stop, wait)
                wait = min(2 * wait, 10.0)
            else:
                if any(one.new_ids or one.updated_ids for one in saved):
                    self._on_saved()
                return True

    async def _failed(self, message: Any, body: bytes, problem: str) -> None:
        if message.metadata.num_delivered < MOST_DELIVERED:
            await message.nak(delay=random.uniform(0.2, 1.0))
            return
        try:
            await self._store.write(jobs.put_aside, self._streams.strip(message.subject), body, problem)
        except HeadwaterError as error:
            log.warning("not_put_aside", error=str(error))
            await message.nak(delay=5.0)
            return
        self.put_aside += 1
        log.error("message_put_aside", subject=message.subject, problem=problem)
        await message.ack()
