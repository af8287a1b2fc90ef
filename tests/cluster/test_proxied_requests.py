"""Pages fetch addresses through the terminal that holds the host's partition."""

from __future__ import annotations

import asyncio
import time

import msgspec
from cluster_in_process import roles, settings, terminal_of

from headwater.assembly import build
from headwater.cluster.demo.servers import NatsServer
from headwater.cluster.transport.proxied_requests import NatsRequestProxy, encode_reply, make_timeout_reply
from headwater.cluster.transport.wire_messages import encode, read_reply
from headwater.farm.faults import Fault
from headwater.fetch.discovery import discover_candidates
from headwater.fetch.http.remote_session import RemoteReply, RemoteRequest
from headwater.model import Ending
from headwater.node.crawl.transport import Job
from headwater.node.new_feed import add_feed_from_address
from headwater.node.node import Node
from headwater.store import cluster_leases
from headwater.store.content.articles import find_article, want_articles
from headwater.store.content.feeds import NewFeed, list_feeds
from headwater.store.content.items import list_items
from headwater.store.content.refreshes import list_refreshes
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store

SLOW = 1.0  # seconds that the farm's only host takes to answer


async def add(node: Node, address: str) -> None:
    done = await add_feed_from_address(
        node.store, node.fetcher, address, now=time.time(), choose=lambda _, found: found[0]
    )
    assert done.created
    assert done.refresh is not None
    assert done.refresh.new > 0


async def test_by_nats_a_host_never_sees_the_page_beside_its_terminal(
    farm, url: str, store: Store, nats: NatsServer, prefix: str, eventually
) -> None:
    made = await farm(feeds=3, hosts=1, speed=100, latency=SLOW, hints=False)
    made.faults[1] = Fault("301", made.url(2))
    [known] = await store.write(add_and_subscribe, [NewFeed(made.url(0))], time.time())
    given = settings(database=url, nats=nats.url, nats_prefix=prefix)
    async with (
        roles(given, "controller", "terminal", "storer"),
        build("web", given.with_changes({"member": "web"})) as node,
    ):

        async def refreshed() -> bool:
            return bool(await store.read(list_refreshes, known.feed.id)) and not made.log.under_way.total()

        await eventually(refreshed, "the feed is refreshed and its host left alone")
        await asyncio.gather(node.crawl.request_refresh(known.feed.id), add(node, made.url(1)))
        assert [one.url for one in await discover_candidates(node.fetcher, made.url(0))] == [made.url(0)]
    assert {one.url for one in await store.read(list_feeds)} == {made.url(0), made.url(2)}
    assert set(made.log.most_at_once.values()) == {1}


async def test_by_postgresql_alone_a_host_never_sees_two_nodes_at_once(
    farm, url: str, store: Store, eventually
) -> None:
    made = await farm(feeds=2, hosts=1, speed=100, latency=SLOW, hints=False)
    given = settings(database=url)
    async with (
        build("node", given.with_changes({"member": "a"})) as one,
        build("node", given.with_changes({"member": "b"})) as two,
    ):
        await eventually(
            lambda: len(terminal_of(one).holdings.held) == len(terminal_of(two).holdings.held) == 128,
            "they have shared",
        )
        await asyncio.gather(add(one, made.url(0)), add(two, made.url(1)))
        assert sorted(terminal_of(node).counts["errands"] for node in (one, two)) == [0, 2]
    assert set(made.log.most_at_once.values()) == {1}


async def test_the_articles_behind_items_are_fetched_by_the_terminals(
    farm, url: str, store: Store, nats: NatsServer, prefix: str, eventually
) -> None:
    made = await farm(feeds=1, hosts=1, speed=100, hints=False)
    [known] = await store.write(add_and_subscribe, [NewFeed(made.url(0))], time.time())
    await store.write(want_articles, "feed", known.feed.id, True)
    given = settings(database=url, nats=nats.url, nats_prefix=prefix, article_budget=6000.0)
    async with roles(given, "controller", "terminal", "storer", "processor", "publisher"):

        async def fetched() -> bool:
            items = await store.read(list_items, feed_id=known.feed.id)
            found = [await store.read(find_article, one.id or 0) for one in items]
            return bool(found) and any(one is not None and one.state == "done" for one in found)

        await eventually(fetched, "an article is there")
        await eventually(lambda: has_answered(store), "the terminal says that it asked")
    assert set(made.log.most_at_once.values()) == {1}


async def has_answered(store: Store) -> bool:
    infos = [msgspec.json.decode(one.info) for one in await store.read(cluster_leases.list_members, 60.0)]
    return any(info["counts"].get("errands", 0) > 0 for info in infos)


async def test_where_no_terminal_answers_a_sentence_says_so(monkeypatch) -> None:
    class Deaf:
        def new_inbox(self) -> str:
            return "inbox"

        async def subscribe(self, inbox: str, cb: object) -> Deaf:
            return self

        async def unsubscribe(self) -> None:
            pass

    offered: list[Job] = []

    async def offer(jobs: list[Job]) -> None:
        offered.extend(jobs)

    monkeypatch.setattr("headwater.cluster.transport.proxied_requests.REPLY_SECONDS", 0.01)
    hop = RemoteRequest("https://one.example/feed", {})
    assert await NatsRequestProxy(Deaf(), offer).proxy_request(hop) == make_timeout_reply(hop)
    assert "one.example" in make_timeout_reply(hop).message
    assert [job.feed_id < 0 for job in offered] == [True]


def test_an_answer_that_is_too_large_for_nats_says_so() -> None:
    large = RemoteReply(200, (("A", "b"),), b"x" * 5000, 5100)
    assert encode_reply(large, 1 << 20) == encode(large)
    said = read_reply(encode_reply(large, 4096))
    assert said.ending is Ending.TOO_LARGE
    assert "max_payload" in said.message
