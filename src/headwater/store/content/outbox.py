"""Keeps the changes of items in one order, and each consumer's checkpoint in it.

An entry is written in the transaction of its item. Positions must become visible in order, or a consumer that has read
past a gap never sees the entry that fills it. SQLite has one writer, so they do. PostgreSQL commits transactions in any
order; there a writer takes its positions under a lock that ends with its commit (`lock_outbox`), as its last step, so
the lock is held for one insert and one commit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from headwater.model import Item
from headwater.store.content.items import read_item
from headwater.store.content.verdict_statements import InsertMany
from headwater.store.database.dialect import upsert
from headwater.store.schema.feed_tables import TRASHED_FEEDS
from headwater.store.schema.item_tables import checkpoint, item, outbox


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """A change of an item, in the order that every consumer sees. `kind` is "new" or "update".

    `item` is the item as it is now, also where it changed after this entry was written (`at`).
    """

    position: int
    kind: str
    item: Item
    at: float = 0.0


_LOCK = 0x6F757462  # "outb"
_INSERT_ENTRY = InsertMany(outbox, ["kind", "item_id", "at"])
_SELECT_ENTRIES = (
    select(outbox.c.position, outbox.c.kind, outbox.c.at, *item.columns)
    .join_from(outbox, item, item.c.id == outbox.c.item_id)
    .where(item.c.feed_id.not_in(TRASHED_FEEDS))
    .order_by(outbox.c.position)
)


def lock_outbox(connection: Connection) -> None:
    """Keep other transactions from appending until this one ends."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))


def append_entries(connection: Connection, kind: str, entries: Iterable[tuple[int, float]]) -> None:
    """Append an entry for each (item id, time), in the caller's transaction, which has called `lock_outbox`."""
    _INSERT_ENTRY.run(connection, [(kind, id, at) for id, at in entries])


def list_outbox_entries(connection: Connection, after: int, limit: int = 500) -> list[OutboxEntry]:
    """List entries beyond a position, in the one order that all consumers see; nothing ever appears behind it."""
    found = connection.execute(_SELECT_ENTRIES.where(outbox.c.position > after).limit(limit))
    return [OutboxEntry(row[0], row[1], read_item(row[3:]), row[2]) for row in found]


def find_last_position(connection: Connection) -> int:
    """Return the position of the last entry, 0 if there is none."""
    return connection.execute(select(func.max(outbox.c.position))).scalar() or 0


def read_checkpoint(connection: Connection, consumer: str) -> int:
    """Return the position up to which a consumer has read."""
    return connection.execute(select(checkpoint.c.position).where(checkpoint.c.consumer == consumer)).scalar() or 0


def lock_checkpoint(connection: Connection, consumer: str) -> int:
    """Return the position up to which a consumer has read, and lock it until the end of the transaction."""
    query = select(checkpoint.c.position).where(checkpoint.c.consumer == consumer).with_for_update()
    return connection.execute(query).scalar() or 0


def advance_checkpoint(connection: Connection, consumer: str, position: int) -> None:
    """Move a checkpoint forward, in the transaction of the consumer's output; it never moves back."""
    statement = upsert(connection, checkpoint)
    new = statement.excluded.position
    statement = statement.on_conflict_do_update(
        index_elements=["consumer"], set_={"position": new}, where=checkpoint.c.position < new
    )
    connection.execute(statement, {"consumer": consumer, "position": position})
