"""Settings that were changed while a server ran: in the database, for every process of it and for the next start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from sqlalchemy import Connection, select, update

from headwater.store.sql import insert_new
from headwater.store.tables import state

NAME = "settings"


def keep(connection: Connection, changes: Mapping[str, Any], now: float) -> int:
    """Keep these beside the others, in the caller's transaction; the number of this change."""
    row = {"name": NAME, "version": 0, "saved": now, "blob": b"{}"}
    connection.execute(insert_new(connection.dialect.name, state), row)
    number, blob = connection.execute(_ROW.with_for_update()).one()
    number += 1
    kept = orjson.loads(blob) | {name: (value, number) for name, value in changes.items()}
    new = {"version": number, "saved": now, "blob": orjson.dumps(kept)}
    connection.execute(update(state).where(state.c.name == NAME).values(new))
    return int(number)


def since(connection: Connection, number: int) -> tuple[int, dict[str, Any]]:
    """The number of the last change, and what was changed after that of this number."""
    row = connection.execute(_ROW).first()
    if row is None or row.version <= number:
        return number, {}
    kept = orjson.loads(row.blob)
    return row.version, {name: value for name, (value, when) in kept.items() if when > number}


_ROW = select(state.c.version, state.c.blob).where(state.c.name == NAME)
