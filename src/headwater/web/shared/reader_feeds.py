"""Loads the feeds and query feeds that a reader subscribes to or may read, and caches long lists."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import islice

from headwater.model import QueryFeed
from headwater.store.queries.query_access import find_readable_query, owns_query
from headwater.store.readers.accounts import User
from headwater.store.readers.subscriptions import Subscription, list_subscriptions
from headwater.store.readers.unread_counts import UnreadCounts
from headwater.store.store import Store
from headwater.web.auth.authentication import Forbidden

LONG_LIST, CACHE_SECONDS = 2000, 30.0  # longer lists are cached, for this time


class ReaderFeeds:
    """The subscriptions of one reader: feeds by id and by title, query feeds, tags."""

    def __init__(self, subscriptions: Sequence[Subscription]) -> None:
        self.feeds = {one.feed_id: one for one in subscriptions if one.feed_id is not None}
        self.queries = [one for one in subscriptions if one.query_id is not None]
        self.by_title = sorted(self.feeds.values(), key=lambda one: one.title.casefold())
        self.tags = sorted({tag for one in self.by_title for tag in one.tags}, key=str.casefold)

    def __len__(self) -> int:
        return len(self.feeds) + len(self.queries)

    def feed_title(self, feed_id: int) -> str:
        return self.feeds[feed_id].title if feed_id in self.feeds else "another feed"

    def choose_feeds(self, limit: int, counts: UnreadCounts) -> list[Subscription]:
        """Return at most `limit` feeds by title; if there are more, feeds with unread items come first."""
        if len(self.by_title) <= limit:
            return self.by_title
        found = list(islice((one for one in self.by_title if one.feed_id in counts.feeds), limit))
        others = (one for one in self.by_title if one.feed_id not in counts.feeds)
        return found + list(islice(others, limit - len(found)))


class ReaderFeedsCache:
    """Caches long lists for half a minute, since loading 40,000 subscriptions takes longer than a page may take."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._cached: dict[int, tuple[float, ReaderFeeds]] = {}

    async def load_feeds(self, user_id: int, *, has: int | None = None) -> ReaderFeeds:
        """Return the subscriptions of a user; a cached list without the feed `has` is loaded again."""
        kept = self._cached.get(user_id)
        if kept is not None and kept[0] > self._clock() and (has is None or has in kept[1].feeds):
            return kept[1]
        found = await self._store.read(list_subscriptions, user_id)
        self._cached.pop(user_id, None)
        if len(found) <= LONG_LIST:
            return ReaderFeeds(found)
        mine = await asyncio.to_thread(ReaderFeeds, found)
        self._cached[user_id] = (self._clock() + CACHE_SECONDS, mine)
        return mine


async def find_own_query(store: Store, user: User, name: str) -> QueryFeed:
    """Return a query feed whose definition is the user's. Raises NotFound or Forbidden."""
    found = await store.read(find_readable_query, user, name)
    if not owns_query(user, found):
        raise Forbidden(f"{found.name} belongs to somebody else. You can read its items.")
    return found
