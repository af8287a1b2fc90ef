"""The articles behind items, in a cluster: one process at a time reads them, and the terminals ask the hosts."""

from __future__ import annotations

import asyncio

from headwater.cluster.leases.election import ElectedWork
from headwater.fetch.client import Fetcher
from headwater.node.article_fetcher import ArticleFetcher
from headwater.store.cluster_leases import ClusterLease
from headwater.store.store import Store

ARTICLES = "articles"
GRACE = 2.0  # seconds that what is under way may take to end


def make_article_work(store: Store, scout: Fetcher, per_minute: float) -> ElectedWork:
    """Work of the seat; `scout` is a fetcher whose requests are errands."""

    async def work(held: ClusterLease, over: asyncio.Event) -> None:
        reading = asyncio.create_task(ArticleFetcher(store.fenced(held), scout, per_minute).run(over))
        try:
            await over.wait()
            await asyncio.wait({reading}, timeout=GRACE)
        finally:  # the terminals may be gone, and what is under way is due again soon
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    return work
