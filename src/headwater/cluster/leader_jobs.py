"""Makes the leader's jobs from what is stored of the feeds, and reads the lessons of their results."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.cluster.leases.partitions import partition_of
from headwater.cluster.transport.wire_messages import read_lessons
from headwater.node.crawl.dispatcher import JobOrder
from headwater.node.crawl.transport import Job, StoredLesson
from headwater.store import cluster_jobs
from headwater.store.content.feed_state import FetchPlan, load_fetch_plans
from headwater.store.store import Store

MAX_LESSON_ROWS = 64  # batches of storers, each of some hundred refreshes at most


class ClusterJobs:
    """Makes jobs for terminals: they carry what a fetch needs, and no more of the feed's state."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def make_jobs(self, orders: Sequence[JobOrder]) -> list[Job]:
        plans = await self._store.read(load_fetch_plans, [order.feed_id for order in orders])
        return [make_job(plans[order.feed_id], order) for order in orders if order.feed_id in plans]


def make_job(plan: FetchPlan, order: JobOrder) -> Job:
    return Job(
        plan.feed_id,
        partition_of(plan.url),
        order.generation,
        plan.url,
        order.reason,
        plan.validators,
        plan.body_hash,
        plan.windowed,  # a delta is merged into the window we keep, so it is only asked for where there is one
        order.rate,
        well=plan.well,
        wished=order.requested,
    )


class LessonReader:
    """Reads the lessons that storers wrote with the results."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read_lessons(self) -> list[StoredLesson]:
        """Take everything that there is to learn, oldest first."""
        found: list[StoredLesson] = []
        while await self._store.read(cluster_jobs.has_lessons):
            bodies = await self._store.write(cluster_jobs.take_lessons, MAX_LESSON_ROWS)
            found += [lesson for body in bodies for lesson in read_lessons(body)]
            if len(bodies) < MAX_LESSON_ROWS:
                break
        return found
