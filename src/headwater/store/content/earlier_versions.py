"""Keeps the earlier versions of items that have changed: the latest ten of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, delete, select

from headwater.model import Item
from headwater.store.content.items import pack_item, read_item, unpack_item
from headwater.store.database.dialect import chunks, insert_or_ignore
from headwater.store.schema.item_tables import earlier_version, item

MAX_VERSIONS = 10  # earlier ones of an item
CHUNK = 500


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
