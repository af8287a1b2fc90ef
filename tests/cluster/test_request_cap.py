"""No sixty seconds at the feeds' servers hold more requests than the budget, whoever leads."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import numpy as np
from cluster_in_process import roles, settings
from cluster_processes import processes

from headwater.assembly import build
from headwater.cluster.cluster_status import read_cluster_status
from headwater.cluster.demo.servers import NatsServer
from headwater.farm.faults import Fault
from headwater.settings import Settings
from headwater.store.content.feeds import NewFeed
from headwater.store.opening import open_store
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store

FEEDS, BUDGET = 60, 6.0
TERMS = 9  # if each had a fresh bucket, the seventh would exceed the budget


def fullest_minute(moments: list[float]) -> int:
    at = np.sort(np.array(moments))
    return int((np.arange(len(at)) - np.searchsorted(at, at - 60, side="right") + 1).max())


async def fill(farm, store: Store):
    """A farm of which every third feed redirects to the next, which is on another host."""
    made = await farm(feeds=FEEDS, hosts=FEEDS, speed=1000, rates=(5, 50), hints=False)
    for k in range(0, FEEDS, 3):
        made.faults[k] = Fault("302", made.url(k + 1))
    await store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(FEEDS)], time.time())
    return made


async def wait_for_requests(made, number: int) -> None:
    """Wait until the farm has had so many requests, at most some seconds: the budget may be spent."""
    for _ in range(80):
        if len(made.log) >= number:
            return
        await asyncio.sleep(0.05)


async def run_terms(given: Settings, made) -> None:
    """Start and stop nodes one after the other."""
    for number in range(TERMS):
        before = len(made.log)
        async with build("node", given.with_changes({"member": f"node{number}"})):
            await wait_for_requests(made, before + 1)


async def test_a_server_that_starts_again_and_again_keeps_to_its_budget(farm, tmp_path: Path) -> None:
    given = settings(data=tmp_path, budget=BUDGET)
    async with await open_store(given.database_url) as store:
        made = await fill(farm, store)
    await run_terms(given, made)
    assert 3 <= fullest_minute([line.arrived for line in made.log]) <= BUDGET


async def test_nodes_that_lead_in_turn_keep_to_one_budget(farm, url: str, store: Store) -> None:
    made = await fill(farm, store)
    await run_terms(settings(database=url, budget=BUDGET, cluster_lease=3.0), made)
    assert 3 <= fullest_minute([line.arrived for line in made.log]) <= BUDGET


async def test_controllers_and_terminals_that_are_killed_keep_to_one_budget(
    farm, url: str, store: Store, nats: NatsServer, prefix: str, eventually
) -> None:
    made = await fill(farm, store)
    lease = {"NATS": nats.url, "NATS_PREFIX": prefix, "CLUSTER_LEASE": "3.0", "BUDGET": str(BUDGET)}
    given = settings(database=url, nats=nats.url, nats_prefix=prefix, cluster_lease=3.0)
    with processes(DATABASE=url, **lease) as running:
        async with roles(given, "storer"):
            for name, role in (("first", "controller"), ("second", "controller"), ("t", "terminal")):
                running.start(name, role)
            await eventually(lambda: len(made.log) > 0, "a feed is fetched")
            for number in range(TERMS):
                await wait_for_requests(made, len(made.log) + 1)
                leader = (await read_cluster_status(store)).leader
                if leader is not None:
                    running.kill(leader)
                    running.start(leader, "controller")
                if number % 3 == 2:
                    running.kill("t")
                    running.start("t", "terminal")
    assert 3 <= fullest_minute([line.arrived for line in made.log]) <= BUDGET
