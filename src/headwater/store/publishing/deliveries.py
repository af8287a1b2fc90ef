"""Queues, claims and settles deliveries, and keeps their templates."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, tuple_, update

from headwater.store.database.dialect import build_from_row, chunks, insert_or_ignore
from headwater.store.schema.publication_tables import delivery, delivery_template
from headwater.store.schema.query_tables import TRASHED_QUERIES, query_feed


@dataclass(frozen=True, slots=True)
class Delivery:
    """An item of a query feed on its way to one sink. `kind` is email, webhook or notify.

    `state` is due, failed (to be tried again at `due`), sent or dead (given up). Deliveries with one `batch` go in one
    message; `slot` is the time of a digest. `message` describes the last attempt. An `alert` is a sentence about the
    query feed itself, without an item; its `item_id` is negative.
    """

    id: int
    query_id: int
    query: str
    hit_id: int
    item_id: int
    kind: str
    address: str
    due: float | None
    slot: float | None = None
    state: str = "due"
    batch: str | None = None
    attempts: int = 0
    at: float = 0.0
    message: str | None = None
    alert: str | None = None


CHUNK = 500


def add_deliveries(connection: Connection, new: Iterable[Delivery]) -> None:
    """Add deliveries; existing ones stay as they are, because an item goes to a sink of a query feed once."""
    rows = [
        {
            "query_id": one.query_id,
            "query": one.query,
            "hit_id": one.hit_id,
            "item_id": one.item_id,
            "kind": one.kind,
            "address": one.address,
            "state": "due",
            "due": one.due,
            "slot": one.slot,
            "attempts": 0,
            "at": one.at,
            "alert": one.alert,
        }
        for one in new
    ]
    if rows:
        connection.execute(insert_or_ignore(connection, delivery), rows)


@dataclass(frozen=True, slots=True)
class DueDelivery:
    """A delivery that waits for its turn."""

    id: int
    kind: str
    address: str


def list_due_deliveries(connection: Connection, now: float, per_receiver: int) -> list[DueDelivery]:
    """List the first due deliveries of each receiver, the longest due first.

    The recursion steps from address to address in an index, so a long backlog of one receiver costs no time.
    """
    waiting = delivery.c.due.is_not(None)
    receiver = select(func.min(delivery.c.address).label("address")).where(waiting).cte("receiver", recursive=True)
    following = select(func.min(delivery.c.address)).where(waiting, delivery.c.address > receiver.c.address)
    step = select(following.scalar_subquery()).where(receiver.c.address.is_not(None))
    receiver = receiver.union_all(step)
    one = delivery.alias()
    first = select(one.c.id).where(one.c.address == receiver.c.address, one.c.due <= now)
    first = first.where(one.c.query_id.not_in(TRASHED_QUERIES)).order_by(one.c.due, one.c.id).limit(per_receiver)
    rows = select(delivery.c.id, delivery.c.kind, delivery.c.address).select_from(
        receiver.join(delivery, delivery.c.id.in_(first.correlate(receiver)))
    )
    found = connection.execute(rows.order_by(delivery.c.due, delivery.c.id))
    return [DueDelivery(row.id, row.kind, row.address) for row in found]


def claim_due_batches(
    connection: Connection,
    now: float,
    lease: float,
    limit: int = 50,
    *,
    ids: Collection[int] | None = None,
    sizes: Mapping[str, int] | None = None,
) -> list[list[Delivery]]:
    """Claim batches that are due, or those with the rows `ids`; nobody else claims them before the lease has passed.

    A message that was tried before keeps its rows; new rows of a digest form a batch of their own. `sizes` are the
    items that an address takes in one message, if it takes more than one.
    """
    first = select(delivery).where(delivery.c.due <= now, delivery.c.query_id.not_in(TRASHED_QUERIES))
    first = first.order_by(delivery.c.due, delivery.c.id)
    first = first.limit(limit) if ids is None else first.where(delivery.c.id.in_(sorted(ids)))
    rows = connection.execute(first.with_for_update(skip_locked=True)).all()
    found: dict[str, list[Row[Any]]] = {}
    taken: set[int] = set()
    for row in rows:
        if row.id in taken:
            continue
        batch = row.batch or _batch_key(row)
        members = _list_batch_members(connection, row, now, (sizes or {}).get(row.address, 1))
        members = [one for one in members if one.id not in taken]
        taken.update(one.id for one in members)
        found.setdefault(batch, []).extend(members)
    for batch, members in found.items():
        for chunk in chunks([one.id for one in members], CHUNK):
            values = {"batch": batch, "due": now + lease, "attempts": delivery.c.attempts + 1, "at": now}
            connection.execute(update(delivery).where(delivery.c.id.in_(chunk)).values(values))
    return [
        [build_from_row(Delivery, row, batch=batch, attempts=row.attempts + 1) for row in members]
        for batch, members in found.items()
    ]


def _list_batch_members(connection: Connection, row: Row[Any], now: float, size: int) -> Sequence[Row[Any]]:
    """List the rows that go in one message: the batch of the row, or for a new digest all rows of its time.

    A new row takes others of its query feed along, up to `size`.
    """
    limit = None
    if row.batch is not None:
        same = delivery.c.batch == row.batch
        query = select(delivery).where(same, delivery.c.due.is_not(None))
    elif row.slot is None:
        if size <= 1:
            return [row]
        of = {name: getattr(row, name) for name in ("query_id", "kind", "address")}
        query = select(delivery).where(
            delivery.c.batch.is_(None), delivery.c.slot.is_(None), delivery.c.due <= now, delivery.c.id >= row.id
        )
        query, limit = query.filter_by(**of), size
    else:
        of = {name: getattr(row, name) for name in ("query_id", "kind", "address", "slot")}
        query = select(delivery).where(delivery.c.batch.is_(None), delivery.c.due <= now).filter_by(**of)
    return connection.execute(query.order_by(delivery.c.id).limit(limit).with_for_update(skip_locked=True)).all()


def _batch_key(row: Row[Any]) -> str:
    """Return the key by which the receiver recognises a repeated message; it depends on the first row only."""
    parts = f"{row.query_id} {row.item_id} {row.kind} {row.address} {row.slot}"
    return hashlib.sha256(parts.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class DeliveryOutcome:
    """The end of an attempt: the new state of some deliveries, and when they are due again."""

    ids: Sequence[int]
    state: str
    due: float | None
    message: str | None


def settle_outcomes(connection: Connection, outcomes: Iterable[DeliveryOutcome], now: float) -> None:
    """Record the outcomes of several messages."""
    same: dict[tuple[str, float | None, str | None], list[int]] = {}
    for one in outcomes:
        same.setdefault((one.state, one.due, one.message), []).extend(one.ids)
    for (state, due, message), ids in same.items():
        settle_deliveries(connection, ids, state, due, message, now)


def settle_deliveries(
    connection: Connection, ids: Sequence[int], state: str, due: float | None, message: str | None, now: float
) -> None:
    """Record the outcome of sending deliveries; failed ones are retried at `due`."""
    for chunk in chunks(ids, CHUNK):
        values = {"state": state, "due": due, "message": message, "at": now}
        connection.execute(update(delivery).where(delivery.c.id.in_(chunk)).values(values))


def list_deliveries(
    connection: Connection,
    states: Collection[str] = (),
    *,
    before: tuple[float, int] | None = None,
    limit: int = 100,
    of_server: bool = False,
) -> list[Delivery]:
    """List deliveries of these states, or all, the latest first; `before` is (at, id) of the previous page's last.

    With `of_server` those of readers, whose addresses are theirs, are left out.
    """
    query = select(delivery).order_by(delivery.c.at.desc(), delivery.c.id.desc()).limit(limit)
    if states:
        query = query.where(delivery.c.state.in_(sorted(states)))
    if of_server:
        query = query.where(
            delivery.c.query_id.not_in(select(query_feed.c.id).where(query_feed.c.reader_id.is_not(None)))
        )
    if before is not None:
        query = query.where(tuple_(delivery.c.at, delivery.c.id) < before)
    return [build_from_row(Delivery, row) for row in connection.execute(query)]


def count_deliveries(connection: Connection) -> dict[str, int]:
    """Count deliveries by state."""
    query = select(delivery.c.state, func.count()).group_by(delivery.c.state)
    return {row[0]: row[1] for row in connection.execute(query)}


def count_failing_deliveries(connection: Connection, reader_id: int | None, since: float) -> int:
    """Count the deliveries that fail or were given up after `since`: of a reader's queries, or of the server's."""
    of_readers = select(query_feed.c.id).where(query_feed.c.reader_id.is_not(None))
    of_reader = delivery.c.query_id.in_(of_readers.where(query_feed.c.reader_id == reader_id))
    own = delivery.c.query_id.not_in(of_readers) if reader_id is None else of_reader
    bad = (delivery.c.state.in_(("failed", "dead")), delivery.c.at > since, delivery.c.query_id.not_in(TRASHED_QUERIES))
    return connection.execute(select(func.count()).select_from(delivery).where(own, *bad)).scalar_one()


def retry_deliveries(connection: Connection, ids: Collection[int], now: float) -> int:
    """Retry the batches of these deliveries, or all dead ones; returns how many deliveries. Batches keep their keys."""
    which = delivery.c.state.in_(("dead", "failed"))
    if ids:
        batches = select(delivery.c.batch).where(delivery.c.id.in_(sorted(ids)))
        statement = update(delivery).where(which, delivery.c.batch.in_(batches))
    else:
        statement = update(delivery).where(delivery.c.state == "dead")
    values = {"state": "failed", "due": now, "attempts": 0, "at": now}
    number: int = connection.execute(statement.values(values)).rowcount
    return number


def find_next_due_delivery(connection: Connection) -> float | None:
    """Return when the next delivery or attempt is due; None if nothing waits."""
    query = select(func.min(delivery.c.due)).where(delivery.c.query_id.not_in(TRASHED_QUERIES))
    return connection.execute(query).scalar()


def set_delivery_template(connection: Connection, query: str | None, subject: str | None, body: str | None) -> None:
    """Set the template of a query feed, or (None) of the server; without subject and body it is deleted."""
    key = (query or "").casefold()
    connection.execute(delete(delivery_template).where(delivery_template.c.query == key))
    if subject is not None or body is not None:
        connection.execute(insert(delivery_template).values(query=key, subject=subject, body=body))


def list_delivery_templates(connection: Connection) -> dict[str, tuple[str | None, str | None]]:
    """Return (subject, body) of all templates by folded query name; "" is the server's."""
    return {row.query: (row.subject, row.body) for row in connection.execute(select(delivery_template))}


def find_delivery_template(connection: Connection, query: str) -> tuple[str | None, str | None]:
    """Return subject and body for a query feed; a missing part comes from the server's template."""
    rows = connection.execute(select(delivery_template).where(delivery_template.c.query.in_((query.casefold(), ""))))
    found = {row.query: row for row in rows}
    own, server = found.get(query.casefold()), found.get("")
    given = [one for one in (own, server) if one is not None]
    return next((one.subject for one in given if one.subject), None), next((o.body for o in given if o.body), None)
