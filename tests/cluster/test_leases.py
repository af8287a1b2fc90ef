"""A lease has one holder at a time, by the database's clock; a former holder cannot write."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import pytest
from sqlalchemy import Connection

from headwater.cluster.leases import partitions
from headwater.cluster.leases.election import Election
from headwater.cluster.leases.lease_clock import LeaseTiming
from headwater.cluster.transport.postgres_transport import PostgresJobSender, PostgresTransport
from headwater.cluster.transport.wire_messages import Grant, MemberReport
from headwater.errors import LeaseLost, StoreError
from headwater.node.crawl.transport import Job
from headwater.store import cluster_leases
from headwater.store.content.feeds import NewFeed, count_feeds
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store
from support.databases import closed_gate


async def test_a_lease_has_one_holder_until_it_ends_and_its_epoch_grows_with_each(store: Store) -> None:
    first = await store.write(cluster_leases.acquire_lease, "controller", "a", 60.0)
    assert first is not None
    assert first.epoch == 1
    assert await store.write(cluster_leases.acquire_lease, "controller", "b", 60.0) is None
    again = await store.write(cluster_leases.acquire_lease, "controller", "a", 60.0)
    assert again is not None
    assert again.epoch == 1  # renewed by its holder, so the epoch stays
    await store.write(cluster_leases.release_lease, again)
    second = await store.write(cluster_leases.acquire_lease, "controller", "b", 60.0)
    assert second is not None
    assert second.epoch == 2
    assert await store.write(cluster_leases.renew_lease, first, 60.0) is None


async def test_a_lease_that_ran_out_can_still_be_renewed_while_nobody_wants_it(store: Store) -> None:
    held = await store.write(cluster_leases.acquire_lease, "controller", "a", -1.0)
    assert held is not None
    assert await store.write(cluster_leases.renew_lease, held, 60.0) is not None
    assert await store.write(cluster_leases.acquire_lease, "controller", "b", 60.0) is None


async def test_a_write_under_an_old_epoch_is_refused_and_leaves_nothing(store: Store) -> None:
    old = await store.write(cluster_leases.acquire_lease, "controller", "a", -1.0)
    assert old is not None
    fenced = store.fenced(old)
    await fenced.write(add_and_subscribe, [NewFeed("https://example.org/1")], time.time())
    assert await store.write(cluster_leases.acquire_lease, "controller", "b", 60.0) is not None
    with pytest.raises(LeaseLost, match="passed to another"):
        await fenced.write(add_and_subscribe, [NewFeed("https://example.org/2")], time.time())
    with pytest.raises(LeaseLost):
        await fenced.write(lambda connection: pytest.fail("the function must not run"))
    assert await fenced.read(count_feeds) == 1  # reading needs no lease


async def test_who_takes_over_waits_for_a_write_that_has_begun_but_the_holder_may_renew(store: Store, url: str) -> None:
    held = await store.write(cluster_leases.acquire_lease, "controller", "a", -1.0)
    assert held is not None
    loop, begun = asyncio.get_running_loop(), asyncio.Event()
    async with closed_gate(url) as wait_at_gate:

        def write_slowly(connection: Connection) -> None:
            loop.call_soon_threadsafe(begun.set)
            wait_at_gate(connection)
            cluster_leases.record_heartbeat(connection, "a", "controller", "{}")

        writing = asyncio.create_task(store.fenced(held).write(write_slowly))
        await begun.wait()
        await store.write(cluster_leases.renew_lease, held, -1.0)
        taking = asyncio.create_task(store.write(cluster_leases.acquire_lease, "controller", "b", 60.0))
        await asyncio.sleep(0.3)
        assert not taking.done()
    await writing
    assert (await asyncio.wait_for(taking, 10)) is not None
    assert [one.name for one in await store.read(cluster_leases.list_members, 60.0)] == ["a"]


async def test_partitions_are_taken_once_however_many_reach_for_them(store: Store) -> None:
    names = [f"partition/{p:03}" for p in range(256)]
    await store.write(cluster_leases.prepare_leases, names)
    taken = await asyncio.gather(
        *(store.write(cluster_leases.acquire_free_leases, "partition/", f"t{k}", 86, 60.0) for k in range(4))
    )
    assert sorted(name for some in taken for name in some) == sorted(set().union(*taken))
    await store.write(cluster_leases.acquire_free_leases, "partition/", "t9", 256, 60.0)
    held = await store.read(cluster_leases.list_leases, "partition/")
    assert len(held) == 256
    assert all(one.epoch == 1 for one in held)


async def test_all_partitions_are_taken_by_one_statement(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """One statement per partition took a slow database longer than a terminal's timeout, at every try."""
    await store.write(partitions.create_partition_leases)
    execute, statements = Connection.execute, 0

    def count(connection: Connection, *given: Any) -> Any:
        nonlocal statements
        statements += 1
        return execute(connection, *given)

    monkeypatch.setattr(Connection, "execute", count)
    taken = await store.write(cluster_leases.acquire_free_leases, "partition/", "t", 256, 60.0)
    assert (len(taken), statements) == (256, 1)


class Away:
    """A store whose database fails while a test sets it away."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.away = False

    async def write(self, *args: Any) -> Any:
        if self.away:
            raise StoreError("The database is away.")
        return await self._store.write(*args)

    write_one = write

    async def read(self, *args: Any) -> Any:
        if self.away:
            raise StoreError("The database is away.")
        return await self._store.read(*args)


async def test_who_could_not_renew_in_time_goes_on_as_it_was_if_nobody_wanted_the_seat(
    store: Store, eventually
) -> None:
    database, epochs, stop = Away(store), [], asyncio.Event()
    seat = Election(database, "controller", "a", 1.0)  # type: ignore[arg-type]

    async def work(held: cluster_leases.ClusterLease, over: asyncio.Event) -> None:
        epochs.append(held.epoch)
        await over.wait()

    sitting = asyncio.create_task(seat.run(work, stop))
    await eventually(lambda: seat.is_valid, "it has the seat")
    database.away = True
    await eventually(lambda: not seat.is_valid, "its lease has run out")
    assert seat.lease is not None  # it grants nothing, but keeps trying to renew
    database.away = False
    await eventually(lambda: seat.is_valid, "it has the seat again")
    assert epochs == [1]
    database.away = True
    assert await store.write(cluster_leases.release_lease, seat.lease) is None
    assert await store.write(cluster_leases.acquire_lease, "controller", "b", 60.0) is not None
    database.away = False
    await eventually(lambda: seat.lease is None, "another has taken it: it is over at once")
    stop.set()
    await sitting
    assert epochs == [1]


async def test_who_joins_lacks_a_share_until_others_have_let_theirs_go(store: Store) -> None:
    await store.write(partitions.create_partition_leases)

    async def tend(name: str, members: int, drained: dict[int, int]) -> partitions.PartitionShare:
        return await store.write(partitions.share_partitions, name, members, drained, 60.0)

    first = await tend("a", 1, {})
    assert (len(first.partitions), first.surplus, first.lacking) == (256, (), False)
    second = await tend("b", 3, {})
    assert (len(second.partitions), second.lacking) == (0, True)
    first = await tend("a", 3, {})
    assert len(first.surplus) == 170
    await tend("a", 3, {p: first.partitions[p] for p in first.surplus})
    second, third = await tend("b", 3, {}), await tend("c", 3, {})
    assert [(len(one.partitions), one.lacking) for one in (second, third)] == [(86, False), (84, False)]
    kept = await store.write(partitions.keep_partitions, "b", [min(second.partitions)], {}, 60.0)
    assert len(kept.surplus) == 85


async def test_the_least_loaded_terminal_gets_most_partitions_and_one_of_twice_the_capacity_twice_as_many(
    store: Store,
) -> None:
    await store.write(partitions.create_partition_leases)

    async def beat(name: str, load: float, capacity: int = 64, drained: Mapping[int, int] = {}) -> Grant:
        report = MemberReport(name, "terminal", capacity=capacity, load=load)
        return await store.write(partitions.renew_partitions, report, drained, LeaseTiming(60.0))

    assert len((await beat("busy", 0.9)).partitions) == 256
    await beat("idle", 0.0)
    first = await beat("busy", 0.9)
    assert len(first.surplus) == 256 - 77  # weights .75 and 1.75
    await beat("busy", 0.9, drained={p: first.partitions[p] for p in first.surplus})
    assert len((await beat("idle", 0.0)).partitions) == 179
    later = await beat("busy", 0.0)  # equally idle now: its share is 128, taken after the other releases them
    assert (len(later.partitions), later.lacking) == (77, True)
    assert len((await beat("idle", 0.0, capacity=128)).surplus) == 179 - 171


async def test_a_node_takes_at_once_what_it_has_offered_itself(store: Store, monkeypatch) -> None:
    monkeypatch.setattr("headwater.cluster.transport.postgres_transport.POLL_SECONDS", 3600.0)
    came: asyncio.Queue[int] = asyncio.Queue()

    class Holder:
        open_partitions, room, concurrency, demand_changed = range(256), 64, 64, asyncio.Event()

    async def receive() -> None:
        async for received in transport.receive_jobs(Holder()):
            for one in received:
                came.put_nowait(one.job.feed_id)

    transport = PostgresTransport(store, lambda: MemberReport("a", "node"), LeaseTiming(60.0))
    following = asyncio.create_task(receive())
    await asyncio.sleep(0.1)  # its first try has failed
    await PostgresJobSender(store, transport.wake).send_jobs([Job(7, 3, 1, "http://a.example/", "due")])
    assert await asyncio.wait_for(came.get(), 20) == 7
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
