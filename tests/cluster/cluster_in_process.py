"""Runs the roles of a cluster as tasks of the test's own process on real servers, and makes results by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from headwater.assembly import ROLES, find_partition_epochs
from headwater.cluster.leases.lease_clock import LeaseTiming
from headwater.cluster.leases.partitions import partition_of
from headwater.cluster.terminal import Terminal
from headwater.cluster.transport.nats_connection import connect_nats
from headwater.cluster.transport.nats_streams import NatsStreams
from headwater.cluster.transport.wire_messages import MAX_DECODED, encode_results
from headwater.model import Document, Ending, Entry, Markup, Outcome
from headwater.node.crawl.ingest import Ingest, ProvisionalPlanner
from headwater.node.crawl.politeness import Politeness
from headwater.node.crawl.transport import FetchResult, Job, StoredRefresh
from headwater.node.node import Node
from headwater.settings import Settings, load_settings
from headwater.store.content.outbox import find_last_position, read_checkpoint
from headwater.store.store import Store

LEASE = 6.0


def settings(**more: Any) -> Settings:
    usual: dict[str, Any] = {
        "allow_private": True,
        "least_interval": 0.2,
        "budget": 100_000.0,
        "strategy": "top_utility",
        "cluster_lease": LEASE,
        "concurrency": 16,
    }
    return load_settings(**usual | more)


class Roles:
    """Running roles by name; `stop` ends one gracefully, `drop` as abruptly as a task can be ended."""

    def __init__(self, given: Settings) -> None:
        self._given = given
        self._running: dict[str, tuple[asyncio.Task[None], asyncio.Event]] = {}

    def start(self, name: str, role: str, **more: Any) -> None:
        hidden = {"database": None} if role == "terminal" else {}
        given = self._given.with_changes({"member": name, **hidden, **more})
        stop = asyncio.Event()
        self._running[name] = (asyncio.create_task(ROLES[role](given, stop)), stop)

    async def stop(self, name: str) -> None:
        task, stop = self._running.pop(name)
        stop.set()
        await asyncio.wait_for(task, 60)

    async def drop(self, name: str) -> None:
        task, _ = self._running.pop(name)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def stop_storing(self) -> None:
        """Stop controller, terminal and storer, so that nothing more is stored."""
        for name in ("controller", "terminal", "storer"):
            await self.stop(name)

    def failures(self) -> list[BaseException]:
        """Return the errors of roles that have ended by themselves."""
        done = [task for task, _ in self._running.values() if task.done()]
        return [error for task in done if (error := task.exception()) is not None]


@asynccontextmanager
async def roles(given: Settings, *names: str) -> AsyncIterator[Roles]:
    """Start each of the named roles once, under its own name."""
    running = Roles(given)
    for name in names:
        running.start(name, name)
    try:
        yield running
        assert not running.failures()
    finally:
        for name in list(running._running):
            if running._running[name][0].done():
                running._running.pop(name)
            else:
                await running.stop(name)


@asynccontextmanager
async def streams_at(
    url: str, prefix: str, identity: str | None = None, *, lease: float = LEASE
) -> AsyncIterator[NatsStreams]:
    """Connect to the streams of a test; create them if an identity is given."""
    link = await connect_nats(url, "test")
    found = NatsStreams(link, prefix, LeaseTiming(lease))
    try:
        if identity is not None:
            await found.ensure_streams(identity)
        yield found
    finally:
        await link.close()


async def all_matched(store: Store) -> bool:
    """Return whether every stored item has been matched."""
    return await store.read(read_checkpoint, "queries") == await store.read(find_last_position) > 0


def result(
    feed_id: int, url: str, at: float, *identities: str, epoch: int = 0, terminal: str = "t", generation: int = 1
) -> FetchResult:
    """Make a terminal's result for a feed that shows these items."""
    entries = tuple(Entry(id=one, link=f"{url}/{one}", title=f"Item {one}", content=Markup(one)) for one in identities)
    document = Document("rss 2.0", title="A feed", items=entries)
    outcome = Outcome(Ending.CHANGED, url, url, at, 0.1, 200, document, bytes=1000, body_hash=f"{at}")
    return FetchResult(Job(feed_id, partition_of(url), generation, url, "a test"), outcome, terminal, epoch)


def encode_result(one: FetchResult) -> bytes:
    [(_, body)] = encode_results([one], MAX_DECODED)
    return body


async def publish(streams: NatsStreams, one: FetchResult) -> None:
    subject = streams.full_subject(f"res.{one.job.partition}")
    await streams.context.publish(subject, encode_result(one))


def cluster_ingest(
    store: Store, politeness: Politeness, on_stored: Callable[[Sequence[StoredRefresh]], None] = lambda batch: None
) -> Ingest:
    """Make the ingest of a node that shares its database."""
    planner = ProvisionalPlanner(politeness)
    return Ingest(store, planner=planner, find_epochs=find_partition_epochs, jobs_are_rows=True, on_stored=on_stored)


def terminal_of(node: Node) -> Terminal:
    """Return the terminal of a node that shares its database."""
    found: Terminal = node.parts[0].args[0]  # type: ignore[attr-defined]
    return found
