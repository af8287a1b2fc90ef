"""Appends what happened to items in one order, and moves the checkpoint of each consumer.

An entry is written in the transaction of its item. Positions must become visible in order, or a consumer that has read
past a gap never sees the entry that fills it. SQLite has one writer, so they do. PostgreSQL commits transactions in any
order; there a writer takes its positions under a lock that ends with its commit (`lock_outbox`), as its last step, so
the lock is held for one insert and one commit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from headwater.model import Item
from headwater.store.content.items import ITEM_COLUMNS, read_item_values
from headwater.store.database.dialect import InsertMany, PreparedStatement, execute_postgres, fetch_rows, upsert
from headwater.store.schema.item_tables import checkpoint, outbox


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """One thing that happened to an item, in the order every consumer sees. `kind` is "new" or "update".

    `item` is the item as it is now, also where it changed after this entry was written (`at`).
    """

    position: int
    kind: str
    item: Item
    at: float = 0.0


_LOCK = 0x6F757462  # "outb"
_INSERT_ENTRY = InsertMany(outbox, ["kind", "item_id", "at"])
_SELECT_ENTRIES = (
    f"SELECT outbox.position, outbox.kind, outbox.at, {', '.join(f'item.{name}' for name in ITEM_COLUMNS)} FROM outbox "
    "JOIN item ON item.id = outbox.item_id WHERE outbox.position > :after "
    "AND item.feed_id NOT IN (SELECT id FROM feed WHERE deleted_at IS NOT NULL) ORDER BY outbox.position LIMIT :limit"
)
_ADVANCE = PreparedStatement(lambda dialect: _build_advance(dialect), ["consumer", "position"])
_TAKE_LOCK = "SELECT pg_advisory_xact_lock($1)"


def lock_outbox(connection: Connection) -> None:
    """From here to the end of the transaction nobody else appends."""
    if connection.dialect.name == "postgresql":
        execute_postgres(connection, _TAKE_LOCK, (_LOCK,))


def append_entries(connection: Connection, kind: str, entries: Iterable[tuple[int, float]]) -> None:
    """(item id, time) of what happened, in the caller's transaction after `in_turn`."""
    _INSERT_ENTRY.run(connection, [(kind, id, at) for id, at in entries])


def list_outbox_entries(connection: Connection, after: int, limit: int = 500) -> list[OutboxEntry]:
    """List entries beyond a position, in the one order that all consumers see; nothing ever appears behind it."""
    found = fetch_rows(connection, _SELECT_ENTRIES, {"after": after, "limit": limit})
    return [OutboxEntry(row[0], row[1], read_item_values(row[3:]), row[2]) for row in found]


def find_last_position(connection: Connection) -> int:
    ((last,),) = fetch_rows(connection, "SELECT MAX(position) FROM outbox", {})
    return last or 0


def read_checkpoint(connection: Connection, consumer: str) -> int:
    return connection.execute(select(checkpoint.c.position).where(checkpoint.c.consumer == consumer)).scalar() or 0


def lock_checkpoint(connection: Connection, consumer: str) -> int:
    """Return how far a consumer has read, and lock the checkpoint until the end of the transaction."""
    query = select(checkpoint.c.position).where(checkpoint.c.consumer == consumer).with_for_update()
    return connection.execute(query).scalar() or 0


def advance_checkpoint(connection: Connection, consumer: str, position: int) -> None:
    """Move a checkpoint forward, in the transaction of the consumer's output; it never moves back."""
    _ADVANCE.run(connection, [{"consumer": consumer, "position": position}])


def _build_advance(dialect: str) -> Any:
    statement = upsert(dialect, checkpoint)
    new = statement.excluded.position
    return statement.on_conflict_do_update(
        index_elements=["consumer"], set_={"position": new}, where=checkpoint.c.position < new
    )
