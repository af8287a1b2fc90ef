"""Lists the hits that the document of a query feed shows: the window of KEEP, in the order of ORDER BY."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection

from headwater.language.ast import DEFAULT_KEEP_WINDOW, Field
from headwater.model import QueryFeed
from headwater.query.items.analysed_item import AnalysedItem
from headwater.query.items.origin import Origin
from headwater.query.query_document import Emission, select_items
from headwater.query.reader_scope import reader_tag
from headwater.store.content.feeds import find_feed_tags
from headwater.store.database.dialect import bind_ids, fetch_rows, has_id
from headwater.store.queries.hits import StoredHit, list_window
from headwater.store.queries.query_feeds import list_implicit_feeds, read_running_definition
from headwater.store.readers.accounts import OWNER, READER

CHUNK = 1000
_FEEDS = "SELECT id, name, url, link, COALESCE(NULLIF(given_title, ''), title) FROM feed WHERE deleted_at IS NULL"
_LIVE_FEEDS = "SELECT id FROM feed WHERE deleted_at IS NULL"
_FEEDS_OF_ROLE = 'SELECT s.feed_id FROM subscription s JOIN "user" u ON u.id = s.user_id WHERE u.role = '
_FEEDS_OF_READERS = f"{_FEEDS_OF_ROLE} :reader AND s.feed_id NOT IN ({_FEEDS_OF_ROLE} :owner)"
_READERS_WITH_QUERIES = "SELECT DISTINCT reader_id FROM query_feed WHERE reader_id IS NOT NULL"
_SUBSCRIBED = "SELECT feed_id FROM subscription WHERE user_id = :reader"
_LIVE_SUBSCRIBED = f"{_LIVE_FEEDS} AND id IN ({_SUBSCRIBED})"
_TAGGED = "SELECT feed_id, tag FROM subscription_tag WHERE user_id = :reader"


def load_item_origins(
    connection: Connection, feed_ids: Collection[int] | None = None, readers: Collection[int] = ()
) -> dict[int, Origin]:
    """Load where the items of these feeds, or of all, come from, as queries see it.

    Feeds that only readers subscribe to are theirs alone: the server's ALL does not read them. For readers with
    queries, and for `readers`, the feeds have hidden tags (`query.reader_scope`).
    """
    some = sorted(feed_ids) if feed_ids is not None and len(feed_ids) <= CHUNK else None
    rows = _fetch(connection, _FEEDS, some, "id")
    tags = find_feed_tags(connection, some)
    unread_by_all = list_implicit_feeds(connection) | _list_feeds_of_readers(connection, some)
    hidden = _load_reader_tags(connection, readers, some)
    return {
        id: Origin(name, url, (*tags.get(id, ()), *hidden.get(id, ())), id not in unread_by_all, title=title, link=link)
        for id, name, url, link, title in rows
    }


def list_feeds_of_all(connection: Connection, reader_id: int | None) -> set[int]:
    """Return the feeds that ALL reads in a query of a reader, or of the server."""
    if reader_id is not None:
        return {id for (id,) in fetch_rows(connection, _LIVE_SUBSCRIBED, {"reader": reader_id})}
    live = {id for (id,) in fetch_rows(connection, _LIVE_FEEDS, {})}
    return live - list_implicit_feeds(connection) - _list_feeds_of_readers(connection)


def _fetch(
    connection: Connection, sql: str, feed_ids: Sequence[int] | None, column: str = "feed_id", **values: Any
) -> Sequence[Sequence[Any]]:
    """Fetch the rows of these feeds, or of all."""
    if feed_ids is not None:
        sql = f"{sql} AND {has_id(connection, column)}"
        values["ids"] = bind_ids(connection, feed_ids)
    return fetch_rows(connection, sql, values)


def _list_feeds_of_readers(connection: Connection, feed_ids: Sequence[int] | None = None) -> set[int]:
    """Return the feeds, of these or of all, that readers subscribe to, and no owner."""
    return {id for (id,) in _fetch(connection, _FEEDS_OF_READERS, feed_ids, "s.feed_id", reader=READER, owner=OWNER)}


def _load_reader_tags(
    connection: Connection, readers: Collection[int], feed_ids: Sequence[int] | None
) -> dict[int, list[str]]:
    own = fetch_rows(connection, _READERS_WITH_QUERIES, {})
    found: dict[int, list[str]] = {}
    for reader in sorted({*readers, *(id for (id,) in own)}):
        every = reader_tag(reader)
        for (feed_id,) in _fetch(connection, _SUBSCRIBED, feed_ids, reader=reader):
            found.setdefault(feed_id, []).append(every)
        for feed_id, tag in _fetch(connection, _TAGGED, feed_ids, reader=reader):
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
