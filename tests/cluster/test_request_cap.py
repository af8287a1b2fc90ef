"""The feeds' servers receive no more requests in any sixty seconds than the budget, whoever leads."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import cycle
from pathlib import Path

import numpy as np
from cluster_in_process import roles, settings
from cluster_processes import processes

from headwater import assembly
from headwater.assembly import build
from headwater.cli.console.resources import open_fetcher
from headwater.cluster.cluster_status import read_cluster_status
from headwater.cluster.demo.servers import NatsServer
from headwater.errors import BudgetExhausted, HeadwaterError
from headwater.farm.faults import Fault
from headwater.fetch.client import Fetcher
from headwater.fetch.discovery import FeedCandidate
from headwater.node.new_feed import add_feed_from_address
from headwater.node.node import Node
from headwater.node.request_grants import RemoteGrants
from headwater.settings import Settings
from headwater.store.content.articles import want_articles
from headwater.store.content.feeds import NewFeed
from headwater.store.opening import open_store
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store
from headwater.web.api.api_app import answer_error

FEEDS, BUDGET, CROWDED_BUDGET = 60, 6.0, 24.0
TERMS = 9  # with a fresh bucket per term, the seventh would exceed the budget


def take_first(url: str, found: Sequence[FeedCandidate]) -> FeedCandidate:
    return found[0]


def fullest_minute(moments: list[float]) -> int:
    at = np.sort(np.array(moments))
    return int((np.arange(len(at)) - np.searchsorted(at, at - 60, side="right") + 1).max())


async def fill(farm, store: Store, number: int = FEEDS):
    """Make a farm and add some of its feeds; every third redirects to the next, which is on another host."""
    made = await farm(feeds=FEEDS, hosts=FEEDS, speed=1000, rates=(5, 50), hints=False)
    for k in range(0, number, 3):
        made.faults[k] = Fault("302", made.url(k + 1))
    await store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(number)], time.time())
    return made


async def wait_for_requests(made, number: int) -> None:
    """Wait until the farm has had this many requests, at most some seconds: the budget may be spent."""
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


PEOPLE = 9  # who add feeds at the same time, more than BUDGET
PERSONS_ADDRESSES = {"feed": "/feeds/{k}", "page": "/feeds/{k}.html", "redirect": "/hops/{k}/1"}


async def add_until_it_works(node: Node, address: str) -> None:
    """Add a feed as a patient person does, who tries again when the budget is spent or a terminal was killed."""
    while True:
        with suppress(HeadwaterError):
            await add_feed_from_address(node.store, node.fetcher, address, now=time.time(), choose=take_first)
            return


def count_requests(made) -> Counter[str]:
    """Count the farm's requests by who sent them: refreshes are of the first half of the feeds."""
    kinds = {f"/feeds/{k}": "refresh" for k in range(FEEDS // 2)} | {"/robots.txt": "article"}
    for k in range(FEEDS // 2, FEEDS // 2 + PEOPLE):
        kinds |= {address.format(k=k): kind for kind, address in PERSONS_ADDRESSES.items()}
    return Counter(kinds.get(line.path, "article" if line.path.startswith("/items/") else "other") for line in made.log)


async def test_people_articles_and_refreshes_keep_to_one_budget_while_leaders_and_terminals_are_killed(
    farm, url: str, store: Store, nats: NatsServer, prefix: str, eventually
) -> None:
    made = await fill(farm, store, FEEDS // 2)
    for k in range(1, FEEDS // 2 + 1):
        await store.write(want_articles, "feed", k, True)
    new = range(FEEDS // 2, FEEDS // 2 + PEOPLE)
    addresses = [made.base_url(k) + address.format(k=k) for k, address in zip(new, cycle(PERSONS_ADDRESSES.values()))]
    names = {"NATS": nats.url, "NATS_PREFIX": prefix, "CLUSTER_LEASE": "3.0", "BUDGET": str(CROWDED_BUDGET)}
    given = settings(database=url, nats=nats.url, nats_prefix=prefix, cluster_lease=3.0, budget=CROWDED_BUDGET)
    with processes(DATABASE=url, **names) as running:
        async with (
            roles(given, "storer", "publisher"),
            build("web", given.with_changes({"member": "web"})) as web,
        ):
            people = asyncio.gather(*(add_until_it_works(web, address) for address in addresses))
            for name, role in (("first", "controller"), ("second", "controller"), ("t", "terminal")):
                running.start(name, role)
            await eventually(lambda: len(made.log) > 0, "somebody is asked")
            for number in range(TERMS):
                await wait_for_requests(made, len(made.log) + 1)
                leader = (await read_cluster_status(store)).leader
                if leader is not None:
                    running.kill(leader)
                    running.start(leader, "controller")
                if number % 3 == 2:
                    running.kill("t")
                    running.start("t", "terminal")
            expected = {"refresh", "article", *PERSONS_ADDRESSES}
            await eventually(lambda: count_requests(made).keys() >= expected, "all kinds of requests were sent")
            people.cancel()
            await asyncio.gather(people, return_exceptions=True)
    assert CROWDED_BUDGET / 2 <= fullest_minute([line.arrived for line in made.log]) <= CROWDED_BUDGET


async def add_by_hand(store: Store, fetcher: Fetcher, addresses: Sequence[str]) -> tuple[int, int]:
    """Add feeds concurrently, as on a page; return how many were added and how many found the budget spent."""

    async def add(address: str) -> bool:
        try:
            added = await add_feed_from_address(store, fetcher, address, now=time.time(), choose=take_first)
        except BudgetExhausted:
            return False
        return added.created

    done = await asyncio.gather(*map(add, addresses))
    return sum(done), len(done) - sum(done)


async def start_farm(farm, store: Store, subscribed: int = 20):
    made = await farm(feeds=subscribed + PEOPLE, hosts=subscribed + PEOPLE, speed=1000, rates=(5, 50), hints=False)
    await store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(subscribed)], time.time())
    return made, [made.url(subscribed + k) for k in range(PEOPLE)]


def check_people(made, added: int, refused: int) -> None:
    assert added >= 1  # people come before refreshes, which are always due
    assert refused >= 1
    assert 2 <= fullest_minute([line.arrived for line in made.log]) <= BUDGET


async def test_feeds_that_people_add_to_a_server_are_in_the_budget(farm, tmp_path: Path, eventually) -> None:
    given = settings(data=tmp_path, budget=BUDGET)
    async with await open_store(given.database_url) as store:
        made, addresses = await start_farm(farm, store)
    async with build("node", given) as node:
        await eventually(lambda: len(made.log) > 0, "a feed is fetched")
        node.crawl.grants.patience = 13.0  # a request becomes available every ten seconds
        check_people(made, *await add_by_hand(node.store, node.fetcher, addresses))


async def test_feeds_that_people_add_in_another_process_are_in_the_leaders_budget(
    farm, url: str, store: Store, eventually, monkeypatch
) -> None:
    monkeypatch.setattr(assembly, "RemoteGrants", partial(RemoteGrants, patience=20.0))
    made, addresses = await start_farm(farm, store)
    async with (
        build("node", settings(database=url, budget=BUDGET, member="leader")),
        build("web", settings(database=url, budget=BUDGET, member="web")) as web,
    ):
        await eventually(lambda: len(made.log) > 0, "a feed is fetched")
        check_people(made, *await add_by_hand(web.store, web.fetcher, addresses))


async def test_feeds_that_commands_add_are_in_the_leaders_budget(farm, url: str, store: Store, eventually) -> None:
    made, addresses = await start_farm(farm, store)
    given = settings(database=url, budget=BUDGET, member="leader")
    async with build("node", given):
        await eventually(lambda: len(made.log) > 0, "a feed is fetched")
        async with open_fetcher(given, store) as fetcher:
            check_people(made, *await add_by_hand(store, fetcher, addresses))


def test_the_api_says_when_the_budget_is_spent() -> None:
    answer = answer_error(BudgetExhausted(12.4))
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "12")
    assert b"Try again in 12 seconds" in answer.body
