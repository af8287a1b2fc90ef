"""Short constructors for verdicts and items."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection

from headwater.model import Ending, Feed, Item, Known, Refresh, Verdict
from headwater.store.content.feed_state import find_seen_identities
from headwater.store.content.feeds import NewFeed
from headwater.store.maintenance.trash_entries import Remover
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store

NOW = 1_700_000_000.0
SOMEBODY = Remover(None, NOW)  # an operator with access to the data folder


async def one_feed(store: Store, url: str = "https://example.org/feed", **more: Any) -> Feed:
    (added,) = await store.write(add_and_subscribe, [NewFeed(url, **more)], NOW)
    return added.feed


def an_item(feed_id: int, identity: str = "a", **more: Any) -> Item:
    item = Item(
        feed_id=feed_id,
        identity=identity,
        content_hash=f"hash of {identity}",
        title=f"Title of {identity}",
        link=f"https://example.org/{identity}",
        published=NOW,
        dated=True,
        updated=None,
        first_seen=NOW,
        content=f"<p>Text of {identity}</p>",
    )
    return replace(item, **more)


def a_verdict(feed: Feed, *new: Item, at: float = NOW, updated: tuple[Item, ...] = (), **more: Any) -> Verdict:
    window = tuple((item.identity, item.content_hash) for item in (*new, *updated))
    refresh = Refresh(
        feed.id, at, Ending.CHANGED, status=200, bytes=1000, new=len(new), updated=len(updated), window=len(window)
    )
    known = Known(feed.id, feed.url, window=window, last_refresh=at, last_success=at)
    return replace(Verdict(refresh, known, new, updated), **more)


def intercept_reads(
    monkeypatch: pytest.MonkeyPatch, store: Store, function: Callable[..., Any], instead: Callable[..., Awaitable[Any]]
) -> None:
    """Let `store.read(function, …)` await `instead(…)`."""
    read = store.read

    async def intercepted(called: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if called is function:
            return await instead(*args, **kwargs)
        return await read(called, *args, **kwargs)

    monkeypatch.setattr(store, "read", intercepted)


def find_seen_of_feed(connection: Connection, feed_id: int, identities: Sequence[str]) -> dict[str, str]:
    """Find which of these identities a feed has ever shown, with the content hash last stored."""
    return find_seen_identities(connection, {feed_id: identities})[feed_id]
