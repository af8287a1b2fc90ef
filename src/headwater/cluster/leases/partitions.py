"""Hashes hosts into 256 partitions, and shares these among terminals by their capacity and load.

Only the terminal that holds a partition talks to its hosts. The hash never changes, or an old and an upgraded terminal
would talk to one host at once; a test guards it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

from sqlalchemy import Connection

from headwater.cluster.leases.lease_clock import LeaseTiming
from headwater.cluster.transport.wire_messages import Grant, MemberReport, encode_report, read_report
from headwater.formats.values.domains import registered_domain_of_url
from headwater.store import cluster_leases

PARTITIONS = 256


@lru_cache(1 << 16)
def partition_of(url: str) -> int:
    """Return the partition of an address: a hash of the registered domain, mod 256.

    >>> partition_of("https://feeds.example.org/a") == partition_of("http://www.example.org/b")
    True
    """
    return partition_of_domain(registered_domain_of_url(url))


def partition_of_domain(domain: str) -> int:
    digest = blake2b(domain.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % PARTITIONS


LEASE_PREFIX = "partition/"
PARTITION_OF_LEASE = {f"{LEASE_PREFIX}{p:03}": p for p in range(PARTITIONS)}
LEASE_OF_PARTITION = {p: name for name, p in PARTITION_OF_LEASE.items()}


@dataclass(frozen=True, slots=True)
class PartitionShare:
    """The partitions of one holder with their epochs. `surplus` are for others; while it is `lacking`, others still
    hold some that it should have."""

    partitions: dict[int, int]
    surplus: tuple[int, ...]
    lacking: bool = False


def create_partition_leases(connection: Connection) -> None:
    cluster_leases.prepare_leases(connection, PARTITION_OF_LEASE)


def share_partitions(
    connection: Connection,
    holder: str,
    members: int,
    drained: Mapping[int, int],
    seconds: float,
    fair: int | None = None,
) -> PartitionShare:
    """Release drained partitions, renew the others, and take free ones up to a `fair` share, by default an equal one.

    A drained partition that is no longer surplus may be taken again like any other free one.
    """
    release_partitions(connection, holder, drained)
    held = cluster_leases.renew_leases(connection, LEASE_PREFIX, holder, seconds)
    fair = compute_fair_share(PARTITIONS, members) if fair is None else fair
    if len(held) < fair:
        held |= cluster_leases.acquire_free_leases(connection, LEASE_PREFIX, holder, fair - len(held), seconds)
    mine = {PARTITION_OF_LEASE[name]: epoch for name, epoch in sorted(held.items())}
    return divide_share(mine, PARTITIONS, members, fair)


def compute_fair_share(partitions: int, members: int) -> int:
    """Return how many partitions each member should have, rounded up."""
    return -(-partitions // max(members, 1))


def compute_shares(partitions: int, reports: Collection[MemberReport]) -> dict[str, int]:
    """Return how many partitions each terminal should have: by its capacity, and the more the less it is loaded.

    The load counts in quarters of the capacity, so that partitions do not wander with every job.

    >>> idle, busy = (MemberReport(name, "terminal", capacity=64, load=load) for name, load in (("a", 0.1), ("b", 0.6)))
    >>> compute_shares(256, [idle, busy])
    {'a': 150, 'b': 107}
    """
    weights = {one.name: max(one.capacity, 1) * (1.75 - min(round(4 * one.load) / 4, 1.0)) for one in reports}
    total = sum(weights.values())
    return {name: math.ceil(partitions * weight / total) for name, weight in weights.items()}


def divide_share(mine: dict[int, int], partitions: int, members: int, fair: int | None = None) -> PartitionShare:
    """Say which of a member's partitions are surplus, and whether it lacks some.

    >>> divide_share({0: 5, 1: 5, 2: 5}, 4, 2)
    PartitionShare(partitions={0: 5, 1: 5, 2: 5}, surplus=(2,), lacking=False)
    """
    equal = compute_fair_share(partitions, members)
    fair = equal if fair is None else fair
    # The last number is the rest if all others have their shares, each rounded up by less than one.
    others = (members - 1) * equal if fair == equal else partitions - fair + members - 1
    return PartitionShare(mine, tuple(sorted(mine)[fair:]), len(mine) < partitions - others)


def keep_partitions(
    connection: Connection, holder: str, wanted: Collection[int], drained: Mapping[int, int], seconds: float
) -> PartitionShare:
    """Renew the partitions of a holder that reaches no server; all but the wanted ones are surplus."""
    release_partitions(connection, holder, drained)
    held = cluster_leases.renew_leases(connection, LEASE_PREFIX, holder, seconds)
    mine = {PARTITION_OF_LEASE[name]: epoch for name, epoch in sorted(held.items())}
    return PartitionShare(mine, tuple(p for p in mine if p not in wanted))


def release_partitions(connection: Connection, holder: str, drained: Mapping[int, int]) -> None:
    """Release partitions, each only under the epoch given for it."""
    cluster_leases.release_leases(connection, holder, {LEASE_OF_PARTITION[p]: epoch for p, epoch in drained.items()})


def renew_partitions(
    connection: Connection, report: MemberReport, drained: Mapping[int, int], timing: LeaseTiming
) -> Grant:
    """Record the heartbeat of a terminal and grant it its share of the partitions."""
    now = cluster_leases.record_heartbeat(connection, report.name, report.role, encode_report(report))
    others = [one for one in cluster_leases.list_members(connection, timing.lease) if one.role in (report.role, "node")]
    well = [one for one in others if read_report(one.info).away_since is None]
    if well and report.away_since is not None:  # it reaches no server, and others do
        share = keep_partitions(connection, report.name, report.keep, drained, timing.lease)
    else:
        shares = compute_shares(PARTITIONS, [read_report(one.info) for one in well or others])
        fair = shares.get(report.name)
        share = share_partitions(connection, report.name, len(well or others), drained, timing.lease, fair)
    leading = cluster_leases.list_leases(connection, "controller")
    epoch = leading[0].epoch if leading else 0
    return Grant(share.partitions, share.surplus, timing.lease, epoch, now, lacking=share.lacking)


def leave_cluster(connection: Connection, name: str, held: Mapping[int, int]) -> None:
    """Release the partitions of a terminal, and remove it from the members."""
    release_partitions(connection, name, held)
    cluster_leases.remove_member(connection, name)
