"""How many feeds a reader may bring to the server: all feeds are refreshed out of one budget, which is the owner's."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from headwater.errors import NotFound
from headwater.settings import Settings
from headwater.store.content.feeds import FeedQuotaCheck
from headwater.store.readers.accounts import User
from headwater.store.readers.recommendations import FEWEST_READERS
from headwater.store.readers.subscriptions import count_feeds_brought, count_subscribers, subscribe_to_feed
from headwater.store.store import Store
from headwater.web.auth.cross_site import RequestRefused


async def join_feed(store: Store, user: User, feed_id: int, now: float, tags: Collection[str] = ()) -> None:
    """Readers may join what several read, as suggestions name it; what one person alone reads stays theirs.

    Its address may be a secret, and numbers are easy to try out.
    """
    if not user.is_owner and (await store.read(count_subscribers, [feed_id])).get(feed_id, 0) < FEWEST_READERS:
        raise NotFound(f"There is no feed {feed_id}.")
    await store.write(subscribe_to_feed, user.id, feed_id, now, tags=tags)


class ReaderQuota:
    """What the setting `readers_add` says: no, yes, or how many feeds that nobody else reads."""

    def __init__(self, store: Store, settings: Callable[[], Settings]) -> None:
        self._store = store
        self._settings = settings

    def limit_for(self, user: User) -> FeedQuotaCheck | None:
        """What says Refused (403) where this person may not bring so many, in the transaction that adds them; None for
        those who may add whatever they like. Whatever is here already may be read."""
        most = self._settings().max_feeds_per_reader
        if user.is_owner or most is None:
            return None

        def allowed(new: int, alone: int) -> None:
            if new and most == 0:
                raise RequestRefused(
                    "Only owners add feeds to this server. You may read those that are here already.", 403
                )
            if new and alone + new > most:
                more = "this is one" if new == 1 else f"these are {new:,}"
                raise RequestRefused(
                    f"A reader may bring {most:,} feeds to this server that nobody else reads. You have {alone:,}, and "
                    f"{more} more: ask an owner to add them, or to allow it.",
                    403,
                )

        return allowed

    async def check_additions(self, user: User, addresses: Sequence[str]) -> None:
        """The same, before anything is fetched or a job begun for nothing."""
        allowed = self.limit_for(user)
        if allowed is not None:
            allowed(*await self._store.read(count_feeds_brought, user.id, addresses))
