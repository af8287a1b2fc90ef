"""Finds feeds that readers of the same feeds read, and a reader's recent titles, texts and sites."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, exists, func, select

from headwater.store.database.dialect import SelectByUserAndIds, fetch_rows
from headwater.store.schema.item_tables import item
from headwater.store.schema.reader_tables import subscription

FEWEST_READERS = 2  # others who read a feed before it is suggested: one person's reading is nobody's business
MOST_LOOKED_AT = 200  # feeds of a person's, and readers of the same ones, at the most


@dataclass(frozen=True, slots=True)
class CoReadFeed:
    """A feed that others read: `both` of the `readers` of a feed of yours."""

    feed_id: int
    because: int
    both: int
    readers: int


def find_also_read(connection: Connection, user_id: int, limit: int = 10) -> list[CoReadFeed]:
    """Feeds that those read who read the same as this person, the strongest link first.

    Of many subscriptions and many readers some hundred are looked at, and then counted in full.
    """
    shared = [
        id
        for (id,) in fetch_rows(connection, _SHARED, {"user": user_id, "most": MOST_LOOKED_AT, "least": FEWEST_READERS})
    ]
    if not shared:
        return []
    near = [id for id, _ in _NEAR.run(connection, user_id, shared)]
    wanted = [id for id, _ in _OTHERS.run(connection, user_id, near)][: 5 * limit] if near else []
    readers: dict[int, set[int]] = {}
    for feed_id, reader in _READERS.run(connection, user_id, [*shared, *wanted]):
        readers.setdefault(feed_id, set()).add(reader)
    found: list[CoReadFeed] = []
    for feed_id in wanted:
        links = [CoReadFeed(feed_id, id, len(readers[feed_id] & readers[id]), len(readers[id])) for id in shared]
        strongest = max(links, key=lambda one: (one.both >= FEWEST_READERS, one.both / one.readers, one.both))
        if strongest.both >= FEWEST_READERS:
            found.append(strongest)
    return sorted(found, key=lambda one: (-one.both / one.readers, -one.both))[:limit]


_SHARED = (
    "SELECT s.feed_id FROM subscription s WHERE s.user_id = :user AND "
    "(SELECT COUNT(*) FROM (SELECT 1 FROM subscription o WHERE o.feed_id = s.feed_id AND o.user_id <> :user "
    "LIMIT :least) t) >= :least LIMIT :most"
)
_NEAR = SelectByUserAndIds(
    "SELECT user_id, COUNT(*) FROM subscription WHERE feed_id IN {ids} AND user_id <> {user} "
    f"GROUP BY user_id ORDER BY 2 DESC, 1 LIMIT {MOST_LOOKED_AT}"
)
_OTHERS = SelectByUserAndIds(
    "SELECT o.feed_id, COUNT(*) FROM subscription o WHERE o.user_id IN {ids} AND NOT EXISTS "
    "(SELECT 1 FROM subscription s WHERE s.user_id = {user} AND s.feed_id = o.feed_id) "
    f"GROUP BY o.feed_id HAVING COUNT(*) >= {FEWEST_READERS} ORDER BY 2 DESC, 1 LIMIT 100"
)
_READERS = SelectByUserAndIds("SELECT feed_id, user_id FROM subscription WHERE feed_id IN {ids} AND user_id <> {user}")


def list_popular_feeds(connection: Connection, user_id: int, limit: int = 10) -> list[tuple[int, int]]:
    """Feeds that at least two read and this person does not, with how many do."""
    mine = select(subscription.c.feed_id).where(subscription.c.user_id == user_id)
    number = func.count()
    query = select(subscription.c.feed_id, number).where(subscription.c.feed_id.not_in(mine))
    query = query.group_by(subscription.c.feed_id).having(number >= FEWEST_READERS)
    return [(row[0], row[1]) for row in connection.execute(query.order_by(number.desc()).limit(limit))]


def list_recent_titles(
    connection: Connection, user_id: int, since: float, most: int = 20_000
) -> list[tuple[int, int, float, str]]:
    """Item, feed, time and title of what a person reads, the latest first."""
    query = select(item.c.id, item.c.feed_id, item.c.published, item.c.title)
    query = query.where(item.c.published >= since, item.c.title.is_not(None), _is_read_by(user_id))
    found = connection.execute(query.order_by(item.c.published.desc(), item.c.id.desc()).limit(most))
    return [(row.id, row.feed_id, row.published, row.title) for row in found]


def list_recent_texts(connection: Connection, user_id: int, most: int = 1500) -> list[tuple[int, str]]:
    """Feed and text of the latest items that a person reads."""
    text = func.coalesce(item.c.content, item.c.summary)
    query = select(item.c.feed_id, text.label("text")).where(_is_read_by(user_id), text.is_not(None))
    found = connection.execute(query.order_by(item.c.published.desc(), item.c.id.desc()).limit(most))
    return [(row.feed_id, row.text) for row in found]


def list_reader_sites(connection: Connection, user_id: int) -> set[str]:
    """The hosts of a person's feeds, and of the sites they belong to."""
    found = fetch_rows(connection, _ADDRESSES, {"user": user_id})
    return {parse_site(url) for url, link in found for url in (url, link) if url}


_ADDRESSES = "SELECT f.url, f.link FROM subscription s JOIN feed f ON f.id = s.feed_id WHERE s.user_id = :user"


def parse_site(url: str) -> str:
    """
    >>> parse_site("https://www.Example.org/feed"), parse_site("nonsense")
    ('example.org', '')
    """
    return url.partition("://")[2].partition("/")[0].partition("?")[0].lower().removeprefix("www.")


def _is_read_by(user_id: int) -> ColumnElement[bool]:
    """Looked up item by item: where somebody reads 100,000 feeds, most of the latest items are theirs."""
    mine = (subscription.c.user_id == user_id, subscription.c.feed_id == item.c.feed_id)
    return exists().where(*mine)
