"""Queues requests that other processes want to send within the budget; the leader grants them.

    asked ─► granted by the leader ─► ended by the asker ─► removed by the leader

A request that was granted and never ended, because its process died, is removed after GRANT_SECONDS. PostgreSQL only.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import Connection, delete, insert, select, update

from headwater.store.cluster_leases import NOW
from headwater.store.schema.cluster_tables import request_grant

ASK_SECONDS = 60.0  # after which nobody waits for a grant any more
GRANT_SECONDS = 180.0  # longer than any granted request takes


class GrantRow(NamedTuple):
    """A wish for one request; `is_over` if it has ended, or will never."""

    id: int
    is_granted: bool
    is_over: bool


def ask_for_grant(connection: Connection) -> int:
    """Ask for one request and return the number of the wish."""
    made = connection.execute(insert(request_grant).values(asked=NOW).returning(request_grant.c.id))
    return int(made.scalar_one())


def find_grant_age(connection: Connection, id: int) -> float | None:
    """Return how many seconds ago the request was granted; None if it was not."""
    return connection.execute(
        select(NOW - request_grant.c.granted).where(request_grant.c.id == id)
    ).scalar_one_or_none()


def end_grant(connection: Connection, id: int) -> None:
    """Note that a granted request has ended, or that nobody waits for it any more."""
    connection.execute(update(request_grant).where(request_grant.c.id == id).values(ended=NOW))


def list_grants(connection: Connection) -> list[GrantRow]:
    """List all wishes, oldest first."""
    one = request_grant.c
    late = (one.granted.is_(None) & (one.asked < NOW - ASK_SECONDS)) | (one.granted < NOW - GRANT_SECONDS)
    query = select(one.id, one.granted.is_not(None), one.ended.is_not(None) | late.is_(True)).order_by(one.id)
    return [GrantRow(*row) for row in connection.execute(query)]


def give_grants(connection: Connection, ids: Collection[int]) -> None:
    """Grant these wishes."""
    connection.execute(update(request_grant).where(request_grant.c.id.in_(ids)).values(granted=NOW))


def remove_grants(connection: Connection, ids: Collection[int]) -> None:
    connection.execute(delete(request_grant).where(request_grant.c.id.in_(ids)))
