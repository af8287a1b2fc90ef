"""Writes the rows of removed objects into the trash, piece by piece, and reads them again."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Column, ColumnElement, Connection, Table, insert, select, tuple_

from headwater.store.database.dialect import chunks
from headwater.store.schema.reader_tables import trash_entry, trash_row
from headwater.store.schema.storable_text import replace_unstorable

TRASHED_FEED, TRASHED_MERGE, TRASHED_QUERY_FEED, TRASHED_USER = "feed", "merged feed", "query feed", "account"


TRASHED_FEED_TOKENS = "tokens of a private feed"


TRASHED_SUBSCRIPTION, TRASHED_API_TOKEN, TRASHED_TAG = "subscription", "token", "tag"


SERVER_KINDS = (
    TRASHED_FEED,
    TRASHED_MERGE,
    TRASHED_QUERY_FEED,
    TRASHED_USER,
    TRASHED_FEED_TOKENS,
)  # what is removed for everybody: any owner takes it back


TRASH_KINDS = (*SERVER_KINDS, TRASHED_SUBSCRIPTION, TRASHED_API_TOKEN, TRASHED_TAG)


@dataclass(frozen=True, slots=True)
class Remover:
    """The user who removes something (None: the command line), and the time. Removed objects stay in the trash for a
    day."""

    user_id: int | None  # None: the command line
    at: float


@dataclass(frozen=True, slots=True)
class TrashEntry:
    """Something that was removed and can be taken back until `until`, by its number."""

    id: int
    kind: str  # one of KINDS
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


PIECE_ROWS = 500
LONGEST_LABEL = 500  # letters of what something is called
Row = dict[str, Any]


class TrashWriter:
    """Keeps what is about to be removed. `id` is the number by which it is taken back."""

    def __init__(self, connection: Connection, by: Remover, kind: str, label: str) -> None:
        self._connection = connection
        self._parts = 0
        values = {"user_id": by.user_id, "at": by.at, "kind": kind, "label": replace_unstorable(label)[:LONGEST_LABEL]}
        self.id: int = connection.execute(insert(trash_entry).returning(trash_entry.c.id), values).scalar_one()

    def add_rows(self, table: Table, *which: ColumnElement[bool]) -> None:
        """Save the matching rows of a table, in the order of its key."""
        keys, last = list(table.primary_key.columns), None
        while True:
            query = select(table).where(*which).order_by(*keys).limit(PIECE_ROWS)
            if last is not None:
                query = query.where(tuple_(*keys) > tuple_(*last) if len(keys) > 1 else keys[0] > last[0])
            found = self._connection.execute(query).all()
            self.add_note(table.name, [dict(row._mapping) for row in found])
            if len(found) < PIECE_ROWS:
                return
            last = [getattr(found[-1], key.name) for key in keys]

    def add_rows_among(self, column: Column[int], ids: Collection[int], *which: ColumnElement[bool]) -> None:
        """The rows of a column's table that have one of these in it."""
        for chunk in chunks(sorted(ids), PIECE_ROWS):
            self.add_rows(column.table, column.in_(chunk), *which)

    def add_note(self, name: str, rows: Sequence[Row]) -> None:
        """Something to be remembered that is not a row of its table; `name` says what."""
        if rows:
            blob = zlib.compress(msgspec.msgpack.encode([_to_plain(row) for row in rows]), 1)
            values = {"entry_id": self.id, "part": self._parts, "table_name": name, "blob": blob}
            self._connection.execute(insert(trash_row), values)
            self._parts += 1


def _to_plain(row: Row) -> Row:
    return {name: bytes(value) if isinstance(value, memoryview) else value for name, value in row.items()}


def read_trash_rows(connection: Connection, entry_id: int, name: str | None = None) -> Iterator[tuple[str, list[Row]]]:
    """The pieces of a trash_entry, of all tables or of one, with the table's name; one in memory at a time."""
    mine = [trash_row.c.entry_id == entry_id] + ([] if name is None else [trash_row.c.table_name == name])
    for part in connection.execute(select(trash_row.c.part).where(*mine).order_by(trash_row.c.part)).scalars().all():
        row = connection.execute(select(trash_row).where(*mine, trash_row.c.part == part)).one()
        yield row.table_name, msgspec.msgpack.decode(zlib.decompress(row.blob))


def list_trash_rows(connection: Connection, entry_id: int, name: str) -> list[Row]:
    """List the rows of one table in a trash entry."""
    return [row for _, rows in read_trash_rows(connection, entry_id, name) for row in rows]
