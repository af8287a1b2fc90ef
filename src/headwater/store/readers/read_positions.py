"""Finds how near a reader's positions are to the newest item, so that unread items are looked for in the right place.

Only items that arrived later lie behind a position. Positions far back are followed feed by feed; where many are near
the newest item, one look at the items since the first of those does for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection

from headwater.store.database.dialect import fetch_rows

NEAR_ITEMS = 1000  # items from the newest one
ITEMS_PER_FEED = 2  # so many items are looked at in the time in which one feed is


class ReadLine(NamedTuple):
    """Positions before `at` are followed feed by feed, those from there on together, by the items beyond it."""

    at: int
    far: int  # subscriptions with a position before it
    beyond: int  # ids there are beyond it


ALL_BY_FEED = ReadLine(1 << 62, 1, 0)  # everything feed by feed

_START = "(SELECT COALESCE(MAX(id), 0) FROM item) - CAST(:reach AS bigint)"
# Whether any position is far back: if none is, all that is unread is marked so, or among the newest items.
HAS_FAR_POSITION = f"EXISTS (SELECT 1 FROM subscription WHERE user_id = :user AND read_up_to < {_START})"
_COUNTED = (
    f"{_START}, COUNT(*) FILTER (WHERE read_up_to < {_START}), COUNT(*) FILTER (WHERE read_up_to >= {_START}), "
    f"MIN(read_up_to) FILTER (WHERE read_up_to >= {_START}) FROM subscription WHERE user_id = :user"
)


def find_read_line(connection: Connection, user_id: int) -> ReadLine:
    """Find the line from which positions are followed together."""
    return find_read_line_and(connection, user_id, "NULL", {})[2]


def find_read_line_and(
    connection: Connection, user_id: int, other: str, values: Mapping[str, Any]
) -> tuple[Any, bool, ReadLine]:
    """The answer to another question of one value, since each costs more than its answer; whether any position is far
    back; and the line."""
    given = {"user": user_id, "reach": NEAR_ITEMS, **values}
    answer, *counted = fetch_rows(connection, f"SELECT {other}, {_COUNTED}", given)[0]
    return answer, counted[1] > 0, _choose_line(*counted)


def _choose_line(start: int, far: int, near: int, least: int | None) -> ReadLine:
    last = start + NEAR_ITEMS
    if least is None or last - least > ITEMS_PER_FEED * near:
        return ALL_BY_FEED
    return ReadLine(least, far, max(0, last - least))
