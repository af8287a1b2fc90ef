"""Notices hubs that stopped pushing, and tells politeness which feeds are pushed.

The WebSub client that talks with hubs may run in another process, beside the pages: here everything is in the store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from headwater.node.crawl.politeness import Politeness
from headwater.node.crawl.transport import StoredRefresh
from headwater.node.websub.websub_client import NOT_PUSHED, SILENT_HUB_RETRY, hub_missed_items
from headwater.store.content.websub_leases import end_lease, list_pushed_feeds
from headwater.store.store import Store

POLL_SECONDS = 10.0  # between two looks


async def follow_pushed_feeds(store: Store, politeness: Politeness) -> set[int]:
    """Read which feeds are pushed, so that they are polled slowly; return the feeds that are no longer pushed."""
    active = set(await store.read(list_pushed_feeds, time.time()))
    ended = politeness.pushed_feeds - active
    politeness.pushed_feeds = active
    return ended


class HubWatch:
    """Watches the refreshes that a process stores for items that a hub should have pushed."""

    def __init__(self, store: Store, politeness: Politeness, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._politeness = politeness
        self._clock = clock
        self._pushed_since: dict[int, float] = {}
        self._silent: list[int] = []

    async def follow(self) -> None:
        """End the leases of silent hubs, and read from the store which feeds are pushed."""
        while self._silent:
            due = self._clock() + SILENT_HUB_RETRY
            await self._store.write(end_lease, self._silent[-1], "silent", NOT_PUSHED, due)
            self._silent.pop()
        self._pushed_since = await self._store.read(list_pushed_feeds, self._clock())
        self._politeness.pushed_feeds = set(self._pushed_since)

    def watch_refreshes(self, batch: Sequence[StoredRefresh]) -> None:
        """End the lease of a hub whose feed shows items that it did not push."""
        for one in batch if self._pushed_since else ():
            since = self._pushed_since.get(one.known.feed_id)
            if since is not None and not one.result.outcome.pushed and hub_missed_items(one, since):
                del self._pushed_since[one.known.feed_id]
                self._politeness.pushed_feeds.discard(one.known.feed_id)
                self._silent.append(one.known.feed_id)
