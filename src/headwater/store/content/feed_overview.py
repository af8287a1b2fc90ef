"""Lists feeds with their health, groups failures by cause and finds similar feeds."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlalchemy import Connection, Select, and_, case, func, or_, select

from headwater.model import Ending, Feed
from headwater.store.content import feeds
from headwater.store.content.items import select_feeds_with_tag
from headwater.store.readers.stream_positions import Stream, select_subscribed_feeds
from headwater.store.readers.subscriptions import find_subscriptions
from headwater.store.schema.feed_tables import FEED_IS_LIVE, feed, feed_state, refresh
from headwater.store.schema.item_tables import item

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
    """Feeds that fail for one cause: how many, since when the first of them, and a few examples."""

    ending: Ending
    feeds: int
    since: float | None
    examples: tuple[FeedOverview, ...]


@dataclass(frozen=True, slots=True)
class FeedFilter:
    """Selects feeds by tag, by words in title, name or address, by one of FEED_STATES, by the ending of a failed
    last fetch, or by a subscriber (the id of a user), whose tags then count instead of the server's."""

    tag: str | None = None
    search: str | None = None
    state: str | None = None
    ending: Ending | None = None
    subscriber: int | None = None


ALL_FEEDS = FeedFilter()


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


def list_feed_overviews(
    connection: Connection, which: FeedFilter = ALL_FEEDS, *, after: int = 0, limit: int = 100
) -> list[FeedOverview]:
    """List feeds by id, beyond `after`, with their health."""
    query = _OVERVIEW_QUERY.where(feed.c.id > after).order_by(feed.c.id).limit(limit)
    if which.tag is not None and which.subscriber is None:
        query = query.where(feed.c.id.in_(select_feeds_with_tag(which.tag)))
    if which.search is not None:
        columns = (feed.c.given_title, feed.c.title, feed.c.name, feed.c.url)
        query = query.where(or_(*(column.icontains(which.search, autoescape=True) for column in columns)))
    if which.state is not None:
        query = query.where(_STATE_CONDITIONS[which.state])
    if which.subscriber is not None:
        query = query.where(feed.c.id.in_(select_subscribed_feeds(which.subscriber, Stream(tag=which.tag))))
    if which.ending is not None:
        failing = select(feed_state.c.feed_id).join(refresh, _LAST_REFRESH)
        failing = failing.where(feed_state.c.failures > 0, refresh.c.ending == which.ending.value)
        query = query.where(feed.c.id.in_(failing))
    rows = _read_overviews(connection, query)
    if which.subscriber is None:
        return rows
    mine = find_subscriptions(connection, which.subscriber, [row.feed.id for row in rows], ())
    tags = {one.feed_id: one.tags for one in mine}
    return [replace(row, feed=replace(row.feed, tags=tags[row.feed.id])) for row in rows]


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
    """Count the feeds of a reader's stream by state: one of FEED_STATES, or "well".

    Each feed counts once: gone before paused, paused before failing, failing before new.
    """
    state = case(*((holds, name) for name, holds in _STATE_CONDITIONS.items()), else_="well").label("state")
    query = select(state, func.count()).select_from(feed).join(feed_state, feed_state.c.feed_id == feed.c.id)
    query = query.where(feed.c.id.in_(select_subscribed_feeds(user_id, which))).group_by("state")
    return {row[0]: row[1] for row in connection.execute(query)}


def group_failures(connection: Connection, each: int = 5) -> list[FailureGroup]:
    """Group failing feeds by cause, the most frequent first, with `each` examples."""
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
            FailureGroup(
                kind, number, since, tuple(list_feed_overviews(connection, FeedFilter(ending=kind), limit=each))
            )
        )
    return found


def list_publication_times(connection: Connection, feed_id: int, since: float, limit: int = 50_000) -> list[float]:
    """List when the dated items of a feed were published, the latest `limit`."""
    query = select(item.c.published).where(item.c.feed_id == feed_id, item.c.published >= since, item.c.dated)
    return list(connection.execute(query.order_by(item.c.published.desc()).limit(limit)).scalars())


def list_item_times(connection: Connection, since: float, limit: int = 500_000) -> tuple[list[int], list[float]]:
    """List feed and time of dated items published since then and since their feed was added, the latest `limit`."""
    # A feed's first document shows only the end of its history, which a replay would take for the whole.
    query = select(item.c.feed_id, item.c.published).join(feed, feed.c.id == item.c.feed_id)
    query = query.where(item.c.dated, item.c.published >= since, item.c.published >= feed.c.added, FEED_IS_LIVE)
    rows = connection.execute(query.order_by(item.c.published.desc(), item.c.id.desc()).limit(limit)).all()
    return [row.feed_id for row in rows], [row.published for row in rows]


def load_window_sizes(connection: Connection) -> dict[int, int]:
    """Load how many items the document of each feed shows; feeds never read are left out."""
    rows = connection.execute(select(feed_state.c.feed_id, feed_state.c.window).where(feed_state.c.window > 0))
    return {row.feed_id: row.window for row in rows}


def find_similar_feeds(connection: Connection, feed_id: int, limit: int = 10) -> list[Feed]:
    """Find other feeds with the same title or web page: perhaps the same feed."""
    mine = feeds.find_feed(connection, feed_id)
    same = []
    if mine.title:
        same += [feed.c.title == mine.title, feed.c.given_title == mine.title]
    if mine.link:
        same.append(feed.c.link == mine.link)
    if not same:
        return []
    query = select(feed.c.id).where(feed.c.id != feed_id, or_(*same), FEED_IS_LIVE).order_by(feed.c.id).limit(limit)
    return list(feeds.find_feeds(connection, connection.execute(query).scalars().all()).values())
