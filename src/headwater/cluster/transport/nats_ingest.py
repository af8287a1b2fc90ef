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
from headwater.cluster.cluster_ingest import ClusterIngest
from headwater.cluster.transport.codec import decode_results
from headwater.cluster.transport.nats_streams import MAX_DELIVERIES, STORER_CONSUMER, NatsStreams
from headwater.cluster.transport.pull_consumer import pull_messages
from headwater.cluster.transport.wire_messages import FetchResult, encode
from headwater.errors import HeadwaterError
from headwater.loops import boot_clock, pause
from headwater.store import cluster_jobs
from headwater.store.store import Store

MAX_MESSAGES, MAX_RESULTS = 64, 256  # that are fetched at once; that are written in one transaction, or a few more
WAIT = 1.0
BATCH_SECONDS, LEAST = 0.2, 0.01  # seconds that results wait for others to be written with, unless there are enough
SOME = 3  # messages that are waited for at once

CarriedResults = tuple[Any, Sequence[FetchResult]]  # a message, and the results in it
DecodedMessage = tuple[Any, Sequence[FetchResult] | Exception]  # or why it cannot be read

log = structlog.get_logger()


def decode_message(message: Any) -> DecodedMessage:
    try:
        return message, decode_results(message.data)
    except Exception as error:
        return message, error


def count_results(found: Sequence[DecodedMessage]) -> int:
    """Of results."""
    return sum(len(results) for _, results in found if not isinstance(results, Exception))


class NatsIngest:
    """Feeds a storer from RESULTS until it is stopped."""

    def __init__(
        self, streams: NatsStreams, store: Store, storer: ClusterIngest, on_saved: Callable[[], None] = lambda: None
    ) -> None:
        self._streams = streams
        self._store = store
        self._ingest = storer
        self._on_saved = on_saved
        self.problem: str | None = None
        self.quarantined = 0

    async def run(self, stop: asyncio.Event) -> None:
        async for found in pull_messages(self._streams, "RESULTS", STORER_CONSUMER, self._fetch_messages, stop):
            await self._save_messages(found, stop)

    async def _fetch_messages(self, subscription: Any) -> list[DecodedMessage]:
        """The first message, and those that come within a moment of it, until there is enough for a transaction."""
        found = [decode_message(message) for message in await subscription.fetch(1, timeout=WAIT)]
        end = boot_clock() + BATCH_SECONDS
        with contextlib.suppress(Exception):  # what is wrong shows at the next one; these are to be dealt with
            while (
                count_results(found) < MAX_RESULTS
                and len(found) < MAX_MESSAGES
                and (left := end - boot_clock()) > LEAST
            ):
                there, room = found[-1][0].metadata.num_pending, MAX_MESSAGES - len(found)
                found += map(decode_message, await subscription.fetch(min(max(there, SOME), room), timeout=left))
        return found

    async def _save_messages(self, found: Sequence[DecodedMessage], stop: asyncio.Event) -> None:
        batch: list[CarriedResults] = []
        for message, results in found:
            if isinstance(results, Exception):
                await self._reject_message(message, message.data, f"It cannot be read: {results}")
                continue
            if message.metadata.num_delivered > MAX_DELIVERIES:  # whoever had it did not live to tell, or failed
                await self._save_batch([(message, results)], stop)
                continue
            batch.append((message, results))
            if count_results(batch) >= MAX_RESULTS:
                await self._save_batch(batch, stop)
                batch = []
        if batch:
            await self._save_batch(batch, stop)

    async def _save_batch(self, batch: Sequence[CarriedResults], stop: asyncio.Event) -> None:
        """All of them in one transaction; if that fails, message by message, and then result by result."""
        try:
            written = await self._write_patiently(batch, [one for _, results in batch for one in results], stop)
        except Exception as error:
            log.error("batch_failed", messages=len(batch), error=repr(error))
            for message, results in batch:
                if len(batch) > 1:
                    await self._save_batch([(message, results)], stop)
                else:
                    await self._save_one_by_one(message, results, stop)
            return
        if written:
            self.problem = None
            for message, _ in batch:
                await message.ack()
            fail_points.here("storer.acknowledged")

    async def _save_one_by_one(self, message: Any, results: Sequence[FetchResult], stop: asyncio.Event) -> None:
        """What can be written is; the message comes again for the rest, which is put aside in the end."""
        failed: list[tuple[FetchResult, Exception]] = []
        for one in results:
            try:
                if not await self._write_patiently([(message, [one])], [one], stop):
                    return
            except Exception as error:
                failed.append((one, error))
        if failed:
            bad, why = failed[0]
            await self._reject_message(message, encode([one for one, _ in failed]), f"Feed {bad.job.feed_id}: {why!r}")
        else:
            await message.ack()

    async def _write_patiently(
        self, batch: Sequence[CarriedResults], results: Sequence[FetchResult], stop: asyncio.Event
    ) -> bool:
        """While the database is away, wait; False if we were stopped meanwhile, and another storer gets them."""
        wait = 0.25
        while True:
            try:
                saved = await self._ingest.save_results(results)
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

    async def _reject_message(self, message: Any, body: bytes, problem: str) -> None:
        if message.metadata.num_delivered < MAX_DELIVERIES:
            await message.nak(delay=random.uniform(0.2, 1.0))
            return
        try:
            await self._store.write(
                cluster_jobs.quarantine_message, self._streams.strip_prefix(message.subject), body, problem
            )
        except HeadwaterError as error:
            log.warning("not_put_aside", error=str(error))
            await message.nak(delay=5.0)
            return
        self.quarantined += 1
        log.error("message_put_aside", subject=message.subject, problem=problem)
        await message.ack()
