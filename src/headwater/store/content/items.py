"""Reads items: one, lists by publication or arrival, slices for exports, earlier versions; converts them to rows.

An item keeps its latest ten earlier versions.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from orjson import dumps, loads
from sqlalchemy import Column, ColumnElement, Connection, Select, bindparam, delete, func, select, tuple_

from headwater.errors import NotFound
from headwater.model import Enclosure, Episode, Item, Person, Source
from headwater.store.database.dialect import bind_ids, chunks, insert_or_ignore, select_by_ids, to_json
from headwater.store.schema.feed_tables import TRASHED_FEEDS, feed_tag
from headwater.store.schema.item_tables import earlier_version, item

CHUNK = 1000
_NOT_TRASHED = item.c.feed_id.not_in(TRASHED_FEEDS)
ITEM_COLUMNS = tuple(item.columns.keys())
_ITEMS_BY_ID = select_by_ids(select(item).order_by(item.c.id), item.c.id)


def item_to_values(value: Item, id: int) -> tuple[Any, ...]:
    """Return the values of `ITEM_COLUMNS` for an item."""
    return (
        id,
        value.feed_id,
        value.published,
        value.first_seen,
        value.updated,
        value.version,
        value.dated,
        value.identity,
        value.content_hash,
        value.title,
        value.link,
        value.language,
        dumps(value.authors).decode() if value.authors else None,
        dumps(value.categories).decode() if value.categories else None,
        to_json([_enclosure_to_list(one) for one in value.enclosures]) if value.enclosures else None,
        value.summary,
        value.content,
        to_json((value.source.url, value.source.title)) if value.source else None,
        _write_details(value),
    )


class _ItemDetails(msgspec.Struct, frozen=True, omit_defaults=True):
    """The fields that few queries need and that are stored together as JSON."""

    image: str | None = None
    people: tuple[Person, ...] = ()
    episode: Episode | None = None


_NO_DETAILS = _ItemDetails()
_decode_details = msgspec.json.Decoder(_ItemDetails).decode
_decode_item = msgspec.json.Decoder(Item).decode  # made here: two threads that make the first one at once crash


def _write_details(value: Item) -> str | None:
    if value.image is None and not value.people and value.episode is None:
        return None
    return msgspec.json.encode(_ItemDetails(value.image, value.people, value.episode)).decode()


def _read_details(stored: str | None) -> _ItemDetails:
    return _decode_details(stored) if stored else _NO_DETAILS


def _enclosure_to_list(one: Enclosure) -> list[Any]:
    """Return the values of a file without the last ones that are unknown, but at least address, type and length."""
    values = list(msgspec.structs.astuple(one))
    while len(values) > 3 and values[-1] is None:
        del values[-1]
    return values


def item_to_row(value: Item, id: int) -> dict[str, Any]:
    """Return an item as a row, by column."""
    return dict(zip(ITEM_COLUMNS, item_to_values(value, id), strict=True))


def read_item(row: Sequence[Any]) -> Item:
    """Build an item from a row that begins with the columns of `item`."""
    (id, feed_id, published, first_seen, updated, version, dated, identity, content_hash, title, link, language,
     authors, categories, enclosures, summary, content, source, stored, *_) = row  # fmt: skip
    details = _read_details(stored)
    return Item(
        feed_id,
        identity,
        content_hash,
        title,
        link,
        published,
        bool(dated),
        updated,
        first_seen,
        tuple(loads(authors)) if authors else (),
        summary,
        content,
        tuple(loads(categories)) if categories else (),
        tuple([Enclosure(*one) for one in loads(enclosures)]) if enclosures else (),
        language,
        version,
        id,
        Source(*loads(source)) if source else None,
        details.image,
        details.people,
        details.episode,
    )


def find_item(connection: Connection, item_id: int) -> Item:
    """Find an item by id; NotFound if there is none."""
    row = connection.execute(select(item).where(item.c.id == item_id)).first()
    if row is None:
        raise NotFound(f"There is no item {item_id}, or retention has deleted it.")
    return read_item(row)


def find_items(connection: Connection, ids: Iterable[int]) -> list[Item]:
    """Find items by id, in the order of ids; those that do not exist are left out."""
    found: list[Item] = []
    for chunk in chunks(sorted(ids), CHUNK):
        rows = connection.execute(_ITEMS_BY_ID[connection.dialect.name], {"ids": bind_ids(connection, chunk)})
        found += [read_item(row) for row in rows.all()]
    return found


def list_items(
    connection: Connection,
    *,
    feed_id: int | None = None,
    tag: str | None = None,
    since: float | None = None,
    before: float | None = None,
    after: tuple[float, int] | None = None,
    limit: int = 100,
) -> list[Item]:
    """List items, newest first by (published, id), with since ≤ published < before.

    `after` is (published, id) of the last item of the previous page.
    """
    query = select(item).where(_NOT_TRASHED).order_by(item.c.published.desc(), item.c.id.desc()).limit(limit)
    if feed_id is not None:
        query = query.where(item.c.feed_id == feed_id)
    if tag is not None:
        query = query.where(item.c.feed_id.in_(select_feeds_with_tag(tag)))
    if since is not None:
        query = query.where(item.c.published >= since)
    if before is not None:
        query = query.where(item.c.published < before)
    if after is not None:
        query = query.where(tuple_(item.c.published, item.c.id) < after)
    return [read_item(row) for row in connection.execute(query)]


def list_items_by_arrival(
    connection: Connection, *, tag: str | None = None, skip: int = 0, limit: int = 100
) -> list[Item]:
    """List items in the order of arrival, the first of all first, after skipping `skip` of them."""
    query = select(item).where(_NOT_TRASHED).order_by(item.c.id).offset(skip).limit(limit)
    if tag is not None:
        query = query.where(item.c.feed_id.in_(select_feeds_with_tag(tag)))
    return [read_item(row) for row in connection.execute(query)]


def select_feeds_with_tag(tag: str) -> Select[Any]:
    """Build the query for the feeds that have a tag."""
    return select(feed_tag.c.feed_id).where(feed_tag.c.tag == tag)


def count_items(connection: Connection, feed_id: int | None = None, *, tag: str | None = None) -> int:
    """Count the items of all feeds, of one, or of the feeds with a tag."""
    query = select(func.count()).select_from(item)
    if tag is not None:
        query = query.where(item.c.feed_id.in_(select_feeds_with_tag(tag)))
    if feed_id is not None:
        query = query.where(item.c.feed_id == feed_id)
    # SQLite counts a whole table a hundred times faster than the rows that meet a condition.
    trashed = query.where(item.c.feed_id.in_(TRASHED_FEEDS))
    return connection.execute(query).scalar_one() - connection.execute(trashed).scalar_one()


@dataclass(frozen=True, slots=True)
class DataSlice:
    """Selects rows for an export: since ≤ time < until, of one feed or of all; feeds in the trash are left out."""

    since: float | None = None
    until: float | None = None
    feed_id: int | None = None

    def conditions(self, time: Column[float], feed_id: Column[int]) -> list[ColumnElement[bool]]:
        """Build the conditions on a table's columns of time and feed."""
        wanted: list[ColumnElement[bool]] = [feed_id.not_in(TRASHED_FEEDS)]
        if self.since is not None:
            wanted.append(time >= self.since)
        if self.until is not None:
            wanted.append(time < self.until)
        if self.feed_id is not None:
            wanted.append(feed_id == self.feed_id)
        return wanted


def list_item_slice(connection: Connection, after: int, part: DataSlice, limit: int) -> list[Item]:
    """List the items of a slice by id, beyond `after`."""
    rows = connection.execute(_slice_items(select(item), after, part).order_by(item.c.id).limit(limit))
    return [read_item(row) for row in rows]


def count_item_slice(connection: Connection, after: int, part: DataSlice) -> int:
    """Count the items of a slice beyond the id `after`."""
    return int(connection.execute(_slice_items(select(func.count()), after, part)).scalar_one())


def _slice_items(query: Select[Any], after: int, part: DataSlice) -> Select[Any]:
    return query.where(*part.conditions(item.c.published, item.c.feed_id), item.c.id > after)


def pack_item(value: Item) -> bytes:
    """Return an item as compressed JSON, for versions that must stay as they were."""
    return zlib.compress(msgspec.json.encode(value), 1)


def unpack_item(blob: bytes) -> Item:
    """Return an item packed by `pack_item`."""
    return _decode_item(zlib.decompress(blob))


MAX_VERSIONS = 10  # earlier ones of an item


@dataclass(frozen=True, slots=True)
class EarlierVersion:
    """A version of an item, and the time at which the next one replaced it."""

    item: Item
    until: float


_DELETE_OLDEST = delete(earlier_version).where(
    earlier_version.c.item_id == bindparam("of_item"), earlier_version.c.version <= bindparam("oldest")
)


def save_earlier_versions(connection: Connection, replaced: Mapping[int, float]) -> None:
    """Save the stored items as earlier versions, before they change. `replaced` has the time of each change."""
    for chunk in chunks(sorted(replaced), CHUNK):
        items = [read_item(row) for row in connection.execute(select(item).where(item.c.id.in_(chunk)))]
        rows = [
            {"item_id": one.id, "version": one.version, "until": replaced[one.id or 0], "blob": pack_item(one)}
            for one in items
        ]
        if rows:
            connection.execute(insert_or_ignore(connection, earlier_version), rows)
        many = [one for one in items if one.version > MAX_VERSIONS]
        if many:
            oldest = [{"of_item": one.id, "oldest": one.version - MAX_VERSIONS} for one in many]
            connection.execute(_DELETE_OLDEST, oldest)


def find_earlier_versions(connection: Connection, item_ids: Collection[int]) -> dict[int, list[EarlierVersion]]:
    """Find the earlier versions of items by their id, the oldest first."""
    found: dict[int, list[EarlierVersion]] = {}
    for chunk in chunks(sorted(item_ids), CHUNK):
        query = select(earlier_version).where(earlier_version.c.item_id.in_(chunk))
        for row in connection.execute(query.order_by(earlier_version.c.item_id, earlier_version.c.version)):
            version = EarlierVersion(unpack_item(bytes(row.blob)), row.until)
            found.setdefault(row.item_id, []).append(version)
    return found


def delete_earlier_versions(connection: Connection, item_ids: Sequence[int]) -> None:
    """Delete the earlier versions of items that are deleted."""
    connection.execute(delete(earlier_version).where(earlier_version.c.item_id.in_(item_ids)))
