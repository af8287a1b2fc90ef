"""An outage of a terminal's own network: it reaches NATS, or the database, and no server of any feed.

What it then brings is held against no feed (`node.own_network` tells the two apart); its partitions pass to terminals
that reach somebody. It keeps a few, whose hosts answered before, and tries one of them from time to time.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field

import structlog

from headwater.cluster.leases.lease_clock import LeaseTiming
from headwater.cluster.transport.wire_messages import Job
from headwater.loops import boot_clock
from headwater.model import Outcome
from headwater.node.crawl.network_outage import MIN_HOSTS, NetworkOutage

MAX_UNASKED = 64  # jobs that were not asked

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, eq=False)
class PendingAttempt:
    """A job and what came of it; `counts` is decided when enough is known of others."""

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


class TerminalOutage:
    """What a terminal's latest results say of its own network."""

    def __init__(self, timing: LeaseTiming) -> None:
        self.pause = timing.lease / 4  # between two tries
        self._hold = timing.lease * 0.75  # a result is not missed before; a failed feed would have to wait longer
        self._patience = timing.leader_seconds
        self._network: NetworkOutage[PendingAttempt] = NetworkOutage(probe=self.pause)
        self._unasked: OrderedDict[int, Job] = OrderedDict()
        self._noticed_at = 0.0

    @property
    def away_since(self) -> float | None:
        return self._network.away_since

    def find_outage(self, held: Collection[int]) -> tuple[float, tuple[int, ...]] | None:
        """Since when nobody answers, and which of the partitions held are needed; None while all is well, or may be
        again in a moment: partitions are not moved for three unlucky hosts."""
        since = self._network.away_since
        if since is None or boot_clock() < self._noticed_at + self._patience:
            return None
        here = dict.fromkeys(job.partition for job in self._unasked.values() if job.partition in held)
        return since, tuple(here)[:MIN_HOSTS]

    def is_clear(self, outcome: Outcome) -> bool:
        """Whether a server has answered, as others did before it: then there is nothing to find out."""
        return outcome.status is not None and self._network.is_clear

    async def decide(self, job: Job, outcome: Outcome, now: float) -> bool:
        """Whether what came of a job is the feed's own affair; waits a while where only others can tell."""
        trial, was_away = PendingAttempt(job, outcome), self._network.away_since
        sifted = self._network.sort_results([trial], MIN_HOSTS, [job.feed_id] if job.wished else [], now)
        for one in sifted.again:
            self.remember_unasked(one.job)
        self._resolve(sifted.counted, True)
        self._resolve(sifted.again, False)
        if was_away is None and self._network.away_since is not None:
            self._noticed_at = boot_clock()
            log.warning("network_away", note="no server answers: feeds are not blamed, one at a time is tried")
        elif was_away is not None and self._network.away_since is None:
            self._end_outage(now - was_away)
        if trial.counts.done():
            return trial.counts.result()
        try:
            return await asyncio.wait_for(trial.counts, self._hold)
        except TimeoutError:
            self._network.release_suspects([job.feed_id])
            return self._hold > 0

    def note_answer(self, now: float) -> None:
        """A server has answered something that was no refresh."""
        was_away = self._network.away_since
        self._resolve(self._network.note_answer(), True)
        if was_away is not None:
            self._end_outage(now - was_away)

    def release_all(self) -> None:
        """We stop, and nobody will know: others ask again."""
        self._hold = 0.0
        self._resolve(self._network.note_answer(), False)

    def remember_unasked(self, job: Job) -> None:
        """It was not asked; we may try by it whether anybody answers."""
        self._unasked.pop(job.feed_id, None)
        self._unasked[job.feed_id] = job
        while len(self._unasked) > MAX_UNASKED:
            self._unasked.popitem(last=False)

    def next_probe(self, held: Collection[int]) -> Job | None:
        """The next of the jobs that were not asked, in turn, whose host is ours."""
        for feed, job in self._unasked.items():
            if job.partition in held:
                self._unasked.move_to_end(feed)
                return job
        return None

    def _end_outage(self, seconds: float) -> None:
        self._unasked.clear()
        log.info("network_back", after=round(seconds))

    @staticmethod
    def _resolve(trials: Collection[PendingAttempt], counts: bool) -> None:
        for one in trials:
            if not one.counts.done():
                one.counts.set_result(counts)


def describe_outage() -> str:
    return (
        "No server answers, though we are heard here: the network of this machine seems to be away. No feed is blamed; "
        "another terminal asks meanwhile, if there is one that reaches anybody."
    )
