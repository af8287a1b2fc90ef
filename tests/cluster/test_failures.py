"""The failure matrix: parts hang, die, fill up or disagree, on real PostgreSQL and NATS."""

from __future__ import annotations

import asyncio
import random
import shutil
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from cluster_in_process import LEASE, all_matched, cluster_ingest, publish, result, roles, settings, streams_at
from sqlalchemy import Connection, text

from headwater.cluster.demo.audit import audit_run
from headwater.cluster.demo.servers import NatsServer, nats_server
from headwater.cluster.leader import ClusterJobs, DatabaseInbox, Leader
from headwater.cluster.leases import partitions
from headwater.cluster.leases.lease_clock import LeaseTiming
from headwater.cluster.leases.partitions import partition_of
from headwater.cluster.membership import load_cluster_id
from headwater.cluster.terminal import Terminal
from headwater.cluster.transport.nats_dispatch import NatsJobSender, publish_jobs
from headwater.cluster.transport.nats_streams import consumer_name
from headwater.cluster.transport.nats_transport import NatsJobReceiver
from headwater.cluster.transport.postgres_transport import PostgresJobSender
from headwater.cluster.transport.wire_messages import (
    Grant,
    MemberReport,
    decode_results,
    encode_results,
    read_job,
    read_lessons,
)
from headwater.errors import ClusterError, LeaseLost
from headwater.estimate.models.learned_forecast import LearnedForecast
from headwater.farm.faults import Fault
from headwater.fetch.client import Fetcher
from headwater.node.crawl.dispatcher import Dispatcher
from headwater.node.crawl.politeness import Politeness
from headwater.node.crawl.scheduler import Scheduler, build_configured_strategy, make_budget_account
from headwater.node.crawl.spending import SpendingLog
from headwater.node.crawl.transport import EPOCH_SHIFT, FetchResult, Job, OnSafe, ReceivedJob
from headwater.node.live_settings import LiveSettings
from headwater.store import cluster_jobs, cluster_leases
from headwater.store.content.feed_state import load_feed_states
from headwater.store.content.feeds import NewFeed
from headwater.store.content.items import count_items, list_items
from headwater.store.content.refreshes import list_refreshes
from headwater.store.queries.query_scripts import run_script
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store
from support.databases import PostgresServer


def manners() -> Politeness:
    return Politeness(random.Random(1), least=0.2)


async def a_feed(store: Store, url: str = "https://one.example/feed") -> int:
    [added] = await store.write(add_and_subscribe, [NewFeed(url)], time.time())
    return added.feed.id


# a terminal that hangs


async def test_a_late_result_stores_its_items_but_does_not_touch_the_schedule(store: Store) -> None:
    url = "https://one.example/feed"
    feed = await a_feed(store, url)
    await store.write(partitions.create_partition_leases)
    await store.write(
        cluster_leases.acquire_free_leases, partitions.LEASE_PREFIX, "hung", 256, -1.0
    )  # epoch 1, expired at once
    await store.write(cluster_leases.acquire_free_leases, partitions.LEASE_PREFIX, "other", 256, 60.0)  # epoch 2
    storer = cluster_ingest(store, manners())
    await storer.save_results([result(feed, url, 2_000.0, "b", "c", epoch=2, terminal="other")])
    after = (await store.read(load_feed_states, [feed]))[feed]
    await storer.save_results([result(feed, url, 1_000.0, "a", "b", epoch=1, terminal="hung")])
    assert {one.identity for one in await store.read(list_items, feed_id=feed)} == {"a", "b", "c"}
    assert (await store.read(load_feed_states, [feed]))[feed] == after
    taught = [one for body in await store.write(cluster_jobs.take_lessons, 10) for one in read_lessons(body)]
    assert [one.late for one in taught] == [False, True]
    assert len(await store.read(list_refreshes, feed)) == 2  # every fetch has its record


class FakeTransport:
    """Grants the given partitions, delivers no jobs, keeps results, and records the outcome of each job."""

    def __init__(self, *grants: Grant) -> None:
        self._grants = list(grants)
        self.drained: list[dict[int, int]] = []
        self.results: list[FetchResult] = []

    async def renew_partitions(self, drained: Mapping[int, int]) -> Grant:
        self.drained.append(dict(drained))
        return self._grants.pop(0) if len(self._grants) > 1 else self._grants[0]

    def give(self, grant: Grant) -> None:
        self._grants = [grant]

    async def release_partitions(self, held: Mapping[int, int]) -> None:
        pass

    async def receive_jobs(self, intake: object) -> AsyncIterator[list[ReceivedJob]]:
        await asyncio.Event().wait()
        yield []

    async def ack_job(self, received: ReceivedJob) -> None:
        received.token.set_result("done")

    async def give_back(self, received: ReceivedJob) -> None:
        received.token.set_result("given back")

    async def drop_job(self, received: ReceivedJob) -> None:
        received.token.set_result("put down")

    async def reply(self, received: ReceivedJob, reply: object) -> None:
        received.token.set_result("answered")

    async def send_result(self, result: FetchResult, on_safe: OnSafe) -> None:
        self.results.append(result)
        await on_safe(None)

    def abandon_results(self) -> None:
        pass


async def answered(terminal: Terminal, eventually) -> None:
    """Wait until the terminal has received its grant."""
    await eventually(lambda: terminal.holdings.seconds_left(0.0) > 0.0, "it has asked for partitions and was answered")


async def tried(terminal: Terminal, job: Job) -> str:
    """Give a terminal a job; return its outcome: done, given back or put down."""
    ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    terminal.accept_job(ReceivedJob(job, ended))
    return await asyncio.wait_for(ended, 20)


async def test_a_terminal_begins_nothing_it_may_not(farm, eventually) -> None:
    made = await farm(feeds=1)
    url = made.url(0)
    p = partition_of(url)
    now = time.time()
    good = Grant({p: 5}, (), LEASE, 7, now)
    cases = {
        "held": (good, 7),
        "an old controller's job": (good, 6),
        "not held": (replace(good, partitions={}), 7),
        "to be drained": (replace(good, surplus=(p,)), 7),
        "too little of the lease left for a fetch": (replace(good, seconds=LEASE / 2 - 0.1), 7),
    }
    found = {}
    for name, (grant, epoch) in cases.items():
        async with Fetcher(allow_private=True) as fetcher:
            terminal = Terminal("t", fetcher, FakeTransport(grant), timing=LeaseTiming(LEASE))
            stop = asyncio.Event()
            running = asyncio.create_task(terminal.run(stop))
            await answered(terminal, eventually)
            found[name] = await tried(terminal, Job(1, p, epoch << EPOCH_SHIFT, url, "a test"))
            stop.set()
            await running
    special = {"held": "done", "an old controller's job": "put down"}
    assert found == {name: special.get(name, "given back") for name in cases}
    assert len(made.log) == 1


async def test_a_partition_is_drained_before_it_is_let_go(farm, eventually) -> None:
    made = await farm(feeds=1, latency=1.0)
    url = made.url(0)
    p = partition_of(url)
    grant = Grant({p: 5}, (), LEASE, 7, time.time())
    landlord = FakeTransport(grant, replace(grant, surplus=(p,)))
    async with Fetcher(allow_private=True) as fetcher:
        terminal = Terminal("t", fetcher, landlord, timing=LeaseTiming(LEASE))
        stop = asyncio.Event()
        running = asyncio.create_task(terminal.run(stop))
        await answered(terminal, eventually)
        fetching = asyncio.create_task(tried(terminal, Job(1, p, 7 << EPOCH_SHIFT, url, "a test")))
        await eventually(lambda: {p: 5} in landlord.drained, "it lets go")
        assert fetching.done()
        assert fetching.result() == "done"
        stop.set()
        await running


async def test_results_that_are_not_safe_yet_hold_up_no_fetch_and_keep_their_partition(farm, eventually) -> None:
    made = await farm(feeds=6)
    p = partition_of(made.url(0))
    waiting: list[OnSafe] = []
    ended: list[int] = []

    class Slow(FakeTransport):
        async def send_result(self, result: FetchResult, on_safe: OnSafe) -> None:
            waiting.append(on_safe)

        async def ack_job(self, received: ReceivedJob) -> None:
            ended.append(received.job.feed_id)

    landlord = Slow(Grant({p: 5}, (), LEASE, 7, time.time()))
    async with Fetcher(allow_private=True, per_host=6, gap=0.0) as fetcher:
        terminal = Terminal("t", fetcher, landlord, timing=LeaseTiming(LEASE), concurrency=2)
        stop = asyncio.Event()
        running = asyncio.create_task(terminal.run(stop))
        await answered(terminal, eventually)
        for k in range(6):
            terminal.accept_job(ReceivedJob(Job(k, p, 7 << EPOCH_SHIFT, made.url(k), "a test")))
        await eventually(lambda: len(waiting) == 6, "all are fetched, two at a time")
        assert max(made.log.most_at_once.values()) <= 2
        assert (ended, terminal.pool.room) == ([], 2)
        landlord.give(Grant({p: 5}, (p,), LEASE, 7, time.time()))
        await eventually(lambda: p in terminal.holdings.draining, "it is to let go")
        await waiting[0](ClusterError("The broker is full."))
        for then in waiting[1:]:
            assert {p: 5} not in landlord.drained
            await then(None)
        assert len(set(ended)) == len(ended) == 5
        assert (terminal.counts["fetched"], terminal.counts["failed"], terminal.pool.room) == (6, 1, 8)
        await eventually(lambda: {p: 5} in landlord.drained, "it lets go")
        stop.set()
        await running


async def test_a_greeting_that_is_answered_late_lets_nothing_go_that_was_taken_anew(store: Store) -> None:
    await store.write(partitions.create_partition_leases)
    first = (await store.write(partitions.share_partitions, "t", 1, {}, LEASE)).partitions
    late = {7: first[7]}  # it drained this one and reports it; without an answer it reports it again
    again = (await store.write(partitions.share_partitions, "t", 1, late, LEASE)).partitions
    assert again[7] == first[7] + 1
    await store.write(partitions.share_partitions, "t", 1, late, LEASE)
    await store.write(
        partitions.release_partitions, "t", first
    )  # and the release by the earlier process of the same name
    other = (await store.write(partitions.share_partitions, "other", 2, {}, LEASE)).partitions
    assert 7 not in other
    assert set(other) <= first.keys() - {7}


async def test_jobs_of_a_partition_that_has_passed_on_do_not_go_to_who_held_it(
    farm, store: Store, nats: NatsServer, prefix: str, eventually
) -> None:
    made = await farm(feeds=2)
    url = made.url(0)
    p = partition_of(url)
    grant = Grant({p: 5}, (), LEASE, 7, time.time())

    class Granting(NatsJobReceiver):
        given = grant

        async def renew_partitions(self, drained: Mapping[int, int]) -> Grant:
            return self.given

        async def release_partitions(self, held: Mapping[int, int]) -> None:
            pass

    async with streams_at(nats.url, prefix) as streams, Fetcher(allow_private=True, per_host=2, gap=0.0) as fetcher:
        await streams.ensure_streams(await load_cluster_id(store))
        transport = Granting(streams, lambda: MemberReport("t", "terminal"))
        terminal = Terminal("t", fetcher, transport, timing=LeaseTiming(LEASE))
        stop = asyncio.Event()
        running = asyncio.create_task(terminal.run(stop))
        await publish_jobs(streams, [Job(1, p, 7 << EPOCH_SHIFT, url, "a test")])
        await eventually(lambda: terminal.counts["fetched"] == 1, "it has asked for jobs of its partition")
        transport.given = replace(grant, partitions={})
        await eventually(lambda: not terminal.holdings.held, "the partition has passed on")
        await asyncio.sleep(0.5)
        await publish_jobs(streams, [Job(2, p, 7 << EPOCH_SHIFT, made.url(1), "a test")])
        await asyncio.sleep(0.5)
        waits = await streams.context.consumer_info(streams.stream_name("JOBS"), consumer_name(p))
        assert (waits.num_pending, waits.num_ack_pending) == (1, 0)  # the other has not asked yet
        assert terminal.counts["refused"] == 0
        stop.set()
        await running


async def test_a_wrong_clock_of_a_terminal_is_corrected_by_the_databases(eventually) -> None:
    grant = Grant({1: 5}, (), LEASE, 7, time.time() + 500.0)
    async with Fetcher(allow_private=True) as fetcher:
        terminal = Terminal("t", fetcher, FakeTransport(grant), timing=LeaseTiming(LEASE))
        stop = asyncio.Event()
        running = asyncio.create_task(terminal.run(stop))
        await eventually(
            lambda: abs(terminal.database_time() - time.time() - 500.0) < 5.0, "its clock follows the database's"
        )
        stop.set()
        await running


# controllers


def controller(
    store: Store,
    held: cluster_leases.ClusterLease,
    capacity: int = 100,
    *,
    budget: float = 100_000.0,
    clock: Callable[[], float] = time.time,
) -> Dispatcher:
    given, fenced = settings(budget=budget), store.fenced(held)
    scheduler = Scheduler(fenced, build_configured_strategy(given), make_budget_account(given), manners(), clock=clock)
    return Dispatcher(
        scheduler,
        PostgresJobSender(fenced),
        ClusterJobs(fenced),
        SpendingLog(fenced, cluster_leases.read_database_time),
        room=lambda in_flight: capacity - in_flight,
        inbox=DatabaseInbox(fenced),
        epoch=held.epoch,
        in_flight_seconds=3 * LEASE,
        clock=clock,
    )


async def queued_jobs(store: Store) -> dict[int, Job]:
    rows = await store.write(cluster_jobs.claim_jobs, range(256), 100, 0.0)
    return {row.feed_id: read_job(row.body) for row in rows}


async def test_a_persons_request_waits_for_the_strict_cap_and_is_then_sent_first(store: Store) -> None:
    feeds = [await a_feed(store, f"https://site{k}.example/feed") for k in range(6)]
    held = await store.write(cluster_leases.acquire_lease, "controller", "c", 60.0)
    assert held is not None
    now = time.time()
    works = controller(store, held, budget=1.0, clock=lambda: now)
    await works.scheduler.load_feeds()
    while await works.step():
        pass
    sent = await queued_jobs(store)
    await cluster_ingest(store, manners()).save_results(
        [result(feed, job.url, now, "a", generation=job.generation) for feed, job in sent.items()]
    )
    [*_, wanted] = (feed for feed in feeds if feed not in sent)
    await store.write(cluster_jobs.add_refresh_request, wanted, by_hub=True)
    await store.write(cluster_jobs.add_refresh_request, wanted)  # a person's request has precedence
    assert await works.step() == len(sent)  # learned, and nothing sent
    assert not await queued_jobs(store)
    now += 61.0
    works._mail_read_at = 0.0
    assert await works.step()
    job = min((await queued_jobs(store)).values(), key=lambda job: job.generation)
    assert (job.feed_id, job.wished) == (wanted, True)


async def test_a_request_ends_with_a_stored_refresh_that_the_person_has_not_seen(store: Store) -> None:
    url = "https://one.example/feed"
    feed, other = await a_feed(store, url), await a_feed(store, "https://two.example/feed")
    held = await store.write(cluster_leases.acquire_lease, "controller", "c", 60.0)
    assert held is not None
    works = controller(store, held)
    await works.scheduler.load_feeds()
    await works.step()
    before = time.time()
    await store.write(cluster_jobs.add_refresh_request, feed, newer_than=before)
    await store.write(cluster_jobs.add_refresh_request, other, by_hub=True)
    await works.step()
    assert await store.read(cluster_jobs.read_leader_news) == (False, {feed: before}, [])  # a hub's is recorded at once
    storer = cluster_ingest(store, manners())
    await storer.save_results([result(feed, url, before - 1.0, "a")])  # the person has seen this one
    await works.step()
    assert await store.read(cluster_jobs.read_leader_news) == (False, {feed: before}, [])
    await storer.save_results([result(feed, url, before + 1.0, "a", "b")])
    await works.step()
    assert await store.read(cluster_jobs.read_leader_news) == (False, {}, [])


async def test_of_two_controllers_the_old_one_is_refused_everywhere(store: Store) -> None:
    await a_feed(store)
    old = await store.write(cluster_leases.acquire_lease, "controller", "old", -1.0)
    assert old is not None
    first = controller(store, old)
    await first.scheduler.load_feeds()
    new = await store.write(cluster_leases.acquire_lease, "controller", "new", 60.0)
    assert new is not None
    with pytest.raises(LeaseLost):
        await first.step()
    assert await store.read(cluster_jobs.count_jobs) == 0
    second = controller(store, new)
    await second.scheduler.load_feeds()
    assert await second.step()
    assert await store.read(cluster_jobs.count_jobs) == 1


async def test_a_job_of_which_nothing_was_heard_is_due_again_and_its_feed_is_refused_only_while_it_waits(
    store: Store,
) -> None:
    feed = await a_feed(store)
    held = await store.write(cluster_leases.acquire_lease, "controller", "c", 60.0)
    assert held is not None
    works = controller(store, held)
    await works.scheduler.load_feeds()
    await works.step()
    assert list(works.in_flight) == [feed]
    await store.write(cluster_jobs.delete_jobs, [feed])  # simulates a broker that was wiped
    assert not await works.step()
    works.in_flight[feed].deadline = 0.0
    assert await works.step()
    assert works.counts["expired"] == 1
    assert await store.read(cluster_jobs.count_jobs) == 1
    await store.write(cluster_jobs.delete_jobs, [feed])
    works.recheck_in_flight()  # once the broker is known to be wiped, there is nothing to wait for
    assert await works.step()
    assert works.counts["expired"] == 1
    assert await store.read(cluster_jobs.count_jobs) == 1


async def test_what_the_controller_before_had_in_flight_is_in_flight_and_due_again_when_it_was_put_down(
    store: Store,
) -> None:
    urls = [f"https://site{k}.example/feed" for k in range(4)]
    await store.write(add_and_subscribe, [NewFeed(url) for url in urls], time.time())
    old = await store.write(cluster_leases.acquire_lease, "controller", "old", 60.0)
    assert old is not None
    first = controller(store, old, capacity=3)
    await first.scheduler.load_feeds()
    await first.step()
    assert await store.read(cluster_jobs.list_queued_feeds) == set(first.in_flight)
    assert len(first.in_flight) == 3
    await store.write(cluster_leases.release_lease, old)
    new = await store.write(cluster_leases.acquire_lease, "controller", "new", 60.0)
    assert new is not None
    second = controller(store, new, capacity=3)
    await second.scheduler.load_feeds()
    await second.adopt_in_flight()
    assert not await second.step()
    assert second.in_flight.keys() == first.in_flight.keys()
    one, two, three = second.in_flight
    found = (await store.read(load_feed_states, [one]))[one].url
    await cluster_ingest(store, manners()).save_results([result(one, found, time.time(), "a")])
    assert await second.step()  # the fourth takes its place
    assert second.counts["learned"] == 1
    assert one not in second.in_flight
    await store.write(cluster_jobs.delete_jobs, [two])  # as a terminal drops an old controller's job
    assert await second.step()
    assert second.counts["expired"] == 0
    assert await store.read(cluster_jobs.list_queued_feeds) == second.in_flight.keys()
    assert two in second.in_flight
    assert three in second.in_flight


async def test_a_takeover_that_takes_long_counts_what_was_spent_until_its_minute_is_over(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.write(add_and_subscribe, [NewFeed("https://site.example/feed")], time.time())
    old = await store.write(cluster_leases.acquire_lease, "controller", "old", 60.0)
    assert old is not None
    first = controller(store, old, budget=1.0)
    await first.scheduler.load_feeds()
    assert await first.step()
    await store.write(cluster_leases.release_lease, old)
    new = await store.write(cluster_leases.acquire_lease, "controller", "new", 60.0)
    assert new is not None
    began = now = time.time()
    second = controller(store, new, budget=1.0, clock=lambda: now)
    await second.scheduler.load_feeds()
    list_in_flight = PostgresJobSender.list_in_flight

    async def list_slowly(sender: PostgresJobSender) -> set[int]:
        nonlocal now
        now += 10.0
        return await list_in_flight(sender)

    monkeypatch.setattr(PostgresJobSender, "list_in_flight", list_slowly)
    await second.adopt_in_flight()
    assert second.scheduler.budget.measure_use(began + 65.0).requests == 1
    assert second.scheduler.budget.measure_use(began + 75.0).requests == 0


async def test_who_takes_over_has_learned_what_was_not_saved_and_learns_on(store: Store, eventually) -> None:
    url = "https://one.example/feed"
    feed = await a_feed(store, url)
    storer = cluster_ingest(store, manners())
    now = time.time()
    for n in range(30):
        shown = [str(k) for k in range(n, n + 5)]
        await storer.save_results([result(feed, url, now - 3000 + 100 * n, *shown)])
    live_settings = LiveSettings(store, settings(database="postgresql://unused", strategy="value", estimator=None))
    trusts = []
    for name in ("first", "second"):
        leader = Leader(store, live_settings, lambda fenced, held: PostgresJobSender(fenced), roles=["node"])
        held = await store.write(cluster_leases.acquire_lease, "controller", name, 60.0)
        assert held is not None
        over = asyncio.Event()
        leading = asyncio.create_task(leader.run_term(held, over))
        await eventually(lambda leader=leader: leader.dispatcher is not None, f"the {name} leads")
        assert leader.dispatcher is not None
        scheduler = leader.dispatcher.scheduler
        rate = scheduler.estimate_feed_rate(feed)
        assert rate is not None
        assert 1 / 300 < rate < 1 / 50  # one item in a hundred seconds
        forecast = scheduler.strategy.estimator
        assert isinstance(forecast, LearnedForecast)
        trusts.append(forecast.learning.trust)
        forecast.learning.load({**forecast.learning.save(), "*evidence": np.array(-2.0)})  # as after bad days
        over.set()
        await leading
        await store.write(cluster_leases.release_lease, held)
    assert trusts == [pytest.approx(0.98, abs=0.01), pytest.approx(0.12, abs=0.01)]


# servers


async def test_while_the_database_is_away_results_wait_and_are_stored_when_it_is_back(
    farm, url: str, store: Store, postgres: PostgresServer, nats: NatsServer, prefix: str, eventually
) -> None:
    feed = await a_feed(store)
    given = settings(database=url, nats=nats.url, nats_prefix=prefix)
    name = url.partition("?")[0].rpartition("/")[2]
    async with streams_at(nats.url, prefix) as streams, roles(given, "storer") as running:

        async def joined() -> bool:
            return bool(await store.read(cluster_leases.list_members, 60.0))

        await eventually(joined, "the storer has joined")
        postgres._admin(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        postgres.disconnect(name)
        for n in range(20):
            await publish(streams, result(feed, "https://one.example/feed", 1_000.0 + n, f"{n}", f"{n + 1}"))
        await asyncio.sleep(3.0)
        assert not running.failures()
        assert await streams.count_waiting("RESULTS") == 20
        postgres._admin(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")

        async def stored() -> bool:
            return await store.read(count_items) == 21 and await streams.count_waiting("RESULTS") == 0

        await eventually(stored, "everything is stored")


def full(connection: Connection) -> None:
    connection.execute(
        text(
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$"
        )
    )
    connection.execute(text("CREATE TRIGGER full_disk BEFORE INSERT ON item EXECUTE FUNCTION full_disk()"))


async def test_a_full_disk_is_reported_and_waited_for(
    url: str, store: Store, nats: NatsServer, prefix: str, eventually
) -> None:
    feed = await a_feed(store)
    given = settings(database=url, nats=nats.url, nats_prefix=prefix)
    async with streams_at(nats.url, prefix) as streams, roles(given, "storer") as running:
        await eventually(streams.are_present, "the streams are made")
        await store.write(full)
        await publish(streams, result(feed, "https://one.example/feed", 1_000.0, "a", "b"))

        async def is_reported() -> bool:
            infos = [one.info for one in await store.read(cluster_leases.list_members, 60.0)]
            return any("disk of PostgreSQL" in info for info in infos)

        await eventually(is_reported, "the member says so")
        assert await store.read(count_items) == 0
        assert not await store.read(list_refreshes)  # no partial write
        await store.write(lambda connection: connection.execute(text("DROP FUNCTION full_disk CASCADE")) and None)

        async def stored() -> bool:
            return await store.read(count_items) == 2

        await eventually(stored, "it is stored when there is space")
        assert not running.failures()


async def test_a_message_that_nobody_can_read_is_put_aside_with_its_body(
    url: str, store: Store, nats: NatsServer, prefix: str, eventually
) -> None:
    feed = await a_feed(store)
    given = settings(database=url, nats=nats.url, nats_prefix=prefix)
    async with streams_at(nats.url, prefix) as streams, roles(given, "storer"):
        await eventually(streams.are_present, "the streams are made")
        await streams.context.publish(streams.full_subject("res.7"), b"\xff poison")
        await publish(streams, result(feed, "https://one.example/feed", 1_000.0, "a"))

        async def aside() -> bool:
            return (
                bool(await store.read(cluster_jobs.list_quarantined_messages))
                and await streams.count_waiting("RESULTS") == 0
            )

        await eventually(aside, "it is put aside")
        [(_, subject, problem, body)] = await store.read(cluster_jobs.list_quarantined_messages)
        assert (subject, body) == ("res.7", b"\xff poison")
        assert "cannot be read" in problem
        assert await store.read(count_items) == 1  # the others are stored


async def test_one_result_that_nobody_can_store_does_not_keep_the_others_of_its_message(
    url: str, store: Store, nats: NatsServer, prefix: str, eventually
) -> None:
    feed = await a_feed(store)
    given = settings(database=url, nats=nats.url, nats_prefix=prefix)
    good = result(feed, "https://one.example/feed", 1_000.0, "a")
    bad = msgspec.structs.replace(
        good, job=msgspec.structs.replace(good.job, partition=9999)
    )  # no such partition exists
    async with streams_at(nats.url, prefix) as streams, roles(given, "storer"):
        await eventually(streams.are_present, "the streams are made")
        [(_, body)] = encode_results([bad, good], 1 << 20)
        await streams.context.publish(streams.full_subject("res.7"), body)

        async def aside() -> bool:
            return (
                bool(await store.read(cluster_jobs.list_quarantined_messages))
                and await streams.count_waiting("RESULTS") == 0
            )

        await eventually(aside, "it is put aside")
        [(_, _, problem, kept)] = await store.read(cluster_jobs.list_quarantined_messages)
        assert f"Feed {feed}: KeyError(9999)" in problem
        assert decode_results(kept) == [bad]
        assert await store.read(count_items) == 1


async def test_a_second_job_for_a_feed_is_refused_by_the_broker_and_one_that_blocks_is_put_aside(
    store: Store, nats: NatsServer, prefix: str
) -> None:
    async with streams_at(nats.url, prefix) as streams:
        await streams.ensure_streams(await load_cluster_id(store))
        outgoing = NatsJobSender(streams, store, lambda: True)
        job = Job(1, 3, 1 << EPOCH_SHIFT, "https://one.example/feed", "a test")
        assert await outgoing.send_jobs([job]) == {1}
        assert await outgoing.send_jobs([job]) == set()
        assert await outgoing.send_jobs([job]) == set()  # NATS has dropped the job, or no terminal runs
        assert await outgoing.send_jobs([job]) == {1}
        assert [subject for _, subject, _, _ in await store.read(cluster_jobs.list_quarantined_messages)] == [
            "jobs.3.1"
        ]


async def test_a_broker_that_was_wiped_is_set_up_again_and_everything_goes_on(
    farm, url: str, store: Store, tmp_path, eventually
) -> None:
    made = await farm(feeds=12, hosts=12, speed=2000, rates=(20, 50), window=100, hints=False, latency=0.02)
    await store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(12)], time.time())
    await store.write(run_script, "CREATE FEED Everything AS RETURN ALL", time.time())
    with nats_server(tmp_path) as broker:
        given = settings(database=url, nats=broker.url)
        async with roles(given, "controller", "terminal", "storer", "processor") as running:
            await eventually(lambda: len(made.log) > 12, "it runs")
            broker.kill()
            shutil.rmtree(tmp_path / "jetstream", ignore_errors=True)
            await asyncio.sleep(1.0)
            broker.start()
            asked = len(made.log)
            await eventually(lambda: len(made.log) > asked + 4, "it goes on by itself")
            await running.stop_storing()
            await eventually(lambda: all_matched(store), "everything stored has met the query")
    found = await audit_run(made, store, "Everything")
    assert found.is_clean, found
    assert found.at_once == 1


# redirects


async def test_a_terminal_sends_one_request_for_a_job_and_reports_where_it_was_redirected(farm, eventually) -> None:
    made = await farm(feeds=2, hosts=2)
    made.faults[0] = Fault("302", made.url(1))
    here, there = partition_of(made.url(0)), partition_of(made.url(1))
    assert here != there
    transport = FakeTransport(Grant({here: 5, there: 6}, (), LEASE, 7, time.time()))
    async with Fetcher(allow_private=True) as fetcher:
        terminal = Terminal("t", fetcher, transport, timing=LeaseTiming(LEASE))
        stop = asyncio.Event()
        running = asyncio.create_task(terminal.run(stop))
        await answered(terminal, eventually)
        job = Job(1, here, 7 << EPOCH_SHIFT, made.url(0), "a test")
        assert await tried(terminal, job) == "done"
        assert [line.feed for line in made.log] == [0]
        way = transport.results[0].way
        assert way is not None
        assert (way.at, transport.results[0].unasked) == (made.url(1), True)
        assert await tried(terminal, msgspec.structs.replace(job, partition=there, way=way)) == "done"
        stop.set()
        await running
    found = transport.results[1]
    assert (found.outcome.url, found.outcome.final_url) == (made.url(0), made.url(1))
    assert found.outcome.ending.ok
    assert [line.feed for line in made.log] == [0, 1]


async def test_a_job_whose_time_to_begin_is_over_goes_back_and_its_host_is_not_asked(farm, eventually) -> None:
    made = await farm(feeds=1)
    p, now = partition_of(made.url(0)), time.time()
    transport = FakeTransport(Grant({p: 5}, (), LEASE, 7, now))
    async with Fetcher(allow_private=True) as fetcher:
        terminal = Terminal("t", fetcher, transport, timing=LeaseTiming(LEASE))
        stop = asyncio.Event()
        running = asyncio.create_task(terminal.run(stop))
        await answered(terminal, eventually)
        job = Job(1, p, 7 << EPOCH_SHIFT, made.url(0), "a test", begin_by=now - 0.001)
        assert await tried(terminal, job) == "done"
        assert (transport.results[0].unbegun, transport.results[0].unasked, len(made.log)) == (True, True, 0)
        assert await tried(terminal, msgspec.structs.replace(job, begin_by=now + 60.0)) == "done"
        assert (transport.results[1].unbegun, len(made.log)) == (False, 1)
        stop.set()
        await running
