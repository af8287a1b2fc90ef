"""Settings that were changed while a server ran: in the database, for every process of it and for the next start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from sqlalchemy import Connection, select, update

from headwater.store.sql import insert_or_ignore
from headwater.store.tables import saved_state

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
