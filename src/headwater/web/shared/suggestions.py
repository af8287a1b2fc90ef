"""Suggests feeds and topics to a reader: feeds of similar readers, sites their items link to, rising topics."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from headwater.fetch.http.address_guard import is_local_domain
from headwater.formats.write.addresses import may_hold_secret
from headwater.model import Feed, Item
from headwater.query.rising_topics import TrendingTopic, find_rising_topics
from headwater.store.content.feeds import find_feeds
from headwater.store.content.items import find_items
from headwater.store.readers.recommendations import (
    FeedInterest,
    find_also_read,
    list_feed_interest,
    list_popular_feeds,
    list_reader_sites,
    list_recent_texts,
    list_recent_titles,
    parse_site,
    round_down,
)
from headwater.store.readers.subscriptions import find_subscribed_feeds
from headwater.store.store import Store
from headwater.web.site import Site

DAY = 86_400.0
COMPARED_DAYS = 6.0  # the days before today that rising topics are compared with
MAX_SUGGESTIONS = 10
_LINK = re.compile(r'href="(https?://[^"/?#]+)', re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A feed of this server, and the reason why it is suggested."""

    feed: Feed
    reason: str


@dataclass(frozen=True, slots=True)
class LinkedSite:
    """A site that a reader's items link to, and that none of their feeds belongs to."""

    site: str
    times: int
    feeds: int


@dataclass(frozen=True, slots=True)
class RisingTopic:
    topic: TrendingTopic
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Suggestions:
    also: tuple[Suggestion, ...]
    linked: tuple[LinkedSite, ...]
    popular: tuple[Suggestion, ...]
    rising: tuple[RisingTopic, ...]
    hot: tuple[Suggestion, ...] = ()  # feeds that people here read and star most
    growing: tuple[Suggestion, ...] = ()  # feeds that gain readers
    mine: frozenset[int] = frozenset()  # suggested feeds that the reader has


async def suggest_feeds(site: Site, user_id: int) -> Suggestions:
    """Return suggestions for a user from a cache of some minutes, without feeds they have subscribed to since."""
    found: Suggestions = await site.timed_cache.get_or_gather(
        "discover", user_id, lambda: gather_suggestions(site.store, user_id, site.clock())
    )
    interest: list[FeedInterest] = await site.timed_cache.get_or_gather(
        "interest", 0, lambda: site.store.read(list_feed_interest, site.clock())
    )
    hot, growing = await suggest_by_interest(site.store, interest, user_id)
    suggested = [*found.also, *found.popular, *hot, *growing]
    mine = await site.store.read(find_subscribed_feeds, user_id, [one.feed.id for one in suggested])
    also, popular = (tuple(one for one in some if one.feed.id not in mine) for some in (found.also, found.popular))
    return replace(found, also=also, popular=popular, hot=hot, growing=growing, mine=frozenset(mine))


async def suggest_by_interest(
    store: Store, interest: Sequence[FeedInterest], user_id: int
) -> tuple[tuple[Suggestion, ...], tuple[Suggestion, ...]]:
    """Return the feeds that others here read and star most, and those that gain readers. Rounded numbers of at least
    three others are shown, never who they are."""
    hot: list[tuple[int, int, str]] = []
    growing: list[tuple[int, int, str]] = []
    for one in interest:
        read, starred, joined, readers = (
            len(people - {user_id}) for people in (one.read, one.starred, one.joined, one.readers)
        )
        words = [f"{verb} by {round_down(number)} or more people" for verb, number in
                 (("read", read), ("starred", starred)) if round_down(number)]  # fmt: skip
        if words:
            hot.append((read + 2 * starred, one.feed_id, " and ".join(words)))
        if round_down(joined) and joined >= readers / 4:
            growing.append((joined, one.feed_id, f"{round_down(joined)} or more new readers in two weeks"))
    feeds = await store.read(find_feeds, {id for _, id, _ in (*hot, *growing)})
    chosen = []
    for some in (hot, growing):
        best = sorted(some, key=lambda each: (-each[0], each[1]))
        shown = [Suggestion(feeds[id], why) for _, id, why in best if id in feeds and not may_be_private(feeds[id].url)]
        chosen.append(tuple(shown[:MAX_SUGGESTIONS]))
    return chosen[0], chosen[1]


def may_be_private(url: str) -> bool:
    """Return whether a feed's address may be meant for few: with a key, a person's name or on a local network.

    >>> [may_be_private(url) for url in ("https://a.example/feed", "https://a.example/f?key=1", "http://10.0.0.1/feed")]
    [False, True, True]
    """
    return may_hold_secret(url) or is_local_domain(urlsplit(url).hostname or "")


async def gather_suggestions(store: Store, user_id: int, now: float) -> Suggestions:
    also, popular = (
        await store.read(find_also_read, user_id, MAX_SUGGESTIONS),
        await store.read(list_popular_feeds, user_id, MAX_SUGGESTIONS),
    )
    feeds = await store.read(
        find_feeds, {id for one in also for id in (one.feed_id, one.because)} | {id for id, _ in popular}
    )
    suggested = [
        Suggestion(
            feeds[one.feed_id], f"{one.both} of {one.readers} readers of {_feed_name(feeds[one.because])} also read it"
        )
        for one in also
        if one.feed_id in feeds and one.because in feeds and not may_hold_secret(feeds[one.feed_id].url)
    ]
    here = {one.feed.id for one in suggested}
    liked = [
        Suggestion(feeds[id], f"{number} people here read it")
        for id, number in popular
        if id in feeds and not may_hold_secret(feeds[id].url)
    ]
    titles = await store.read(list_recent_titles, user_id, now - (COMPARED_DAYS + 1) * DAY)
    topics = await asyncio.to_thread(find_rising_topics, titles, now, COMPARED_DAYS, MAX_SUGGESTIONS)
    items = {one.id: one for one in await store.read(find_items, [id for topic in topics for id in topic.items[:3]])}
    return Suggestions(
        tuple(suggested),
        tuple(await find_linked_sites(store, user_id)),
        tuple(one for one in liked if one.feed.id not in here),
        tuple(RisingTopic(topic, tuple(items[id] for id in topic.items[:3] if id in items)) for topic in topics),
    )


async def find_linked_sites(store: Store, user_id: int) -> list[LinkedSite]:
    """Return the sites that the latest items link to most often, except sites of feeds that the user reads."""
    texts = await store.read(list_recent_texts, user_id)
    if not texts:
        return []
    mine = await store.read(list_reader_sites, user_id)
    times: Counter[str] = Counter()
    feeds: dict[str, set[int]] = {}
    for feed_id, text in texts:
        for found in {match[1].lower() for match in _LINK.finditer(text)}:
            site = parse_site(found)
            if site and site not in mine:
                times[site] += 1
                feeds.setdefault(site, set()).add(feed_id)
    return [
        LinkedSite(site, number, len(feeds[site])) for site, number in times.most_common(MAX_SUGGESTIONS) if number > 1
    ]


def _feed_name(feed: Feed) -> str:
    return feed.title or feed.url
