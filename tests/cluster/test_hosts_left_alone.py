"""The pause between two requests to a host holds even if its partition or the lead changes hands."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack

import pytest
from cluster_in_process import roles, settings

from headwater.assembly import build
from headwater.cluster.cluster_status import read_cluster_status
from headwater.cluster.demo.audit import find_closest_requests
from headwater.cluster.demo.demo import PAUSE, DemoPlan, run_demo
from headwater.cluster.demo.servers import NatsServer
from headwater.store.content.feeds import NewFeed
from headwater.store.content.refreshes import summarise_activity
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store

FEEDS, HOSTS = 12, 6
GAP = 3.0


async def prepared(farm, store: Store):
    made = await farm(feeds=FEEDS, hosts=HOSTS, speed=1000, rates=(5, 50), hints=False)
    await store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(FEEDS)], time.time())
    return made


async def test_when_partitions_move_to_another_terminal_every_host_has_its_pause(
    farm, url: str, store: Store, nats: NatsServer, prefix: str, eventually
) -> None:
    made = await prepared(farm, store)
    given = settings(database=url, nats=nats.url, nats_prefix=prefix, cluster_lease=3.0, host_pause=GAP)
    async with roles(given, "controller", "storer", "terminal") as running:
        await eventually(lambda: len(made.log) >= HOSTS, "every host has been asked")
        running.start("other", "terminal")
        await running.stop("terminal")
        await eventually(lambda: len(made.log) >= 3 * HOSTS, "hosts are asked by the other")
    found = find_closest_requests(made.log)
    assert found is not None
    assert found > GAP / 2


@pytest.mark.parametrize("rung", [1, 2])
async def test_a_new_leader_knows_which_hosts_were_asked_before_it(
    rung: int, farm, url: str, store: Store, nats: NatsServer, prefix: str, eventually
) -> None:
    made = await prepared(farm, store)
    given = settings(database=url, host_budget=0.1)  # one request every ten minutes
    if rung == 2:
        given = given.with_changes({"nats": nats.url, "nats_prefix": prefix})

    async def asked_once() -> bool:
        return (await store.read(summarise_activity, time.time())).never_refreshed == FEEDS - HOSTS

    async def leads(name: str) -> bool:
        return (await read_cluster_status(store)).leader == name

    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(roles(given, *(("terminal", "storer") if rung == 2 else ())))
        for name in ("first", "second"):
            if rung == 2:
                running.start(name, "controller")
                await eventually(lambda name=name: leads(name), f"the {name} leads")
                await eventually(asked_once, "every host has been asked")
                await asyncio.sleep(1.5)
                await running.stop(name)
            else:
                async with build("node", given.with_changes({"member": name})):
                    await eventually(lambda name=name: leads(name), f"the {name} leads")
                    await eventually(asked_once, "every host has been asked")
                    await asyncio.sleep(1.5)
    assert len(made.log) == HOSTS


@pytest.mark.soak
@pytest.mark.timeout(0)
async def test_eight_terminals_with_kills_never_hurry_a_host() -> None:
    verdict = await run_demo(DemoPlan(terminals=8, chaos=True, seconds=60.0, feeds=60, seed=11))
    assert verdict.ok, verdict
    assert verdict.reckoning.closest is not None
    assert verdict.reckoning.closest > PAUSE / 2
