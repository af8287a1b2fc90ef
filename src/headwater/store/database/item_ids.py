"""Reserves ids, and tells up to which id every item is visible.

SQLite has one writer, so ids become visible in order. PostgreSQL commits transactions in any order. There a
transaction that reserves ids of items holds an advisory lock whose number contains the last id reserved before; the
locks tell beyond which id items may still be missing.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, Table, func, select, text

from headwater.store.schema.item_tables import item

# The first 16 bits of an advisory lock's number say that it is one of ours, the others are an id.
_LOCK_SPACE = 0x4857
_SQLITE_LAST_ID = text("SELECT seq FROM sqlite_sequence WHERE name = :table")
_NEXT_IDS = text("SELECT nextval(pg_get_serial_sequence(:table, :column)) FROM generate_series(1, :count) ORDER BY 1")
_LOCK_AND_NEXT_IDS = text(
    f"WITH held AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared({_LOCK_SPACE << 48} | "
    "COALESCE(pg_sequence_last_value(CAST(pg_get_serial_sequence(:table, :column) AS regclass)), 0)) AS it) "
    "SELECT nextval(pg_get_serial_sequence(:table, :column)) FROM held CROSS JOIN generate_series(1, :count) ORDER BY 1"
)
_NEWEST_AND_LOWEST_LOCK = text(
    "SELECT (SELECT COALESCE(MAX(id), 0) FROM item), (SELECT MIN((CAST(classid AS bigint) & 65535) << 32 | "
    "CAST(objid AS bigint)) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 "
    f"AND CAST(classid AS bigint) >> 16 = {_LOCK_SPACE} AND pid <> pg_backend_pid() "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))"
)


def reserve_ids(connection: Connection, table: Table, count: int) -> Sequence[int]:
    """Reserve `count` ascending ids for new rows of a table, in the caller's writing transaction."""
    if connection.dialect.name == "sqlite":
        # We hold the only write lock, and AUTOINCREMENT moves the sequence to the highest id used.
        last = connection.execute(_SQLITE_LAST_ID, {"table": table.name}).scalar() or 0
        return range(last + 1, last + 1 + count)
    statement = _LOCK_AND_NEXT_IDS if table is item else _NEXT_IDS
    values = {"table": table.name, "column": next(iter(table.primary_key)).name, "count": count}
    return connection.execute(statement, values).scalars().all()


def find_last_settled_item(connection: Connection) -> int:
    """Return an id up to which every item is visible: items that are stored later get higher ids."""
    return find_last_item_ids(connection)[1]


def find_last_item_ids(connection: Connection) -> tuple[int, int]:
    """Return the newest item's id, and an id up to which every item is visible.

    PostgreSQL reads the locks after the items: a transaction with lower ids that holds no lock by then has ended.
    """
    if connection.dialect.name == "sqlite":
        newest = connection.execute(select(func.coalesce(func.max(item.c.id), 0))).scalar_one()
        return newest, newest
    newest, below = connection.execute(_NEWEST_AND_LOWEST_LOCK).one()
    return newest, newest if below is None else min(newest, below)
