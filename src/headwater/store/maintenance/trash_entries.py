"""Writes trash entries, and moves small rows between their tables and an entry.

An entry holds the ids of the objects that wait in their own tables with `deleted_at`, and as JSON the few small rows
(subscriptions, tags, tokens) that were taken out of theirs: so lists, streams and counts need not know of the trash.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, LargeBinary, Table, delete, insert, select

from headwater.store.database.dialect import chunks, insert_or_ignore
from headwater.store.schema.all_tables import metadata
from headwater.store.schema.feed_tables import feed
from headwater.store.schema.item_tables import item
from headwater.store.schema.metadata import replace_unstorable
from headwater.store.schema.query_tables import query_feed
from headwater.store.schema.reader_tables import trash, user

TRASHED_FEED, TRASHED_QUERY_FEED, TRASHED_USER = "feed", "query feed", "account"
TRASHED_FEED_TOKENS = "tokens of a private feed"
TRASHED_SUBSCRIPTION, TRASHED_API_TOKEN, TRASHED_TAG = "subscription", "token", "tag"
# Removed for everybody: any owner restores them.
SERVER_KINDS = (TRASHED_FEED, TRASHED_QUERY_FEED, TRASHED_USER, TRASHED_FEED_TOKENS)
MAX_LABEL_LENGTH = 500
CHUNK = 500
TrashRow = dict[str, Any]
TrashRows = Mapping[str, Sequence[TrashRow]]  # by table, or by a note that only the restoring function reads
_PARENTS = {"feed_id": feed.c.id, "query_id": query_feed.c.id, "user_id": user.c.id, "item_id": item.c.id}


@dataclass(frozen=True, slots=True)
class Remover:
    """The user who removes something, and the time."""

    user_id: int | None  # None: the command line
    at: float


@dataclass(frozen=True, slots=True)
class TrashEntry:
    """Something that was removed and can be restored until `until`, by its number."""

    id: int
    kind: str  # one of the TRASHED_… above
    label: str
    at: float
    until: float
    user_id: int | None = None


@dataclass(frozen=True, slots=True)
class RestoredObject:
    """An object that was restored; `ref` is the id of the feed, or the name of the query feed."""

    kind: str
    label: str
    ref: int | str | None = None


def add_trash_entry(
    connection: Connection, by: Remover, kind: str, label: str, rows: TrashRows, objects: Iterable[int] = ()
) -> int:
    """Write an entry and return its number."""
    values = {
        "user_id": by.user_id,
        "at": by.at,
        "kind": kind,
        "label": replace_unstorable(label)[:MAX_LABEL_LENGTH],
        "objects": encode_objects(objects),
        "rows": json.dumps(rows, default=_encode_bytes),  # unlike faster encoders, it keeps infinity
    }
    number: int = connection.execute(insert(trash).returning(trash.c.id), values).scalar_one()
    return number


def encode_objects(ids: Iterable[int]) -> str:
    return json.dumps(sorted(ids))


def _encode_bytes(value: bytes) -> str:
    return b64encode(value).decode()


def take_rows(connection: Connection, table: Table, *which: ColumnElement[bool]) -> list[TrashRow]:
    """Delete the matching rows and return them."""
    return [dict(row._mapping) for row in connection.execute(delete(table).where(*which).returning(*table.c))]


def insert_rows(connection: Connection, table: Table, rows: Sequence[TrashRow]) -> None:
    """Insert rows of a trash entry again, except those whose feed, item, query feed or user no longer exists."""
    for column, parent in _PARENTS.items():
        if column in table.c and rows:
            there: set[int] = set()
            for ids in chunks({row[column] for row in rows}, CHUNK):
                there.update(connection.execute(select(parent).where(parent.in_(ids))).scalars())
            rows = [row for row in rows if row[column] in there]
    if rows:
        connection.execute(insert_or_ignore(connection, table), [_to_values(table, row) for row in rows])


def insert_table_rows(connection: Connection, rows: TrashRows) -> None:
    """Insert all rows of an entry again; notes are left out."""
    for name, some in rows.items():
        if name in metadata.tables:
            insert_rows(connection, metadata.tables[name], some)


def _to_values(table: Table, row: TrashRow) -> TrashRow:
    """JSON keeps bytes as base64."""
    return {
        name: b64decode(value) if isinstance(table.c[name].type, LargeBinary) and value is not None else value
        for name, value in row.items()
    }
