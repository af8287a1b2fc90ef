"""A storer: judges what terminals brought and writes it, with what the controller is to learn, in one transaction.

What is known of a feed is read anew, not carried along with the job: so a result that comes twice, or late, is judged
by what is true now. A result under an old epoch of its partition is late: its items are stored, the schedule is not
touched.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from sqlalchemy import Connection

from headwater.arrays import Ragged
from headwater.cluster import fail_points
from headwater.cluster.leases.partitions import LEASE_OF_PARTITION
from headwater.cluster.transport.wire_messages import FetchResult, StoredLesson, encode
from headwater.estimate.estimator import estimate_first_rate
from headwater.model import Known, Verdict
from headwater.node.crawl.lessons import Lesson, make_lesson
from headwater.node.crawl.politeness import Politeness
from headwater.node.crawl.refresher import Fetched, StoredRefresh
from headwater.node.websub.websub_client import NOT_PUSHED, SILENT_HUB_RETRY, hub_missed_items
from headwater.novelty import find_unknown_identities, judge
from headwater.store import cluster_jobs, cluster_leases
from headwater.store.content import verdicts as save
from headwater.store.content.feed_state import find_seen_identities, load_feed_states
from headwater.store.content.verdicts import SavedRefresh
from headwater.store.content.websub_leases import end_lease, list_pushed_feeds
from headwater.store.store import Store


class ClusterIngest:
    """Writes batches of results. `courtesy` says when a feed may be asked again, until the controller says more.

    `rows` says that jobs are rows, which go with their results; else whoever carries them sees to that.
    """

    def __init__(
        self, store: Store, courtesy: Politeness, *, rows: bool = True, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._politeness = courtesy
        self._jobs_are_rows = rows
        self._clock = clock
        self._pushed_since: dict[int, float] = {}  # feeds that hubs push, and since when
        self.counts = {"stored": 0, "new": 0, "updated": 0, "late": 0, "skipped": 0}

    async def save_results(self, results: Sequence[FetchResult]) -> list[SavedRefresh]:
        """When this returns, everything new is safe and the jobs are gone."""
        fail_points.here("storer.taken")
        known = await self._load_states(results)
        there = [(one, known[one.job.feed_id]) for one in results if one.job.feed_id in known]
        here = [pair for pair in there if not pair[0].unasked]
        unasked = [pair for pair in there if pair[0].unasked]
        wanted = {
            before.feed_id: find_unknown_identities(before, one.outcome) for one, before in here if one.outcome.document
        }
        seen = await self._store.read(find_seen_identities, wanted) if any(wanted.values()) else {}
        verdicts = [
            judge(before, one.outcome, seen.get(before.feed_id, {}), reason=one.job.reason, rate=one.job.rate)
            for one, before in here
        ]
        verdicts = self._plan_refreshes(here, verdicts)
        fail_points.here("storer.judged")
        done = {one.job.feed_id for one in results} if self._jobs_are_rows else set()
        try:
            saved = await self._store.write(_write_results, here, verdicts, unasked, done, save.save_batch)
        except save.BatchRefused:
            saved = await self._store.write(_write_results, here, verdicts, unasked, done, save.save_one_by_one)
        fail_points.here("storer.saved")
        self._count_saved(verdicts, saved)
        if self._pushed_since:
            await self._watch_hubs(here, verdicts)
        return saved

    async def _load_states(self, results: Sequence[FetchResult]) -> dict[int, Known]:
        """Of each feed; most bring no document, and windows are most of what is kept."""
        documents = {one.job.feed_id for one in results if one.outcome.document is not None}
        others = {one.job.feed_id for one in results} - documents
        whole = await self._store.read(load_feed_states, documents) if documents else {}
        return whole | (await self._store.read(load_feed_states, others, windows=False) if others else {})

    async def follow_hubs(self) -> None:
        """Learn from the store which feeds are pushed: who talks with hubs is another process."""
        self._pushed_since = await self._store.read(list_pushed_feeds, self._clock())
        self._politeness.pushed_feeds = set(self._pushed_since)

    async def _watch_hubs(self, here: Sequence[tuple[FetchResult, Known]], verdicts: Sequence[Verdict]) -> None:
        """A hub that has confirmed and does not push is not believed any more; who decides sees it in the store."""
        for (one, before), verdict in zip(here, verdicts, strict=True):
            since = self._pushed_since.get(before.feed_id)
            if since is None or one.outcome.pushed:
                continue
            settled = StoredRefresh(Fetched(before, one.outcome, one.job.reason), verdict, SavedRefresh(before.feed_id))
            if hub_missed_items(settled, since):
                del self._pushed_since[before.feed_id]
                self._politeness.pushed_feeds.discard(before.feed_id)
                await self._store.write(
                    end_lease, before.feed_id, "silent", NOT_PUSHED, self._clock() + SILENT_HUB_RETRY
                )

    def _plan_refreshes(self, here: Sequence[tuple[FetchResult, Known]], verdicts: Sequence[Verdict]) -> list[Verdict]:
        """With when each may be asked again: who takes the lead over must not find everything due.

        What was believed before a feed's first refresh is nothing that it has shown; its first dates are.
        """
        if not verdicts:
            return []
        rates = np.array([np.nan if one.job.rate is None else one.job.rate for one, _ in here])
        first = [k for k, (_, before) in enumerate(here) if before.last_success is None]
        if first:
            refreshes = [verdicts[k].refresh for k in first]
            dates = Ragged.of([refresh.published for refresh in refreshes])
            told = estimate_first_rate(dates, np.array([refresh.at for refresh in refreshes]))
            rates[first] = np.where(np.isnan(told), rates[first], told)
        allowed = self._politeness.compute_earliest([verdict.known for verdict in verdicts], rates, self._clock())
        return [
            msgspec.structs.replace(verdict, known=msgspec.structs.replace(verdict.known, next_refresh=at))
            for verdict, at in zip(verdicts, allowed.tolist(), strict=True)
        ]

    def _count_saved(self, verdicts: Sequence[Verdict], saved: Sequence[SavedRefresh]) -> None:
        self.counts["stored"] += len(saved)
        self.counts["new"] += sum(len(one.new) for one in saved)
        self.counts["updated"] += sum(len(one.updated_ids) for one in saved)
        self.counts["skipped"] += sum(one.skipped is not None for one in saved)


def _write_results(
    connection: Connection,
    here: Sequence[tuple[FetchResult, Known]],
    verdicts: Sequence[Verdict],
    unasked: Sequence[tuple[FetchResult, Known]],
    done: set[int],
    write: Callable[[Connection, Sequence[Verdict]], list[SavedRefresh]],
) -> list[SavedRefresh]:
    epochs = cluster_leases.lock_epochs(
        connection, {LEASE_OF_PARTITION[one.job.partition] for one, _ in (*here, *unasked)}
    )

    def is_late(one: FetchResult) -> bool:
        return one.epoch < epochs.get(LEASE_OF_PARTITION[one.job.partition], 0)

    judged = [
        msgspec.structs.replace(verdict, late=True) if is_late(one) else verdict
        for (one, _), verdict in zip(here, verdicts, strict=True)
    ]
    late = {one.job.feed_id for one, _ in (*here, *unasked) if is_late(one)}
    cluster_jobs.delete_jobs(connection, done - late)
    saved = write(connection, judged)
    taught = [
        StoredLesson(one.job.generation, _make_lesson(before, one, verdict), verdict.late)
        for (one, before), verdict in zip(here, judged, strict=True)
        if before.last_refresh != verdict.refresh.at  # else it came before, and was learned from
    ]
    taught += [
        StoredLesson(
            one.job.generation,
            _make_lesson(before, one, judge(before, one.outcome, {}, reason=one.job.reason)),
            True,
            True,
        )
        for one, before in unasked
        if not is_late(one)
    ]
    if taught:
        cluster_jobs.add_lessons(connection, encode(taught))
    return saved


def _make_lesson(before: Known, result: FetchResult, verdict: Verdict) -> Lesson:
    told = make_lesson(before, result.outcome, verdict)
    return msgspec.structs.replace(told, known=msgspec.structs.replace(told.known, window=()))
