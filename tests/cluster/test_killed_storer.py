"""A storer killed at any step leaves every item stored once and announced once."""

from __future__ import annotations

import multiprocessing
import time

import killed_storer
import pytest
from cluster_in_process import publish, result, roles, settings, streams_at

from headwater.cluster.demo.servers import NatsServer
from headwater.cluster.membership import load_cluster_id
from headwater.store.content.feeds import NewFeed
from headwater.store.content.items import count_items
from headwater.store.content.outbox import list_outbox_entries
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["headwater.assembly", "asyncpg", "sqlalchemy.dialects.postgresql.asyncpg", "nats"])
PLACES = ("taken", "judged", "saved", "acknowledged")
TRAPS = {"saved"}  # between storing and acknowledging; the others take long
FEEDS, WINDOW = 8, 5
LEASE = 2.0  # short, because jobs of a dead storer are redelivered after it


@pytest.mark.parametrize("place", [pytest.param(one, marks=() if one in TRAPS else pytest.mark.soak) for one in PLACES])
async def test_every_item_is_stored_once_and_announced_once_wherever_a_storer_dies(
    place: str, url: str, store: Store, nats: NatsServer, prefix: str, eventually
) -> None:
    added = await store.write(
        add_and_subscribe, [NewFeed(f"https://site{k}.example/feed") for k in range(FEEDS)], time.time()
    )
    given = settings(database=url, nats=nats.url, nats_prefix=prefix, cluster_lease=LEASE)
    expected = {(one.feed.id, f"{k}-{n}") for k, one in enumerate(added) for n in range(WINDOW + 2)}
    async with streams_at(nats.url, prefix, lease=LEASE) as streams:
        await streams.ensure_streams(await load_cluster_id(store))
        for shift in (0, 2):  # the second window shows two new items
            for k, one in enumerate(added):
                shown = [f"{k}-{n}" for n in range(shift, shift + WINDOW)]
                await publish(streams, result(one.feed.id, one.feed.url, 1_000.0 + shift, *shown))
        dying = FORKS.Process(
            target=killed_storer.main,
            args=(given.given_values() | {"member": "dying"}, place),
            daemon=True,
        )
        dying.start()
        await eventually(lambda: not dying.is_alive(), f"it dies at “{place}”")
        assert dying.exitcode == -9
        async with roles(given, "storer"):
            read: list[tuple[int, str]] = []
            position = 0

            async def all_read() -> bool:
                nonlocal position
                entries = await store.read(list_outbox_entries, position, 7)
                read.extend((entry.item.feed_id, entry.item.identity) for entry in entries if entry.kind == "new")
                position = entries[-1].position if entries else position
                return len(read) >= len(expected) and await streams.count_waiting("RESULTS") == 0

            await eventually(all_read, "everything is announced")
            assert sorted(read) == sorted(expected)
            assert await store.read(count_items) == len(expected)
