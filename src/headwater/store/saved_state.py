"""Saves named blobs, changed settings and revision counters that processes share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from sqlalchemy import Connection, select, update

from headwater.store.database.dialect import fetch_rows, insert_or_ignore, upsert
from headwater.store.schema.item_tables import saved_state

SETTINGS_NAME = "settings"


def save_changed_settings(connection: Connection, changes: Mapping[str, Any], now: float) -> int:
    """Keep these beside the others, in the caller's transaction; the number of this change."""
    row = {"name": SETTINGS_NAME, "version": 0, "saved": now, "blob": b"{}"}
    connection.execute(insert_or_ignore(connection.dialect.name, saved_state), row)
    number, blob = connection.execute(_SETTINGS_QUERY.with_for_update()).one()
    number += 1
    kept = orjson.loads(blob) | {name: (value, number) for name, value in changes.items()}
    new = {"version": number, "saved": now, "blob": orjson.dumps(kept)}
    connection.execute(update(saved_state).where(saved_state.c.name == SETTINGS_NAME).values(new))
    return int(number)


def settings_changed_since(connection: Connection, number: int) -> tuple[int, dict[str, Any]]:
    """The number of the last change, and what was changed after that of this number."""
    row = connection.execute(_SETTINGS_QUERY).first()
    if row is None or row.version <= number:
        return number, {}
    kept = orjson.loads(row.blob)
    return row.version, {name: value for name, (value, when) in kept.items() if when > number}


_SETTINGS_QUERY = select(saved_state.c.version, saved_state.c.blob).where(saved_state.c.name == SETTINGS_NAME)


def save_state(connection: Connection, name: str, version: int, blob: bytes, now: float) -> None:
    statement = upsert(connection.dialect.name, saved_state)
    new = statement.excluded
    statement = statement.on_conflict_do_update(
        index_elements=["name"], set_={"version": new.version, "saved": new.saved, "blob": new.blob}
    )
    connection.execute(statement, {"name": name, "version": version, "saved": now, "blob": blob})


def save_state_once(connection: Connection, name: str, version: int, blob: bytes, now: float) -> None:
    """Keep bytes under a name unless there are some already: of several processes the first one decides."""
    values = {"name": name, "version": version, "saved": now, "blob": blob}
    connection.execute(insert_or_ignore(connection.dialect.name, saved_state), values)


def load_state(connection: Connection, name: str) -> tuple[int, bytes] | None:
    found = fetch_rows(connection, "SELECT version, blob FROM saved_state WHERE name = :name", {"name": name})
    return (found[0][0], bytes(found[0][1])) if found else None


def find_save_time(connection: Connection, name: str) -> float | None:
    """When something was last kept under a name."""
    return connection.execute(select(saved_state.c.saved).where(saved_state.c.name == name)).scalar()


FEEDS, QUERIES, PUBLISHED = "feeds changed", "queries changed", "published changed"


def bump_revision(connection: Connection, what: str = FEEDS) -> int:
    """Count a change of the list of feeds or of queries, in the caller's transaction; other processes look at it."""
    statement = upsert(connection.dialect.name, saved_state)
    statement = statement.on_conflict_do_update(index_elements=["name"], set_={"version": saved_state.c.version + 1})
    counted = statement.returning(saved_state.c.version)
    return int(connection.execute(counted, {"name": what, "version": 1, "saved": 0.0, "blob": b""}).scalar_one())


def read_revision(connection: Connection, what: str = FEEDS) -> int:
    found = fetch_rows(connection, "SELECT version FROM saved_state WHERE name = :what", {"what": what})
    return found[0][0] if found else 0


_REVISIONS = "SELECT name, version FROM saved_state WHERE name IN (:feeds, :queries)"


def read_revisions(connection: Connection) -> tuple[int, int]:
    """Counters of changes, of feeds and of queries; asked every second by several."""
    found = dict(map(tuple, fetch_rows(connection, _REVISIONS, {"feeds": FEEDS, "queries": QUERIES})))
    return found.get(FEEDS, 0), found.get(QUERIES, 0)
