"""Keeps requests to our WebSub hub, and its subscribers."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, func, select, update

from headwater.store.database.dialect import build_from_row, chunks, claim_due, upsert
from headwater.store.schema.publication_tables import hub_request, hub_subscriber


@dataclass(frozen=True, slots=True)
class HubRequest:
    """A request to our hub that the callback must confirm. `mode` is subscribe, unsubscribe or denied."""

    mode: str
    topic: str
    callback: str
    secret: str | None = None
    lease: float | None = None
    reason: str | None = None
    attempts: int = 0
    id: int = 0
    sender: str | None = None


@dataclass(frozen=True, slots=True)
class HubSubscriber:
    """A subscriber of our hub: its callback is sent the topic whenever it changes, until the lease ends."""

    topic: str
    callback: str
    secret: str | None
    since: float
    until: float
    sent: str | None = None
    due: float | None = None
    attempts: int = 0
    message: str | None = None
    id: int = 0


CHUNK = 500
_REQUEST_FIELDS = ("mode", "topic", "callback", "secret", "lease", "reason", "sender")


def subscriber_key(topic: str, callback: str) -> bytes:
    """Return the key of a subscription: a hash, because addresses may be long."""
    return hashlib.sha256(f"{topic}\0{callback}".encode("utf-8", "replace")).digest()


def add_hub_request(connection: Connection, request: HubRequest, now: float) -> None:
    """Add a request; it replaces an unconfirmed one for the same topic and callback."""
    values = {name: getattr(request, name) for name in _REQUEST_FIELDS} | {"due": now, "attempts": 0}
    statement = upsert(connection, hub_request)
    statement = statement.on_conflict_do_update(index_elements=["key"], set_=values)
    connection.execute(statement, values | {"key": subscriber_key(request.topic, request.callback)})


def count_hub_rows(connection: Connection) -> tuple[int, int]:
    """Count the waiting requests and the subscribers."""
    number = [
        connection.execute(select(func.count()).select_from(one)).scalar_one() for one in (hub_request, hub_subscriber)
    ]
    return number[0], number[1]


def count_waiting_requests(connection: Connection, sender: str) -> int:
    """Count the unconfirmed requests that an address has sent."""
    query = select(func.count()).select_from(hub_request).where(hub_request.c.sender == sender)
    return connection.execute(query).scalar_one()


def has_hub_subscriber(connection: Connection, topic: str, callback: str) -> bool:
    """Return whether this callback has confirmed a subscription to the topic."""
    query = select(hub_subscriber.c.id).where(hub_subscriber.c.key == subscriber_key(topic, callback))
    return connection.execute(query).first() is not None


@dataclass(frozen=True, slots=True)
class DueCallback:
    """A request or a subscriber that waits for its turn. `is_known`: the callback has confirmed this subscription.

    `sender` is the address from which a request came.
    """

    id: int
    callback: str
    is_known: bool
    attempts: int
    sender: str | None = None


def list_due_hub_requests(connection: Connection, now: float, limit: int) -> list[DueCallback]:
    """List the requests whose callbacks are to be asked, the longest due first; denials go to known subscribers."""
    known = hub_request.c.key.in_(select(hub_subscriber.c.key)) | (hub_request.c.mode == "denied")
    columns = (hub_request.c.id, hub_request.c.callback, hub_request.c.attempts, hub_request.c.sender)
    query = select(*columns, known.label("known"))
    query = query.where(hub_request.c.due <= now).order_by(hub_request.c.due, hub_request.c.id).limit(limit)
    rows = connection.execute(query)
    return [DueCallback(row.id, row.callback, bool(row.known), row.attempts, row.sender) for row in rows]


def list_due_subscribers(connection: Connection, now: float, limit: int) -> list[DueCallback]:
    """List the subscribers that are to be sent their topic, the longest due first."""
    columns = (hub_subscriber.c.id, hub_subscriber.c.callback, hub_subscriber.c.attempts)
    query = select(*columns).where(hub_subscriber.c.due <= now, hub_subscriber.c.until > now)
    rows = connection.execute(query.order_by(hub_subscriber.c.due, hub_subscriber.c.id).limit(limit))
    return [DueCallback(row.id, row.callback, True, row.attempts) for row in rows]


def claim_due_hub_requests(
    connection: Connection, now: float, lease: float, limit: int = 50, *, ids: Collection[int] | None = None
) -> list[HubRequest]:
    """Claim requests whose callbacks are to be asked now, or those with these ids; nobody else claims them before the
    lease has passed."""
    chosen = () if ids is None else (hub_request.c.id.in_(sorted(ids)),)
    changes = {"due": now + lease, "attempts": hub_request.c.attempts + 1}
    return [
        HubRequest(**{name: getattr(row, name) for name in _REQUEST_FIELDS}, attempts=row.attempts, id=row.id)
        for row in claim_due(connection, hub_request, now, limit, changes, *chosen)
    ]


def postpone_hub_request(connection: Connection, request: HubRequest, due: float) -> None:
    """Retry a request at `due`."""
    connection.execute(_where_unchanged(update(hub_request), request).values(due=due))


def delete_hub_request(connection: Connection, request: HubRequest) -> None:
    """Delete a request that was answered or has failed for good."""
    connection.execute(_where_unchanged(delete(hub_request), request))


def _where_unchanged(statement: Any, request: HubRequest) -> Any:
    """Restrict a statement to this request, unless a later one has replaced it, which begins with 0 attempts."""
    return statement.where(hub_request.c.id == request.id, hub_request.c.attempts == request.attempts)


def confirm_hub_request(
    connection: Connection, request: HubRequest, etag: str | None, now: float, until: float
) -> None:
    """Carry out a request that its callback has confirmed: add or replace the subscriber, or remove it."""
    if not connection.execute(_where_unchanged(delete(hub_request), request)).rowcount:
        return
    key = subscriber_key(request.topic, request.callback)
    if request.mode == "unsubscribe":
        connection.execute(delete(hub_subscriber).where(hub_subscriber.c.key == key))
        return
    values: dict[str, Any] = {"secret": request.secret, "until": until, "attempts": 0, "message": None}
    statement = upsert(connection, hub_subscriber)
    statement = statement.on_conflict_do_update(index_elements=["key"], set_=values)
    fresh = {"key": key, "topic": request.topic, "callback": request.callback, "since": now, "sent": etag}
    connection.execute(statement, values | fresh)


def list_hub_topics(connection: Connection, now: float) -> list[str]:
    """List the topics that have subscribers; expired subscriptions are deleted."""
    connection.execute(delete(hub_subscriber).where(hub_subscriber.c.until <= now))
    return list(connection.execute(select(hub_subscriber.c.topic).distinct()).scalars())


def mark_outdated(connection: Connection, etags: Mapping[str, str], now: float) -> int:
    """Make subscribers due that have not received the present state of a topic; returns how many."""
    query = select(hub_subscriber.c.id, hub_subscriber.c.topic, hub_subscriber.c.sent).where(
        hub_subscriber.c.due.is_(None)
    )
    late = [row.id for row in connection.execute(query) if etags.get(row.topic, row.sent) != row.sent]
    for chunk in chunks(late, CHUNK):
        connection.execute(update(hub_subscriber).where(hub_subscriber.c.id.in_(chunk)).values(due=now))
    return len(late)


def claim_due_subscribers(
    connection: Connection, now: float, lease: float, limit: int = 100, *, ids: Collection[int] | None = None
) -> list[HubSubscriber]:
    """Claim subscribers that are to be sent their topic now, or those with these ids; nobody else claims them before
    the lease has passed."""
    chosen = () if ids is None else (hub_subscriber.c.id.in_(sorted(ids)),)
    changes = {"due": now + lease, "attempts": hub_subscriber.c.attempts + 1}
    found = claim_due(connection, hub_subscriber, now, limit, changes, hub_subscriber.c.until > now, *chosen)
    return [build_from_row(HubSubscriber, row) for row in found]


def find_next_hub_due(connection: Connection, now: float) -> float | None:
    """Return when the next verification or push is due; None if nothing waits."""
    request = select(func.min(hub_request.c.due)).scalar_subquery()
    push = select(func.min(hub_subscriber.c.due)).where(hub_subscriber.c.until > now).scalar_subquery()
    return min((due for due in connection.execute(select(request, push)).one() if due is not None), default=None)


def settle_subscriber(
    connection: Connection, id: int, etag: str | None, due: float | None, message: str | None
) -> None:
    """Record that a subscriber has received the state `etag`, or (None) that it is to be retried at `due`."""
    values: dict[str, Any] = {"due": due, "message": message}
    if etag is not None:
        values |= {"sent": etag, "attempts": 0}
    connection.execute(update(hub_subscriber).where(hub_subscriber.c.id == id).values(values))


def remove_hub_subscriber(connection: Connection, id: int) -> None:
    """Remove a subscriber."""
    connection.execute(delete(hub_subscriber).where(hub_subscriber.c.id == id))


def deny_topic(connection: Connection, topic: str, reason: str, now: float) -> int:
    """End the subscriptions of a topic that is gone or private, and queue a denial for each callback."""
    rows = connection.execute(select(hub_subscriber).where(hub_subscriber.c.topic == topic)).all()
    for row in rows:
        add_hub_request(connection, HubRequest("denied", topic, row.callback, reason=reason), now)
    connection.execute(delete(hub_subscriber).where(hub_subscriber.c.topic == topic))
    return len(rows)


def list_hub_subscribers(connection: Connection, limit: int = 1000) -> list[HubSubscriber]:
    """List the subscribers of our hub, by topic."""
    query = select(hub_subscriber).order_by(hub_subscriber.c.topic, hub_subscriber.c.id).limit(limit)
    return [build_from_row(HubSubscriber, row) for row in connection.execute(query)]
