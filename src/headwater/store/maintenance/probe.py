"""Tries whether the database still stores: writes a row, reads tables and indexes, and finds work that waits long."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, func, select, text

from headwater.store import saved_state
from headwater.store.content.outbox import read_checkpoint
from headwater.store.schema.all_tables import metadata
from headwater.store.schema.item_tables import outbox
from headwater.store.schema.metadata import postgres_metadata
from headwater.store.schema.publication_tables import delivery
from headwater.store.schema.query_tables import TRASHED_QUERIES

PROBE_NAME = "health probe"


@dataclass(frozen=True, slots=True)
class WaitingWork:
    """Since when the oldest item waits for the queries and the oldest delivery for its turn, and the failed ones."""

    unmatched_since: float | None
    undelivered_since: float | None
    failing_deliveries: int


def probe_writing(connection: Connection, now: float) -> None:
    """Write a row. Raises StoreError, through the store, if the disk is full or the file cannot be changed."""
    saved_state.save_state(connection, PROBE_NAME, 1, b"", now)


def probe_tables(connection: Connection) -> None:
    """Read the first row of every table from the disk, and in SQLite the first entry of every index.

    Raises StoreError, through the store, if a table is missing or a page destroyed.
    """
    names = {*metadata.tables, _VERSION_TABLE}
    if connection.dialect.name == "sqlite":
        connection.execute(text("PRAGMA shrink_memory"))  # pages in memory may be better than those on the disk
        names.update(connection.execute(_SQLITE_TABLES).scalars())
        for index in connection.execute(_SQLITE_INDEXES).all():
            only = "" if index.part is None else f" WHERE {index.part}"
            one = f'SELECT "{index.column}" FROM "{index.table}" INDEXED BY "{index.name}"{only} LIMIT 1'
            connection.execute(text(one)).first()
    else:
        names.update(postgres_metadata.tables)
    for name in sorted(names):
        connection.execute(text(f"SELECT * FROM {_bypass_indexes(connection, name)} LIMIT 1")).first()


_VERSION_TABLE = "alembic_version"  # which `migrate` makes

# Also the tables of the search index, which no schema names.
_SQLITE_TABLES = text("SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0")
# An index with a part of the table is read only by a query of that part.
_SQLITE_INDEXES = text(
    """SELECT i.tbl_name AS "table", i.name, c.name AS "column",
    substr(i.sql, nullif(instr(i.sql, ' WHERE '), 0) + 7) AS part
    FROM sqlite_schema i JOIN pragma_index_info(i.name) c ON c.seqno = 0 WHERE i.type = 'index'"""
)


def _bypass_indexes(connection: Connection, name: str) -> str:
    """Return a table such that SQLite reads it and not an index that has the same columns."""
    table = metadata.tables.get(name)
    if connection.dialect.name != "sqlite":
        return f'"{name}"'
    if table is None or table.dialect_options["sqlite"]["with_rowid"]:
        return f'"{name}" NOT INDEXED'
    return f'"{name}" ORDER BY {", ".join(column.name for column in table.primary_key)}'


def find_waiting_work(connection: Connection, since: float) -> WaitingWork:
    """Find what waits, and count the deliveries that fail now or were given up after `since`."""
    after = outbox.c.position > read_checkpoint(connection, "queries")
    first = connection.execute(select(outbox.c.at).where(after).order_by(outbox.c.position).limit(1)).scalar()
    live = delivery.c.query_id.not_in(TRASHED_QUERIES)
    oldest = connection.execute(select(func.min(delivery.c.due)).where(live, delivery.c.state == "due")).scalar()
    bad = (delivery.c.state == "failed") | ((delivery.c.state == "dead") & (delivery.c.at > since))
    failing = connection.execute(select(func.count()).select_from(delivery).where(live, bad)).scalar_one()
    return WaitingWork(first, oldest, failing)
