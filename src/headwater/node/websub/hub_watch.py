"""Feeds that hubs push: whoever decides, or says when a feed may be asked again, learns of them from the store.

The subscriber that talks with hubs runs beside the pages, in another process.
"""

from __future__ import annotations

import time

from headwater.node.crawl.politeness import Politeness
from headwater.store.content.websub_leases import list_pushed_feeds
from headwater.store.store import Store

POLL_SECONDS = 10.0  # seconds between two looks


async def follow_pushed_feeds(store: Store, courtesy: Politeness) -> set[int]:
    """Only a slow safety poll remains for feeds that are pushed; those that no longer are."""
    active = set(await store.read(list_pushed_feeds, time.time()))
    ended = courtesy.pushed_feeds - active
    courtesy.pushed_feeds = active
    return ended
