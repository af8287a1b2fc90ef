"""An outage of a terminal's own network is not blamed on feeds; other terminals take over meanwhile."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from cluster_in_process import roles, settings, streams_at

from headwater import assembly
from headwater.assembly import build
from headwater.cluster.cluster_status import MemberStatus, read_cluster_status
from headwater.cluster.demo.servers import NatsServer
from headwater.cluster.leader import load_leader_status
from headwater.cluster.leases.lease_clock import LeaseTiming
from headwater.cluster.leases.partitions import partition_of
from headwater.fetch.client import Fetcher
from headwater.model import Ending, Outcome
from headwater.node.crawl.network_outage import NetworkOutage
from headwater.node.crawl.transport import Job
from headwater.store.content.feed_state import load_feed_states
from headwater.store.content.feeds import NewFeed
from headwater.store.content.refreshes import list_refreshes
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store
from headwater.web.metrics import ClusterCollector

FEEDS = 12
ETAGS = 4  # a seed whose feeds have ETags: without validators an unchanged feed is polled once an hour
WINDOW = 100  # enough items that a burst in the farm's fast time does not look like dates made at the request


async def standing(store: Store) -> dict[str, MemberStatus]:
    return {one.name: one for one in (await read_cluster_status(store)).members}


async def all_asked(store: Store, since: float, feeds: int = FEEDS) -> bool:
    known = await store.read(load_feed_states, range(1, FEEDS + 1))
    return sum((one.last_success or 0.0) > since for one in known.values()) >= feeds


async def blamed(store: Store) -> list[int]:
    known = await store.read(load_feed_states, range(1, FEEDS + 1))
    refreshes = [one for feed in known for one in await store.read(list_refreshes, feed, limit=1000)]
    return [one.feed_id for one in known.values() if one.failures] + [
        one.feed_id for one in refreshes if not one.ending.ok
    ]


async def test_servers_that_all_fall_silent_are_not_blamed_and_are_asked_when_they_are_back(
    farm, url: str, store: Store, nats: NatsServer, prefix: str, eventually
) -> None:
    made = await farm(feeds=FEEDS, hosts=6, speed=1000, rates=(20, 50), hints=False, window=WINDOW)
    await store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(FEEDS)], time.time())
    given = settings(database=url, nats=nats.url, nats_prefix=prefix)
    async with roles(given, "controller", "storer", "terminal"):
        await eventually(lambda: all_asked(store, 0.0), "all feeds refreshed once")
        await made.stop()

        async def away() -> bool:
            status = await load_leader_status(store)
            here = (await standing(store)).get("terminal")
            return bool(status and status.network_away_since and here and here.away_since)

        await eventually(away, "the outage is noticed")
        found = await read_cluster_status(store)
        assert any("terminal: No server answers" in one for one in found.problems)
        figures = {
            sample.labels["member"]: sample.value
            for family in ClusterCollector(found).collect()
            if family.name == "headwater_cluster_network_away"
            for sample in family.samples
        }
        assert figures == {"terminal": 1.0}
        assert len(found.partitions["terminal"]) == 256  # no other terminal can take them
        began = time.time()
        await made.start()
        await eventually(lambda: all_asked(store, began), "all are asked again")

        async def back() -> bool:
            status = await load_leader_status(store)
            return status is not None and status.network_away_since is None

        await eventually(back, "and the outage is over")
    assert await blamed(store) == []
    assert max(made.log.most_at_once.values()) == 1


class Cut(Fetcher):
    """A client whose connections fail while `cut` is set."""

    cut = False

    async def fetch_hop(self, url: str, *args: Any, **more: Any) -> Any:
        if Cut.cut:
            return Outcome(Ending.CONNECTION, url, url, time.time(), 0.01)
        return await super().fetch_hop(url, *args, **more)


async def test_the_hosts_of_a_terminal_that_is_cut_off_pass_to_one_that_is_not(
    farm, url: str, store: Store, nats: NatsServer, prefix: str, eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = assembly.make_fetcher

    def fetcher(given: Any, timing: LeaseTiming, clock: Any = None, proxy: Any = None) -> Fetcher:
        if given.member != "cut":
            return real(given, timing, clock, proxy)
        return Cut(allow_private=True, deadline=timing.fetch_seconds, clock=clock)

    monkeypatch.setattr(assembly, "make_fetcher", fetcher)
    made = await farm(feeds=FEEDS, hosts=FEEDS, speed=1000, rates=(20, 50), hints=False, window=WINDOW, seed=ETAGS)
    await store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(FEEDS)], time.time())
    given = settings(database=url, nats=nats.url, nats_prefix=prefix)
    async with roles(given, "controller", "storer") as running, streams_at(nats.url, prefix) as streams:
        running.start("cut", "terminal")
        await eventually(lambda: all_asked(store, 0.0), "all feeds refreshed once, all by one terminal")
        Cut.cut = True
        running.start("well", "terminal")

        async def passed() -> bool:
            held = (await read_cluster_status(store, streams)).partitions
            return len(held.get("cut", ())) <= 3 and len(held.get("well", ())) >= 253

        await eventually(passed, "its partitions are the other's")
        kept = set((await read_cluster_status(store, streams)).partitions.get("cut", ()))
        tried = sum(partition_of(made.url(k)) in kept for k in range(FEEDS))  # two hosts may be in one partition
        began = time.time()
        await eventually(lambda: all_asked(store, began, FEEDS - tried), "whose terminal asks for them")
        Cut.cut = False

        async def shared() -> bool:
            held = (await read_cluster_status(store, streams)).partitions
            counts = [len(held.get(name, ())) for name in ("cut", "well")]
            return sum(counts) == 256 and min(counts) >= 76  # the least share, of a full terminal beside an idle one

        await eventually(shared, "both have their share again")
        later = time.time()
        await eventually(lambda: all_asked(store, later), "and all are asked")
    assert await blamed(store) == []
    assert max(made.log.most_at_once.values()) == 1


async def test_nodes_that_share_a_database_know_an_outage_too(farm, url: str, store: Store, eventually) -> None:
    made = await farm(feeds=FEEDS, hosts=6, speed=1000, rates=(20, 50), hints=False, window=WINDOW)
    await store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(FEEDS)], time.time())
    async with build("node", settings(database=url, member="alone")) as node:
        await eventually(lambda: all_asked(store, 0.0), "all feeds refreshed once")
        await made.stop()
        await eventually(lambda: node.status().network_away_since is not None, "the outage is noticed")
        began = time.time()
        await made.start()
        await eventually(lambda: all_asked(store, began), "all are asked again")
        await eventually(lambda: node.status().network_away_since is None, "and it is over")
    assert await blamed(store) == []


def job(feed: int, **more: Any) -> Job:
    return Job(feed, feed, 1, f"http://host{feed}.example/", "due", well=True, **more)


def silence(feed: int) -> Outcome:
    return Outcome(Ending.DNS, job(feed).url, job(feed).url, 1000.0, 0.1)


async def test_a_single_host_that_falls_silent_has_itself_to_blame() -> None:
    outage = NetworkOutage(hold=0.3)
    assert await outage.may_judge(job(1), silence(1), 1000.0)
    assert outage.away_since is None


async def test_a_wish_counts_at_once_and_an_answer_to_an_errand_ends_an_outage() -> None:
    outage = NetworkOutage(hold=30.0)
    assert await outage.may_judge(job(1, wished=True), silence(1), 1000.0)
    waiting = [outage.may_judge(job(k), silence(k), 1000.0) for k in (2, 3)]
    held = [asyncio.create_task(one) for one in waiting]
    await asyncio.sleep(0)
    assert not await outage.may_judge(job(4), silence(4), 1000.0)
    assert await asyncio.gather(*held) == [False, False]
    assert outage.away_since == 1000.0
    assert outage.next_probe({3, 4}) == job(3)
    assert outage.next_probe({3, 4}) == job(4)
    assert outage.next_probe({9}) is None
    outage.note_answer(1001.0)
    assert outage.away_since is None
    assert outage.next_probe({3, 4}) is None
