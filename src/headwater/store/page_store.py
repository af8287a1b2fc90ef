"""The store's side of the pages: `store.pages`. Lists with what a row of a page shows, and counts by cause.

Every method is one transaction of its own, and none is longer than what it was asked for.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import Connection, Select, and_, case, func, or_, select

from headwater.model import Ending, Feed
from headwater.store import feeds, removing, suggesting
from headwater.store.clean import clean
from headwater.store.database import Database
from headwater.store.people import Remover, Stream
from headwater.store.stream_sources import subscribed_feeds
from headwater.store.tables import feed, feed_tag, item, known, refresh

STATES = ("failing", "gone", "paused", "new")  # in the order in which a person chooses among them


@dataclass(frozen=True, slots=True)
class FeedRow:
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
class Trouble:
    """Feeds that fail for one cause: how many, since when the first of them, and some of them."""

    ending: Ending
    feeds: int
    since: float | None
    some: tuple[FeedRow, ...]


@dataclass(frozen=True, slots=True)
class Which:
    """Which feeds a list shows: with a tag, with words in title, name or address, in one of STATES, whose last fetch
    failed and ended so, that somebody (the number of a user) reads."""

    tag: str | None = None
    search: str | None = None
    state: str | None = None
    ending: Ending | None = None
    subscriber: int | None = None


ALL = Which()


class PageStore:
    """What only pages ask."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def feeds(self, which: Which = ALL, *, after: int = 0, limit: int = 100) -> list[FeedRow]:
        """Feeds beyond the id `after`, in the order of ids."""
        return await self._database.read(_feeds, which, after, limit)

    async def states(self, user_id: int, which: Stream) -> dict[str, int]:
        """How many feeds of a person's stream are in each state, one of STATES or "well". What is gone is not
        counted as paused too, nor what is paused as failing, nor that as new."""
        return await self._database.read(_states, user_id, which)

    async def troubles(self, each: int = 5) -> list[Trouble]:
        """Failing feeds by cause, the most frequent first, with `each` of them."""
        return await self._database.read(_troubles, each)

    async def published(self, feed_id: int, since: float, most: int = 50_000) -> list[float]:
        """When the dated items of a feed were published, the latest `most`."""
        return await self._database.read(_published, feed_id, since, most)

    async def times(self, since: float, most: int = 500_000) -> tuple[list[int], list[float]]:
        """Feed and time of the dated items published since then and since their feed was added, the latest `most`."""
        return await self._database.read(_times, since, most)

    async def windows(self) -> dict[int, int]:
        """How many items the document of each feed shows; feeds never read are left out."""
        return await self._database.read(_windows)

    async def alike(self, feed_id: int, limit: int = 10) -> list[Feed]:
        """Other feeds that are perhaps the same: with its title, or of the same web page."""
        return await self._database.read(_alike, feed_id, limit)

    async def merge(self, into: int, gone: int, *, by: Remover) -> tuple[int, int]:
        """Give the items of one feed to another and remove it; tags are put together.

        How many items moved, and the number by which it is taken back.
        """
        return await self._database.write(removing.merge_feeds, into, gone, by)

    # suggestions

    async def also_read(self, user_id: int, limit: int = 10) -> list[suggesting.Also]:
        """Feeds that those read who read the same as this person."""
        return await self._database.read(suggesting.also_read, user_id, limit)

    async def popular(self, user_id: int, limit: int = 10) -> list[tuple[int, int]]:
        """Feeds that several read and this person does not, with how many do."""
        return await self._database.read(suggesting.popular, user_id, limit)

    async def titles(self, user_id: int, since: float, most: int = 20_000) -> list[tuple[int, int, float, str]]:
        """Item, feed, time and title of what a person reads, the latest first."""
        return await self._database.read(suggesting.titles, user_id, since, most)

    async def sites(self, user_id: int) -> set[str]:
        """The hosts of a person's feeds, and of the sites they belong to."""
        return await self._database.read(suggesting.sites, user_id)

    async def texts(self, user_id: int, most: int = 1500) -> list[tuple[int, str]]:
        """Feed and text of the latest items that a person reads."""
        return await self._database.read(suggesting.texts, user_id, most)

    async def by_ids(self, ids: Collection[int]) -> dict[int, Feed]:
        """Those of these feeds that are there."""
        return await self._database.read(feeds.by_ids, ids)


_ROW = select(
    feed.c.id,
    known.c.window,
    known.c.last_refresh,
    known.c.last_change,
    known.c.next_refresh,
    known.c.failures,
    known.c.last_error,
).join(known, known.c.feed_id == feed.c.id)
_LAST = and_(refresh.c.feed_id == known.c.feed_id, refresh.c.at == known.c.last_refresh)


_STATE = {
    "gone": feed.c.gone_since.is_not(None),
    "paused": feed.c.paused,
    "failing": known.c.failures > 0,
    "new": known.c.last_refresh.is_(None),
}


def _feeds(connection: Connection, which: Which, after: int, limit: int) -> list[FeedRow]:
    query = _ROW.where(feed.c.id > after).order_by(feed.c.id).limit(limit)
    if which.tag is not None:
        query = query.where(feed.c.id.in_(select(feed_tag.c.feed_id).where(feed_tag.c.tag == clean(which.tag))))
    if which.search is not None:
        columns = (feed.c.given_title, feed.c.title, feed.c.name, feed.c.url)
        query = query.where(or_(*(column.icontains(clean(which.search), autoescape=True) for column in columns)))
    if which.state is not None:
        query = query.where(_STATE[which.state])
    if which.subscriber is not None:
        query = query.where(feed.c.id.in_(subscribed_feeds(which.subscriber, Stream())))
    if which.ending is not None:
        failing = select(known.c.feed_id).join(refresh, _LAST)
        failing = failing.where(known.c.failures > 0, refresh.c.ending == which.ending.value)
        query = query.where(feed.c.id.in_(failing))
    return _rows(connection, query)


def _rows(connection: Connection, query: Select[tuple[object, ...]]) -> list[FeedRow]:
    rows = connection.execute(query).all()
    ids = [row.id for row in rows]
    found = feeds.by_ids(connection, ids)
    counts: dict[int, int] = {}
    if ids:
        counted = select(item.c.feed_id, func.count()).where(item.c.feed_id.in_(ids)).group_by(item.c.feed_id)
        counts = {row[0]: row[1] for row in connection.execute(counted)}
    return [
        FeedRow(
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


def _states(connection: Connection, user_id: int, which: Stream) -> dict[str, int]:
    state = case(*((holds, name) for name, holds in _STATE.items()), else_="well").label("state")
    query = select(state, func.count()).select_from(feed).join(known, known.c.feed_id == feed.c.id)
    query = query.where(feed.c.id.in_(subscribed_feeds(user_id, which))).group_by("state")
    return {row[0]: row[1] for row in connection.execute(query)}


def _troubles(connection: Connection, each: int) -> list[Trouble]:
    counted = (
        select(refresh.c.ending, func.count(), func.min(known.c.failing_since))
        .select_from(known)
        .join(refresh, _LAST)
        .where(known.c.failures > 0)
        .group_by(refresh.c.ending)
        .order_by(func.count().desc(), refresh.c.ending)
    )
    found = []
    for ending, number, since in connection.execute(counted).all():
        kind = Ending(ending)
        found.append(Trouble(kind, number, since, tuple(_feeds(connection, Which(ending=kind), 0, each))))
    return found


def _published(connection: Connection, feed_id: int, since: float, most: int) -> list[float]:
    query = select(item.c.published).where(item.c.feed_id == feed_id, item.c.published >= since, item.c.dated)
    return list(connection.execute(query.order_by(item.c.published.desc()).limit(most)).scalars())


def _times(connection: Connection, since: float, most: int) -> tuple[list[int], list[float]]:
    # What a feed's first document showed is only the end of its history: a replay would take it for all of it.
    query = select(item.c.feed_id, item.c.published).join(feed, feed.c.id == item.c.feed_id)
    query = query.where(item.c.dated, item.c.published >= since, item.c.published >= feed.c.added)
    rows = connection.execute(query.order_by(item.c.published.desc(), item.c.id.desc()).limit(most)).all()
    return [row.feed_id for row in rows], [row.published for row in rows]


def _windows(connection: Connection) -> dict[int, int]:
    rows = connection.execute(select(known.c.feed_id, known.c.window).where(known.c.window > 0))
    return {row.feed_id: row.window for row in rows}


def _alike(connection: Connection, feed_id: int, limit: int) -> list[Feed]:
    mine = feeds.find(connection, feed_id)
    same = []
    if mine.title:
        same += [feed.c.title == mine.title, feed.c.given_title == mine.title]
    if mine.link:
        same.append(feed.c.link == mine.link)
    if not same:
        return []
    query = select(feed.c.id).where(feed.c.id != feed_id, or_(*same)).order_by(feed.c.id).limit(limit)
    return list(feeds.by_ids(connection, connection.execute(query).scalars().all()).values())
