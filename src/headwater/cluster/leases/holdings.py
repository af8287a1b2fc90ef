"""Tracks which partitions a terminal holds, until when, and which of them it drains.

    granted ─► held ─► draining: nothing new begins, running jobs end ─► released ─► held by another terminal
                 └───► the lease nearly ends: nothing new begins

Pure: callers pass the time, by a clock that runs while the machine sleeps, and report jobs that begin and end. A grant
counts from the moment when the terminal asked for it, which is before the database's clock began.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Set

from headwater.cluster.transport.wire_messages import Grant


class LeasedHoldings:
    """Partitions with the epochs of their leases. A fetch takes up to `fetch` seconds and begins only if the lease
    lasts as long."""

    def __init__(self, fetch: float) -> None:
        self._fetch = fetch
        self._until = 0.0
        self._held: Mapping[int, int] = {}
        self._draining: Set[int] = frozenset()
        self._released: dict[int, int] = {}  # reported until a grant answers
        self._is_lacking = False  # others still hold partitions that will be ours
        self._held_since: dict[int, float] = {}
        self._jobs_in_hand: Counter[int] = Counter()
        self._leader_epoch = 0  # of the newest leader that we know of
        self._leader_since = -math.inf  # when we heard of it

    @property
    def held(self) -> Mapping[int, int]:
        """Partition → epoch. Each grant makes another mapping."""
        return self._held

    @property
    def draining(self) -> Set[int]:
        """The partitions to be given up."""
        return self._draining

    @property
    def is_moving(self) -> bool:
        """Whether partitions are changing hands: until they have, nobody fetches from their hosts."""
        return self._is_lacking or bool(self._draining) or not self._held

    @property
    def claimed(self) -> Mapping[int, int]:
        """All partitions that the database may count as ours, to be released when we leave."""
        return {**self._held, **self._released}

    @property
    def until(self) -> float:
        """The end of the lease."""
        return self._until

    def seconds_left(self, now: float) -> float:
        """Return how many seconds of the lease are left."""
        return self._until - now

    def list_open(self, now: float) -> list[int]:
        """List the partitions in which jobs may begin."""
        if self.seconds_left(now) < self._fetch:
            return []
        return [p for p in self._held if p not in self._draining]

    def find_epoch(self, partition: int, now: float) -> int | None:
        """Return the epoch under which a fetch may begin there, None where it may not."""
        if partition in self._draining or self.seconds_left(now) < self._fetch:
            return None
        return self._held.get(partition)

    def quiet_seconds(self, partition: int, pause: float, now: float) -> float:
        """Return how long hosts with that pause must still be left alone: the last holder may have fetched from them
        until the moment when the partition became ours."""
        return max(self._held_since.get(partition, 0.0) + pause - now, 0.0)

    def note_leader(self, epoch: int, now: float) -> None:
        """Note that a job came from a leader of this epoch."""
        if epoch > self._leader_epoch:
            self._leader_epoch, self._leader_since = epoch, now

    def is_outdated(self, epoch: int) -> bool:
        """Whether the leader of that epoch has been replaced."""
        return epoch < self._leader_epoch

    # jobs and grants

    def begin_job(self, partition: int) -> None:
        """Count a job in hand: its partition is not released before it ends."""
        self._jobs_in_hand[partition] += 1

    def end_job(self, partition: int) -> None:
        self._jobs_in_hand[partition] -= 1

    def release_drained(self) -> Mapping[int, int]:
        """Give up drained partitions, and return all that must be reported until a grant answers.

        Nothing begins there from here on, even if no answer comes.
        """
        drained = {p: epoch for p, epoch in self._held.items() if p in self._draining and not self._jobs_in_hand[p]}
        if drained:
            self._held = {p: epoch for p, epoch in self._held.items() if p not in drained}
            self._released |= drained
        return dict(self._released)

    def apply_grant(self, grant: Grant, asked: float, now: float) -> Set[int]:
        """Apply the grant that was asked for at `asked`; return the partitions that are new."""
        new = {p for p, epoch in grant.partitions.items() if self._held.get(p) != epoch}
        self._held_since |= dict.fromkeys(new, now)
        self._held, self._draining = dict(grant.partitions), frozenset(grant.surplus)
        self._released, self._is_lacking = {}, grant.lacking
        self._until = asked + grant.seconds
        if self._leader_since < asked:  # a leader sends jobs when its epoch is in the database: else the job was forged
            self._leader_epoch = grant.controller
        self.note_leader(grant.controller, now)
        return new
