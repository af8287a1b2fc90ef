"""Reports the state of a cluster: leaders, members, partitions, backlogs, rates and problems.

All but the backlog of streams is read from the database, so any machine with its address can report it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, func, select

from headwater.cluster.leases.partitions import PARTITION_OF_LEASE, PARTITIONS
from headwater.cluster.membership import FETCHING_ROLES, MAX_CLOCK_SKEW, NATS_ROLES, NODE_ROLE, find_cluster_id
from headwater.cluster.transport.nats_errors import NatsUnavailable
from headwater.cluster.transport.nats_streams import BUFFERS, NatsStreams
from headwater.cluster.transport.wire_messages import read_report
from headwater.store import cluster_jobs, cluster_leases
from headwater.store.cluster_leases import ClusterLease, ClusterMember
from headwater.store.schema.cluster_tables import quarantine
from headwater.store.schema.feed_tables import refresh
from headwater.store.schema.item_tables import checkpoint, outbox
from headwater.store.schema.publication_tables import delivery
from headwater.store.store import Store

RATE_SECONDS = 60.0
SILENT_SECONDS = 60.0  # after which a member is no longer shown
MAX_RANGES = 8  # of partitions that are shown for a member
ELECTED_LEASES = ("controller", "processor", "articles")


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """The holder of an elected part's lease, None while nobody holds it."""

    seat: str
    holder: str | None
    epoch: int
    left: float  # seconds of the lease


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """A member with its last heartbeat, partitions, counts and problem."""

    name: str
    role: str
    seen_ago: float
    uptime: float
    version: str
    partitions: int
    counts: dict[str, int]
    rates: dict[str, float]  # per second since it started
    cpu: float
    skew: float  # seconds that its clock is ahead of the database's
    problem: str | None
    away_since: float | None = None  # a terminal that reaches no server


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """A cluster at a moment. `buffers` counts waiting work by name; `rates` are per second over the last minute."""

    at: float
    carrier: str | None
    seats: tuple[LeaseHolder, ...]
    partitions: dict[str, list[int]]
    unheld: int
    members: tuple[MemberStatus, ...]
    buffers: dict[str, int]
    rates: dict[str, float]
    put_aside: int
    problems: tuple[str, ...] = field(default=())

    @property
    def leader(self) -> str | None:
        return next((one.holder for one in self.seats if one.seat == "controller"), None)


async def read_cluster_status(store: Store, streams: NatsStreams | None = None) -> ClusterStatus:
    """Read the state of the cluster now; with `streams` also their backlog."""
    found = await store.read(_read_database)
    buffers: dict[str, int] = dict(found["buffers"])
    problems: list[str] = []
    if streams is not None:
        problems += await _add_stream_backlogs(streams, buffers)
    now: float = found["now"]
    held = [one for one in found["leases"] if one.until > now and one.name in PARTITION_OF_LEASE]
    by_holder: dict[str, list[int]] = {}
    for one in held:
        by_holder.setdefault(one.holder, []).append(PARTITION_OF_LEASE[one.name])
    members = tuple(_make_member_status(one, len(by_holder.get(one.name, ())), now) for one in found["members"])
    if streams is None:  # as the leader saw them last
        for one in members:
            buffers |= {name: one.counts[f"waiting_{name}"] for name in BUFFERS if f"waiting_{name}" in one.counts}
    seats = tuple(_find_holder(name, found["leases"], now) for name in ELECTED_LEASES)
    problems += _list_problems(seats, members, PARTITIONS - len(held), found)
    carrier = _find_carrier({one.role for one in members}, found["cluster_id"])
    return ClusterStatus(
        now, carrier, seats, by_holder, PARTITIONS - len(held), members, buffers, found["rates"], found["put_aside"],
        tuple(problems),
    )  # fmt: skip


async def _add_stream_backlogs(streams: NatsStreams, buffers: dict[str, int]) -> list[str]:
    """Add the backlog of the streams; return the problems with reading it."""
    problems: list[str] = []
    for name in BUFFERS:
        try:
            buffers[name] = await streams.count_waiting(name)
        except Exception as error:
            problem = await streams.retry.explain_error(name, error)
            problems.append(str(problem))
            if isinstance(problem, NatsUnavailable):  # nor would the others
                break
    return problems


def _read_database(connection: Connection) -> dict[str, Any]:
    now = cluster_leases.read_database_time(connection)
    end = connection.execute(select(func.max(outbox.c.position))).scalar() or 0
    behind = {row.consumer: max(end - row.position, 0) for row in connection.execute(select(checkpoint))}
    due = select(func.count()).select_from(delivery).where(delivery.c.due <= now)
    recent = select(func.count(), func.sum(refresh.c.new), func.sum(refresh.c.bytes)).where(
        refresh.c.at > now - RATE_SECONDS
    )
    made, new, size = connection.execute(recent).one()
    buffers = {
        "jobs": cluster_jobs.count_jobs(connection),
        "to_learn": cluster_jobs.count_lessons(connection),
        "queries_behind": behind.get("queries", 0),
        "deliveries_due": connection.execute(due).scalar_one(),
    }
    return {
        "now": now,
        "leases": cluster_leases.list_leases(connection, ""),
        "members": cluster_leases.list_members(connection, SILENT_SECONDS),
        "buffers": buffers,
        "rates": {
            "refreshes": made / RATE_SECONDS,
            "items": float(new or 0) / RATE_SECONDS,
            "bytes": float(size or 0) / RATE_SECONDS,
        },
        "cluster_id": find_cluster_id(connection),
        "put_aside": connection.execute(select(func.count()).select_from(quarantine)).scalar_one(),
        "latest_put_aside": connection.execute(
            select(quarantine.c.subject, quarantine.c.problem).order_by(quarantine.c.id.desc()).limit(1)
        ).first(),
    }


def _find_carrier(roles: Collection[str], cluster_id: str | None) -> str | None:
    """Return "postgresql", or the id of the streams; None if no member shows which."""
    return "postgresql" if NODE_ROLE in roles else cluster_id if NATS_ROLES & set(roles) else None


def _find_holder(name: str, held: Sequence[ClusterLease], now: float) -> LeaseHolder:
    one = next((lease for lease in held if lease.name == name), None)
    if one is None or one.until <= now:
        return LeaseHolder(name, None, 0 if one is None else one.epoch, 0.0)
    return LeaseHolder(name, one.holder, one.epoch, one.until - now)


def _make_member_status(member: ClusterMember, partitions: int, now: float) -> MemberStatus:
    report = read_report(member.info)
    uptime = max(report.clock - report.started, 1e-9)
    return MemberStatus(
        member.name,
        member.role,
        max(now - member.seen, 0.0),  # it may have said so since we asked for the time
        uptime,
        report.version,
        partitions,
        report.counts,
        {name: round(count / uptime, 3) for name, count in report.counts.items()},
        round(report.cpu, 2),
        round(report.clock - member.seen, 3),
        report.problem,
        report.away_since,
    )


def _list_problems(
    seats: Sequence[LeaseHolder], members: Sequence[MemberStatus], unheld: int, found: dict[str, Any]
) -> list[str]:
    problems = _list_missing_roles(seats, members)
    if unheld and FETCHING_ROLES & {one.role for one in members}:
        problems.append(f"{unheld} partitions are held by nobody; their hosts are not asked until somebody takes them.")
    problems += [f"{', '.join(names)}: {problem}" for problem, names in _members_by_problem(members).items()]
    problems += [
        f"{one.name}: its clock is {abs(one.skew):.0f} s {'ahead of' if one.skew > 0 else 'behind'} the database's."
        for one in members
        if abs(one.skew) > MAX_CLOCK_SKEW + 1
    ]
    if found["put_aside"]:
        problems.append(_describe_quarantine(found["put_aside"], found["latest_put_aside"]))
    return problems


async def find_missing_roles(store: Store) -> list[str]:
    """Name the roles without which no items arrive or are found, without the names of members."""
    found = await read_cluster_status(store)
    return _list_missing_roles(found.seats, found.members)


def _list_missing_roles(seats: Sequence[LeaseHolder], members: Sequence[MemberStatus]) -> list[str]:
    roles = {one.role for one in members}
    problems = []
    if seats[0].holder is None:
        problems.append("Nobody leads: start a controller, or wait until one has taken over.")
    if not FETCHING_ROLES & roles:
        problems.append("No terminal runs, so nothing is fetched: start one.")
    if NATS_ROLES & roles:
        without = {"storer": "nothing that was fetched is stored", "processor": "queries find nothing new"}
        problems += [
            f"No {role} runs, so {effect}: start one." for role, effect in without.items() if role not in roles
        ]
    return problems


def _describe_quarantine(number: int, latest: Any) -> str:
    count = "1 message was" if number == 1 else f"{number:,} messages were"
    last = "" if latest is None else f" The latest is {latest.subject}: {latest.problem.rstrip('.')}."
    return f"{count} put aside.{last} The table quarantine has them; delete the rows that you have seen."


def _members_by_problem(members: Sequence[MemberStatus]) -> dict[str, list[str]]:
    """Return the names of members by problem, so that a shared one is reported once."""
    found: dict[str, list[str]] = {}
    for one in members:
        if one.problem:
            found.setdefault(one.problem, []).append(one.name)
    return found


def describe_holdings(status: ClusterStatus) -> dict[str, str]:
    """Return the partitions of each holder as text, such as “14: 0–12, 40”."""
    return {name: f"{len(held)}: {_format_ranges(sorted(held))}" for name, held in status.partitions.items()}


def _format_ranges(numbers: Sequence[int], most: int = MAX_RANGES) -> str:
    """Return numbers as ranges, at most so many of them.

    >>> _format_ranges([0, 1, 2, 7]), _format_ranges([0, 2, 4, 5, 8, 9], most=2)
    ('0–2, 7', '0, 2 and 4 more')
    """
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    shown = ", ".join(f"{a}" if a == b else f"{a}–{b}" for a, b in parts[:most])
    more = sum(b - a + 1 for a, b in parts[most:])
    return f"{shown} and {more} more" if more else shown
