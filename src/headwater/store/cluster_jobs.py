"""Queues refresh jobs, lessons for the controller, and quarantined messages.

There is at most one job per feed. The holder of its partition claims it under row locks that others skip. A job is not
claimed again before its time has passed, and is deleted in the transaction that stores its result. PostgreSQL only.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, insert, literal, select, true, update

from headwater.store.cluster_leases import NOW, read_database_time
from headwater.store.database.dialect import insert_or_ignore, upsert
from headwater.store.schema.cluster_tables import job, lesson, quarantine, refresh_request

CHUNK = 1000
REQUEST_SECONDS = 120.0  # after which a request is forgotten: nobody waits for it any more
# Not compiled by SQLAlchemy: it would write out up to 256 partitions, several times a second.
_CLAIM_JOBS = """
UPDATE job SET taken_until = extract(epoch FROM clock_timestamp())::float8 + $3, tries = tries + 1
WHERE feed_id IN (
    SELECT feed_id FROM job WHERE "partition" = ANY($1::int[])
    AND taken_until < extract(epoch FROM clock_timestamp())::float8 LIMIT $2 FOR UPDATE SKIP LOCKED
)
RETURNING feed_id, "partition", body, tries
"""
_LIST_REQUESTS = (
    select(refresh_request.c.feed_id, refresh_request.c.by_hub, refresh_request.c.newer_than)
    .where(refresh_request.c.at > NOW - REQUEST_SECONDS)
    .order_by(refresh_request.c.at)
    .subquery("requests")
)
_NEWS = select(select(lesson.c.id).exists().label("has_lessons"), _LIST_REQUESTS).select_from(
    select(literal(1)).subquery("one_row").outerjoin(_LIST_REQUESTS, true())
)


class JobRow(NamedTuple):
    """A stored job; `tries` counts how often it was claimed, this time included."""

    feed_id: int
    partition: int
    body: bytes
    tries: int = 0


def add_jobs(connection: Connection, jobs: Sequence[JobRow]) -> set[int]:
    """Add jobs and return the feeds of those that were added; a feed that has a job keeps it."""
    rows = [one._asdict() | {"taken_until": 0.0, "tries": 0} for one in jobs]
    if not rows:
        return set()
    return set(connection.execute(insert_or_ignore(connection, job).returning(job.c.feed_id), rows).scalars())


def claim_jobs(connection: Connection, partitions: Collection[int], limit: int, seconds: float) -> list[JobRow]:
    """Claim jobs of these partitions for `seconds`, by a single statement: free ones, and those whose claim expired."""
    rows = connection.exec_driver_sql(_CLAIM_JOBS, (list(partitions), limit, seconds))
    return [JobRow(feed, partition, bytes(body), tries) for feed, partition, body, tries in rows]


def return_jobs(connection: Connection, feed_ids: Collection[int]) -> None:
    """Return jobs that were claimed but not begun; others may claim them at once, and it does not count as a try."""
    ours = update(job).where(job.c.feed_id.in_(sorted(feed_ids)))
    connection.execute(ours.values(taken_until=0.0, tries=func.greatest(job.c.tries - 1, 0)))


def delete_jobs(connection: Connection, feed_ids: Collection[int]) -> None:
    """Delete the jobs of these feeds."""
    if feed_ids:
        connection.execute(delete(job).where(job.c.feed_id.in_(sorted(feed_ids))))


def drop_job(connection: Connection, job_row: JobRow) -> None:
    """Delete a job that is no longer wanted, unless another process has claimed it since."""
    connection.execute(delete(job).where(job.c.feed_id == job_row.feed_id, job.c.tries == job_row.tries))


def list_queued_feeds(connection: Connection) -> set[int]:
    """Return the feeds of all jobs."""
    return set(connection.execute(select(job.c.feed_id)).scalars())


def count_jobs(connection: Connection) -> int:
    """Count all jobs, claimed or not."""
    return connection.execute(select(func.count()).select_from(job)).scalar_one()


def add_lessons(connection: Connection, body: bytes) -> None:
    """Add a batch of lessons for the controller, in the transaction that stores their refreshes."""
    connection.execute(insert(lesson), {"body": body})


def take_lessons(connection: Connection, limit: int) -> list[bytes]:
    """Remove and return up to `limit` batches of lessons, oldest first."""
    first = select(lesson.c.id).order_by(lesson.c.id).limit(limit).with_for_update(skip_locked=True).cte("first")
    taken = delete(lesson).where(lesson.c.id.in_(select(first.c.id))).returning(lesson.c.id, lesson.c.body)
    return [bytes(body) for _, body in sorted(map(tuple, connection.execute(taken)))]


def add_refresh_request(
    connection: Connection, feed_id: int, *, newer_than: float | None = None, by_hub: bool = False
) -> None:
    """Request a refresh later than `newer_than` from the leader. A hub's request does not replace a person's."""
    connection.execute(delete(refresh_request).where(refresh_request.c.at < NOW - REQUEST_SECONDS))
    statement = upsert(connection, refresh_request)
    statement = statement.values(feed_id=feed_id, at=NOW, by_hub=by_hub, newer_than=newer_than or 0.0)
    new = statement.excluded
    statement = statement.on_conflict_do_update(
        index_elements=["feed_id"],
        set_={
            "at": new.at,
            "by_hub": new.by_hub & refresh_request.c.by_hub,
            "newer_than": func.greatest(new.newer_than, refresh_request.c.newer_than),
        },
    )
    connection.execute(statement)


def remove_refresh_requests(connection: Connection, feed_ids: Collection[int]) -> None:
    """Delete the requests for these feeds."""
    connection.execute(delete(refresh_request).where(refresh_request.c.feed_id.in_(sorted(feed_ids))))


class LeaderNews(NamedTuple):
    """Whether lessons wait for the leader, and the requests.

    `requested` are feeds that people asked for, with the last refresh that they know of; `announced` those of hubs.
    """

    has_lessons: bool
    requested: dict[int, float]
    announced: list[int]


def read_leader_news(connection: Connection) -> LeaderNews:
    """Look for lessons and requests, by one statement that locks nothing."""
    rows = connection.execute(_NEWS).all()
    requests = [row for row in rows if row.feed_id is not None]
    return LeaderNews(
        rows[0].has_lessons,
        {row.feed_id: row.newer_than for row in requests if not row.by_hub},
        [row.feed_id for row in requests if row.by_hub],
    )


def count_lessons(connection: Connection) -> int:
    """Count the batches of lessons that wait."""
    return connection.execute(select(func.count()).select_from(lesson)).scalar_one()


def quarantine_message(connection: Connection, subject: str, body: bytes, problem: str) -> None:
    """Keep a message that could not be processed, for a person to look at."""
    row = {"at": read_database_time(connection), "subject": subject, "body": body, "problem": problem}
    connection.execute(insert(quarantine), row)


def list_quarantined_messages(connection: Connection) -> list[tuple[float, str, str, bytes]]:
    """List (time, subject, problem, body) of quarantined messages, the latest first."""
    rows = connection.execute(select(quarantine).order_by(quarantine.c.id.desc()).limit(CHUNK))
    return [(row.at, row.subject, row.problem, bytes(row.body)) for row in rows]
