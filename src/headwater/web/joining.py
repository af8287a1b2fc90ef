"""Subscribing to a feed that is here already, by its number: for the pages and for the API."""

from __future__ import annotations

from collections.abc import Collection

from headwater.errors import NotFound
from headwater.store.people import User
from headwater.store.store import Store
from headwater.store.suggesting import FEWEST_READERS


async def join_feed(store: Store, user: User, feed_id: int, now: float, tags: Collection[str] = ()) -> None:
    """Readers may join what several read, as suggestions name it; what one person alone reads stays theirs.

    Its address may be a secret, and numbers are easy to try out.
    """
    if not user.is_owner and (await store.reading.subscribers([feed_id])).get(feed_id, 0) < FEWEST_READERS:
        raise NotFound(f"There is no feed {feed_id}.")
    await store.reading.subscribe(user.id, feed_id, now, tags=tags)
