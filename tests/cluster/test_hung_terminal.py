"""The partitions of a terminal that hangs, or whose machine sleeps, pass to another."""

from __future__ import annotations

import asyncio
import signal
import time

import pytest
from cluster_in_process import LEASE, roles, settings
from cluster_processes import processes

from headwater.cluster.demo.audit import audit_run
from headwater.cluster.demo.servers import NatsServer
from headwater.store import cluster_leases
from headwater.store.content.feeds import NewFeed
from headwater.store.queries.query_scripts import run_script
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store


@pytest.mark.soak
async def test_a_terminal_that_sleeps_and_wakes_makes_no_storm_and_no_host_sees_two(
    farm, url: str, store: Store, nats: NatsServer, prefix: str, eventually
) -> None:
    made = await farm(feeds=40, hosts=20, speed=2000, hints=False, latency=0.1)
    await store.write(run_script, "CREATE FEED Everything AS RETURN ALL", time.time())
    await store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(40)], time.time())

    async def held(name: str) -> int:
        now = await store.read(cluster_leases.read_database_time)
        return sum(
            one.holder == name and one.until > now for one in await store.read(cluster_leases.list_leases, "partition/")
        )

    given = settings(database=url, nats=nats.url, nats_prefix=prefix)
    with processes(NATS=nats.url, NATS_PREFIX=prefix, CLUSTER_LEASE=LEASE) as running:
        async with roles(given, "controller", "storer", "processor") as inside:
            running.start("one", "terminal")
            running.start("two", "terminal")

            async def halves() -> bool:
                return await held("one") == await held("two") == 128

            await eventually(halves, "each holds half")
            await eventually(lambda: len(made.log) > 80, "it runs")
            running.signal("one", signal.SIGSTOP)

            async def passed_on() -> bool:
                return await held("two") == 256

            await eventually(passed_on, "the other holds everything")
            asked = len(made.log)
            await eventually(lambda: len(made.log) > asked + 40, "it goes on")
            running.signal("one", signal.SIGCONT)
            asked = len(made.log)
            await asyncio.sleep(2 * LEASE)
            assert await held("one") > 0  # it has partitions again
            await inside.stop("controller")
            await asyncio.sleep(2.0)
    found = await audit_run(made, store, "Everything")
    assert found.at_once == 1
    assert (found.missing, found.unnoticed, found.doubled) == (0, 0, 0), found
