"""The rows of our own subscriptions at hubs, one for each feed. All in the caller's transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, Row, and_, delete, insert, or_, select, update

from headwater.store.publish_tables import farewell, subscription
from headwater.store.sql import chunks, upsert
from headwater.store.tables import feed, known
from headwater.store.values import Farewell, Subscription

CHUNK = 500
UNCONFIRMED = 3  # times a hub is told that perhaps never knew of us
_COLUMNS = tuple(subscription.columns.keys())
_OFFERED = and_(known.c.hub.is_not(None), known.c.topic.is_not(None), ~feed.c.paused, feed.c.gone_since.is_(None))


def wanted(connection: Connection, limit: int) -> list[tuple[int, str, str]]:
    """Feeds that offer a hub at which we have not asked yet: (feed, hub, topic)."""
    query = select(known.c.feed_id, known.c.hub, known.c.topic).join(feed, feed.c.id == known.c.feed_id)
    query = query.outerjoin(subscription, subscription.c.feed_id == known.c.feed_id).where(_OFFERED)
    other = or_(subscription.c.hub != known.c.hub, subscription.c.topic != known.c.topic)
    query = query.where(or_(subscription.c.feed_id.is_(None), other)).limit(limit)
    return [(row.feed_id, row.hub, row.topic) for row in connection.execute(query)]


def add(connection: Connection, new: Sequence[Subscription]) -> None:
    """What stood for the same feeds is ended: their hub or topic has changed."""
    part(connection, [one.feed_id for one in new])
    statement = upsert(connection.dialect.name, subscription)
    columns = [name for name in _COLUMNS if name != "feed_id"]
    statement = statement.on_conflict_do_update(
        index_elements=["feed_id"], set_={name: statement.excluded[name] for name in columns}
    )
    rows = [{name: getattr(one, name) for name in _COLUMNS} for one in new]
    if rows:
        connection.execute(statement, rows)


def claim(connection: Connection, now: float, pending: float, again: float, limit: int) -> list[Subscription]:
    """Those to ask for now, waiting for their verification until `pending` and asked again at `again` without it.

    Those of feeds that no longer offer a hub, or that nobody wants any more, are ended.
    """
    query = select(subscription).where(subscription.c.due <= now).order_by(subscription.c.due).limit(limit)
    rows = connection.execute(query.with_for_update(skip_locked=True)).all()
    ids = [row.feed_id for row in rows]
    offered = select(known.c.feed_id).join(feed, feed.c.id == known.c.feed_id).where(_OFFERED)
    still = set(connection.execute(offered.where(known.c.feed_id.in_(ids))).scalars()) if ids else set()
    part(connection, [row.feed_id for row in rows if row.feed_id not in still])
    if still:
        values = {"pending": pending, "due": again, "attempts": subscription.c.attempts + 1}
        connection.execute(update(subscription).where(subscription.c.feed_id.in_(sorted(still))).values(values))
    return [_read(row, attempts=row.attempts + 1, pending=pending, due=again) for row in rows if row.feed_id in still]


def confirm(connection: Connection, key: str, topic: str, now: float, until: float, due: float) -> int | None:
    """The hub verifies what we have asked for: the feed; None where we have asked for nothing of the kind."""
    query = select(subscription.c.feed_id, subscription.c.since, subscription.c.state)
    asked = query.where(subscription.c.key == key, subscription.c.topic == topic, subscription.c.pending > now)
    row = connection.execute(asked.with_for_update()).first()
    if row is None:
        return None
    since = row.since if row.state == "active" else now
    values = {"state": "active", "pending": None, "since": since, "until": until, "due": due, "attempts": 0}
    values |= {"message": None}
    connection.execute(update(subscription).where(subscription.c.feed_id == row.feed_id).values(values))
    return int(row.feed_id)


def refuse(connection: Connection, feed_id: int, message: str, due: float, now: float) -> None:
    """The hub does not want us; a lease that still runs stands."""
    row = connection.execute(select(subscription.c.until).where(subscription.c.feed_id == feed_id)).first()
    if row is not None:
        values = {"pending": None, "message": message, "due": due}
        if row.until is None or row.until <= now:
            values |= {"state": "refused"}
        connection.execute(update(subscription).where(subscription.c.feed_id == feed_id).values(values))


def end(connection: Connection, feed_id: int, state: str, message: str, due: float) -> None:
    """The hub is no longer believed in: it has denied us, or it does not push."""
    values = {"state": state, "message": message, "due": due, "until": None, "pending": None}
    if state == "silent":
        values.pop("until")  # should it push after all, it is heard
    connection.execute(update(subscription).where(subscription.c.feed_id == feed_id).values(values))


def lapse(connection: Connection, now: float) -> list[int]:
    """Leases that have ended; the feeds."""
    over = and_(subscription.c.state == "active", subscription.c.until <= now)
    ids = list(connection.execute(select(subscription.c.feed_id).where(over)).scalars())
    for chunk in chunks(ids, CHUNK):
        values = {"state": "refused", "message": "The lease has ended without being renewed."}
        connection.execute(update(subscription).where(subscription.c.feed_id.in_(chunk)).values(values))
    return ids


def pushed(connection: Connection, feed_id: int, now: float) -> None:
    values: dict[str, Any] = {"pushes": subscription.c.pushes + 1, "pushed": now, "state": "active", "message": None}
    connection.execute(update(subscription).where(subscription.c.feed_id == feed_id).values(values))


def say(connection: Connection, feed_id: int, message: str) -> None:
    connection.execute(update(subscription).where(subscription.c.feed_id == feed_id).values(message=message))


def by_key(connection: Connection, key: str) -> Subscription | None:
    row = connection.execute(select(subscription).where(subscription.c.key == key)).first()
    return None if row is None else _read(row)


def by_feed(connection: Connection, feed_ids: Collection[int]) -> dict[int, Subscription]:
    found: dict[int, Subscription] = {}
    for chunk in chunks(sorted(feed_ids), CHUNK):
        for row in connection.execute(select(subscription).where(subscription.c.feed_id.in_(chunk))):
            found[row.feed_id] = _read(row)
    return found


def active(connection: Connection, now: float) -> dict[int, float]:
    """The feeds that hubs push, and since when."""
    query = select(subscription.c.feed_id, subscription.c.since)
    rows = connection.execute(query.where(subscription.c.state == "active", subscription.c.until > now))
    return {row.feed_id: row.since for row in rows}


# farewells


def part(connection: Connection, feed_ids: Collection[int]) -> None:
    """End the subscriptions of these feeds: the hubs that know of them are to be told."""
    for chunk in chunks(feed_ids, CHUNK):
        gone = connection.execute(delete(subscription).where(subscription.c.feed_id.in_(chunk)).returning(*_PARTED))
        rows = [
            {"key": row.key, "hub": row.hub, "topic": row.topic, "until": row.until, "due": 0.0, "attempts": 0}
            for row in gone
            if row.until is not None or row.pending is not None
        ]
        if rows:
            connection.execute(insert(farewell), rows)


_PARTED = (subscription.c.key, subscription.c.hub, subscription.c.topic, subscription.c.until, subscription.c.pending)


def claim_farewells(connection: Connection, now: float, first: float, slowest: float, limit: int) -> list[Farewell]:
    """Hubs to tell now, and again later with growing pauses; those whose lease is over know by themselves."""
    connection.execute(delete(farewell).where(farewell.c.until <= now))
    connection.execute(delete(farewell).where(farewell.c.until.is_(None), farewell.c.attempts >= UNCONFIRMED))
    query = select(farewell).where(farewell.c.due <= now).order_by(farewell.c.due).limit(limit)
    found = []
    for row in connection.execute(query.with_for_update(skip_locked=True)).all():
        due = now + min(first * 2**row.attempts, slowest)
        values = {"due": due, "attempts": row.attempts + 1}
        connection.execute(update(farewell).where(farewell.c.key == row.key).values(values))
        found.append(Farewell(row.key, row.hub, row.topic, row.attempts + 1))
    return found


def forget_farewell(connection: Connection, key: str, topic: str) -> bool:
    """The hub has confirmed, or is told no more; False where it was never asked."""
    asked = (farewell.c.key == key, farewell.c.topic == topic, farewell.c.attempts > 0)
    return connection.execute(delete(farewell).where(*asked)).rowcount > 0


def _read(row: Row[Any], **other: Any) -> Subscription:
    return Subscription(**{name: getattr(row, name) for name in _COLUMNS} | other)
