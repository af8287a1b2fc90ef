"""Finds feeds that readers of the same feeds read, and a reader's recent titles, texts and sites."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, exists, func, literal, select

from headwater.store.schema.feed_tables import feed
from headwater.store.schema.item_tables import item
from headwater.store.schema.reader_tables import mark, subscription
from headwater.times import DAY

MIN_READERS = 2  # other readers before a feed is suggested, so that no suggestion reveals one person's reading
MIN_INTERESTED = 3  # other people before pages show that a feed is read, starred or subscribed to
READ_SECONDS, STARRED_SECONDS, JOINED_SECONDS = 7 * DAY, 30 * DAY, 14 * DAY  # the past that counts
MAX_LOOKED_AT = 200  # feeds of a reader, and readers of the same feeds


@dataclass(frozen=True, slots=True)
class CoReadFeed:
    """A suggested feed: `both` of the `readers` of the feed `because`, which the reader has, read it too."""

    feed_id: int
    because: int
    both: int
    readers: int


def find_also_read(connection: Connection, user_id: int, limit: int = 10) -> list[CoReadFeed]:
    """Find feeds that readers of the same feeds read, the strongest link first.

    Looks at some hundred subscriptions and readers, if there are more, and counts all readers of the feeds found.
    """
    others = subscription.alias("others")
    near = subscription.alias("near")
    few = select(literal(1)).where(near.c.feed_id == subscription.c.feed_id, near.c.user_id != user_id)
    enough = select(func.count()).select_from(few.limit(MIN_READERS).correlate(subscription).subquery())
    mine = select(subscription.c.feed_id).where(subscription.c.user_id == user_id)
    shared = list(
        connection.execute(mine.where(enough.scalar_subquery() >= MIN_READERS).limit(MAX_LOOKED_AT)).scalars()
    )
    if not shared:
        return []
    number = func.count()
    query = select(others.c.user_id).where(others.c.feed_id.in_(shared), others.c.user_id != user_id)
    query = query.group_by(others.c.user_id).order_by(number.desc(), others.c.user_id).limit(MAX_LOOKED_AT)
    neighbours = connection.execute(query).scalars().all()
    query = select(others.c.feed_id).where(others.c.user_id.in_(neighbours), others.c.feed_id.not_in(mine))
    query = query.group_by(others.c.feed_id).having(number >= MIN_READERS)
    query = query.order_by(number.desc(), others.c.feed_id).limit(min(5 * limit, 100))
    wanted = connection.execute(query).scalars().all() if neighbours else []
    readers: dict[int, set[int]] = {}
    counted = (others.c.feed_id.in_([*shared, *wanted]), others.c.user_id != user_id)
    for feed_id, reader in connection.execute(select(others.c.feed_id, others.c.user_id).where(*counted)):
        readers.setdefault(feed_id, set()).add(reader)
    found: list[CoReadFeed] = []
    for feed_id in wanted:
        links = [CoReadFeed(feed_id, id, len(readers[feed_id] & readers[id]), len(readers[id])) for id in shared]
        strongest = max(links, key=lambda one: (one.both >= MIN_READERS, one.both / one.readers, one.both))
        if strongest.both >= MIN_READERS:
            found.append(strongest)
    return sorted(found, key=lambda one: (-one.both / one.readers, -one.both))[:limit]


def list_popular_feeds(connection: Connection, user_id: int, limit: int = 10) -> list[tuple[int, int]]:
    """List feeds that at least two people read and this reader does not, with the number of readers."""
    mine = select(subscription.c.feed_id).where(subscription.c.user_id == user_id)
    number = func.count()
    query = select(subscription.c.feed_id, number).where(subscription.c.feed_id.not_in(mine))
    query = query.group_by(subscription.c.feed_id).having(number >= MIN_READERS)
    return [(row[0], row[1]) for row in connection.execute(query.order_by(number.desc()).limit(limit))]


@dataclass(frozen=True, slots=True)
class FeedInterest:
    """The accounts that took an interest in a feed lately: they read or starred its items, or subscribed to it.

    The sets never leave the server: pages show rounded numbers of enough people (`round_down`).
    """

    feed_id: int
    read: frozenset[int]
    starred: frozenset[int]
    joined: frozenset[int]
    readers: frozenset[int]


def list_feed_interest(connection: Connection, now: float, limit: int = 200) -> list[FeedInterest]:
    """List the feeds in which most people took an interest lately."""
    sets: dict[str, dict[int, set[int]]] = {"read": {}, "starred": {}, "joined": {}, "readers": {}}
    recent = {
        "read": select(mark.c.feed_id, mark.c.user_id).where(mark.c.state == 1, mark.c.changed >= now - READ_SECONDS),
        "starred": select(mark.c.feed_id, mark.c.user_id).where(mark.c.starred >= now - STARRED_SECONDS),
        "joined": select(subscription.c.feed_id, subscription.c.user_id).where(
            subscription.c.added >= now - JOINED_SECONDS
        ),
    }
    for name, query in recent.items():
        for feed_id, user_id in connection.execute(query.distinct()):
            sets[name].setdefault(feed_id, set()).add(user_id)
    size: Counter[int] = Counter()
    for name in recent:
        size.update({feed_id: len(people) for feed_id, people in sets[name].items()})
    chosen = [feed_id for feed_id, number in size.most_common(limit) if number >= MIN_INTERESTED]
    query = select(subscription.c.feed_id, subscription.c.user_id).where(subscription.c.feed_id.in_(chosen))
    for feed_id, user_id in connection.execute(query):
        sets["readers"].setdefault(feed_id, set()).add(user_id)
    return [FeedInterest(id, *(frozenset(one.get(id, ())) for one in sets.values())) for id in chosen]


def round_down(people: int) -> int:
    """Round a number of people, so that it does not tell of a single one; 0 if they are too few to be shown.

    >>> [round_down(number) for number in (2, 3, 4, 7, 19, 64)]
    [0, 3, 3, 5, 10, 50]
    """
    return max((step for step in (0, MIN_INTERESTED, 5, 10, 20, 50, 100, 200, 500, 1000) if step <= people), default=0)


def list_recent_titles(
    connection: Connection, user_id: int, since: float, limit: int = 20_000
) -> list[tuple[int, int, float, str]]:
    """List item, feed, time and title of a reader's items, the latest first."""
    query = select(item.c.id, item.c.feed_id, item.c.published, item.c.title)
    query = query.where(item.c.published >= since, item.c.title.is_not(None), _is_read_by(user_id))
    found = connection.execute(query.order_by(item.c.published.desc(), item.c.id.desc()).limit(limit))
    return [(row.id, row.feed_id, row.published, row.title) for row in found]


def list_recent_texts(connection: Connection, user_id: int, limit: int = 1500) -> list[tuple[int, str]]:
    """List feed and text of a reader's latest items."""
    text = func.coalesce(item.c.content, item.c.summary)
    query = select(item.c.feed_id, text.label("text")).where(_is_read_by(user_id), text.is_not(None))
    found = connection.execute(query.order_by(item.c.published.desc(), item.c.id.desc()).limit(limit))
    return [(row.feed_id, row.text) for row in found]


def list_reader_sites(connection: Connection, user_id: int) -> set[str]:
    """Return the hosts of a reader's feeds and of their web pages."""
    query = select(feed.c.url, feed.c.link).join_from(subscription, feed, feed.c.id == subscription.c.feed_id)
    rows = connection.execute(query.where(subscription.c.user_id == user_id))
    return {parse_site(address) for row in rows for address in row if address}


def parse_site(url: str) -> str:
    """Return the host of an address, without “www.”.

    >>> parse_site("https://www.Example.org/feed"), parse_site("nonsense")
    ('example.org', '')
    """
    return url.partition("://")[2].partition("/")[0].partition("?")[0].lower().removeprefix("www.")


def _is_read_by(user_id: int) -> ColumnElement[bool]:
    """Build the condition that a user reads an item.

    It is looked up item by item: of the latest items, most belong to a reader of 100,000 feeds.
    """
    mine = (subscription.c.user_id == user_id, subscription.c.feed_id == item.c.feed_id)
    return exists().where(*mine)
