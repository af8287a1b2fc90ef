"""Rung 1: several nodes on one PostgreSQL database are one aggregator."""

from __future__ import annotations

import time

from cluster_in_process import LEASE, all_matched
from cluster_processes import processes

from headwater.cluster.demo.audit import audit_run
from headwater.store import cluster_leases
from headwater.store.content.feeds import NewFeed, change_feed, list_feeds
from headwater.store.queries.query_scripts import run_script
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store


async def test_two_nodes_share_the_hosts_and_when_one_is_killed_the_other_goes_on(
    farm, url: str, store: Store, eventually
) -> None:
    made = await farm(feeds=24, hosts=12, speed=2000, rates=(20, 50), window=100, latency=0.05, hints=False, seed=3)
    await store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(24)], time.time())
    await store.write(run_script, "CREATE FEED Everything AS RETURN ALL", time.time())

    async def partitions() -> dict[str, int]:
        now = await store.read(cluster_leases.read_database_time)
        held = [one.holder for one in await store.read(cluster_leases.list_leases, "partition/") if one.until > now]
        return {name: held.count(name) for name in set(held)}

    with processes(DATABASE=url, CLUSTER_LEASE=LEASE) as running:
        running.start("a", "serve", "--port", "0", "--log-level", "info")
        running.start("b", "serve", "--port", "0", "--log-level", "info")

        async def balanced() -> bool:
            return await partitions() == {"a": 128, "b": 128}

        await eventually(balanced, "each has half of the partitions")
        asked = len(made.log)
        await eventually(lambda: len(made.log) > asked + 8, "feeds are refreshed")
        leader = (await store.read(cluster_leases.list_leases, "controller"))[0].holder
        other = "b" if leader == "a" else "a"
        running.kill(leader)

        async def took_over() -> bool:
            return (
                await partitions() == {other: 256}
                and (await store.read(cluster_leases.list_leases, "controller"))[0].holder == other
            )

        await eventually(took_over, "the other has everything and leads")
        asked = len(made.log)
        await eventually(lambda: len(made.log) > asked + 5, "all goes on")

        assert running.stop(other) == 0
        for feed in await store.read(list_feeds):
            await store.write(change_feed, feed.id, paused=True)
        running.start("c", "serve", "--port", "0", "--log-level", "info")
        await eventually(lambda: all_matched(store), "a third one catches up with the queries")
    found = await audit_run(made, store, "Everything")
    assert found.is_clean, found
    assert found.at_once == 1  # no host ever had two requests at once
    assert found.published > 0
