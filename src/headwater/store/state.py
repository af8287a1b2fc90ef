"""Bytes under a name: the arrays of strategies and estimators, which only they understand; and a counter of changes."""

from __future__ import annotations

from sqlalchemy import Connection, select

from headwater.store.sql import insert_new, rows, upsert
from headwater.store.tables import state


def save(connection: Connection, name: str, version: int, blob: bytes, now: float) -> None:
    statement = upsert(connection.dialect.name, state)
    new = statement.excluded
    statement = statement.on_conflict_do_update(
        index_elements=["name"], set_={"version": new.version, "saved": new.saved, "blob": new.blob}
    )
    connection.execute(statement, {"name": name, "version": version, "saved": now, "blob": blob})


def keep(connection: Connection, name: str, version: int, blob: bytes, now: float) -> None:
    """Keep bytes under a name unless there are some already: of several processes the first one decides."""
    values = {"name": name, "version": version, "saved": now, "blob": blob}
    connection.execute(insert_new(connection.dialect.name, state), values)


def load(connection: Connection, name: str) -> tuple[int, bytes] | None:
    found = rows(connection, "SELECT version, blob FROM state WHERE name = :name", {"name": name})
    return (found[0][0], bytes(found[0][1])) if found else None


def saved(connection: Connection, name: str) -> float | None:
    """When something was last kept under a name."""
    return connection.execute(select(state.c.saved).where(state.c.name == name)).scalar()


FEEDS, QUERIES, PUBLISHED = "feeds changed", "queries changed", "published changed"


def changed(connection: Connection, what: str = FEEDS) -> int:
    """Count a change of the list of feeds or of queries, in the caller's transaction; other processes look at it."""
    statement = upsert(connection.dialect.name, state)
    statement = statement.on_conflict_do_update(index_elements=["name"], set_={"version": state.c.version + 1})
    counted = statement.returning(state.c.version)
    return int(connection.execute(counted, {"name": what, "version": 1, "saved": 0.0, "blob": b""}).scalar_one())


def revision(connection: Connection, what: str = FEEDS) -> int:
    found = rows(connection, "SELECT version FROM state WHERE name = :what", {"what": what})
    return found[0][0] if found else 0


_REVISIONS = "SELECT name, version FROM state WHERE name IN (:feeds, :queries)"


def revisions(connection: Connection) -> tuple[int, int]:
    """Counters of changes, of feeds and of queries; asked every second by several."""
    found = dict(map(tuple, rows(connection, _REVISIONS, {"feeds": FEEDS, "queries": QUERIES})))
    return found.get(FEEDS, 0), found.get(QUERIES, 0)
