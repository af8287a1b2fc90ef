"""Keeps our leases at hubs that push feeds to us, and cancels them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, and_, delete, func, insert, or_, select, update

from headwater.store.database.dialect import build_from_row, chunks, claim_due, upsert
from headwater.store.schema.feed_tables import feed, feed_state
from headwater.store.schema.publication_tables import websub_cancellation, websub_lease


@dataclass(frozen=True, slots=True)
class WebSubLease:
    """Our subscription of a feed at its hub. `state` is asked, active, silent (it does not push) or refused.

    `key` is the end of the callback's address. A verification is awaited until `pending`; the lease runs until `until`
    and is asked for again at `due`.
    """

    feed_id: int
    key: str
    hub: str
    topic: str
    secret: str
    due: float
    state: str = "asked"
    pending: float | None = None
    since: float | None = None
    until: float | None = None
    attempts: int = 0
    pushes: int = 0
    pushed: float | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class WebSubCancellation:
    """A lease that a hub is told to end; `attempts` counts how often it was told, this time included."""

    key: str
    hub: str
    topic: str
    attempts: int


CHUNK = 500
MAX_UNCONFIRMED = 3  # cancellations sent to a hub that never confirmed the lease
_COLUMNS = tuple(websub_lease.columns.keys())
_OFFERS_HUB = and_(
    feed_state.c.hub.is_not(None), feed_state.c.topic.is_not(None), ~feed.c.paused, feed.c.gone_since.is_(None)
)


def list_offered_hubs(connection: Connection, limit: int = 500) -> list[tuple[int, str, str]]:
    """List (feed, hub, topic) of feeds that offer a hub from which we have not asked for a lease yet."""
    query = select(feed_state.c.feed_id, feed_state.c.hub, feed_state.c.topic).join(
        feed, feed.c.id == feed_state.c.feed_id
    )
    query = query.outerjoin(websub_lease, websub_lease.c.feed_id == feed_state.c.feed_id).where(_OFFERS_HUB)
    other = or_(websub_lease.c.hub != feed_state.c.hub, websub_lease.c.topic != feed_state.c.topic)
    query = query.where(or_(websub_lease.c.feed_id.is_(None), other)).limit(limit)
    return [(row.feed_id, row.hub, row.topic) for row in connection.execute(query)]


def add_leases(connection: Connection, new: Sequence[WebSubLease]) -> None:
    """Add leases to ask for; older ones of the same feeds are cancelled, because their hub or topic has changed."""
    cancel_leases(connection, [one.feed_id for one in new])
    statement = upsert(connection, websub_lease)
    columns = [name for name in _COLUMNS if name != "feed_id"]
    statement = statement.on_conflict_do_update(
        index_elements=["feed_id"], set_={name: statement.excluded[name] for name in columns}
    )
    rows = [{name: getattr(one, name) for name in _COLUMNS} for one in new]
    if rows:
        connection.execute(statement, rows)


def claim_due_leases(
    connection: Connection, now: float, pending: float, again: float, limit: int = 20
) -> list[WebSubLease]:
    """Claim the leases to ask for now. Their verification is awaited until `pending`; without it they are asked for
    again at `again`.

    Leases of feeds that no longer offer a hub, or that are paused or gone, are cancelled.
    """
    offered = select(feed_state.c.feed_id).join(feed, feed.c.id == feed_state.c.feed_id).where(_OFFERS_HUB)
    unwanted = (websub_lease.c.due <= now, websub_lease.c.feed_id.not_in(offered))
    cancel_leases(connection, connection.execute(select(websub_lease.c.feed_id).where(*unwanted)).scalars().all())
    changes = {"pending": pending, "due": again, "attempts": websub_lease.c.attempts + 1}
    return [build_from_row(WebSubLease, row) for row in claim_due(connection, websub_lease, now, limit, changes)]


def confirm_lease(connection: Connection, key: str, topic: str, now: float, until: float, due: float) -> int | None:
    """Record that a hub has verified our request; returns the feed, or None if we have not asked."""
    query = select(websub_lease.c.feed_id, websub_lease.c.since, websub_lease.c.state)
    asked = query.where(websub_lease.c.key == key, websub_lease.c.topic == topic, websub_lease.c.pending > now)
    row = connection.execute(asked.with_for_update()).first()
    if row is None:
        return None
    since = row.since if row.state == "active" else now
    values = {"state": "active", "pending": None, "since": since, "until": until, "due": due, "attempts": 0}
    values |= {"message": None}
    connection.execute(update(websub_lease).where(websub_lease.c.feed_id == row.feed_id).values(values))
    return int(row.feed_id)


def refuse_lease(connection: Connection, feed_id: int, message: str, due: float, now: float) -> None:
    """Record that a hub has refused our request; a lease that still runs remains."""
    row = connection.execute(select(websub_lease.c.until).where(websub_lease.c.feed_id == feed_id)).first()
    if row is not None:
        values = {"pending": None, "message": message, "due": due}
        if row.until is None or row.until <= now:
            values |= {"state": "refused"}
        connection.execute(update(websub_lease).where(websub_lease.c.feed_id == feed_id).values(values))


def end_lease(connection: Connection, feed_id: int, state: str, message: str, due: float) -> None:
    """End a lease, because the hub has denied it or does not push."""
    values = {"state": state, "message": message, "due": due, "until": None, "pending": None}
    if state == "silent":
        values.pop("until")  # so that a later push is still accepted
    connection.execute(update(websub_lease).where(websub_lease.c.feed_id == feed_id).values(values))


def expire_leases(connection: Connection, now: float) -> list[int]:
    """Mark leases that have expired; returns their feeds."""
    over = and_(websub_lease.c.state == "active", websub_lease.c.until <= now)
    ids = list(connection.execute(select(websub_lease.c.feed_id).where(over)).scalars())
    for chunk in chunks(ids, CHUNK):
        values = {"state": "refused", "message": "The lease has ended without being renewed."}
        connection.execute(update(websub_lease).where(websub_lease.c.feed_id.in_(chunk)).values(values))
    return ids


def record_received_push(connection: Connection, feed_id: int, now: float) -> None:
    """Record that a hub has pushed a feed."""
    values: dict[str, Any] = {"pushes": websub_lease.c.pushes + 1, "pushed": now, "state": "active", "message": None}
    connection.execute(update(websub_lease).where(websub_lease.c.feed_id == feed_id).values(values))


def set_lease_message(connection: Connection, feed_id: int, message: str) -> None:
    """Set the message that describes the state of a lease."""
    connection.execute(update(websub_lease).where(websub_lease.c.feed_id == feed_id).values(message=message))


def find_lease_by_key(connection: Connection, key: str) -> WebSubLease | None:
    """Find a lease by the key in its callback; None if there is none."""
    row = connection.execute(select(websub_lease).where(websub_lease.c.key == key)).first()
    return None if row is None else build_from_row(WebSubLease, row)


def find_leases_of_feeds(connection: Connection, feed_ids: Collection[int]) -> dict[int, WebSubLease]:
    """Find the leases of these feeds, by feed."""
    found: dict[int, WebSubLease] = {}
    for chunk in chunks(sorted(feed_ids), CHUNK):
        for row in connection.execute(select(websub_lease).where(websub_lease.c.feed_id.in_(chunk))):
            found[row.feed_id] = build_from_row(WebSubLease, row)
    return found


def list_pushed_feeds(connection: Connection, now: float) -> dict[int, float]:
    """Return the feeds that hubs push, with the time since when."""
    query = select(websub_lease.c.feed_id, websub_lease.c.since)
    rows = connection.execute(query.where(websub_lease.c.state == "active", websub_lease.c.until > now))
    return {row.feed_id: row.since for row in rows}


def cancel_leases(connection: Connection, feed_ids: Collection[int]) -> None:
    """Delete the leases of these feeds, and queue cancellations for the hubs that know of them."""
    for chunk in chunks(feed_ids, CHUNK):
        gone = connection.execute(
            delete(websub_lease).where(websub_lease.c.feed_id.in_(chunk)).returning(*_CANCELLED_COLUMNS)
        )
        rows = [
            {"key": row.key, "hub": row.hub, "topic": row.topic, "until": row.until, "due": 0.0, "attempts": 0}
            for row in gone
            if row.until is not None or row.pending is not None
        ]
        if rows:
            connection.execute(insert(websub_cancellation), rows)


_CANCELLED_COLUMNS = (
    websub_lease.c.key,
    websub_lease.c.hub,
    websub_lease.c.topic,
    websub_lease.c.until,
    websub_lease.c.pending,
)


def claim_due_cancellations(
    connection: Connection, now: float, first: float, slowest: float, limit: int = 20
) -> list[WebSubCancellation]:
    """Claim cancellations to send now; they are repeated with growing pauses until the lease would have ended."""
    connection.execute(delete(websub_cancellation).where(websub_cancellation.c.until <= now))
    connection.execute(
        delete(websub_cancellation).where(
            websub_cancellation.c.until.is_(None), websub_cancellation.c.attempts >= MAX_UNCONFIRMED
        )
    )
    query = (
        select(websub_cancellation)
        .where(websub_cancellation.c.due <= now)
        .order_by(websub_cancellation.c.due)
        .limit(limit)
    )
    found = []
    for row in connection.execute(query.with_for_update(skip_locked=True)).all():
        due = now + min(first * 2**row.attempts, slowest)
        values = {"due": due, "attempts": row.attempts + 1}
        connection.execute(update(websub_cancellation).where(websub_cancellation.c.key == row.key).values(values))
        found.append(WebSubCancellation(row.key, row.hub, row.topic, row.attempts + 1))
    return found


def find_next_lease_due(connection: Connection) -> float | None:
    """Return when a hub must be asked next or a lease ends; None if nothing waits."""
    lease, active = websub_lease.c, websub_lease.c.state == "active"
    moments = select(
        select(func.min(lease.due)).scalar_subquery(),
        select(func.min(lease.until)).where(active).scalar_subquery(),
        select(func.min(websub_cancellation.c.due)).scalar_subquery(),
    )
    return min((due for due in connection.execute(moments).one() if due is not None), default=None)


def delete_cancellation(connection: Connection, key: str, topic: str) -> bool:
    """Delete a cancellation that the hub has confirmed; False if it was never sent."""
    asked = (websub_cancellation.c.key == key, websub_cancellation.c.topic == topic, websub_cancellation.c.attempts > 0)
    return connection.execute(delete(websub_cancellation).where(*asked)).rowcount > 0
