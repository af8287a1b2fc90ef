"""Sends requests of pages and commands through the terminals that hold the hosts.

A page that looks where an address leads may not talk to the host itself. Each request becomes a job of the host's
partition; the reply comes to an inbox of NATS, or with PostgreSQL alone as a row under a name.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol
from urllib.parse import urlsplit

from sqlalchemy import Connection, delete

from headwater.cluster.leases.partitions import partition_of
from headwater.cluster.transport.wire_messages import encode, read_reply
from headwater.fetch.http.remote_session import RemoteReply, RemoteRequest
from headwater.model import Ending
from headwater.node.crawl.transport import Job, ProxiedRequest
from headwater.node.request_grants import RemoteGrants
from headwater.store import cluster_jobs, saved_state
from headwater.store.cluster_jobs import JobRow
from headwater.store.saved_state import load_state
from headwater.store.schema.item_tables import saved_state as state_table
from headwater.store.store import Store

REPLY_SECONDS = 60.0  # to wait for a reply
POLL_SECONDS = 0.1
PREFIX = "errand/"
RETENTION_SECONDS = 600.0  # after which a reply that nobody fetched is deleted


def make_proxy_job(hop: RemoteRequest, reply: str, begin_by: float | None) -> Job:
    number = -1 - random.getrandbits(62)  # not the id of a feed
    errand = ProxiedRequest(hop, reply)
    return Job(number, partition_of(hop.url), 0, hop.url, "where an address leads", errand=errand, begin_by=begin_by)


def make_timeout_reply(hop: RemoteRequest) -> RemoteReply:
    host = urlsplit(hop.url).hostname or hop.url
    return RemoteReply(
        ending=Ending.TIMEOUT,
        message=f"No terminal has asked {host} within {REPLY_SECONDS:.0f} seconds. Look at /cluster, then try again.",
    )


def encode_reply(hopped: RemoteReply, largest: int) -> bytes:
    """Encode a reply; one that is too large for NATS becomes an error."""
    body = encode(hopped)
    if len(body) < largest:
        return body
    message = f"The document is too large for NATS: {len(hopped.body):,} bytes, at most {largest:,} (max_payload)."
    return encode(RemoteReply(ending=Ending.TOO_LARGE, message=message, received=hopped.received))


class ProxyRequest(Protocol):
    """Sends a request through a terminal, which begins it by `begin_by` or not at all."""

    async def __call__(self, hop: RemoteRequest, begin_by: float | None = None, /) -> RemoteReply: ...


class GrantedProxy:
    """Sends each request within a grant of the leader."""

    def __init__(self, grants: RemoteGrants, proxy_request: ProxyRequest) -> None:
        self._grants = grants
        self._proxy_request = proxy_request

    async def proxy_request(self, hop: RemoteRequest) -> RemoteReply:
        """Raises BudgetExhausted. A request that is not answered keeps its grant: it may still be running."""
        grant = await self._grants.ask()
        reply = await self._proxy_request(hop, grant.begin_by)
        if reply != make_timeout_reply(hop):
            await self._grants.end(grant.id)
        return reply


class NatsRequestProxy:
    """Sends requests by NATS; `offer` publishes jobs."""

    def __init__(self, link: Any, offer: Callable[[list[Job]], Awaitable[object]]) -> None:
        self._link = link
        self._send_jobs = offer

    async def proxy_request(self, hop: RemoteRequest, begin_by: float | None = None) -> RemoteReply:
        inbox = self._link.new_inbox()
        answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        async def hear(message: Any) -> None:
            if not answered.done():
                answered.set_result(message.data)

        subscription = await self._link.subscribe(inbox, cb=hear)
        try:
            await self._send_jobs([make_proxy_job(hop, inbox, begin_by)])
            return read_reply(await asyncio.wait_for(answered, REPLY_SECONDS))
        except TimeoutError:
            return make_timeout_reply(hop)
        finally:
            await subscription.unsubscribe()


class PostgresRequestProxy:
    """Sends requests as rows."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def proxy_request(self, hop: RemoteRequest, begin_by: float | None = None) -> RemoteReply:
        name = f"{PREFIX}{random.getrandbits(64):016x}"
        job = make_proxy_job(hop, name, begin_by)
        await self._store.write(cluster_jobs.add_jobs, [JobRow(job.feed_id, job.partition, encode(job))])
        end = time.monotonic() + REPLY_SECONDS
        while time.monotonic() < end:
            await asyncio.sleep(POLL_SECONDS)
            found = await self._store.read(load_state, name)
            if found is not None:
                await self._store.write(_delete_reply, name)
                return read_reply(found[1])
        await self._store.write(cluster_jobs.delete_jobs, [job.feed_id])
        return make_timeout_reply(hop)


def store_reply(connection: Connection, row: JobRow, name: str, body: bytes) -> None:
    """Replace a job by its reply, and delete old replies that nobody fetched."""
    now = time.time()
    old = state_table.c.name.startswith(PREFIX, autoescape=True) & (state_table.c.saved < now - RETENTION_SECONDS)
    connection.execute(delete(state_table).where(old))
    cluster_jobs.delete_jobs(connection, [row.feed_id])
    saved_state.save_state(connection, name, 1, body, now)


def _delete_reply(connection: Connection, name: str) -> None:
    connection.execute(delete(state_table).where(state_table.c.name == name))
