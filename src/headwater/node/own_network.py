"""Tells servers that cannot be reached from a machine that reaches nobody: an outage of our own is no feed's fault.

A refresh that reached no server, of a feed that was well until now, is suspect: it is held back until another tells
more. An answer from anywhere, and the suspects have failed themselves. Several hosts in a row without one, and the
network of this machine is away: nothing is blamed on the feeds, and one after another is tried until somebody answers.
Holding back costs nothing, since a feed that failed would not be asked again any earlier.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from headwater.model import Ending
from headwater.node.refresher import Fetched
from headwater.node.roster import host_of
from headwater.schedule.manners import BACK_OFF

HOSTS = 3  # so many in a row without an answer
PROBE = 15.0  # seconds between two tries while nobody answers

_NO_ANSWER = frozenset({Ending.DNS, Ending.CONNECTION, Ending.TIMEOUT})
_TOLD_NOTHING = frozenset({Ending.BLOCKED})  # decided here, without asking anybody


@dataclass(slots=True)
class Sifted:
    """Of some results: those that count, and those that do not, whose feeds are to be asked again."""

    counted: list[Fetched] = field(default_factory=list)
    again: list[Fetched] = field(default_factory=list)


@dataclass(slots=True)
class OwnNetwork:
    """What the latest refreshes say of our own way out. `away_since` is when the first of them found nobody, while the
    network is thought to be away."""

    away_since: float | None = None
    _suspects: list[Fetched] = field(default_factory=list)
    _next: float = 0.0

    def sift(self, batch: Sequence[Fetched], hosts: int, wished: Collection[int], now: float) -> Sifted:
        """`hosts` is how many the server knows: with too few of them nothing can be told. A feed that a person wants to
        see (`wished`) counts at once."""
        sifted = Sifted()
        for one in batch:
            if one.outcome.pushed or one.outcome.ending in _TOLD_NOTHING:
                sifted.counted.append(one)
            elif _answered(one):
                self.away_since = None
                sifted.counted += [*self._suspects, one]
                self._suspects = []
            elif one.known.feed_id in wished:
                sifted.counted.append(one)
            elif self.away_since is not None:
                sifted.again.append(one)
            elif hosts >= HOSTS and _was_well(one) and not _late(one, now):
                self._suspects.append(one)
            else:
                sifted.counted.append(one)
        if len({host_of(one.known.url) for one in self._suspects}) >= HOSTS:
            self.away_since, self._next = self._suspects[0].outcome.started, now + PROBE
            sifted.again += self._suspects
            self._suspects = []
        return sifted

    def overdue(self, now: float) -> list[Fetched]:
        """Suspects of which nothing more was heard: they count."""
        late = [one for one in self._suspects if _late(one, now)]
        self._suspects = [one for one in self._suspects if not _late(one, now)]
        return late

    def let_go(self, wished: Collection[int]) -> list[int]:
        """The feeds among these whose last refresh is suspect: a person wants them to be asked again now."""
        ids = {one.known.feed_id for one in self._suspects}.intersection(wished)
        self._suspects = [one for one in self._suspects if one.known.feed_id not in ids]
        return sorted(ids)

    def may_try(self, tokens: int, under_way: int, now: float) -> int:
        """Of so many refreshes that might begin, how many should."""
        if self.away_since is None:
            return tokens
        if under_way or now < self._next:
            return 0
        self._next = now + PROBE
        return min(tokens, 1)


def _answered(one: Fetched) -> bool:
    return one.outcome.status is not None or one.outcome.ending not in _NO_ANSWER


def _was_well(one: Fetched) -> bool:
    return one.known.last_success is not None and not one.known.failures


def _late(one: Fetched, now: float) -> bool:
    return one.outcome.started + BACK_OFF <= now
