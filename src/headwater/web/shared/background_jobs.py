"""Runs long work that a page has started, such as an import, in the background.

A job continues when the page is closed. Its progress is kept in memory only: results are in the store, and progress is
useless after a restart.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import structlog

from headwater.errors import HeadwaterError

KEPT_JOBS = 20

log = structlog.get_logger()


@dataclass(slots=True)
class BackgroundJob:
    """One job: `done` of `total` `unit`s (total 0: not known yet), and in the end a `result` or a `problem`."""

    id: str
    title: str
    unit: str
    started: float
    page: str  # the kind of the job: the part of the template that shows its result
    total: int = 0
    done: int = 0
    doing: str = ""
    ended: float | None = None
    result: Any = None
    problem: str | None = None
    task: asyncio.Task[None] | None = field(default=None, repr=False)

    @property
    def running(self) -> bool:
        return self.ended is None

    def report_progress(self, done: int, doing: str = "") -> None:
        self.done = done
        self.doing = doing or self.doing


class BackgroundJobs:
    """The running jobs of one server, and the last twenty that ended."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._jobs: dict[str, BackgroundJob] = {}

    def start(
        self, title: str, work: Callable[[BackgroundJob], Awaitable[Any]], *, page: str, unit: str = "", total: int = 0
    ) -> BackgroundJob:
        """Start a job; `work` calls `job.report_progress` and returns the result."""
        job = BackgroundJob(secrets.token_urlsafe(9), title, unit, self._clock(), page, total)
        self._jobs[job.id] = job
        for old in [one for one in self._jobs.values() if not one.running][:-KEPT_JOBS]:
            del self._jobs[old.id]
        job.task = asyncio.create_task(self._run_job(job, work))
        return job

    def find_job(self, id: str) -> BackgroundJob | None:
        return self._jobs.get(id)

    def find_running(self, page: str) -> BackgroundJob | None:
        """Return a running job of this kind."""
        return next((job for job in self._jobs.values() if job.running and job.page == page), None)

    def find_latest(self, page: str) -> BackgroundJob | None:
        """Return the latest job of this kind, running or ended."""
        return next((job for job in reversed(self._jobs.values()) if job.page == page), None)

    async def _run_job(self, job: BackgroundJob, work: Callable[[BackgroundJob], Awaitable[Any]]) -> None:
        try:
            job.result = await work(job)
        except HeadwaterError as error:
            job.problem = str(error)
        except Exception as error:
            log.error("job_failed", job=job.title, error=repr(error))
            job.problem = "Internal error. The server's log has the details."
        finally:
            job.ended = self._clock()
