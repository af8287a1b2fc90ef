"""Strangers at the hub and stalled web hooks delay no one else, and only real attempts count."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from zoneinfo import ZoneInfo

import httpx
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from publish_server import BASE, served
from pushing_source import until
from slow_receivers import receiver
from test_deliveries import arrive, prepared, until_done
from test_published_queries import lava

from headwater.cluster.fetcher_setup import make_courier
from headwater.fetch.client import Fetcher
from headwater.model import Feed
from headwater.node.queries.processor import QueryProcessor
from headwater.publish import websub_hub
from headwater.publish.delivery import deliverer as deliverer_module
from headwater.publish.delivery import sinks
from headwater.publish.delivery.deliverer import Deliverer
from headwater.publish.delivery.delivery_planner import DeliveryPlanner
from headwater.publish.delivery.sinks import WebhookSink
from headwater.publish.document_cache import DocumentCache
from headwater.publish.receiver_pool import PoolLimits, ReceiverQueue, WaitingRequest
from headwater.publish.websub_hub import WebSubHub
from headwater.settings import load_settings
from headwater.store.opening import open_store
from headwater.store.publishing.deliveries import count_deliveries, list_deliveries
from headwater.store.publishing.hub_subscribers import HubRequest, add_hub_request, count_hub_rows, list_hub_subscribers
from headwater.store.queries.query_scripts import run_script
from headwater.store.store import Store
from headwater.web.app import create_app
from support.idle_node import make_idle_node
from support.store_samples import NOW

TOPIC = f"{BASE}/feeds/Lava.atom"


@pytest.fixture
async def courier(tmp_path: Path) -> AsyncIterator[Fetcher]:
    async with make_courier(load_settings(data=tmp_path, allow_private=True)) as opened:
        yield opened


# the hub


async def test_400_slow_strangers_delay_neither_a_push_nor_a_renewal(
    store: Store, courier: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websub_hub, "VERIFY_SECONDS", 60.0)  # strangers keep their places during the test
    feed, processor = await lava(store)
    documents = DocumentCache(store, BASE, hub=(f"{BASE}/hub",))
    hub = WebSubHub(store, documents, courier)
    async with receiver() as known, receiver(stalls=True) as slow:
        await store.write(add_hub_request, HubRequest("subscribe", TOPIC, known.url("/known")), NOW)
        while await hub.step():
            pass
        assert len(await store.read(list_hub_subscribers)) == 1
        for n in range(400):
            await store.write(add_hub_request, HubRequest("subscribe", TOPIC, slow.url(f"/{n}")), NOW)
        stop = asyncio.Event()
        running = asyncio.create_task(hub.run(stop))
        await until(lambda: slow.bodies, "it arrives")
        known.bodies.clear()
        begin = time.monotonic()
        await arrive(store, processor, feed, "fresh")
        hub.wake()
        await until(lambda: known.bodies, "it arrives")
        assert b"lava sh" in known.bodies[0]
        assert time.monotonic() - begin < 30
        asked = len(known.paths)
        await store.write(add_hub_request, HubRequest("subscribe", TOPIC, known.url("/known"), lease=400.0), NOW)
        hub.wake()
        await until(lambda: len(known.paths) > asked, "it arrives")  # the renewal of a subscriber
        async with receiver() as newcomer:
            await store.write(add_hub_request, HubRequest("subscribe", TOPIC, newcomer.url("/new")), NOW)
            hub.wake()
            await until(lambda: newcomer.paths, "it arrives")  # another stranger gets its turn
        assert slow.most_open <= websub_hub.VERIFY_LIMITS.per_receiver
        stop.set()
        await asyncio.wait_for(running, websub_hub.STOP_SECONDS + 5)


async def test_stalled_subscribers_do_not_delay_others(store: Store, courier: Fetcher) -> None:
    """They confirm like others, and stall when the feed is pushed."""
    feed, processor = await lava(store)
    hub = WebSubHub(store, DocumentCache(store, BASE, hub=(f"{BASE}/hub",)), courier)
    async with receiver() as quick, receiver() as turned:
        for n in range(100):
            await store.write(add_hub_request, HubRequest("subscribe", TOPIC, turned.url(f"/{n}")), NOW)
        await store.write(add_hub_request, HubRequest("subscribe", TOPIC, quick.url("/quick")), NOW + 1)
        async with asyncio.timeout(60):
            while len(await store.read(list_hub_subscribers)) < 101:
                await hub.step()
        turned.stalls = True
        turned.bodies.clear()
        quick.bodies.clear()
        stop = asyncio.Event()
        running = asyncio.create_task(hub.run(stop))
        begin = time.monotonic()
        await arrive(store, processor, feed, "fresh")
        hub.wake()
        await until(lambda: quick.bodies, "it arrives")
        assert time.monotonic() - begin < websub_hub.SEND_SECONDS
        tried = sum(one.attempts for one in await store.read(list_hub_subscribers))
        assert tried <= len(turned.bodies) + websub_hub.SEND_LIMITS.per_receiver  # waiting ones are not counted
        stop.set()
        await asyncio.wait_for(running, websub_hub.STOP_SECONDS + 5)


async def test_an_address_has_a_quota_of_unconfirmed_requests(
    store: Store, courier: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websub_hub, "MAX_REQUESTS_PER_SENDER", 5)
    await lava(store)
    documents = DocumentCache(store, BASE, hub=(f"{BASE}/hub",))
    hub = WebSubHub(store, documents, courier)
    node = make_idle_node(store)

    class Pushing:
        websub_client = None

        def __init__(self) -> None:
            self.hub, self.documents = hub, documents

    app = create_app(node, push_service=Pushing())  # type: ignore[arg-type]
    async with receiver() as known, served(app) as url, httpx.AsyncClient() as client:

        async def ask(callback: str) -> httpx.Response:
            form = {"hub.mode": "subscribe", "hub.topic": TOPIC, "hub.callback": callback}
            return await client.post(f"{url}/hub", data=form)

        assert (await ask(known.url("/known"))).status_code == 202
        while await hub.step():
            pass
        answers = [await ask(f"http://callback.example/{n}") for n in range(7)]
        assert [one.status_code for one in answers] == [202] * 5 + [429] * 2
        assert answers[-1].headers["retry-after"]
        assert "5 requests of yours wait for confirmation" in answers[-1].text
        assert (await ask(known.url("/known"))).status_code == 202  # a subscriber may always renew
        assert (await store.read(count_hub_rows))[0] == 6


# web hooks


async def make_hooks(store: Store, *addresses: str) -> tuple[Feed, QueryProcessor]:
    """Make query feeds for several web hooks."""
    feed, _ = await prepared(store, "")
    for n, address in enumerate(addresses):
        await store.write(run_script, f'CREATE FEED hook{n} AS RETURN ALL DELIVER TO WEBHOOK "{address}"', NOW)
    processor = QueryProcessor(store, writers=[DeliveryPlanner(ZoneInfo("UTC"))])
    await processor.load()
    await processor.step()
    return feed, processor


async def test_a_stalled_web_hook_does_not_delay_another(store: Store, courier: Fetcher) -> None:
    async with receiver(stalls=True) as slow, receiver() as quick:
        feed, processor = await make_hooks(store, slow.url("/a"), slow.url("/b"), slow.url("/c"), quick.url())
        await arrive(store, processor, feed, *map(str, range(30)))
        delivering = Deliverer(store, {"webhook": WebhookSink(courier, b"secret")})
        stop = asyncio.Event()
        running = asyncio.create_task(delivering.run(stop))
        begin = time.monotonic()
        await until(lambda: len(quick.bodies) == 30, "it arrives")
        assert time.monotonic() - begin < sinks.TIMEOUT
        stop.set()
        await asyncio.wait_for(running, deliverer_module.STOP_SECONDS + 5)
    assert (await store.read(count_deliveries))["sent"] == 30


async def test_three_stalled_hooks_on_one_host_count_only_real_attempts(
    store: Store, courier: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinks, "TIMEOUT", 0.3)
    async with receiver(stalls=True) as slow:
        feed, processor = await make_hooks(store, slow.url("/a"), slow.url("/b"), slow.url("/c"))
        await arrive(store, processor, feed, *map(str, range(4)))
        delivering = Deliverer(store, {"webhook": WebhookSink(courier, b"secret")}, first_wait=0.05, most_attempts=2)
        await until_done(store, delivering)
        rows = await store.read(list_deliveries)
        await until(lambda: len(slow.bodies) == 24, "it arrives")
    assert [one.attempts for one in rows] == [2] * 12
    assert len(slow.bodies) == 24
    assert {one.message for one in rows} == {"The web hook did not answer within 0.3 s."}


@pytest.mark.parametrize("size", [None, "50"])
async def test_a_backlog_is_drained_over_kept_connections(
    database_url: str, courier: Fetcher, size: str | None
) -> None:
    """In batches if the receiver allows; each item arrives once."""
    async with await open_store(database_url) as store, receiver(**{"X_Headwater_Batch": size} if size else {}) as hook:
        feed, processor = await make_hooks(store, hook.url())
        await arrive(store, processor, feed, *map(str, range(300)))
        delivering = Deliverer(store, {"webhook": WebhookSink(courier, b"secret")})
        assert courier.gate.find_gap("hooks.example.org") == 0.0  # feeds of a host are fetched once a second
        await until_done(store, delivering)
        assert await store.read(count_deliveries) == {"sent": 300}
    items = Counter(item["id"] for body in hook.bodies for item in orjson.loads(body)["items"])
    assert set(items.values()) == {1}
    assert len(items) == 300
    assert len({orjson.loads(body)["key"] for body in hook.bodies}) == len(hook.bodies)
    assert hook.connections <= 4
    assert len(hook.bodies) == 300 if size is None else len(hook.bodies) < 20


# the queue

ROWS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 2), st.sampled_from(["known", "stranger"])), min_size=1, max_size=40
)


@given(rows=ROWS, ends=st.lists(st.integers(0, 50), max_size=30), total=st.integers(1, 8))
def test_limits_hold_and_every_receiver_has_its_turn(
    rows: list[tuple[int, int, str]], ends: list[int], total: int
) -> None:
    limits = PoolLimits(total, per_host=3, per_receiver=2, lanes={"stranger": max(total - 1, 1)})
    queue = ReceiverQueue(limits)
    waiting = [WaitingRequest(n, f"{r} {host}", str(host), lane) for n, (r, host, lane) in enumerate(rows)]
    running: list[WaitingRequest] = []
    for end in [*ends, *range(100)]:
        chosen = queue.choose(waiting)
        running += chosen
        waiting = [one for one in waiting if one not in chosen]
        assert len({one.id for one in running}) == len(running) <= total
        assert max(Counter(one.host for one in running).values(), default=0) <= 3
        receivers = Counter(one.receiver for one in running)
        assert max(receivers.values(), default=0) <= 2
        assert sum(one.lane == "stranger" for one in running) <= limits.lanes["stranger"]
        if waiting and len(running) < total:  # a free place means that each receiver's next row is at a limit
            hosts, lanes = Counter(one.host for one in running), Counter(one.lane for one in running)
            first = {one.receiver: one for one in reversed(waiting)}
            assert all(
                receivers[one.receiver] >= 2
                or hosts[one.host] >= 3
                or lanes[one.lane] >= limits.lanes.get(one.lane, total)
                for one in first.values()
            )
        if running:
            queue.end(running.pop(end % len(running)).id)
    assert not waiting


def test_a_receiver_with_a_long_backlog_takes_turns_with_the_others() -> None:
    queue = ReceiverQueue(PoolLimits(total=2, per_host=2, per_receiver=2))
    waiting = [WaitingRequest(n, "large", "a") for n in range(100)] + [
        WaitingRequest(100 + n, "small", "b") for n in range(5)
    ]
    order: list[str] = []
    while waiting:
        (first, *rest) = queue.choose(waiting)
        for one in (first, *rest):
            order.append(one.receiver)
            waiting.remove(one)
            queue.end(one.id)
    assert order[:10].count("small") == 5


def test_a_sender_with_many_receivers_takes_turns_with_the_others() -> None:
    """A sender of callbacks to many hosts makes others wait for one place at most."""
    queue = ReceiverQueue(PoolLimits(total=4, per_host=4, per_receiver=4))
    waiting = [WaitingRequest(n, f"host {n}", f"host {n}", sender="busy") for n in range(100)]
    running = queue.choose(waiting)
    waiting = [*waiting[4:], WaitingRequest(100, "newcomer", "newcomer", sender="other")]
    queue.end(running[0].id)
    assert [one.receiver for one in queue.choose(waiting)] == ["newcomer"]
