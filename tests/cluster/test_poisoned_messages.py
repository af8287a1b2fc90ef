"""An unreadable message is set aside with its body and counted; all other work continues."""

from __future__ import annotations

import math
import time

from cluster_in_process import encode_result, result, roles, settings, streams_at
from sqlalchemy import insert

from headwater.assembly import build
from headwater.cluster.cluster_status import describe_holdings, read_cluster_status
from headwater.cluster.demo.servers import NatsServer
from headwater.cluster.transport.wire_messages import encode
from headwater.node.crawl.transport import EPOCH_SHIFT, Job
from headwater.store import cluster_jobs
from headwater.store.cluster_jobs import JobRow
from headwater.store.content.feeds import NewFeed
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.schema.cluster_tables import lesson
from headwater.store.store import Store

FEEDS, GARBAGE = 4, b"\xff poison"


async def count_put_aside(store: Store) -> dict[str, bytes]:
    return {subject: body for _, subject, _, body in await store.read(cluster_jobs.list_quarantined_messages)}


async def test_garbage_among_the_rows_of_nodes_is_put_aside_and_fetching_goes_on(
    farm, url: str, store: Store, eventually
) -> None:
    made = await farm(feeds=FEEDS, hosts=FEEDS, speed=1000, rates=(5, 50), hints=False)
    await store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(FEEDS)], time.time())
    other_feed = encode(Job(1, 3, 1, made.url(0), "a job of another feed"))
    rows = [*(JobRow(9_000 + p, p, GARBAGE) for p in range(16, 256, 16)), JobRow(9_000, 0, other_feed)]
    async with build("node", settings(database=url, member="alone")):
        await eventually(lambda: len(made.log) >= FEEDS, "feeds are fetched")
        await store.write(cluster_jobs.add_jobs, rows)
        await store.write(lambda connection: connection.execute(insert(lesson), {"body": GARBAGE}) and None)

        async def aside() -> bool:
            return len(await count_put_aside(store)) == len(rows) + 1

        await eventually(aside, "all of it is put aside")
        asked = len(made.log)
        await eventually(lambda: len(made.log) > asked + FEEDS, "fetching goes on")
        found = await read_cluster_status(store)
        assert not await store.read(cluster_jobs.list_queued_feeds) & {row.feed_id for row in rows}
    expected = {"lesson": GARBAGE, **{f"jobs.{row.partition}.{row.feed_id}": row.body for row in rows}}
    assert await count_put_aside(store) == expected
    assert found.put_aside == len(rows) + 1
    [told] = [one for one in found.problems if "put aside" in one]
    assert told.startswith("17 messages were put aside. The latest is ")
    assert "It cannot be read" in told


async def test_garbage_in_the_streams_is_put_aside_and_fetching_goes_on(
    farm, url: str, store: Store, nats: NatsServer, prefix: str, eventually
) -> None:
    made = await farm(feeds=FEEDS, hosts=FEEDS, speed=1000, rates=(5, 50), hints=False)
    await store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(FEEDS)], time.time())
    given = settings(database=url, nats=nats.url, nats_prefix=prefix)
    async with streams_at(nats.url, prefix) as streams, roles(given, "controller", "terminal", "storer") as running:
        await eventually(lambda: len(made.log) >= FEEDS, "feeds are fetched")
        messages = dict.fromkeys(("jobs.3.77", "jobs.4.garbage", "jobs.999.5", "res.7"), GARBAGE)
        messages["jobs.5.900"] = encode(Job(1, 3, 1, made.url(0), "a job of another feed"))
        for number, at in enumerate((math.nan, 1e300, -1.0)):
            messages[f"res.{number}"] = encode_result(result(1, made.url(0), at, "an item", epoch=1))
        for subject, body in messages.items():
            await streams.context.publish(streams.full_subject(subject), body)

        async def aside() -> bool:
            return len(await count_put_aside(store)) == len(messages)

        await eventually(aside, "all of it is put aside")
        asked = len(made.log)
        await eventually(lambda: len(made.log) > asked + FEEDS, "fetching goes on")
        running.start("second", "controller")
        await running.stop("controller")  # the next leader lists the jobs in flight
        asked = len(made.log)
        await eventually(lambda: len(made.log) > asked + FEEDS, "fetching goes on under another leader")
    assert await count_put_aside(store) == messages


async def test_a_job_of_a_leader_that_never_was_does_not_stop_a_terminal(
    farm, url: str, store: Store, nats: NatsServer, prefix: str, eventually
) -> None:
    """Its epoch is beyond all others, so the jobs of the real leader look outdated until the next grant."""
    made = await farm(feeds=FEEDS, hosts=FEEDS, speed=1000, rates=(5, 50), hints=False)
    await store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(FEEDS)], time.time())
    given = settings(database=url, nats=nats.url, nats_prefix=prefix)
    async with streams_at(nats.url, prefix) as streams, roles(given, "controller", "terminal", "storer"):
        await eventually(lambda: len(made.log) >= FEEDS, "feeds are fetched")
        for garbage in (GARBAGE, b""):  # a terminal's request for partitions, and nobody to answer to
            await streams.link.publish(streams.full_subject("terminals"), garbage)
        forged = Job(900, 5, 1000 << EPOCH_SHIFT, made.url(0), "forged")
        await streams.context.publish(streams.full_subject("jobs.5.900"), encode(forged))
        asked = len(made.log)
        await eventually(lambda: len(made.log) > asked + 2 * FEEDS, "fetching goes on")


async def test_the_partitions_of_a_member_are_told_as_a_number_and_a_few_ranges(store: Store) -> None:
    found = await read_cluster_status(store)
    found.partitions["t"] = list(range(0, 256, 2))
    assert describe_holdings(found) == {"t": "128: 0, 2, 4, 6, 8, 10, 12, 14 and 120 more"}
