"""Feeds that hubs push are polled at the slow safety pace in a cluster too."""

from __future__ import annotations

import random
import time

from cluster_in_process import cluster_ingest, result
from msgspec.structs import replace

from headwater.cluster.leases import partitions
from headwater.node import websub
from headwater.node.crawl.politeness import Politeness
from headwater.node.crawl.transport import FetchResult
from headwater.schedule.politeness.rules import SAFETY_POLL
from headwater.store.content.feed_state import load_feed_states
from headwater.store.content.feeds import NewFeed
from headwater.store.content.websub_leases import (
    WebSubLease,
    add_leases,
    claim_due_leases,
    confirm_lease,
    end_lease,
    find_leases_of_feeds,
    list_pushed_feeds,
)
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store

HUB = "https://hub.example/"


def with_hub(one: FetchResult, hub: str) -> FetchResult:
    """Return the result with a document that names a hub."""
    assert one.outcome.document is not None
    document = replace(one.outcome.document, hub=(hub,), self=one.job.url)
    return replace(one, outcome=replace(one.outcome, document=document))


async def test_a_pushed_feed_is_asked_seldom_until_its_hub_ends(store: Store) -> None:
    urls = ["https://pushed.example/feed", "https://other.example/feed"]
    now = time.time()
    one, other = [added.feed.id for added in await store.write(add_and_subscribe, [NewFeed(url) for url in urls], now)]
    await store.write(partitions.create_partition_leases)
    courtesy = Politeness(random.Random(1), least=1.0)
    storer = cluster_ingest(store, courtesy)
    await storer.save_results([with_hub(result(one, urls[0], now - 10, "a"), HUB)])
    await store.write(add_leases, [WebSubLease(one, "key", HUB, urls[0], "secret", due=now)])
    assert await store.write(claim_due_leases, now, now + 600, now + 600)
    assert await store.write(confirm_lease, "key", urls[0], now, now + 1000, now + 800) == one
    assert await websub.follow_pushed_feeds(store, courtesy) == set()
    both = [result(feed, url, now, "a") for feed, url in zip((one, other), urls, strict=True)]
    await storer.save_results([with_hub(one, HUB) for one in both])
    known = await store.read(load_feed_states, [one, other])
    assert (known[one].next_refresh or 0) >= now + SAFETY_POLL
    assert (known[other].next_refresh or 0) < now + SAFETY_POLL / 2
    await store.write(end_lease, one, "silent", "It did not push.", now + 1000)
    assert await websub.follow_pushed_feeds(store, courtesy) == {one}  # the decider reconsiders it
    assert courtesy.pushed_feeds == set()


async def test_a_hub_that_confirms_and_does_not_push_is_noticed_by_whoever_stores_a_poll(store: Store) -> None:
    url, now = "https://pushed.example/feed", time.time()
    [added] = await store.write(add_and_subscribe, [NewFeed(url)], now)
    feed = added.feed.id
    await store.write(partitions.create_partition_leases)
    courtesy = Politeness(random.Random(1), least=1.0)
    watch = websub.HubWatch(store, courtesy)
    storer = cluster_ingest(store, courtesy, watch.watch_refreshes)
    await storer.save_results([with_hub(result(feed, url, now - 20_000, "a"), HUB)])
    await store.write(add_leases, [WebSubLease(feed, "key", HUB, url, "secret", due=now - 19_000)])
    assert await store.write(claim_due_leases, now - 19_000, now, now)
    assert await store.write(confirm_lease, "key", url, now - 19_000, now + 1000, now + 800) == feed
    await watch.follow()
    await storer.save_results([with_hub(result(feed, url, now - 10_000, "a"), HUB)])  # nothing new: the hub is trusted
    assert courtesy.pushed_feeds == {feed}
    missed = with_hub(result(feed, url, now, "a", "b"), HUB)
    assert missed.outcome.document is not None
    entries = tuple(replace(one, published=now - 5_000) for one in missed.outcome.document.items)
    document = replace(missed.outcome.document, items=entries)
    await storer.save_results([replace(missed, outcome=replace(missed.outcome, document=document))])
    assert courtesy.pushed_feeds == set()
    await watch.follow()
    found = (await store.read(find_leases_of_feeds, [feed]))[feed]
    assert found.state == "silent"
    assert await store.read(list_pushed_feeds, now) == {}  # the controller sees this and polls it as usual again
