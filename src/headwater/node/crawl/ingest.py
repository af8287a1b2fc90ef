"""Judges the results of fetches and stores them, one transaction for a batch.

    results ─► state of each feed ─► judge ─► plan the next refresh ─► one transaction ─► acknowledge

A single server judges by the state that it read before the fetch. A cluster reads the state anew, so that a repeated or
late result is judged by the current state. A result under an old epoch of its partition is late: its items are stored,
and the schedule is not touched.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec
import numpy as np
import structlog
from msgspec.structs import replace
from sqlalchemy import Connection

from headwater.arrays import Ragged
from headwater.errors import HeadwaterError, NotFound
from headwater.estimate.estimator import estimate_first_rate
from headwater.loops import pause
from headwater.model import Document, Ending, Known, Markup, Outcome, Verdict
from headwater.node.crawl.lessons import make_lesson
from headwater.node.crawl.politeness import Politeness
from headwater.node.crawl.scheduler import Scheduler
from headwater.node.crawl.transport import FetchResult, Job, ResultBatch, ResultReceiver, StoredLesson, StoredRefresh
from headwater.novelty import find_unknown_identities, judge
from headwater.store import cluster_jobs
from headwater.store.content import verdicts
from headwater.store.content.feed_state import find_seen_identities, load_feed_states
from headwater.store.content.verdicts import SavedRefresh
from headwater.store.store import Store
from headwater.times import HOUR

PUSHED = "pushed by its hub"
NEVER_LATE = 1 << 62  # an epoch that no partition reaches: a push belongs to nobody's lease
FIRST_WAIT, MAX_WAIT = 0.25, 10.0  # seconds between two tries while the database is away

log = structlog.get_logger()
encode_lessons = msgspec.msgpack.Encoder().encode

FindEpochs = Callable[[Connection, Collection[int]], Mapping[int, int]]
"""Locks the leases of these partitions and returns their epochs."""


class Judged(NamedTuple):
    """A result, the feed's state before it, and the verdict."""

    result: FetchResult
    known: Known
    verdict: Verdict


class Planner(Protocol):
    """Plans when each feed is refreshed next, in the given order; None for a feed that was removed."""

    def plan_refreshes(self, judged: Sequence[Judged]) -> Sequence[float | None]: ...


class LearningPlanner:
    """Lets the scheduler learn from the batch before it is stored, which gives the due time of each feed."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def plan_refreshes(self, judged: Sequence[Judged]) -> Sequence[float | None]:
        return self._scheduler.learn_lessons(
            [make_lesson(one.known, one.result.outcome, one.verdict) for one in judged]
        )


class ProvisionalPlanner:
    """Plans by politeness and a first rate until the leader has learned: a new leader must not find every feed due."""

    def __init__(self, politeness: Politeness, clock: Callable[[], float] = time.time) -> None:
        self._politeness = politeness
        self._clock = clock

    def plan_refreshes(self, judged: Sequence[Judged]) -> Sequence[float | None]:
        rates = np.array([np.nan if one.result.job.rate is None else one.result.job.rate for one in judged])
        # Before a feed's first refresh its estimated rate is a guess; the dates of its first document are better.
        first = [k for k, one in enumerate(judged) if one.known.last_success is None]
        if first:
            refreshes = [judged[k].verdict.refresh for k in first]
            shown = estimate_first_rate(
                Ragged.of([refresh.published for refresh in refreshes]),
                np.array([refresh.at for refresh in refreshes]),
            )
            rates[first] = np.where(np.isnan(shown), rates[first], shown)
        now = self._clock()
        facts = self._politeness.gather_facts([one.verdict.known for one in judged])
        next_item = np.fmin(1 / np.maximum(rates, 1e-12), HOUR)  # an hour also where there is no rate
        earliest: list[float | None] = np.maximum(
            self._politeness.compute_earliest(facts, now), now + next_item
        ).tolist()
        return earliest


class Ingest:
    """Stores batches of results.

    `find_epochs` belongs to a cluster: results are checked against their partitions' leases, and lessons are stored for
    the leader. `jobs_are_rows` says that a job is a row that goes with its result. `on_step` is a hook of tests.
    """

    def __init__(
        self,
        store: Store,
        *,
        planner: Planner | None = None,
        find_epochs: FindEpochs | None = None,
        jobs_are_rows: bool = False,
        on_stored: Callable[[Sequence[StoredRefresh]], None] = lambda batch: None,
        on_unasked: Callable[[Sequence[FetchResult]], None] = lambda batch: None,
        on_failed: Callable[[Sequence[tuple[FetchResult, Exception]]], None] = lambda failed: None,
        on_step: Callable[[str], None] = lambda name: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._planner = planner
        self._find_epochs = find_epochs
        self._jobs_are_rows = jobs_are_rows
        self._on_stored = on_stored
        self._on_unasked = on_unasked
        self._on_failed = on_failed
        self._on_step = on_step
        self._clock = clock
        self._saving = asyncio.Lock()  # a pushed document and a poll of the same feed are judged one after the other
        self.counts = {"stored": 0, "new": 0, "updated": 0, "late": 0, "skipped": 0}
        self.problem: str | None = None

    async def run(self, transport: ResultReceiver, stop: asyncio.Event) -> None:
        """Store the results of a transport until `stop` is set and nothing is left in hand."""
        async for batch in transport.receive_results(stop):
            failed: list[tuple[FetchResult, Exception]] = []
            try:
                stored = await self._save_patiently(transport, batch, batch.results, stop)
            except Exception as error:
                log.error("batch_failed", results=len(batch.results), error=repr(error))
                for one in batch.results:
                    try:
                        stored = await self._save_patiently(transport, batch, [one], stop)
                    except Exception as why:
                        failed.append((one, why))
            if not stored:  # stopped while the database was away: another process gets the batch
                continue
            if failed:
                self._on_failed(failed)
                await transport.reject_results(batch, failed)
            else:
                await transport.ack_results(batch)
            self._on_step("acknowledged")

    async def _save_patiently(
        self, transport: ResultReceiver, batch: ResultBatch, results: Sequence[FetchResult], stop: asyncio.Event
    ) -> bool:
        """Store results; while the database is away, try again. False if stopped meanwhile."""
        wait = FIRST_WAIT
        while True:
            try:
                await self.save_results(results)
                self.problem = None
                return True
            except HeadwaterError as error:
                self.problem = str(error)
                log.warning("batch_not_saved", results=len(results), error=str(error), again_in=wait)
                if stop.is_set():
                    return False
                await transport.keep_results(batch)
                await pause(stop, wait)
                wait = min(2 * wait, MAX_WAIT)

    async def accept_push(self, feed_id: int, document: Document[Markup], size: int) -> StoredRefresh:
        """Store a document that a hub pushed, and return when it is stored."""
        known = (await self._store.read(load_feed_states, [feed_id])).get(feed_id)
        if known is None:
            raise NotFound(f"There is no feed {feed_id}.")
        outcome = Outcome(
            *(Ending.PARTIAL, known.url, known.url, self._clock(), 0.0), document=document, bytes=size, pushed=True
        )
        job = Job(feed_id, 0, 0, known.url, PUSHED)  # without the state, which another push may change before ours
        [stored] = await self.save_results([FetchResult(job, outcome, epoch=NEVER_LATE)])
        return stored

    async def save_results(self, results: Sequence[FetchResult]) -> list[StoredRefresh]:
        """Judge and store results in one transaction; when this returns, everything new is safe."""
        async with self._saving:
            self._on_step("taken")
            unasked = [one for one in results if one.unasked]
            judged = await self._judge([one for one in results if not one.unasked])
            self._on_step("judged")
            states = await self._load_states(unasked) if unasked and self._find_epochs is not None else {}
            idle = [(one, states[one.feed_id]) for one in unasked if one.feed_id in states]
            finished = {one.feed_id for one in results} if self._jobs_are_rows else set()
            saved = await self._write(judged, idle, finished)
            self._on_step("saved")
        stored = [StoredRefresh(*one[:2], *rest) for one, rest in zip(judged, saved, strict=True)]
        self._count(stored)
        if unasked:
            self._on_unasked(unasked)
        if stored:
            self._on_stored(stored)
        return stored

    async def _judge(self, results: Sequence[FetchResult]) -> list[Judged]:
        states = await self._load_states(results)
        here = [(one, states[one.feed_id]) for one in results if one.feed_id in states]
        unknown = {
            known.feed_id: find_unknown_identities(known, one.outcome) for one, known in here if one.outcome.document
        }
        seen = await self._store.read(find_seen_identities, unknown) if any(unknown.values()) else {}
        judged = [
            Judged(
                one,
                known,
                judge(
                    known,
                    one.outcome,
                    seen.get(known.feed_id, {}),
                    reason=one.job.reason,
                    # Only a document shows a loss, and only if the feed was read before.
                    rate=one.job.rate if one.outcome.document is not None and known.last_success is not None else None,
                ),
            )
            for one, known in here
        ]
        if self._planner is None or not judged:
            return judged
        due = self._planner.plan_refreshes(judged)
        return [
            Judged(one.result, one.known, replace(one.verdict, known=replace(one.verdict.known, next_refresh=at)))
            for one, at in zip(judged, due, strict=True)
        ]

    async def _load_states(self, results: Sequence[FetchResult]) -> dict[int, Known]:
        """Return the state of each feed, as the job carries it or as it is stored; most results need no window."""
        carried = {one.feed_id: one.job.known for one in results if one.job.known is not None}
        missing = [one for one in results if one.job.known is None]
        documents = {one.feed_id for one in missing if one.outcome.document is not None}
        others = {one.feed_id for one in missing} - documents
        if documents:
            carried |= await self._store.read(load_feed_states, documents)
        if others:
            carried |= await self._store.read(load_feed_states, others, windows=False)
        return carried

    async def _write(
        self, judged: Sequence[Judged], unasked: Sequence[tuple[FetchResult, Known]], finished: set[int]
    ) -> list[tuple[Verdict, SavedRefresh]]:
        given = (judged, unasked, finished, self._find_epochs)
        try:
            return await self._store.write(_write_results, *given, verdicts.save_batch)
        except verdicts.BatchRefused:
            return await self._store.write(_write_results, *given, verdicts.save_one_by_one)

    def _count(self, stored: Sequence[StoredRefresh]) -> None:
        self.counts["stored"] += len(stored)
        self.counts["new"] += sum(len(one.saved.new) for one in stored)
        self.counts["updated"] += sum(len(one.saved.updated_ids) for one in stored)
        self.counts["late"] += sum(one.verdict.late for one in stored)
        self.counts["skipped"] += sum(one.saved.skipped is not None for one in stored)


def is_late(result: FetchResult, epochs: Mapping[int, int]) -> bool:
    """Whether the partition of a result has passed to another process since it was fetched."""
    return result.epoch < epochs.get(result.job.partition, 0)


def _write_results(
    connection: Connection,
    judged: Sequence[Judged],
    unasked: Sequence[tuple[FetchResult, Known]],
    finished: set[int],
    find_epochs: FindEpochs | None,
    write: Callable[[Connection, Sequence[Verdict]], list[SavedRefresh]],
) -> list[tuple[Verdict, SavedRefresh]]:
    if find_epochs is None:
        written = [one.verdict for one in judged]
        return list(zip(written, write(connection, written), strict=True))
    everything = [*(one.result for one in judged), *(one for one, _ in unasked)]
    epochs = find_epochs(connection, {one.job.partition for one in everything})
    late = {id(one) for one in everything if is_late(one, epochs)}
    written = [replace(one.verdict, late=True) if id(one.result) in late else one.verdict for one in judged]
    cluster_jobs.delete_jobs(connection, finished - {one.feed_id for one in everything if id(one) in late})
    saved = write(connection, written)
    lessons = [
        _make_stored_lesson(one.result, one.known, verdict, late=verdict.late)
        for one, verdict in zip(judged, written, strict=True)
        if one.known.last_refresh != verdict.refresh.at  # else it came before, and was learned from
    ]
    for one, known in unasked:
        if id(one) not in late:
            verdict = judge(known, one.outcome, {}, reason=one.job.reason)
            lessons.append(_make_stored_lesson(one, known, verdict, late=True))
    if lessons:
        cluster_jobs.add_lessons(connection, encode_lessons(lessons))
    return list(zip(written, saved, strict=True))


def _make_stored_lesson(result: FetchResult, known: Known, verdict: Verdict, *, late: bool) -> StoredLesson:
    lesson = make_lesson(known, result.outcome, verdict)
    return StoredLesson(
        result.job.generation,
        replace(lesson, known=replace(lesson.known, window=())),
        late=late,
        unasked=result.unasked,
        way=result.way,
        unbegun=result.unbegun,
    )
