"""When a leader is killed, another sends jobs as soon as the lease has ended."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import pytest
import structlog
from cluster_in_process import roles, settings
from cluster_processes import Processes, processes

from headwater.cluster.cluster_status import read_cluster_status
from headwater.cluster.demo.servers import NatsServer
from headwater.cluster.leader import CONTROLLER
from headwater.cluster.leases.election import ASK_DELAY, Election
from headwater.cluster.leases.lease_clock import LeaseTiming
from headwater.cluster.transport.nats_connection import connect_nats
from headwater.cluster.transport.wire_messages import read_job
from headwater.store import cluster_leases
from headwater.store.content.feeds import NewFeed
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store

FEEDS = 12
log = structlog.get_logger()


async def times_to_lead(
    kills: int, lease: float, farm, url: str, store: Store, nats: NatsServer, prefix: str, eventually
) -> list[float]:
    """Return the seconds from each kill −9 of the leader to the first job of its successor."""
    made = await farm(feeds=FEEDS, hosts=FEEDS, speed=1000, rates=(5, 50), hints=False)
    await store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(FEEDS)], time.time())
    seen: dict[int, float] = {}  # epoch → when its first job came

    async def see(message: Any) -> None:
        seen.setdefault(read_job(message.data).epoch, time.monotonic())

    async def leads() -> str | None:
        return (await read_cluster_status(store)).leader

    given = settings(database=url, nats=nats.url, nats_prefix=prefix, cluster_lease=lease)
    link = await connect_nats(nats.url, "test")
    await link.subscribe(f"{prefix}.jobs.>" if prefix else "jobs.>", cb=see)
    try:
        with processes(NATS=nats.url, NATS_PREFIX=prefix, CLUSTER_LEASE=str(lease), DATABASE=url) as running:
            async with roles(given, "terminal", "storer"):
                for name in ("one", "two"):
                    running.start(name, "controller")
                await eventually(
                    lambda: len(made.log) > 3 * FEEDS, "the feeds' rates are known, and they are due often"
                )
                chance = random.Random(kills)
                return [await killed(running, leads, seen, chance, eventually) for _ in range(kills)]
    finally:
        await link.close()


async def killed(running: Processes, leads, seen: dict[int, float], chance: random.Random, eventually) -> float:
    leader, epoch = await leads(), max(seen)
    running.kill(leader)
    at, length = time.monotonic(), len(running.read_log(leader))
    await eventually(lambda: max(seen) > epoch, "another offers jobs")
    running.start(leader, "controller")
    await eventually(lambda: "joined" in running.read_log(leader)[length:], "it stands by")
    await asyncio.sleep(chance.uniform(1.0, 4.0))  # so that kills hit any time between two renewals
    return seen[max(seen)] - at


async def test_the_lead_passes_on_when_the_lease_of_who_fell_silent_ends(store: Store) -> None:
    seconds, stop = 4.0, asyncio.Event()
    silent = await store.write(cluster_leases.acquire_lease, CONTROLLER, "silent", seconds)  # and it never renews
    assert silent is not None
    taken: list[cluster_leases.ClusterLease] = []

    async def work(held: cluster_leases.ClusterLease, over: asyncio.Event) -> None:
        taken.append(held)
        stop.set()

    await Election(store, CONTROLLER, "other", seconds).run(work, stop)
    # Measured by the database's clock; polling every fifth of the lease would be too late.
    assert 0 <= taken[0].until - seconds - silent.until < seconds / 2


async def test_who_stands_by_asks_no_later_than_a_lease_may_end(store: Store) -> None:
    seat = Election(store, CONTROLLER, "other", 60.0)
    assert await store.write(cluster_leases.acquire_lease, CONTROLLER, "silent", 60.0) is not None
    assert await seat._seconds_until_free() == 12.0
    assert await store.write(cluster_leases.acquire_lease, CONTROLLER, "silent", 1.0) is not None
    assert 0 < await seat._seconds_until_free() <= 1.0 + ASK_DELAY


@pytest.mark.soak
@pytest.mark.timeout(0)
async def test_twenty_leaders_are_killed_one_after_another(
    farm, url: str, store: Store, nats: NatsServer, prefix: str, eventually
) -> None:
    lease = 60.0
    took = sorted(await times_to_lead(20, lease, farm, url, store, nats, prefix, eventually))
    log.info("took", least=took[0], median=took[10], most=took[-1], all=[round(one, 2) for one in took])
    assert took[-1] < LeaseTiming(lease).leader_seconds * 1.2
