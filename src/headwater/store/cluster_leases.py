"""Grants leases with epochs to processes, by the database's clock, and records their heartbeats.

A holder that was away too long finds that its epoch has passed. `require_lease` takes a lock that lets the holder renew
meanwhile but makes a process that takes the lease over wait: no write of the old holder can come after the new one has
begun. PostgreSQL only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Float, Row, bindparam, delete, func, literal_column, select, update

from headwater.errors import LeaseLost
from headwater.store.database.dialect import execute_postgres, insert_or_ignore, upsert
from headwater.store.schema.cluster_tables import lease, member

_NOW = "extract(epoch FROM clock_timestamp())::float8"
_now_column = literal_column(_NOW, Float)
_CLOCK = f"SELECT {_NOW}"
# What every process asks several times a second, or every few seconds whatever it does, is one statement by hand.
_REACQUIRE = (
    f"UPDATE lease SET until = {_NOW} + $3 WHERE name = $1 AND holder = $2 AND until > 0 RETURNING epoch, until"
)
_RENEW_ONE = f"UPDATE lease SET until = {_NOW} + $4 WHERE name = $1 AND holder = $2 AND epoch = $3 RETURNING until"
_REQUIRE = "SELECT epoch FROM lease WHERE name = $1 AND epoch = $2 FOR KEY SHARE"
_EPOCHS = "SELECT name, epoch FROM lease WHERE name = ANY($1::text[]) ORDER BY name FOR KEY SHARE"
_MEMBERS = f"SELECT name, role, seen, info FROM member WHERE seen > {_NOW} - $1 ORDER BY role, name"
_UPDATE_HELD = (
    update(lease)
    .where(lease.c.name == bindparam("of_name"), lease.c.holder == bindparam("of_holder"))
    .where(lease.c.epoch == bindparam("of_epoch"))
)


@dataclass(frozen=True, slots=True)
class ClusterLease:
    """A lease with its holder and epoch; it ends at `until` by the database's clock."""

    name: str
    holder: str
    epoch: int
    until: float


@dataclass(frozen=True, slots=True)
class ClusterMember:
    """A process that takes part, as it said last; `seen` is the database's clock, `info` JSON."""

    name: str
    role: str
    seen: float
    info: str


def read_database_time(connection: Connection) -> float:
    """The database's clock, in seconds since 1970."""
    now: float = execute_postgres(connection, _CLOCK, ())[0][0]
    return now


def acquire_lease(connection: Connection, name: str, holder: str, seconds: float) -> ClusterLease | None:
    """Take a lease that is free or was ours; None while another holds it."""
    ours = execute_postgres(connection, _REACQUIRE, (name, holder, seconds))
    if ours:
        return ClusterLease(name, holder, *ours[0])
    blank = {"name": name, "holder": "", "epoch": 0, "until": 0.0}
    connection.execute(insert_or_ignore(connection.dialect.name, lease), blank)
    row = connection.execute(select(lease).where(lease.c.name == name).with_for_update()).one()
    return _acquire_row(connection, row, holder, read_database_time(connection), seconds)


def _acquire_row(connection: Connection, row: Row[Any], holder: str, now: float, seconds: float) -> ClusterLease | None:
    if row.holder != holder and row.until > now:
        return None
    epoch = row.epoch + (row.holder != holder or row.until == 0.0)
    values = {"holder": holder, "epoch": epoch, "until": now + seconds}
    connection.execute(update(lease).where(lease.c.name == row.name).values(values))
    return ClusterLease(row.name, holder, epoch, now + seconds)


def count_seconds_left(connection: Connection, name: str) -> float:
    """Seconds until a lease ends that is not renewed, by the database's clock; 0 for one that has ended."""
    until = connection.execute(select(lease.c.until).where(lease.c.name == name)).scalar()
    return 0.0 if until is None else max(0.0, until - read_database_time(connection))


def renew_lease(connection: Connection, held: ClusterLease, seconds: float) -> ClusterLease | None:
    """Keep a lease; None when it has passed to another. One statement."""
    kept = execute_postgres(connection, _RENEW_ONE, (held.name, held.holder, held.epoch, seconds))
    return ClusterLease(held.name, held.holder, held.epoch, *kept[0]) if kept else None


def release_lease(connection: Connection, held: ClusterLease) -> None:
    """Let others have it at once."""
    key = {"of_name": held.name, "of_holder": held.holder, "of_epoch": held.epoch}
    connection.execute(_UPDATE_HELD.values(until=0.0), key)


def require_lease(connection: Connection, held: ClusterLease) -> None:
    """LeaseLost unless this is still held; nobody else takes it before the caller's transaction ends."""
    if not execute_postgres(connection, _REQUIRE, (held.name, held.epoch)):
        raise LeaseLost(f"The lease “{held.name}” of {held.holder} has passed to another: this write was refused.")


def list_leases(connection: Connection, prefix: str) -> list[ClusterLease]:
    query = select(lease).where(lease.c.name.startswith(prefix, autoescape=True)).order_by(lease.c.name)
    return [ClusterLease(row.name, row.holder, row.epoch, row.until) for row in connection.execute(query)]


def lock_epochs(connection: Connection, names: Collection[str]) -> dict[str, int]:
    """The present epochs of these leases; nobody takes one over before the caller's transaction ends."""
    return dict(map(tuple, execute_postgres(connection, _EPOCHS, (list(names),))))


# many at once: partitions


def prepare_leases(connection: Connection, names: Iterable[str]) -> None:
    """Rows for leases that nobody has held yet."""
    rows = [{"name": name, "holder": "", "epoch": 0, "until": 0.0} for name in names]
    connection.execute(insert_or_ignore(connection.dialect.name, lease), rows)


def renew_leases(connection: Connection, prefix: str, holder: str, seconds: float) -> dict[str, int]:
    """Keep everything this holder has under a prefix: names with epochs."""
    statement = update(lease).where(lease.c.name.startswith(prefix, autoescape=True), lease.c.holder == holder)
    rows = connection.execute(
        statement.where(lease.c.until > 0).values(until=_now_column + seconds).returning(lease.c.name, lease.c.epoch)
    )
    return {row.name: row.epoch for row in rows}


def release_leases(connection: Connection, holder: str, held: Mapping[str, int]) -> None:
    """Let others have these, each under the epoch given for it: what was taken anew since stays."""
    ours = [{"of_name": name, "of_holder": holder, "of_epoch": epoch} for name, epoch in sorted(held.items())]
    if ours:
        connection.execute(_UPDATE_HELD.values(until=0.0), ours)


def acquire_free_leases(connection: Connection, prefix: str, holder: str, most: int, seconds: float) -> dict[str, int]:
    """Acquire up to `most` free leases under a prefix; returns names with their new epochs."""
    now = read_database_time(connection)
    free = select(lease).where(lease.c.name.startswith(prefix, autoescape=True), lease.c.until < now)
    rows = connection.execute(free.order_by(func.random()).limit(most).with_for_update(skip_locked=True)).all()
    taken = [_acquire_row(connection, row, holder, now, seconds) for row in rows]
    return {one.name: one.epoch for one in taken if one is not None}


# members


def record_heartbeat(connection: Connection, name: str, role: str, info: str) -> float:
    """Say that a member is there; the database's clock. One statement."""
    statement = upsert(connection.dialect.name, member).values(name=name, role=role, seen=_now_column, info=info)
    new = statement.excluded
    statement = statement.on_conflict_do_update(
        index_elements=["name"], set_={"role": new.role, "seen": new.seen, "info": new.info}
    )
    now: float = connection.execute(statement.returning(member.c.seen)).scalar_one()
    return now


def list_members(connection: Connection, within: float) -> list[ClusterMember]:
    """List the members that were seen within so many seconds."""
    return [ClusterMember(*row) for row in execute_postgres(connection, _MEMBERS, (within,))]


def remove_member(connection: Connection, name: str, older: float = 3600.0) -> None:
    """Take a member off the list, and those that have not been seen for an hour."""
    old = read_database_time(connection) - older
    connection.execute(delete(member).where((member.c.name == name) | (member.c.seen < old)))
