"""A terminal's tenancy: which partitions it holds, until when, which of them it is to give up, what may be begun.

    granted ─► held ─► draining: nothing more is begun, what is under way ends ─► let go ─► another's
                 └───► the lease is nearly over: nothing more is begun

It decides and does nothing: what time it is is said to it, by a clock that goes on while the machine sleeps, and so is
what was begun and what has ended. A grant counts from when it was asked for, before the landlord's clock began.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set

from headwater.cluster.transport.wire_messages import Grant


class Holdings:
    """Partitions with the epochs of their leases. A fetch takes up to `fetch` seconds: it begins only with so much of
    the lease left."""

    def __init__(self, fetch: float) -> None:
        self._fetch = fetch
        self._until = 0.0
        self._held: Mapping[int, int] = {}
        self._draining: Set[int] = frozenset()
        self._released: dict[int, int] = {}  # until the landlord has answered
        self._is_lacking = False  # others have partitions yet that will be ours
        self._held_since: dict[int, float] = {}
        self._jobs_in_hand: Counter[int] = Counter()
        self._leader_epoch = 0  # of the controller that leads, as far as we have heard

    @property
    def held(self) -> Mapping[int, int]:
        """Partition → epoch; another mapping whenever it has changed, or was confirmed."""
        return self._held

    @property
    def draining(self) -> Set[int]:
        """What others should have."""
        return self._draining

    @property
    def is_moving(self) -> bool:
        """Whether partitions are on their way to us or from us: until they have come, nobody asks their hosts."""
        return self._is_lacking or bool(self._draining) or not self._held

    @property
    def claimed(self) -> Mapping[int, int]:
        """All that the landlord may take for ours, when we leave."""
        return {**self._held, **self._released}

    @property
    def until(self) -> float:
        """When the lease ends."""
        return self._until

    def seconds_left(self, now: float) -> float:
        """Seconds of the lease."""
        return self._until - now

    def list_open(self, now: float) -> list[int]:
        """The partitions in which something may be begun."""
        if self.seconds_left(now) < self._fetch:
            return []
        return [p for p in self._held if p not in self._draining]

    def find_epoch(self, partition: int, now: float) -> int | None:
        """Under which a fetch may begin there; None where it may not."""
        if partition in self._draining or self.seconds_left(now) < self._fetch:
            return None
        return self._held.get(partition)

    def quiet_seconds(self, partition: int, pause: float, now: float) -> float:
        """Seconds for which its hosts are still to be left alone: a pause after a fetch of theirs holds for who comes
        after, and who had the partition before may have asked them until the moment it became ours."""
        return max(self._held_since.get(partition, 0.0) + pause - now, 0.0)

    def note_leader(self, epoch: int) -> None:
        """Note that a controller leads, or led, under this epoch."""
        self._leader_epoch = max(self._leader_epoch, epoch)

    def is_outdated(self, epoch: int) -> bool:
        """Whether the controller of that epoch has been replaced."""
        return epoch < self._leader_epoch

    # what goes on

    def begin_job(self, partition: int) -> None:
        """Something of it is in our hands, and it is not let go before that has ended."""
        self._jobs_in_hand[partition] += 1

    def end_job(self, partition: int) -> None:
        self._jobs_in_hand[partition] -= 1

    def release_drained(self) -> Mapping[int, int]:
        """Give up what is drained; what the landlord is to hear of, until he has answered.

        From here on nothing of it is begun, whatever becomes of the answer.
        """
        drained = {p: epoch for p, epoch in self._held.items() if p in self._draining and not self._jobs_in_hand[p]}
        if drained:
            self._held = {p: epoch for p, epoch in self._held.items() if p not in drained}
            self._released |= drained
        return dict(self._released)

    def apply_grant(self, grant: Grant, asked: float, now: float) -> Set[int]:
        """The landlord has answered what he was `asked` for then; the partitions that are new."""
        new = {p for p, epoch in grant.partitions.items() if self._held.get(p) != epoch}
        self._held_since |= dict.fromkeys(new, now)
        self._held, self._draining = dict(grant.partitions), frozenset(grant.surplus)
        self._released, self._is_lacking = {}, grant.lacking
        self._until = asked + grant.seconds
        self.note_leader(grant.controller)
        return new
