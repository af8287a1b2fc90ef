"""Recognises items that come back from other aggregators.

An aggregator that publishes one of our items again names the feed it was first published in, and keeps its identity. So
an item that names a feed, under an identity that this query feed has published from there, is not new to it. Items from
the first feed itself are never taken for returns: nobody can suppress an item by claiming to have published it again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlalchemy import Connection, delete, select

from headwater.formats.values.links import normalise_url
from headwater.formats.write.addresses import build_published_identity, public_address
from headwater.model import Item
from headwater.store.database.dialect import chunks, insert_or_ignore
from headwater.store.schema.feed_tables import feed
from headwater.store.schema.query_tables import origin

if TYPE_CHECKING:
    from headwater.store.queries.hits import NewHit

CHUNK = 200


def origin_key(item: Item, feed_url: str, site: str | None) -> bytes:
    """Return 128 bits that stand for the feed in which an item was first published and its identity there.

    The feed is known by the address that published documents give.
    """
    first = public_address(feed_url, site) if item.source is None else item.source.url
    name = build_published_identity(item.identity, feed_url)
    return hashlib.sha256(f"{normalise_url(first)}\0{name}".encode("utf-8", "replace")).digest()[:16]


def drop_returned(connection: Connection, new: Sequence[NewHit]) -> list[NewHit]:
    """Drop new hits that are returns, and remember the origins of the others."""
    known_feeds = _find_feed_addresses(connection, {one.hit.original.feed_id for one in new})
    keys = [origin_key(one.hit.original, *known_feeds.get(one.hit.original.feed_id, ("", None))) for one in new]
    named = [(one.query_id, key) for one, key in zip(new, keys, strict=True) if one.hit.original.source is not None]
    known = _find_origins(connection, named)
    kept: list[NewHit] = []
    rows = []
    for one, key in zip(new, keys, strict=True):
        place, item_id = (one.query_id, key), one.hit.original.id or 0
        if one.hit.original.source is not None and known.get(place, item_id) != item_id:
            continue
        if place not in known:
            rows.append({"query_id": one.query_id, "key": key, "item_id": item_id})
        known.setdefault(place, item_id)
        kept.append(one)
    if rows:
        connection.execute(insert_or_ignore(connection, origin), rows)
    return kept


def delete_origins_of_queries(connection: Connection, query_ids: Sequence[int]) -> None:
    """Delete the origins of dropped query feeds."""
    connection.execute(delete(origin).where(origin.c.query_id.in_(query_ids)))


def _find_feed_addresses(connection: Connection, ids: set[int]) -> dict[int, tuple[str, str | None]]:
    found: dict[int, tuple[str, str | None]] = {}
    for chunk in chunks(sorted(ids), CHUNK):
        rows = connection.execute(select(feed.c.id, feed.c.url, feed.c.link).where(feed.c.id.in_(chunk)))
        found.update((row.id, (row.url, row.link)) for row in rows)
    return found


def _find_origins(connection: Connection, places: Sequence[tuple[int, bytes]]) -> dict[tuple[int, bytes], int]:
    """Find the items that were published from these origins, by (query, key)."""
    keys: dict[int, list[bytes]] = {}
    for query_id, key in places:
        keys.setdefault(query_id, []).append(key)
    found: dict[tuple[int, bytes], int] = {}
    for query_id, mine in keys.items():
        for chunk in chunks(mine, CHUNK):
            rows = connection.execute(select(origin).where(origin.c.query_id == query_id, origin.c.key.in_(chunk)))
            found |= {(query_id, bytes(row.key)): row.item_id for row in rows}
    return found
