"""Another terminal does the jobs of a killed one, with at most one more request for each."""

from __future__ import annotations

import time
from collections import Counter

from cluster_in_process import LEASE, roles, settings
from cluster_processes import processes

from headwater.cluster.demo.servers import NatsServer
from headwater.store.content.feed_state import load_feed_states
from headwater.store.content.feeds import NewFeed
from headwater.store.content.refreshes import list_refreshes
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store

FEEDS = 8


async def test_its_jobs_are_done_by_another_with_at_most_one_request_more_for_a_feed(
    farm, url: str, store: Store, nats: NatsServer, prefix: str, eventually
) -> None:
    made = await farm(feeds=FEEDS, hosts=FEEDS // 2, speed=1, latency=0.5, hints=False)
    given = settings(database=url, nats=nats.url, nats_prefix=prefix, least_interval=3600.0)
    with processes(NATS=nats.url, NATS_PREFIX=prefix, CLUSTER_LEASE=LEASE) as running:
        async with roles(given, "controller", "storer") as inside:
            running.start("one", "terminal")
            await store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(FEEDS)], time.time())
            await eventually(lambda: made.log.under_way.total() > 0, "it asks")
            running.kill("one")
            inside.start("two", "terminal")

            async def all_refreshed() -> bool:
                known = await store.read(load_feed_states, range(1, FEEDS + 1))
                return all(one.last_success is not None for one in known.values())

            await eventually(all_refreshed, "the other has done them all")
    asked = Counter(line.feed for line in made.log)
    assert set(asked) == set(range(FEEDS))
    assert max(asked.values()) <= 2
    assert set(made.log.most_at_once.values()) == {1}
    for feed in range(1, FEEDS + 1):
        assert len(await store.read(list_refreshes, feed)) == 1
