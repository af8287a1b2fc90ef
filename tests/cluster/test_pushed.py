"""Feeds that hubs push are polled at the slow safety pace in a cluster too, whoever talks with the hubs."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from cluster_in_process import result

from headwater.cluster import pushed, sharing
from headwater.cluster.messages import Result
from headwater.cluster.storer import Storer
from headwater.node.courtesy import Courtesy
from headwater.schedule.manners import SAFETY
from headwater.store.store import Store
from headwater.store.values import NewFeed, Subscription

HUB = "https://hub.example/"


def with_hub(one: Result, hub: str) -> Result:
    """The result of a document that names a hub."""
    assert one.outcome.document is not None
    document = replace(one.outcome.document, hub=(hub,), self=one.job.url)
    return replace(one, outcome=replace(one.outcome, document=document))


async def test_a_pushed_feed_is_asked_seldom_until_its_hub_ends(store: Store) -> None:
    urls = ["https://pushed.example/feed", "https://other.example/feed"]
    now = time.time()
    one, other = [added.feed.id for added in await store.add_feeds([NewFeed(url) for url in urls], now)]
    await store.write(sharing.prepare)
    courtesy = Courtesy(np.random.default_rng(1), least=1.0)
    storer = Storer(store, courtesy)
    await storer.settle([with_hub(result(one, urls[0], now - 10, "a"), HUB)])
    await store.subscriptions.add([Subscription(one, "key", HUB, urls[0], "secret", due=now)])
    assert await store.subscriptions.claim(now, now + 600, now + 600)
    assert await store.subscriptions.confirm("key", urls[0], now, now + 1000, now + 800) == one
    assert await pushed.follow(store, courtesy) == set()
    both = [result(feed, url, now, "a") for feed, url in zip((one, other), urls, strict=True)]
    await storer.settle([with_hub(one, HUB) for one in both])
    known = await store.known([one, other])
    assert (known[one].next_refresh or 0) >= now + SAFETY
    assert (known[other].next_refresh or 0) < now + SAFETY / 2
    await store.subscriptions.end(one, "silent", "It did not push.", now + 1000)
    assert await pushed.follow(store, courtesy) == {one}  # whoever decides reconsiders it
    assert courtesy.pushed == set()
