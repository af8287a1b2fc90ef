"""Loads who reads what: accounts by feed and query feed, and readers of published documents without an account.

Those are counted by week. A reader is a keyed hash of an address and the week: it says nothing about the next week or
another server.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from sqlalchemy import Connection, delete, func, select

from headwater.store.database.dialect import insert_or_ignore
from headwater.store.schema.feed_tables import feed_tag
from headwater.store.schema.publication_tables import document_reader, hub_subscriber
from headwater.store.schema.query_tables import QUERY_IS_LIVE, query_feed
from headwater.store.schema.reader_tables import USER_IS_LIVE, query_subscription, subscription, user

MAX_VISITORS = 100  # readers without an account that count for one published feed: strangers cannot bend the schedule
_TOPIC = re.compile(r"(/(?:feeds|tags)/.+)\.(?:rss|atom|json|html)$")


@dataclass(frozen=True, slots=True)
class Readership:
    """The readers of feeds and query feeds.

    `visitors` read published documents or get them from our hub, without an account. `subscriptions` are pairs of
    feed and account, `query_accounts` the accounts by query feed.
    """

    subscriptions: Sequence[tuple[int, int]] = ()
    query_accounts: Mapping[int, frozenset[int]] = field(default_factory=dict)
    query_visitors: Mapping[int, int] = field(default_factory=dict)
    feed_visitors: Mapping[int, int] = field(default_factory=dict)

    def count_feed_readers(self) -> Counter[int]:
        """Count the readers of each whole feed."""
        return Counter(feed for feed, _ in self.subscriptions) + Counter(self.feed_visitors)

    def count_query_readers(self, query_id: int) -> int:
        return len(self.query_accounts.get(query_id, ())) + self.query_visitors.get(query_id, 0)


def count_subscriptions(connection: Connection) -> Counter[int]:
    """Count each account's subscriptions to feeds and query feeds."""
    counts: Counter[int] = Counter()
    for table in (subscription, query_subscription):
        rows = connection.execute(select(table.c.user_id, func.count()).group_by(table.c.user_id))
        for user_id, number in rows:
            counts[user_id] += number
    return counts


def load_readership(connection: Connection, now: float) -> Readership:
    """Load the readers of everything."""
    pairs = select(subscription.c.feed_id, subscription.c.user_id).join(user, user.c.id == subscription.c.user_id)
    accounts: dict[int, set[int]] = {}
    query = select(query_subscription.c.query_id, query_subscription.c.user_id)
    rows = [*connection.execute(query.join(user, user.c.id == query_subscription.c.user_id).where(USER_IS_LIVE))]
    owners = select(query_feed.c.id, query_feed.c.reader_id).where(QUERY_IS_LIVE, query_feed.c.reader_id.is_not(None))
    for query_id, user_id in [*rows, *connection.execute(owners)]:
        accounts.setdefault(query_id, set()).add(user_id)
    visitors = _count_visitors(connection, now)
    by_key = {f"/feeds/{key}": id for id, key in connection.execute(select(query_feed.c.id, query_feed.c.key))}
    return Readership(
        [(row[0], row[1]) for row in connection.execute(pairs.where(USER_IS_LIVE))],
        {query_id: frozenset(some) for query_id, some in accounts.items()},
        {by_key[path]: number for path, number in visitors.items() if path in by_key},
        _spread_over_tags(connection, visitors),
    )


def _count_visitors(connection: Connection, now: float) -> dict[str, int]:
    """Count hub subscribers and readers of documents by case-folded path, without the document's format."""
    found = Counter(count_document_readers(connection, now))
    query = select(hub_subscriber.c.topic, func.count(hub_subscriber.c.callback.distinct()))
    for topic, number in connection.execute(query.where(hub_subscriber.c.until > now).group_by(hub_subscriber.c.topic)):
        if match := _TOPIC.search(unquote(urlsplit(topic).path)):
            found[match[1].casefold()] += number
    return {path: min(number, MAX_VISITORS) for path, number in found.items()}


def _spread_over_tags(connection: Connection, visitors: Mapping[str, int]) -> Counter[int]:
    """Count the visitors of a tag as readers of each of its feeds."""
    found: Counter[int] = Counter()
    if any(path.startswith("/tags/") for path in visitors):
        for feed_id, tag in connection.execute(select(feed_tag.c.feed_id, feed_tag.c.tag)):
            found[feed_id] += visitors.get(f"/tags/{tag.casefold()}", 0)
    return +found


WEEK = 7 * 86_400.0


def week_of(now: float) -> int:
    return int(now // WEEK)


def add_document_readers(connection: Connection, week: int, readers: Iterable[tuple[str, bytes]]) -> None:
    """Add readers by path, and forget those before last week."""
    rows = [{"path": path, "week": week, "reader": reader} for path, reader in readers]
    if rows:
        connection.execute(insert_or_ignore(connection, document_reader), rows)
    connection.execute(delete(document_reader).where(document_reader.c.week < week - 1))


def count_document_readers(connection: Connection, now: float) -> dict[str, int]:
    """Count the readers of each path: of this week or the last, whichever had more."""
    week, number = week_of(now), func.count()
    query = select(document_reader.c.path, number).where(document_reader.c.week.in_((week, week - 1)))
    found: dict[str, int] = {}
    for path, readers in connection.execute(query.group_by(document_reader.c.path, document_reader.c.week)):
        found[path] = max(found.get(path, 0), readers)
    return found
