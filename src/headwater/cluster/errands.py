"""Errands: what pages and APIs ask of strangers' hosts goes through the terminals that hold them.

Somebody gives an address, and the process of the page would have to look where it leads. It may not ask the host
itself, which has a terminal of its own: so each request becomes a job of its partition, and the answer comes back, by
NATS to an inbox, with PostgreSQL alone as a row that waits under a name.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Connection, delete

from headwater.cluster.messages import Errand, Job, encode, read_hopped
from headwater.cluster.partition import partition_of
from headwater.fetch.errand import Hop, Hopped
from headwater.model import Ending
from headwater.store import jobs, state
from headwater.store.jobs import JobRow
from headwater.store.store import Store
from headwater.store.tables import state as state_table

PATIENCE = 60.0  # seconds that somebody waits
LOOK = 0.1
PREFIX = "errand/"
KEPT = 600.0  # seconds after which an answer that nobody has fetched goes


def job_of(hop: Hop, reply: str) -> Job:
    number = -1 - random.getrandbits(62)  # of no feed
    return Job(number, partition_of(hop.url), 0, hop.url, "where an address leads", errand=Errand(hop, reply))


def unanswered(hop: Hop) -> Hopped:
    host = urlsplit(hop.url).hostname or hop.url
    return Hopped(
        ending=Ending.TIMEOUT,
        message=f"No terminal has asked {host} within {PATIENCE:.0f} seconds. Look at /cluster, then try again.",
    )


def fitting(hopped: Hopped, largest: int) -> bytes:
    """As a message; an answer that NATS does not take is one that is too large."""
    body = encode(hopped)
    if len(body) < largest:
        return body
    message = f"The document is too large for NATS: {len(hopped.body):,} bytes, at most {largest:,} (max_payload)."
    return encode(Hopped(ending=Ending.TOO_LARGE, message=message, received=hopped.received))


class NatsErrands:
    """`link` is NATS' connection, `offer` publishes jobs."""

    def __init__(self, link: Any, offer: Callable[[list[Job]], Awaitable[object]]) -> None:
        self._link = link
        self._offer = offer

    async def send(self, hop: Hop) -> Hopped:
        inbox = self._link.new_inbox()
        answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        async def hear(message: Any) -> None:
            if not answered.done():
                answered.set_result(message.data)

        subscription = await self._link.subscribe(inbox, cb=hear)
        try:
            await self._offer([job_of(hop, inbox)])
            return read_hopped(await asyncio.wait_for(answered, PATIENCE))
        except TimeoutError:
            return unanswered(hop)
        finally:
            await subscription.unsubscribe()


class PostgresErrands:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def send(self, hop: Hop) -> Hopped:
        name = f"{PREFIX}{random.getrandbits(64):016x}"
        job = job_of(hop, name)
        await self._store.write(jobs.offer, [JobRow(job.feed_id, job.partition, encode(job))])
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            await asyncio.sleep(LOOK)
            found = await self._store.load_state(name)
            if found is not None:
                await self._store.write(_fetched, name)
                return read_hopped(found[1])
        await self._store.write(jobs.finish, [job.feed_id])
        return unanswered(hop)


def answered(connection: Connection, row: JobRow, name: str, body: bytes) -> None:
    """The job goes and its answer waits; those that nobody has fetched for long go too."""
    now = time.time()
    old = state_table.c.name.startswith(PREFIX, autoescape=True) & (state_table.c.saved < now - KEPT)
    connection.execute(delete(state_table).where(old))
    jobs.finish(connection, [row.feed_id])
    state.save(connection, name, 1, body, now)


def _fetched(connection: Connection, name: str) -> None:
    connection.execute(delete(state_table).where(state_table.c.name == name))
