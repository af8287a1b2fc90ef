"""Lists the hits that the document of a query feed shows: the window of KEEP, in the order of ORDER BY."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, select

from headwater.language.ast import DEFAULT_KEEP_WINDOW, Field
from headwater.model import QueryFeed
from headwater.query.items.analysed_item import AnalysedItem
from headwater.query.items.origin import Origin
from headwater.query.query_document import Emission, select_items
from headwater.store.content.feeds import find_feed_tags
from headwater.store.queries.hits import StoredHit, list_window
from headwater.store.queries.query_feeds import list_implicit_feeds, read_running_definition
from headwater.store.schema.feed_tables import FEED_IS_LIVE, feed

CHUNK = 1000


def load_item_origins(connection: Connection, feed_ids: Collection[int] | None = None) -> dict[int, Origin]:
    """Load where the items of these feeds, or of all, come from, as queries see it."""
    query = select(feed.c.id, feed.c.name, feed.c.url).where(FEED_IS_LIVE)
    some = feed_ids is not None and len(feed_ids) <= CHUNK
    if feed_ids is not None and some:
        query = query.where(feed.c.id.in_(sorted(feed_ids)))
    rows = connection.execute(query).all()
    tags = find_feed_tags(connection, [row.id for row in rows] if some else None)
    implicit = list_implicit_feeds(connection)
    return {id: Origin(name, url, tags.get(id, ()), id not in implicit) for id, name, url in rows}


def list_document_hits(connection: Connection, query_feed: QueryFeed, now: float) -> list[StoredHit]:
    """List the hits in the document of a query feed at `now`."""
    query = read_running_definition(query_feed).query
    by_arrival = query.order is not None and query.order.field is Field.ARRIVAL
    keep = query.keep or DEFAULT_KEEP_WINDOW
    if keep.seconds is None:
        found = list_window(connection, query_feed.id, keep.count, None, by_arrival)
    else:
        found = list_window(connection, query_feed.id, None, now - keep.seconds, by_arrival)
    origins = load_item_origins(connection, {hit.item.feed_id for hit in found})
    emissions = []
    for hit in found:
        origin = origins.get(hit.item.feed_id) or Origin(None, f"feed:{hit.item.feed_id}")
        emissions.append(Emission(AnalysedItem(hit.item, origin, hit.arrived), hit.branches, None, hit.arrived, hit.id))
    by_id = {hit.id: hit for hit in found}
    return [by_id[emission.sequence] for emission in select_items(query, emissions, now)]
