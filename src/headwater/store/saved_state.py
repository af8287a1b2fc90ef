"""Saves named blobs, changed settings and revision counters that processes share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from sqlalchemy import Connection, bindparam, delete, select, update

from headwater.store.database.dialect import insert_or_ignore, upsert
from headwater.store.schema.item_tables import saved_state

SETTINGS_NAME = "settings"


def save_changed_settings(connection: Connection, changes: Mapping[str, Any], now: float) -> int:
    """Save changed settings beside the earlier ones, in the caller's transaction; returns the number of this change."""
    row = {"name": SETTINGS_NAME, "version": 0, "saved": now, "blob": b"{}"}
    connection.execute(insert_or_ignore(connection, saved_state), row)
    number, blob = connection.execute(_SETTINGS_QUERY.with_for_update()).one()
    number += 1
    kept = orjson.loads(blob) | {name: (value, number) for name, value in changes.items()}
    new = {"version": number, "saved": now, "blob": orjson.dumps(kept)}
    connection.execute(update(saved_state).where(saved_state.c.name == SETTINGS_NAME).values(new))
    return int(number)


def settings_changed_since(connection: Connection, number: int) -> tuple[int, dict[str, Any]]:
    """Return the number of the last change, and the settings that changed after change `number`."""
    row = connection.execute(_SETTINGS_QUERY).first()
    if row is None or row.version <= number:
        return number, {}
    kept = orjson.loads(row.blob)
    return row.version, {name: value for name, (value, when) in kept.items() if when > number}


_SETTINGS_QUERY = select(saved_state.c.version, saved_state.c.blob).where(saved_state.c.name == SETTINGS_NAME)


MAX_ROW_BYTES = 64 << 20  # databases take at most 1 GB in a row; the state of a million feeds has more


def save_state(connection: Connection, name: str, version: int, blob: bytes, now: float) -> None:
    """Save bytes under a name, with the version of their format.

    They fill as many rows as they need. The last row has room left, even if that takes an empty one: so a reader knows
    the end.
    """
    statement = upsert(connection, saved_state)
    new = statement.excluded
    statement = statement.on_conflict_do_update(
        index_elements=["name"], set_={"version": new.version, "saved": new.saved, "blob": new.blob}
    )
    number = len(blob) // MAX_ROW_BYTES + 1
    for part in range(number):
        piece = blob[part * MAX_ROW_BYTES : (part + 1) * MAX_ROW_BYTES]
        row = {"name": _name_part(name, part), "version": version, "saved": now, "blob": piece}
        connection.execute(statement, row)
    while connection.execute(_SELECT_STATE, {"name": (left := _name_part(name, number))}).first():
        connection.execute(delete(saved_state).where(saved_state.c.name == left))  # of an earlier, longer state
        number += 1


def _name_part(name: str, part: int) -> str:
    return f"{name}, part {part + 1}" if part else name


def save_state_once(connection: Connection, name: str, version: int, blob: bytes, now: float) -> None:
    """Save bytes under a name unless there are some already: the first of several processes decides."""
    values = {"name": name, "version": version, "saved": now, "blob": blob}
    connection.execute(insert_or_ignore(connection, saved_state), values)


def load_state(connection: Connection, name: str) -> tuple[int, bytes] | None:
    """Return version and bytes that were saved under a name; None if there are none."""
    row = connection.execute(_SELECT_STATE, {"name": name}).first()
    if row is None:
        return None
    pieces = [row.blob]
    while len(pieces[-1]) == MAX_ROW_BYTES:
        pieces.append(connection.execute(_SELECT_STATE, {"name": _name_part(name, len(pieces))}).one().blob)
    return row.version, b"".join(pieces)


_SELECT_STATE = select(saved_state.c.version, saved_state.c.blob).where(saved_state.c.name == bindparam("name"))


def lock_state(connection: Connection, name: str) -> None:
    """Lock the bytes under a name until the end of the transaction."""
    connection.execute(select(saved_state.c.name).where(saved_state.c.name == name).with_for_update())


def find_save_time(connection: Connection, name: str) -> float | None:
    """Return when bytes were last saved under a name; None if they never were."""
    return connection.execute(select(saved_state.c.saved).where(saved_state.c.name == name)).scalar()


FEEDS, QUERIES, PUBLISHED = "feeds changed", "queries changed", "published changed"


def bump_revision(connection: Connection, what: str = FEEDS) -> int:
    """Count a change, in the caller's transaction, so that other processes notice it; returns the new counter."""
    statement = upsert(connection, saved_state)
    statement = statement.on_conflict_do_update(index_elements=["name"], set_={"version": saved_state.c.version + 1})
    counted = statement.returning(saved_state.c.version)
    return int(connection.execute(counted, {"name": what, "version": 1, "saved": 0.0, "blob": b""}).scalar_one())


def read_revision(connection: Connection, what: str = FEEDS) -> int:
    """Return the counter of changes of a kind."""
    return connection.execute(select(saved_state.c.version).where(saved_state.c.name == what)).scalar() or 0


_REVISIONS = select(saved_state.c.name, saved_state.c.version).where(saved_state.c.name.in_((FEEDS, QUERIES)))


def read_revisions(connection: Connection) -> tuple[int, int]:
    """Return the counters of changes of feeds and of queries. Several loops ask every second."""
    found: dict[str, int] = dict(map(tuple, connection.execute(_REVISIONS)))
    return found.get(FEEDS, 0), found.get(QUERIES, 0)
