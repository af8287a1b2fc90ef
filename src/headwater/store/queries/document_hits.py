"""Lists the hits that the document of a query feed shows: the window of KEEP, in the order of ORDER BY."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, bindparam, func, select

from headwater.language.ast import DEFAULT_KEEP_WINDOW, Field
from headwater.model import QueryFeed
from headwater.query.items.analysed_item import AnalysedItem
from headwater.query.items.origin import Origin
from headwater.query.query_document import Emission, select_items
from headwater.query.reader_scope import reader_tag
from headwater.store.content.feeds import find_feed_tags
from headwater.store.queries.hits import StoredHit, list_window
from headwater.store.queries.query_feeds import list_implicit_feeds, read_running_definition
from headwater.store.readers.accounts import OWNER, READER
from headwater.store.schema.feed_tables import FEED_IS_LIVE, feed
from headwater.store.schema.query_tables import query_feed
from headwater.store.schema.reader_tables import subscription, subscription_tag, user

CHUNK = 1000
_ORIGINS = select(
    feed.c.id, feed.c.name, feed.c.url, feed.c.link, func.coalesce(func.nullif(feed.c.given_title, ""), feed.c.title)
).where(FEED_IS_LIVE)
_FEEDS_OF_ROLE = select(subscription.c.feed_id).join(user, user.c.id == subscription.c.user_id)
_FEEDS_OF_READERS = _FEEDS_OF_ROLE.where(
    user.c.role == READER, subscription.c.feed_id.not_in(_FEEDS_OF_ROLE.where(user.c.role == OWNER))
)
_READERS_WITH_QUERIES = select(query_feed.c.reader_id).where(query_feed.c.reader_id.is_not(None)).distinct()
_SUBSCRIBED = select(subscription.c.feed_id).where(subscription.c.user_id == bindparam("reader"))
_TAGGED = select(subscription_tag.c.feed_id, subscription_tag.c.tag).where(
    subscription_tag.c.user_id == bindparam("reader")
)


def load_item_origins(
    connection: Connection, feed_ids: Collection[int] | None = None, readers: Collection[int] = ()
) -> dict[int, Origin]:
    """Load where the items of these feeds, or of all, come from, as queries see it.

    Feeds that only readers subscribe to are theirs alone: the server's ALL does not read them. For readers with
    queries, and for `readers`, the feeds have hidden tags (`query.reader_scope`).
    """
    query = _ORIGINS
    some = feed_ids is not None and len(feed_ids) <= CHUNK
    if feed_ids is not None and some:
        query = query.where(feed.c.id.in_(sorted(feed_ids)))
    rows = connection.execute(query).all()
    tags = find_feed_tags(connection, [id for id, *_ in rows] if some else None)
    unread_by_all = list_implicit_feeds(connection) | _list_feeds_of_readers(connection)
    hidden = _load_reader_tags(connection, readers)
    return {
        id: Origin(name, url, (*tags.get(id, ()), *hidden.get(id, ())), id not in unread_by_all, title=title, link=link)
        for id, name, url, link, title in rows
    }


def _list_feeds_of_readers(connection: Connection) -> set[int]:
    """Return the feeds that readers subscribe to, and no owner."""
    return set(connection.execute(_FEEDS_OF_READERS).scalars())


def _load_reader_tags(connection: Connection, readers: Collection[int]) -> dict[int, list[str]]:
    own = connection.execute(_READERS_WITH_QUERIES)
    found: dict[int, list[str]] = {}
    for reader in sorted({*readers, *own.scalars()}):
        every = reader_tag(reader)
        for feed_id in connection.execute(_SUBSCRIBED, {"reader": reader}).scalars().all():
            found.setdefault(feed_id, []).append(every)
        for feed_id, tag in connection.execute(_TAGGED, {"reader": reader}):
            found.setdefault(feed_id, []).append(reader_tag(reader, tag))
    return found


def list_document_hits(connection: Connection, shown: QueryFeed, now: float) -> list[StoredHit]:
    """List the hits in the document of a query feed at `now`."""
    query = read_running_definition(shown).query
    by_arrival = query.order is not None and query.order.field is Field.ARRIVAL
    keep = query.keep or DEFAULT_KEEP_WINDOW
    if keep.seconds is None:
        found = list_window(connection, shown.id, keep.count, None, by_arrival)
    else:
        found = list_window(connection, shown.id, None, now - keep.seconds, by_arrival)
    origins = load_item_origins(connection, {hit.item.feed_id for hit in found})
    emissions = []
    for hit in found:
        origin = origins.get(hit.item.feed_id) or Origin(None, f"feed:{hit.item.feed_id}")
        emissions.append(Emission(AnalysedItem(hit.item, origin, hit.arrived), hit.branches, None, hit.arrived, hit.id))
    by_id = {hit.id: hit for hit in found}
    return [by_id[emission.sequence] for emission in select_items(query, emissions, now)]
