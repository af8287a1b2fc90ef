"""Queues refresh jobs, lessons for the controller, and quarantined messages.

There is at most one job per feed. The holder of its partition claims it under row locks that others skip. A job is not
claimed again before its time has passed, and is deleted in the transaction that stores its result. PostgreSQL only.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, insert, select, update

from headwater.store.cluster_leases import read_database_time
from headwater.store.database.dialect import InsertIgnored, InsertMany, SelectByIds, execute_postgres
from headwater.store.schema.cluster_tables import job, lesson, quarantine

CHUNK = 1000
_INSERT_JOB = InsertIgnored(job, ["feed_id", "partition", "body", "taken_until", "tries"], ["feed_id"])
_INSERT_LESSON = InsertMany(lesson, ["body"])
# By hand: SQLAlchemy would write out up to 256 partitions each time, several times a second.
_CLAIM_JOBS = """
UPDATE job SET taken_until = extract(epoch FROM clock_timestamp())::float8 + $3, tries = tries + 1
WHERE feed_id IN (
    SELECT feed_id FROM job WHERE "partition" = ANY($1::int[])
    AND taken_until < extract(epoch FROM clock_timestamp())::float8 LIMIT $2 FOR UPDATE SKIP LOCKED
)
RETURNING feed_id, "partition", body, tries
"""
_DELETE_JOBS = SelectByIds("DELETE FROM job WHERE feed_id IN {ids}")
_TAKE_LESSONS = """
DELETE FROM lesson WHERE id IN (SELECT id FROM lesson ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED) RETURNING id, body
"""
_HAS_LESSONS = "SELECT EXISTS (SELECT FROM lesson)"


class JobRow(NamedTuple):
    """A job as it is carried: `tries` counts how often it was taken, this time included."""

    feed_id: int
    partition: int
    body: bytes
    tries: int = 0


def add_jobs(connection: Connection, jobs: Sequence[JobRow]) -> set[int]:
    """Add jobs; the feeds of those that were added. One that is still there for the same feed stays."""
    rows = [(one.feed_id, one.partition, one.body, 0.0, 0) for one in jobs]
    return _INSERT_JOB.run_returning(connection, rows)


def claim_jobs(connection: Connection, partitions: Collection[int], limit: int, seconds: float) -> list[JobRow]:
    """Jobs of these partitions that nobody has, or whose taker has let its time pass. One statement."""
    rows = execute_postgres(connection, _CLAIM_JOBS, (list(partitions), limit, seconds))
    return [JobRow(feed, partition, bytes(body), tries) for feed, partition, body, tries in rows]


def return_jobs(connection: Connection, feed_ids: Collection[int]) -> None:
    """Jobs that were taken but not begun: others may have them at once, and it was no try."""
    ours = update(job).where(job.c.feed_id.in_(sorted(feed_ids)))
    connection.execute(ours.values(taken_until=0.0, tries=func.greatest(job.c.tries - 1, 0)))


def move_job(connection: Connection, one: JobRow) -> None:
    """A job that goes on in another partition."""
    ours = update(job).where(job.c.feed_id == one.feed_id)
    connection.execute(ours.values(partition=one.partition, body=one.body, taken_until=0.0, tries=0))


def delete_jobs(connection: Connection, feed_ids: Collection[int]) -> None:
    if feed_ids:
        _DELETE_JOBS.run(connection, sorted(feed_ids))


def drop_job(connection: Connection, one: JobRow) -> None:
    """A job that nobody wants any more; not if another has taken it since."""
    connection.execute(delete(job).where(job.c.feed_id == one.feed_id, job.c.tries == one.tries))


def list_queued_feeds(connection: Connection) -> set[int]:
    """The feeds of all jobs."""
    return set(connection.execute(select(job.c.feed_id)).scalars())


def count_jobs(connection: Connection) -> int:
    return connection.execute(select(func.count()).select_from(job)).scalar_one()


def add_lessons(connection: Connection, body: bytes) -> None:
    """A batch of lessons for the controller, in the transaction that stores their refreshes."""
    _INSERT_LESSON.run(connection, [(body,)])


def take_lessons(connection: Connection, limit: int) -> list[bytes]:
    """Take what is to be learned, oldest first: once the caller has committed it is not there any more.

    `limit` counts batches.
    """
    return [bytes(body) for _, body in sorted(map(tuple, execute_postgres(connection, _TAKE_LESSONS, (limit,))))]


def has_lessons(connection: Connection) -> bool:
    """Asked several times a second while nothing happens: one statement that locks nothing."""
    return bool(execute_postgres(connection, _HAS_LESSONS, ())[0][0])


def count_lessons(connection: Connection) -> int:
    """Count the batches of lessons that wait."""
    return connection.execute(select(func.count()).select_from(lesson)).scalar_one()


def quarantine_message(connection: Connection, subject: str, body: bytes, problem: str) -> None:
    """Keep what could not be dealt with for a person to look at."""
    row = {"at": read_database_time(connection), "subject": subject, "body": body, "problem": problem}
    connection.execute(insert(quarantine), row)


def list_quarantined_messages(connection: Connection) -> list[tuple[float, str, str, bytes]]:
    """(when, subject, problem, body) of everything that was put aside, the latest first."""
    rows = connection.execute(select(quarantine).order_by(quarantine.c.id.desc()).limit(CHUNK))
    return [(row.at, row.subject, row.problem, bytes(row.body)) for row in rows]
