"""Grants leases with epochs to processes, by the database's clock, and records their heartbeats.

A holder that was away too long finds that its epoch has passed. `require_lease` takes a lock that lets the holder renew
meanwhile but makes a process that takes the lease over wait: no write of the old holder can come after the new one has
begun. PostgreSQL only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Float, Integer, bindparam, cast, delete, func, literal_column, select, update

from headwater.errors import LeaseLost
from headwater.store.database.dialect import insert_or_ignore, upsert
from headwater.store.schema.cluster_tables import lease, member

NOW = literal_column("extract(epoch FROM clock_timestamp())::float8", Float)
_CLOCK = select(NOW)
_IS_MINE = (lease.c.name == bindparam("of_name"), lease.c.holder == bindparam("of_holder"))
_UPDATE_HELD = update(lease).where(*_IS_MINE, lease.c.epoch == bindparam("of_epoch"))
_RELEASE = _UPDATE_HELD.values(until=0.0)
# Every process runs these every few seconds, so they are built once.
_RENEW = _UPDATE_HELD.values(until=NOW + bindparam("seconds", type_=Float)).returning(lease.c.until)
_REACQUIRE = (
    update(lease)
    .where(*_IS_MINE, lease.c.until > 0)
    .values(until=NOW + bindparam("seconds", type_=Float))
    .returning(lease.c.epoch, lease.c.until)
)
_REQUIRE = (
    select(lease.c.epoch)
    .where(lease.c.name == bindparam("of_name"), lease.c.epoch == bindparam("of_epoch"))
    .with_for_update(key_share=True, read=True)
)
_MEMBERS = (
    select(member.c.name, member.c.role, member.c.seen, member.c.info)
    .where(member.c.seen > NOW - bindparam("within", type_=Float))
    .order_by(member.c.role, member.c.name)
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
    """A process of the cluster by its last heartbeat: `seen` is its time by the database's clock, `info` JSON."""

    name: str
    role: str
    seen: float
    info: str


def read_database_time(connection: Connection) -> float:
    """Return the database's clock, in seconds since 1970."""
    now: float = connection.execute(_CLOCK).scalar_one()
    return now


def acquire_lease(connection: Connection, name: str, holder: str, seconds: float) -> ClusterLease | None:
    """Acquire a lease that is free or ours already; None while another holds it."""
    ours = connection.execute(_REACQUIRE, {"of_name": name, "of_holder": holder, "seconds": seconds}).first()
    if ours is not None:
        return ClusterLease(name, holder, ours.epoch, ours.until)
    blank = {"name": name, "holder": "", "epoch": 0, "until": 0.0}
    connection.execute(insert_or_ignore(connection, lease), blank)
    row = connection.execute(select(lease).where(lease.c.name == name).with_for_update()).one()
    current = ClusterLease(row.name, row.holder, row.epoch, row.until)
    taken = decide_lease(current, holder, read_database_time(connection), seconds)
    if taken is not None:
        values = {"holder": taken.holder, "epoch": taken.epoch, "until": taken.until}
        connection.execute(update(lease).where(lease.c.name == name).values(values))
    return taken


def decide_lease(current: ClusterLease, holder: str, now: float, seconds: float) -> ClusterLease | None:
    """Return the lease that `holder` gets, None while another holds it. The epoch grows when it changes hands.

    >>> decide_lease(ClusterLease("controller", "a", 7, 50.0), "b", 60.0, 10.0)
    ClusterLease(name='controller', holder='b', epoch=8, until=70.0)
    """
    if current.holder != holder and current.until > now:
        return None
    changes_hands = current.holder != holder or current.until == 0.0
    return ClusterLease(current.name, holder, current.epoch + changes_hands, now + seconds)


def count_seconds_left(connection: Connection, name: str) -> float:
    """Return the seconds until a lease ends unless it is renewed, by the database's clock; 0 if it has ended."""
    until = connection.execute(select(lease.c.until).where(lease.c.name == name)).scalar()
    return 0.0 if until is None else max(0.0, until - read_database_time(connection))


def renew_lease(connection: Connection, held: ClusterLease, seconds: float) -> ClusterLease | None:
    """Renew a lease by a single statement; None if it has passed to another."""
    until = connection.execute(_RENEW, _lease_key(held) | {"seconds": seconds}).scalar()
    return None if until is None else ClusterLease(held.name, held.holder, held.epoch, until)


def _lease_key(held: ClusterLease) -> dict[str, Any]:
    return {"of_name": held.name, "of_holder": held.holder, "of_epoch": held.epoch}


def release_lease(connection: Connection, held: ClusterLease) -> None:
    """Release a lease, so that others can acquire it at once."""
    connection.execute(_RELEASE, _lease_key(held))


def require_lease(connection: Connection, held: ClusterLease) -> None:
    """Raise LeaseLost unless the lease is still held; nobody else acquires it before the caller's transaction ends."""
    if connection.execute(_REQUIRE, {"of_name": held.name, "of_epoch": held.epoch}).first() is None:
        raise LeaseLost(f"The lease “{held.name}” of {held.holder} has passed to another: this write was refused.")


def list_leases(connection: Connection, prefix: str) -> list[ClusterLease]:
    """List the leases whose names begin with a prefix, by name."""
    query = select(lease).where(lease.c.name.startswith(prefix, autoescape=True)).order_by(lease.c.name)
    return [ClusterLease(row.name, row.holder, row.epoch, row.until) for row in connection.execute(query)]


def lock_epochs(connection: Connection, names: Collection[str]) -> dict[str, int]:
    """Return the present epochs of these leases; nobody acquires one before the caller's transaction ends."""
    query = select(lease.c.name, lease.c.epoch).where(lease.c.name.in_(sorted(names))).order_by(lease.c.name)
    rows = connection.execute(query.with_for_update(key_share=True, read=True))
    return {row.name: row.epoch for row in rows}


def prepare_leases(connection: Connection, names: Iterable[str]) -> None:
    """Add rows for leases that nobody has held yet."""
    rows = [{"name": name, "holder": "", "epoch": 0, "until": 0.0} for name in names]
    connection.execute(insert_or_ignore(connection, lease), rows)


def renew_leases(connection: Connection, prefix: str, holder: str, seconds: float) -> dict[str, int]:
    """Renew all leases of a holder under a prefix; returns their names with epochs."""
    statement = update(lease).where(lease.c.name.startswith(prefix, autoescape=True), lease.c.holder == holder)
    rows = connection.execute(
        statement.where(lease.c.until > 0).values(until=NOW + seconds).returning(lease.c.name, lease.c.epoch)
    )
    return {row.name: row.epoch for row in rows}


def release_leases(connection: Connection, holder: str, held: Mapping[str, int]) -> None:
    """Release leases, each if it still has the epoch given for it."""
    ours = [{"of_name": name, "of_holder": holder, "of_epoch": epoch} for name, epoch in sorted(held.items())]
    if ours:
        connection.execute(_RELEASE, ours)


def acquire_free_leases(connection: Connection, prefix: str, holder: str, limit: int, seconds: float) -> dict[str, int]:
    """Acquire up to `limit` free leases under a prefix; returns names with their new epochs.

    A single statement: a terminal that starts takes 256, and must not wait for as many answers of a slow database.
    """
    free = select(lease.c.name).where(lease.c.name.startswith(prefix, autoescape=True), lease.c.until < NOW)
    free = free.order_by(func.random()).limit(limit).with_for_update(skip_locked=True)
    chosen = free.cte("free").prefix_with("MATERIALIZED")
    changes_hands = (lease.c.holder != holder) | (lease.c.until == 0.0)
    values = {"holder": holder, "epoch": lease.c.epoch + cast(changes_hands, Integer), "until": NOW + seconds}
    taken = update(lease).where(lease.c.name == chosen.c.name).values(values)
    return {row.name: row.epoch for row in connection.execute(taken.returning(lease.c.name, lease.c.epoch))}


def record_heartbeat(connection: Connection, name: str, role: str, info: str) -> float:
    """Record that a member is alive, by a single statement; returns the database's clock."""
    statement = upsert(connection, member).values(name=name, role=role, seen=NOW, info=info)
    new = statement.excluded
    statement = statement.on_conflict_do_update(
        index_elements=["name"], set_={"role": new.role, "seen": new.seen, "info": new.info}
    )
    now: float = connection.execute(statement.returning(member.c.seen)).scalar_one()
    return now


def list_members(connection: Connection, within: float) -> list[ClusterMember]:
    """List the members whose last heartbeat is at most `within` seconds old."""
    return [ClusterMember(*row) for row in connection.execute(_MEMBERS, {"within": within})]


def remove_member(connection: Connection, name: str) -> None:
    """Remove a member, and all members that have not been seen for an hour."""
    old = read_database_time(connection) - 3600.0
    connection.execute(delete(member).where((member.c.name == name) | (member.c.seen < old)))
