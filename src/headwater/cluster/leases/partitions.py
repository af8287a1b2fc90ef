"""Which partition a host belongs to: fixed for ever, so that everything about a host is in one place.

The terminal that holds the partition is the only one that talks to its hosts. Changing anything here would let two
terminals of an upgraded and an old machine talk to one host at once; a test keeps it as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

from sqlalchemy import Connection

from headwater.fetch.http.domains import registered_domain_of_url
from headwater.store import cluster_leases

PARTITIONS = 256


@lru_cache(1 << 16)
def partition_of(url: str) -> int:
    """The partition of an address: a hash of the registered domain, mod 256.

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
    """The partitions of one holder with their epochs, those of them that others should have, and whether others still
    have some that should be its own."""

    partitions: dict[int, int]
    surplus: tuple[int, ...]
    lacking: bool = False


def create_partition_leases(connection: Connection) -> None:
    cluster_leases.prepare_leases(connection, PARTITION_OF_LEASE)


def share_partitions(
    connection: Connection, holder: str, members: int, drained: Mapping[int, int], seconds: float
) -> PartitionShare:
    """Let go of what is drained, keep the rest, take what is free up to a fair share of the members.

    A partition that is drained but not surplus any more is taken again like any other that is free.
    """
    release_partitions(connection, holder, drained)
    held = cluster_leases.renew_leases(connection, LEASE_PREFIX, holder, seconds)
    fair = -(-PARTITIONS // max(members, 1))
    if len(held) < fair:
        held |= cluster_leases.acquire_free_leases(connection, LEASE_PREFIX, holder, fair - len(held), seconds)
    mine = {PARTITION_OF_LEASE[name]: epoch for name, epoch in sorted(held.items())}
    # If all others have a fair share, rounded up, this is what is left.
    return PartitionShare(mine, tuple(sorted(mine)[fair:]), len(mine) < PARTITIONS - (members - 1) * fair)


def keep_partitions(
    connection: Connection, holder: str, wanted: Collection[int], drained: Mapping[int, int], seconds: float
) -> PartitionShare:
    """For who cannot work: keep these of what is held, the rest is for others; take nothing."""
    release_partitions(connection, holder, drained)
    held = cluster_leases.renew_leases(connection, LEASE_PREFIX, holder, seconds)
    mine = {PARTITION_OF_LEASE[name]: epoch for name, epoch in sorted(held.items())}
    return PartitionShare(mine, tuple(p for p in mine if p not in wanted))


def release_partitions(connection: Connection, holder: str, drained: Mapping[int, int]) -> None:
    """Somebody works on these no more, under the epochs given."""
    cluster_leases.release_leases(connection, holder, {LEASE_OF_PARTITION[p]: epoch for p, epoch in drained.items()})
