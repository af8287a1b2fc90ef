"""Tells servers that cannot be reached from a machine that reaches nobody: an outage of our own is no feed's fault.

A refresh that reached no server, of a feed that was well until now, is suspect: it is held back until another tells
more. An answer from anywhere, and the suspects have failed themselves. Several hosts in a row without one, and the
network of this machine is away: nothing is blamed on the feeds, and one after another is tried until somebody answers.
Holding back costs nothing, since a feed that failed would not be asked again any earlier.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from headwater.fetch.http.domains import registered_domain_of_url
from headwater.model import Ending, Outcome
from headwater.schedule.politeness.rules import BACK_OFF

MIN_HOSTS = 3  # so many in a row without an answer
PROBE_SECONDS = 15.0  # seconds between two tries while nobody answers

_NO_ANSWER = frozenset({Ending.DNS, Ending.CONNECTION, Ending.TIMEOUT})
_NO_EVIDENCE = frozenset({Ending.BLOCKED})  # decided here, without asking anybody


class FetchAttempt(Protocol):
    """A refresh that was tried, by this process or by a terminal; `was_well` is what the feed was before."""

    @property
    def feed_id(self) -> int: ...

    @property
    def url(self) -> str: ...

    @property
    def was_well(self) -> bool: ...

    @property
    def outcome(self) -> Outcome: ...


T = TypeVar("T", bound=FetchAttempt)


@dataclass(slots=True)
class SortedResults(Generic[T]):
    """Of some results: those that count, and those that do not, whose feeds are to be asked again."""

    counted: list[T] = field(default_factory=list)
    again: list[T] = field(default_factory=list)


@dataclass(slots=True)
class NetworkOutage(Generic[T]):
    """What the latest refreshes say of our own way out. `away_since` is when the first of them found nobody, while the
    network is thought to be away. A suspect is held for `hold` seconds at most."""

    hold: float = BACK_OFF
    probe: float = PROBE_SECONDS
    away_since: float | None = None
    _suspects: list[T] = field(default_factory=list)
    _in_vain: dict[str, float] = field(default_factory=dict)  # hosts since the last answer, and when they were tried
    _next: float = 0.0

    def sort_results(self, batch: Sequence[T], hosts: int, wished: Collection[int], now: float) -> SortedResults[T]:
        """`hosts` is how many the server knows: with too few of them nothing can be told. A feed that a person wants to
        see (`wished`) counts at once."""
        sifted: SortedResults[T] = SortedResults()
        for one in batch:
            if one.outcome.pushed or one.outcome.ending in _NO_EVIDENCE:
                sifted.counted.append(one)
            elif _has_answer(one):
                sifted.counted += [*self.note_answer(), one]
            elif one.feed_id in wished:
                sifted.counted.append(one)
            elif self.away_since is not None:
                sifted.again.append(one)
            elif hosts >= MIN_HOSTS and one.was_well and not self._is_overdue(one, now):
                self._suspects.append(one)
                self._in_vain.setdefault(registered_domain_of_url(one.url), one.outcome.started)
            else:
                sifted.counted.append(one)
        if self.away_since is None and len(self._in_vain) >= MIN_HOSTS:
            self.away_since, self._next = min(self._in_vain.values()), now + self.probe
            sifted.again += self._suspects
            self._suspects = []
        return sifted

    @property
    def is_clear(self) -> bool:
        """Nobody was asked in vain since the last answer: one more says nothing new."""
        return self.away_since is None and not self._suspects and not self._in_vain

    def note_answer(self) -> list[T]:
        """Somebody has answered, whatever it was that we asked: the suspects, who count now."""
        suspects, self._suspects, self.away_since = self._suspects, [], None
        self._in_vain.clear()
        return suspects

    def pop_overdue(self, now: float) -> list[T]:
        """Suspects of which nothing more was heard: they count. Their hosts are still none that answered."""
        late = [one for one in self._suspects if self._is_overdue(one, now)]
        self._suspects = [one for one in self._suspects if not self._is_overdue(one, now)]
        return late

    def release_suspects(self, wished: Collection[int]) -> list[int]:
        """The feeds among these whose last refresh is suspect: a person wants them to be asked again now."""
        ids = {one.feed_id for one in self._suspects}.intersection(wished)
        self._suspects = [one for one in self._suspects if one.feed_id not in ids]
        return sorted(ids)

    def limit_probes(self, tokens: int, under_way: int, now: float) -> int:
        """Of so many refreshes that might begin, how many should."""
        if self.away_since is None:
            return tokens
        if under_way or now < self._next:
            return 0
        self._next = now + self.probe
        return min(tokens, 1)

    def _is_overdue(self, one: T, now: float) -> bool:
        return one.outcome.started + self.hold <= now


def _has_answer(one: FetchAttempt) -> bool:
    return one.outcome.status is not None or one.outcome.ending not in _NO_ANSWER
