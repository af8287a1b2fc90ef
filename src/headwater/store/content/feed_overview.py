"""The store's side of the pages: `store.pages`. Lists with what a row of a page shows, and counts by cause.

Every method is one transaction of its own, and none is longer than what it was asked for.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import Connection, Select, and_, case, func, or_, select

from headwater.model import Ending, Feed
from headwater.store.content import feeds
from headwater.store.database.database import Database
from headwater.store.maintenance import trash
from headwater.store.people import Remover, Stream
from headwater.store.readers import recommendations
from headwater.store.readers.stream_sources import select_subscribed_feeds
from headwater.store.schema.feed_tables import feed, feed_state, feed_tag, item, refresh
from headwater.store.schema.storable_text import replace_unstorable

FEED_STATES = ("failing", "gone", "paused", "new")  # in the order in which a person chooses among them


@dataclass(frozen=True, slots=True)
class FeedOverview:
    """A feed as a list shows it."""

    feed: Feed
    items: int
    window: int
    last_refresh: float | None
    last_change: float | None
    next_refresh: float | None
    failures: int
    last_error: str | None


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Feeds that fail for one cause: how many, since when the first of them, and some of them."""

    ending: Ending
    feeds: int
    since: float | None
    some: tuple[FeedOverview, ...]


@dataclass(frozen=True, slots=True)
class FeedFilter:
    """Which feeds a list shows: with a tag, with words in title, name or address, in one of STATES, whose last fetch
    failed and ended so, that somebody (the number of a user) reads."""

    tag: str | None = None
    search: str | None = None
    state: str | None = None
    ending: Ending | None = None
    subscriber: int | None = None


ALL_FEEDS = FeedFilter()


class PageStore:
    """What only pages ask."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def feeds(self, which: FeedFilter = ALL_FEEDS, *, after: int = 0, limit: int = 100) -> list[FeedOverview]:
        """Feeds beyond the id `after`, in the order of ids."""
        return await self._database.read(list_feed_overviews, which, after, limit)

    async def states(self, user_id: int, which: Stream) -> dict[str, int]:
        """How many feeds of a person's stream are in each state, one of STATES or "well". What is gone is not
        counted as paused too, nor what is paused as failing, nor that as new."""
        return await self._database.read(count_feed_states, user_id, which)

    async def troubles(self, each: int = 5) -> list[FailureGroup]:
        """Failing feeds by cause, the most frequent first, with `each` of them."""
        return await self._database.read(group_failures, each)

    async def published(self, feed_id: int, since: float, most: int = 50_000) -> list[float]:
        """When the dated items of a feed were published, the latest `most`."""
        return await self._database.read(list_publication_times, feed_id, since, most)

    async def times(self, since: float, most: int = 500_000) -> tuple[list[int], list[float]]:
        """Feed and time of the dated items published since then and since their feed was added, the latest `most`."""
        return await self._database.read(list_item_times, since, most)

    async def windows(self) -> dict[int, int]:
        """How many items the document of each feed shows; feeds never read are left out."""
        return await self._database.read(load_window_sizes)

    async def alike(self, feed_id: int, limit: int = 10) -> list[Feed]:
        """Other feeds that are perhaps the same: with its title, or of the same web page."""
        return await self._database.read(find_similar_feeds, feed_id, limit)

    async def merge(self, into: int, gone: int, *, by: Remover) -> tuple[int, int]:
        """Give the items of one feed to another and remove it; tags are put together.

        How many items moved, and the number by which it is taken back.
        """
        return await self._database.write(trash.merge_feeds_with_undo, into, gone, by)

    # suggestions

    async def also_read(self, user_id: int, limit: int = 10) -> list[recommendations.CoReadFeed]:
        """Feeds that those read who read the same as this person."""
        return await self._database.read(recommendations.find_also_read, user_id, limit)

    async def popular(self, user_id: int, limit: int = 10) -> list[tuple[int, int]]:
        """Feeds that several read and this person does not, with how many do."""
        return await self._database.read(recommendations.list_popular_feeds, user_id, limit)

    async def titles(self, user_id: int, since: float, most: int = 20_000) -> list[tuple[int, int, float, str]]:
        """Item, feed, time and title of what a person reads, the latest first."""
        return await self._database.read(recommendations.list_recent_titles, user_id, since, most)

    async def sites(self, user_id: int) -> set[str]:
        """The hosts of a person's feeds, and of the sites they belong to."""
        return await self._database.read(recommendations.list_reader_sites, user_id)

    async def texts(self, user_id: int, most: int = 1500) -> list[tuple[int, str]]:
        """Feed and text of the latest items that a person reads."""
        return await self._database.read(recommendations.list_recent_texts, user_id, most)

    async def by_ids(self, ids: Collection[int]) -> dict[int, Feed]:
        """Those of these feeds that are there."""
        return await self._database.read(feeds.find_feeds, ids)


_OVERVIEW_QUERY = select(
    feed.c.id,
    feed_state.c.window,
    feed_state.c.last_refresh,
    feed_state.c.last_change,
    feed_state.c.next_refresh,
    feed_state.c.failures,
    feed_state.c.last_error,
).join(feed_state, feed_state.c.feed_id == feed.c.id)
_LAST_REFRESH = and_(refresh.c.feed_id == feed_state.c.feed_id, refresh.c.at == feed_state.c.last_refresh)


_STATE_CONDITIONS = {
    "gone": feed.c.gone_since.is_not(None),
    "paused": feed.c.paused,
    "failing": feed_state.c.failures > 0,
    "new": feed_state.c.last_refresh.is_(None),
}


def list_feed_overviews(connection: Connection, which: FeedFilter, after: int, limit: int) -> list[FeedOverview]:
    query = _OVERVIEW_QUERY.where(feed.c.id > after).order_by(feed.c.id).limit(limit)
    if which.tag is not None:
        query = query.where(
            feed.c.id.in_(select(feed_tag.c.feed_id).where(feed_tag.c.tag == replace_unstorable(which.tag)))
        )
    if which.search is not None:
        columns = (feed.c.given_title, feed.c.title, feed.c.name, feed.c.url)
        query = query.where(
            or_(*(column.icontains(replace_unstorable(which.search), autoescape=True) for column in columns))
        )
    if which.state is not None:
        query = query.where(_STATE_CONDITIONS[which.state])
    if which.subscriber is not None:
        query = query.where(feed.c.id.in_(select_subscribed_feeds(which.subscriber, Stream())))
    if which.ending is not None:
        failing = select(feed_state.c.feed_id).join(refresh, _LAST_REFRESH)
        failing = failing.where(feed_state.c.failures > 0, refresh.c.ending == which.ending.value)
        query = query.where(feed.c.id.in_(failing))
    return _read_overviews(connection, query)


def _read_overviews(connection: Connection, query: Select[tuple[object, ...]]) -> list[FeedOverview]:
    rows = connection.execute(query).all()
    ids = [row.id for row in rows]
    found = feeds.find_feeds(connection, ids)
    counts: dict[int, int] = {}
    if ids:
        counted = select(item.c.feed_id, func.count()).where(item.c.feed_id.in_(ids)).group_by(item.c.feed_id)
        counts = {row[0]: row[1] for row in connection.execute(counted)}
    return [
        FeedOverview(
            found[row.id],
            counts.get(row.id, 0),
            row.window,
            row.last_refresh,
            row.last_change,
            row.next_refresh,
            row.failures,
            row.last_error,
        )
        for row in rows
    ]


def count_feed_states(connection: Connection, user_id: int, which: Stream) -> dict[str, int]:
    state = case(*((holds, name) for name, holds in _STATE_CONDITIONS.items()), else_="well").label("state")
    query = select(state, func.count()).select_from(feed).join(feed_state, feed_state.c.feed_id == feed.c.id)
    query = query.where(feed.c.id.in_(select_subscribed_feeds(user_id, which))).group_by("state")
    return {row[0]: row[1] for row in connection.execute(query)}


def group_failures(connection: Connection, each: int) -> list[FailureGroup]:
    counted = (
        select(refresh.c.ending, func.count(), func.min(feed_state.c.failing_since))
        .select_from(feed_state)
        .join(refresh, _LAST_REFRESH)
        .where(feed_state.c.failures > 0)
        .group_by(refresh.c.ending)
        .order_by(func.count().desc(), refresh.c.ending)
    )
    found = []
    for ending, number, since in connection.execute(counted).all():
        kind = Ending(ending)
        found.append(
            FailureGroup(kind, number, since, tuple(list_feed_overviews(connection, FeedFilter(ending=kind), 0, each)))
        )
    return found


def list_publication_times(connection: Connection, feed_id: int, since: float, most: int) -> list[float]:
    query = select(item.c.published).where(item.c.feed_id == feed_id, item.c.published >= since, item.c.dated)
    return list(connection.execute(query.order_by(item.c.published.desc()).limit(most)).scalars())


def list_item_times(connection: Connection, since: float, most: int) -> tuple[list[int], list[float]]:
    # What a feed's first document showed is only the end of its history: a replay would take it for all of it.
    query = select(item.c.feed_id, item.c.published).join(feed, feed.c.id == item.c.feed_id)
    query = query.where(item.c.dated, item.c.published >= since, item.c.published >= feed.c.added)
    rows = connection.execute(query.order_by(item.c.published.desc(), item.c.id.desc()).limit(most)).all()
    return [row.feed_id for row in rows], [row.published for row in rows]


def load_window_sizes(connection: Connection) -> dict[int, int]:
    rows = connection.execute(select(feed_state.c.feed_id, feed_state.c.window).where(feed_state.c.window > 0))
    return {row.feed_id: row.window for row in rows}


def find_similar_feeds(connection: Connection, feed_id: int, limit: int) -> list[Feed]:
    mine = feeds.find_feed(connection, feed_id)
    same = []
    if mine.title:
        same += [feed.c.title == mine.title, feed.c.given_title == mine.title]
    if mine.link:
        same.append(feed.c.link == mine.link)
    if not same:
        return []
    query = select(feed.c.id).where(feed.c.id != feed_id, or_(*same)).order_by(feed.c.id).limit(limit)
    return list(feeds.find_feeds(connection, connection.execute(query).scalars().all()).values())
