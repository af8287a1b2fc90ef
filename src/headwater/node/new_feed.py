"""Finds the feed behind an address and adds it with its first items, in as few requests as possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headwater.errors import InputError, NotFound
from headwater.fetch.client import Fetcher
from headwater.fetch.discovery import FeedCandidate, discover_candidates
from headwater.model import Ending, Feed, Known, Outcome, Refresh
from headwater.node.crawl.ingest import Ingest
from headwater.node.crawl.transport import FetchResult, Job
from headwater.store.content.feeds import FeedQuotaCheck, NewFeed, find_feed
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store

STORE_SECONDS = 60.0  # by then the first refresh is stored, or never will be
ChooseCandidate = Callable[[str, Sequence[FeedCandidate]], FeedCandidate]


@dataclass(frozen=True, slots=True)
class FeedAddition:
    """A feed that was added, or was there already (`created` is False); `others` are the feeds not chosen."""

    feed: Feed
    created: bool
    refresh: Refresh | None
    others: tuple[FeedCandidate, ...] = ()


async def add_feed_from_address(
    store: Store,
    fetcher: Fetcher,
    address: str,
    *,
    now: float,
    choose: ChooseCandidate,
    name: str | None = None,
    tags: Sequence[str] = (),
    weight: float = 1.0,
    subscriber: int | None = None,
    allowed: FeedQuotaCheck | None = None,
) -> FeedAddition:
    """Find the feed at an address (itself, or a feed that its page links), add it and store its first items.

    The user `subscriber` subscribes, else the owner; `allowed` may refuse (`Store.add_feeds`). A feed that is here
    already is not fetched again.
    """
    if (there := await _find_active_feed(store, address)) is not None:
        new = NewFeed(there.url, name=name, tags=tuple(tags), weight=weight)
        [added] = await store.write(add_and_subscribe, [new], now, subscriber=subscriber, allowed=allowed)
        return FeedAddition(added.feed, False, None)
    outcome = await fetcher.fetch(address) if address.startswith(("http://", "https://")) else None
    others: tuple[FeedCandidate, ...] = ()
    if outcome is None or outcome.ending is Ending.UNREADABLE:
        found = await discover_candidates(fetcher, address)
        chosen = found[0] if len(found) == 1 else choose(address, found)
        others = tuple(one for one in found if one is not chosen)
        outcome = await fetcher.fetch(chosen.url)
    if not outcome.ending.ok:
        raise InputError(f"{outcome.url} was not added: {outcome.message}")
    url = outcome.moved_to or outcome.url
    title = outcome.document.title if outcome.document else None
    # A running server sees the feed at once, and must not ask again while its first refresh is being stored.
    kept = outcome.ended_at + STORE_SECONDS
    new = NewFeed(url, title=title, name=name, tags=tuple(tags), weight=weight, not_before=kept)
    [added] = await store.write(add_and_subscribe, [new], now, subscriber=subscriber, allowed=allowed)
    if not added.created:
        return FeedAddition(added.feed, False, None, others)
    return FeedAddition(added.feed, True, await _store_first_refresh(store, added.feed, outcome), others)


async def _find_active_feed(store: Store, address: str) -> Feed | None:
    """The feed of this very address, if it is here and is refreshed."""
    if not address.startswith(("http://", "https://")):
        return None
    try:
        found = await store.read(find_feed, address)
    except NotFound:
        return None
    return None if found.paused or found.gone_since is not None else found


async def _store_first_refresh(store: Store, feed: Feed, outcome: Outcome) -> Refresh:
    """The document that proved the address is a feed is also its first refresh."""
    known = Known(feed.id, feed.url)
    job = Job(feed.id, 0, 0, feed.url, "added", known=known)
    [stored] = await Ingest(store).save_results([FetchResult(job, outcome)])
    return stored.verdict.refresh
