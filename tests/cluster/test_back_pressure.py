"""While no storer runs, terminals fetch no more than may be in flight, and nothing is lost."""

from __future__ import annotations

import asyncio
import time

import msgspec
import pytest
from cluster_in_process import all_matched, roles, settings, streams_at

from headwater.cluster.demo.audit import audit_run
from headwater.cluster.demo.servers import NatsServer
from headwater.cluster.leader import JOBS_PER_FETCH
from headwater.cluster.transport.nats_streams import NatsStreams
from headwater.cluster.transport.wire_messages import decode_results
from headwater.store import cluster_leases
from headwater.store.content.feeds import NewFeed
from headwater.store.content.refreshes import summarise_activity
from headwater.store.queries.query_scripts import run_script
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store

FEEDS, CONCURRENCY = 60, 4


async def results_in(streams: NatsStreams) -> int:
    """Count the results in RESULTS; a message holds several."""
    info = await streams.context.stream_info(streams.stream_name("RESULTS"))
    numbers = range(info.state.first_seq, info.state.last_seq + 1)
    bodies = [(await streams.context.get_msg(streams.stream_name("RESULTS"), seq=number)).data for number in numbers]
    return sum(len(decode_results(body or b"")) for body in bodies)


async def stand_still(seconds: float, farm, url: str, store: Store, nats: NatsServer, prefix: str, eventually) -> None:
    made = await farm(feeds=FEEDS, hosts=FEEDS, speed=100, hints=False)
    await store.write(run_script, "CREATE FEED Everything AS RETURN ALL", time.time())
    given = settings(database=url, nats=nats.url, nats_prefix=prefix, concurrency=CONCURRENCY)
    async with streams_at(nats.url, prefix) as streams, roles(given, "controller", "terminal", "processor") as running:
        await eventually(streams.are_present, "the streams are made")
        await store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(FEEDS)], time.time())
        most = JOBS_PER_FETCH * CONCURRENCY
        await eventually(lambda: len(made.log) == most, "what may be in flight is fetched")
        await asyncio.sleep(seconds)
        assert len(made.log) == most  # not one more, however long no storer runs
        assert await results_in(streams) == most
        running.start("storer", "storer")

        async def all_refreshed() -> bool:
            return (await store.read(summarise_activity, time.time())).never_refreshed == 0

        await eventually(all_refreshed, "the rest follows")
        await running.stop_storing()
        await eventually(lambda: all_matched(store), "everything stored has met the query")
    assert (await audit_run(made, store, "Everything")).is_clean


async def test_a_standstill_of_the_storers_stops_the_fetching_and_loses_nothing(
    farm, url: str, store: Store, nats: NatsServer, prefix: str, eventually
) -> None:
    await stand_still(3.0, farm, url, store, nats, prefix, eventually)


async def test_however_many_take_the_lead_over_while_nobody_stores_no_more_is_fetched(
    farm, url: str, store: Store, nats: NatsServer, prefix: str, eventually
) -> None:
    made = await farm(feeds=FEEDS, hosts=FEEDS, speed=100, hints=False)
    await store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(FEEDS)], time.time())
    given = settings(database=url, nats=nats.url, nats_prefix=prefix, concurrency=CONCURRENCY)
    most = JOBS_PER_FETCH * CONCURRENCY
    async with streams_at(nats.url, prefix) as streams, roles(given, "terminal") as running:

        async def signs_of_leading(name: str) -> float | None:
            """Return when a member last reported jobs in flight, which only a leader does."""
            here = {one.name: one for one in await store.read(cluster_leases.list_members, 60.0)}
            leads = name in here and "in_flight" in msgspec.json.decode(here[name].info)["counts"]
            return here[name].seen if leads else None

        for name in ("first", "second", "third", "fourth"):
            running.start(name, "controller")
            for _ in range(3):  # several heartbeats, enough time to choose feeds

                async def leads(last: float | None = await signs_of_leading(name), name: str = name) -> bool:
                    now = await signs_of_leading(name)
                    return now is not None and now != last

                await eventually(leads, f"the {name} leads")
            await eventually(lambda: len(made.log) >= most, "what may be in flight is fetched")
            await running.drop(name)
        assert len(made.log) == most
        assert await results_in(streams) == most
        running.start("storer", "storer")
        running.start("fifth", "controller")

        async def all_refreshed() -> bool:
            return (await store.read(summarise_activity, time.time())).never_refreshed == 0

        await eventually(all_refreshed, "it goes on when somebody stores again")


@pytest.mark.soak
@pytest.mark.timeout(0)
async def test_a_standstill_of_ten_minutes_is_no_different(
    farm, url: str, store: Store, nats: NatsServer, prefix: str, eventually
) -> None:
    await stand_still(600.0, farm, url, store, nats, prefix, eventually)
