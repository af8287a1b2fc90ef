"""Sharing out the partitions: who has too few takes free ones, who has too many drains some and lets go.

Nobody is told to hand a partition over while it is being worked on: surplus is drained first, so that a host never
sees two at once. In the database's transaction of the caller.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection

from headwater.cluster.partition import PARTITIONS
from headwater.store import leases

PREFIX = "partition/"
NAMES = {f"{PREFIX}{p:03}": p for p in range(PARTITIONS)}
LEASES = {p: name for name, p in NAMES.items()}


@dataclass(frozen=True, slots=True)
class Share:
    """The partitions of one holder with their epochs, those of them that others should have, and whether others still
    have some that should be its own."""

    partitions: dict[int, int]
    surplus: tuple[int, ...]
    lacking: bool = False


def prepare(connection: Connection) -> None:
    leases.prepare(connection, NAMES)


def tend(connection: Connection, holder: str, members: int, drained: Mapping[int, int], seconds: float) -> Share:
    """Let go of what is drained, keep the rest, take what is free up to a fair share of the members.

    A partition that is drained but not surplus any more is taken again like any other that is free.
    """
    release(connection, holder, drained)
    held = leases.renew_all(connection, PREFIX, holder, seconds)
    fair = -(-PARTITIONS // max(members, 1))
    if len(held) < fair:
        held |= leases.take_free(connection, PREFIX, holder, fair - len(held), seconds)
    mine = {NAMES[name]: epoch for name, epoch in sorted(held.items())}
    # If all others have a fair share, rounded up, this is what is left.
    return Share(mine, tuple(sorted(mine)[fair:]), len(mine) < PARTITIONS - (members - 1) * fair)


def keep(
    connection: Connection, holder: str, wanted: Collection[int], drained: Mapping[int, int], seconds: float
) -> Share:
    """For who cannot work: keep these of what is held, the rest is for others; take nothing."""
    release(connection, holder, drained)
    held = leases.renew_all(connection, PREFIX, holder, seconds)
    mine = {NAMES[name]: epoch for name, epoch in sorted(held.items())}
    return Share(mine, tuple(p for p in mine if p not in wanted))


def release(connection: Connection, holder: str, drained: Mapping[int, int]) -> None:
    """Somebody works on these no more, under the epochs given."""
    leases.release_all(connection, holder, {LEASES[p]: epoch for p, epoch in drained.items()})
