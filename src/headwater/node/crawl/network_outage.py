"""Tells unreachable servers from an outage of our own network, for which no feed is blamed.

A fetch that reached no server, of a feed that was well until now, is suspect: its result is held back until another
fetch tells more. An answer from anywhere shows that the network is up, and the suspects have failed themselves. If
several hosts in a row give no answer, the network of this machine is away: no feed is judged, and one feed at a time
is probed until a server answers. Holding back costs nothing, since a failed feed is not asked again any earlier.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import structlog

from headwater.formats.values.domains import registered_domain_of_url
from headwater.loops import boot_clock
from headwater.model import Ending, Outcome
from headwater.node.crawl.transport import Job
from headwater.schedule.politeness.rules import BACK_OFF

MIN_HOSTS = 3  # hosts in a row without an answer
PROBE_SECONDS = 15.0  # between two probes while nobody answers
MAX_UNASKED = 64  # jobs remembered to probe with

_NO_ANSWER = frozenset({Ending.DNS, Ending.CONNECTION, Ending.TIMEOUT})
_NO_EVIDENCE = frozenset({Ending.BLOCKED})  # decided here, without asking anybody

log = structlog.get_logger()


class FetchAttempt(Protocol):
    """A fetch that was tried; `was_well` says whether the feed's refresh before it succeeded."""

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
    """Results that count for their feeds, and results to fetch again."""

    counted: list[T] = field(default_factory=list)
    again: list[T] = field(default_factory=list)


@dataclass(slots=True)
class OutageDetector(Generic[T]):
    """Judges by the latest fetches whether our own network is up. Pure: it has no clock and waits for nothing.

    `away_since` is the time of the first fetch that found nobody, while the network is thought to be away.
    """

    hold: float = BACK_OFF  # seconds that a suspect is held at most
    away_since: float | None = None
    _suspects: list[T] = field(default_factory=list)
    _silent_hosts: dict[str, float] = field(default_factory=dict)  # since the last answer, with the time of the fetch

    def sort_results(self, batch: Sequence[T], hosts: int, requested: Collection[int], now: float) -> SortedResults[T]:
        """Sort results into counting ones and ones to fetch again; suspects are in neither.

        `hosts` is how many the server knows: with fewer than three nothing can be concluded. A feed that a person has
        `requested` counts at once.
        """
        found: SortedResults[T] = SortedResults()
        for one in batch:
            if one.outcome.pushed or one.outcome.ending in _NO_EVIDENCE:
                found.counted.append(one)
            elif _has_answer(one):
                found.counted += [*self.note_answer(), one]
            elif one.feed_id in requested:
                found.counted.append(one)
            elif self.away_since is not None:
                found.again.append(one)
            elif hosts >= MIN_HOSTS and one.was_well and one.outcome.started + self.hold > now:
                self._suspects.append(one)
                self._silent_hosts.setdefault(registered_domain_of_url(one.url), one.outcome.started)
            else:
                found.counted.append(one)
        if self.away_since is None and len(self._silent_hosts) >= MIN_HOSTS:
            self.away_since = min(self._silent_hosts.values())
            found.again += self._suspects
            self._suspects = []
        return found

    @property
    def is_clear(self) -> bool:
        """Whether every fetch since the last answer was answered, so that one more answer changes nothing."""
        return self.away_since is None and not self._suspects and not self._silent_hosts

    def note_answer(self) -> list[T]:
        """Note that a server has answered; return the suspects, which count now."""
        suspects, self._suspects, self.away_since = self._suspects, [], None
        self._silent_hosts.clear()
        return suspects

    def release_suspects(self, feed_ids: Collection[int]) -> list[T]:
        """Return the suspects among these feeds and hold them no longer. Their hosts still count as silent."""
        released = [one for one in self._suspects if one.feed_id in feed_ids]
        self._suspects = [one for one in self._suspects if one.feed_id not in feed_ids]
        return released


def _has_answer(one: FetchAttempt) -> bool:
    return one.outcome.status is not None or one.outcome.ending not in _NO_ANSWER


@dataclass(frozen=True, slots=True, eq=False)
class _PendingAttempt:
    """A fetched job; `counts` is resolved when other fetches have shown whether the network was up."""

    job: Job
    outcome: Outcome
    counts: asyncio.Future[bool] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def feed_id(self) -> int:
        return self.job.feed_id

    @property
    def url(self) -> str:
        return self.job.url

    @property
    def was_well(self) -> bool:
        return self.job.well


class NetworkOutage:
    """Holds back suspect results of a fetch pool, and chooses the jobs by which an outage is probed.

    `hold` and `probe` are seconds: how long a suspect is held, and the pause between two probes. An outage is reported
    to others only after `patience` seconds: partitions are not moved because of three unlucky hosts.
    """

    def __init__(
        self,
        *,
        hold: float = BACK_OFF,
        probe: float = PROBE_SECONDS,
        patience: float = 0.0,
        host_count: Callable[[], int] = lambda: MIN_HOSTS,
    ) -> None:
        self.probe_seconds = probe
        self._hold = hold
        self._patience = patience
        self._host_count = host_count
        self._detector: OutageDetector[_PendingAttempt] = OutageDetector(hold)
        self._unasked: OrderedDict[int, Job] = OrderedDict()
        self._noticed_at = 0.0

    @property
    def away_since(self) -> float | None:
        return self._detector.away_since

    def find_outage(self, held: Collection[int]) -> tuple[float, tuple[int, ...]] | None:
        """Return since when no server answers, and the held partitions needed to probe."""
        since = self._detector.away_since
        if since is None or boot_clock() < self._noticed_at + self._patience:
            return None
        here = dict.fromkeys(job.partition for job in self._unasked.values() if job.partition in held)
        return since, tuple(here)[:MIN_HOSTS]

    def is_clear(self, outcome: Outcome) -> bool:
        """Whether this server and all before it have answered, so that the result counts at once."""
        return outcome.status is not None and self._detector.is_clear

    async def may_judge(self, job: Job, outcome: Outcome, now: float) -> bool:
        """Whether the outcome counts for the feed; waits if only other fetches can show that."""
        attempt, was_away = _PendingAttempt(job, outcome), self._detector.away_since
        requested = [job.feed_id] if job.wished else []
        found = self._detector.sort_results([attempt], self._host_count(), requested, now)
        for one in found.again:
            self.remember_unasked(one.job)
        _resolve(found.counted, True)
        _resolve(found.again, False)
        if was_away is None and self._detector.away_since is not None:
            self._noticed_at = boot_clock()
            log.warning("network_away", note="no server answers: feeds are not blamed, one at a time is tried")
        elif was_away is not None and self._detector.away_since is None:
            self._end_outage(now - was_away)
        if attempt.counts.done():
            return attempt.counts.result()
        try:
            return await asyncio.wait_for(attempt.counts, self._hold)
        except TimeoutError:
            self._detector.release_suspects([job.feed_id])
            return self._hold > 0

    def note_answer(self, now: float) -> None:
        """Note that a server has answered a request other than a refresh."""
        was_away = self._detector.away_since
        _resolve(self._detector.note_answer(), True)
        if was_away is not None:
            self._end_outage(now - was_away)

    def release_suspect(self, feed_id: int) -> None:
        """Drop the suspect result of a feed, because a person wants it to be fetched again now."""
        _resolve(self._detector.release_suspects([feed_id]), False)

    def release_all(self) -> None:
        """Drop all suspects when the pool stops: their feeds are fetched again."""
        self._hold = 0.0
        _resolve(self._detector.note_answer(), False)

    def remember_unasked(self, job: Job) -> None:
        """Remember a job that was not fetched, to probe with."""
        self._unasked.pop(job.feed_id, None)
        self._unasked[job.feed_id] = job
        while len(self._unasked) > MAX_UNASKED:
            self._unasked.popitem(last=False)

    def next_probe(self, held: Collection[int]) -> Job | None:
        """Return the next of the unasked jobs, in turn, whose partition is held."""
        for feed, job in self._unasked.items():
            if job.partition in held:
                self._unasked.move_to_end(feed)
                return job
        return None

    def _end_outage(self, seconds: float) -> None:
        self._unasked.clear()
        log.info("network_back", after=round(seconds))


def _resolve(attempts: Collection[_PendingAttempt], counts: bool) -> None:
    for one in attempts:
        if not one.counts.done():
            one.counts.set_result(counts)


def describe_outage() -> str:
    """Return the problem that a terminal reports during an outage."""
    return (
        "No server answers, although the cluster does: the network of this machine seems to be down. No feed counts as "
        "failed; another terminal takes over if it reaches the servers."
    )
