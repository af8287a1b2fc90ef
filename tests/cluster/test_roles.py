"""Rung 2: the roles run as real processes on PostgreSQL and NATS."""

from __future__ import annotations

import time

import pytest
from cluster_in_process import all_matched
from cluster_processes import processes

from headwater.cluster.demo.audit import audit_run
from headwater.cluster.demo.servers import NatsServer
from headwater.store import cluster_leases
from headwater.store.content.feeds import NewFeed
from headwater.store.content.items import count_items
from headwater.store.queries.query_scripts import run_script
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store


@pytest.mark.soak  # eight processes; test_same_results also runs the roles
async def test_items_go_from_the_farm_through_every_role_and_one_of_each_may_be_killed(
    farm, url: str, store: Store, nats: NatsServer, prefix: str, eventually
) -> None:
    made = await farm(feeds=24, hosts=12, speed=2000, latency=0.05, hints=False, seed=3)
    await store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(24)], time.time())
    await store.write(run_script, "CREATE FEED Everything AS RETURN ALL", time.time())
    with processes(NATS=nats.url, NATS_PREFIX=prefix) as running:
        for name in ("controller", "storer", "processor"):
            running.start(f"{name}1", name, DATABASE=url)
        for number in (1, 2):
            running.start(f"terminal{number}", "terminal")

        async def stored() -> bool:
            return await store.read(count_items) > 300

        await eventually(stored, "items are stored")
        running.start("controller2", "controller", DATABASE=url)
        running.start("storer2", "storer", DATABASE=url)
        running.start("processor2", "processor", DATABASE=url)

        async def all_there() -> bool:
            return len(await store.read(cluster_leases.list_members, 9.0)) >= 8

        await eventually(all_there, "everybody has joined")
        for name in ("terminal1", "controller1", "storer1", "processor1"):
            running.kill(name)
        asked = len(made.log)
        await eventually(lambda: len(made.log) > asked + 12, "the others go on")

        for name in ("terminal2", "controller2", "storer2"):
            assert running.stop(name) == 0
        await eventually(lambda: all_matched(store), "everything stored has met the query")
        assert running.stop("processor2") == 0
    found = await audit_run(made, store, "Everything")
    assert found.is_clean, found
    assert found.at_once == 1  # no host ever had two requests at once
    assert found.published > 0
