"""Limits how many feeds a reader may add, since all feeds share the server's polling budget."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from headwater.errors import NotFound
from headwater.formats.write.addresses import may_hold_secret
from headwater.settings import Settings
from headwater.store.content.feeds import FeedQuotaCheck, find_feed
from headwater.store.queries.query_ownership import ReaderLimits
from headwater.store.readers.accounts import User
from headwater.store.readers.recommendations import MIN_READERS
from headwater.store.readers.subscriptions import count_feeds_brought, count_subscribers, subscribe_to_feed
from headwater.store.store import Store
from headwater.web.auth.cross_site import RequestRefused


async def join_feed(store: Store, user: User, feed_id: int, now: float, tags: Collection[str] = ()) -> None:
    """Subscribe a user to a feed of the server. Raise NotFound if a reader may not see it.

    Readers may join feeds that several people read, unless the address may hold a key or a name. Other feeds need
    the address: feed ids are easy to guess.
    """
    if not user.is_owner:
        readers = (await store.read(count_subscribers, [feed_id])).get(feed_id, 0)
        if readers < MIN_READERS or may_hold_secret((await store.read(find_feed, feed_id)).url):
            raise NotFound(f"There is no feed {feed_id}.")
    await store.write(subscribe_to_feed, user.id, feed_id, now, tags=tags)


class ReaderQuota:
    """Applies the setting `readers_add`: no, yes, or how many feeds that nobody else reads a reader may add."""

    def __init__(self, store: Store, settings: Callable[[], Settings]) -> None:
        self._store = store
        self._settings = settings

    def limit_for(self, user: User) -> FeedQuotaCheck | None:
        """Return the check that the transaction which adds feeds calls, None for users without a limit.

        The check raises RequestRefused (403) if there are too many new feeds. Feeds of the server do not count.
        """
        most = self._settings().max_feeds_per_reader
        if user.is_owner or most is None:
            return None

        def allowed(new: int, alone: int) -> None:
            if new and most == 0:
                raise RequestRefused(
                    "Only owners can add feeds to this server. You can subscribe to the feeds it already has.", 403
                )
            if new and alone + new > most:
                raise RequestRefused(
                    f"Too many new feeds: readers may add {most:,} feeds that nobody else reads. You have {alone:,} "
                    f"and want to add {new:,} more. Ask an owner to add them or to raise the limit.",
                    403,
                )

        return allowed

    def limits_for(self, user: User) -> ReaderLimits | None:
        """Return how many query feeds and deliveries a user may have, None for users without a limit."""
        if user.is_owner:
            return None
        settings = self._settings()
        return ReaderLimits(settings.reader_queries, settings.reader_deliveries, self.limit_for(user))

    async def check_additions(self, user: User, addresses: Sequence[str]) -> None:
        """Raise RequestRefused if the user may not add these feeds, before anything is fetched or a job is started."""
        allowed = self.limit_for(user)
        if allowed is not None:
            allowed(*await self._store.read(count_feeds_brought, user.id, addresses))
