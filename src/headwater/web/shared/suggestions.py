"""Suggests feeds and topics to a reader: feeds of similar readers, sites their items link to, rising topics."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from dataclasses import dataclass, replace

from headwater.model import Feed, Item
from headwater.query.rising_topics import TrendingTopic, find_rising_topics
from headwater.store.content.feeds import find_feeds
from headwater.store.content.items import find_items
from headwater.store.readers.recommendations import (
    find_also_read,
    list_popular_feeds,
    list_reader_sites,
    list_recent_texts,
    list_recent_titles,
    parse_site,
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


async def suggest_feeds(site: Site, user_id: int) -> Suggestions:
    """Return suggestions for a user from a cache of some minutes, without feeds they have subscribed to since."""
    found: Suggestions = await site.timed_cache.get_or_gather(
        "discover", user_id, lambda: gather_suggestions(site.store, user_id, site.clock())
    )
    mine = await site.store.read(find_subscribed_feeds, user_id, [one.feed.id for one in (*found.also, *found.popular)])
    if not mine:
        return found
    also, popular = (tuple(one for one in some if one.feed.id not in mine) for some in (found.also, found.popular))
    return replace(found, also=also, popular=popular)


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
        if one.feed_id in feeds and one.because in feeds
    ]
    here = {one.feed.id for one in suggested}
    liked = [Suggestion(feeds[id], f"{number} people here read it") for id, number in popular if id in feeds]
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
