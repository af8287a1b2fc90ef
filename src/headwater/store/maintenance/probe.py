"""Tries whether the database still stores: writes a row, reads every table, and finds work that waits too long."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, func, select, text

from headwater.store import saved_state
from headwater.store.content.outbox import read_checkpoint
from headwater.store.schema.all_tables import metadata
from headwater.store.schema.item_tables import outbox
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
    """Read the first row of every table from the disk. Raises StoreError, through the store, if a page is destroyed."""
    if connection.dialect.name == "sqlite":
        connection.execute(text("PRAGMA shrink_memory"))  # pages in memory may be better than those on the disk
        names = connection.execute(_SQLITE_TABLES).scalars().all()
    else:
        names = list(metadata.tables)
    for name in names:
        connection.execute(text(f"SELECT * FROM {_bypass_indexes(connection, name)} LIMIT 1")).first()


# Also the tables of the search index, which no schema names.
_SQLITE_TABLES = text(
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 AND name NOT LIKE 'sqlite_%'"
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
