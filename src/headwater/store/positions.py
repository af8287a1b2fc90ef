"""How near a person's positions are to the newest item, so that what is unread is looked for where it can be.

Behind a position there is nothing but what arrived since. Positions far back are followed feed by feed; where many are
near the newest item, one look at the items since the first of those does for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection

from headwater.store.sql import rows

NEAR = 1000  # items from the newest one
EACH = 2  # so many items are looked at in the time in which one feed is


class Line(NamedTuple):
    """Positions before `at` are followed feed by feed, those from there on together, by the items beyond it."""

    at: int
    far: int  # subscriptions with a position before it
    beyond: int  # ids there are beyond it


BY_FEED = Line(1 << 62, 1, 0)  # everything feed by feed

_START = "(SELECT COALESCE(MAX(id), 0) FROM item) - CAST(:reach AS bigint)"
# Whether any position is far back: if none is, all that is unread is marked so, or among the newest items.
A_FAR_ONE = f"EXISTS (SELECT 1 FROM subscribed WHERE user_id = :user AND read_up_to < {_START})"
_COUNTED = (
    f"{_START}, COUNT(*) FILTER (WHERE read_up_to < {_START}), COUNT(*) FILTER (WHERE read_up_to >= {_START}), "
    f"MIN(read_up_to) FILTER (WHERE read_up_to >= {_START}) FROM subscribed WHERE user_id = :user"
)


def line_of(connection: Connection, user_id: int) -> Line:
    """Where following the feeds one by one is to end."""
    return line_and(connection, user_id, "NULL", {})[2]


def line_and(connection: Connection, user_id: int, other: str, values: Mapping[str, Any]) -> tuple[Any, bool, Line]:
    """The answer to another question of one value, since each costs more than its answer; whether any position is far
    back; and the line."""
    given = {"user": user_id, "reach": NEAR, **values}
    answer, *counted = rows(connection, f"SELECT {other}, {_COUNTED}", given)[0]
    return answer, counted[1] > 0, _line(*counted)


def _line(start: int, far: int, near: int, least: int | None) -> Line:
    last = start + NEAR
    if least is None or last - least > EACH * near:
        return BY_FEED
    return Line(least, far, max(0, last - least))
