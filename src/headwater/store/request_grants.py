"""Queues requests that other processes want to send within the budget; the leader grants them.

    asked ─► granted by the leader ─► ended by the sender ─► removed by the leader

A request that was granted and never ended, because its process died, is removed after GRANT_SECONDS. PostgreSQL only.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import Connection, delete, insert, select, update

from headwater.store.cluster_leases import NOW
from headwater.store.schema.cluster_tables import request_grant

ASK_SECONDS = 60.0  # after which nobody waits for a grant any more
GRANT_SECONDS = 180.0  # longer than any granted request takes to begin and to end


class GrantRow(NamedTuple):
    """A request that waits for the leader or was granted; `is_over` if it has ended or nobody waits for it."""

    id: int
    is_granted: bool
    is_over: bool


def ask_for_grant(connection: Connection) -> int:
    """Ask to send one request and return the id of the row."""
    made = connection.execute(insert(request_grant).values(asked=NOW).returning(request_grant.c.id))
    return int(made.scalar_one())


def find_grant_time(connection: Connection, id: int) -> float | None:
    """Return when the request was granted, by the database's clock; None if it was not."""
    return connection.execute(select(request_grant.c.granted).where(request_grant.c.id == id)).scalar_one_or_none()


def end_grant(connection: Connection, id: int) -> None:
    """Record that a granted request has ended, or that nobody waits for it any more."""
    connection.execute(update(request_grant).where(request_grant.c.id == id).values(ended=NOW))


def list_grants(connection: Connection) -> list[GrantRow]:
    """List all rows, oldest first."""
    one = request_grant.c
    late = (one.granted.is_(None) & (one.asked < NOW - ASK_SECONDS)) | (one.granted < NOW - GRANT_SECONDS)
    query = select(one.id, one.granted.is_not(None), one.ended.is_not(None) | late.is_(True)).order_by(one.id)
    return [GrantRow(*row) for row in connection.execute(query)]


def give_grants(connection: Connection, ids: Collection[int]) -> None:
    """Grant these requests."""
    connection.execute(update(request_grant).where(request_grant.c.id.in_(ids)).values(granted=NOW))


def remove_grants(connection: Connection, ids: Collection[int]) -> None:
    """Delete rows that are over."""
    connection.execute(delete(request_grant).where(request_grant.c.id.in_(ids)))
