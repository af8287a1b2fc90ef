"""Long work that goes on behind an answer, and how far it is."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from headwater.errors import NotFound
from headwater.web.api.endpoint import Answer, Asked, Call, Noun
from headwater.web.api.values import Time
from headwater.web.importing import Imported
from headwater.web.jobs import Job
from headwater.web.pages.comparing import Comparison

noun = Noun("jobs", "Long work: imports and comparisons. A job is known until the server is restarted.")


class JobView(Answer, frozen=True):
    """`done` of `total` (0: not known yet), then what was imported, or a problem; what was compared grows meanwhile."""

    id: str
    title: str
    running: bool
    done: int
    total: int
    unit: str
    doing: str
    started: Time
    ended: float | None
    imported: Imported | None
    compared: Comparison | None
    problem: str | None


def view(job: Job) -> JobView:
    return JobView(
        id=job.id,
        title=job.title,
        running=job.running,
        done=job.done,
        total=job.total,
        unit=job.unit,
        doing=job.doing,
        started=job.started,
        ended=job.ended,
        imported=job.result if isinstance(job.result, Imported) else None,
        compared=job.result if isinstance(job.result, Comparison) else None,
        problem=job.problem,
    )


class OneJob(Asked, frozen=True):
    id: Annotated[str, Meta(min_length=1, max_length=50, pattern=r"^[A-Za-z0-9_-]+$")]


@noun.get("/jobs/{id}")
async def show_job(call: Call, asked: OneJob) -> JobView:
    """Say how far a job is. Whoever knows its number may ask."""
    job = call.frame.jobs.find(asked.id)
    if job is None:
        raise NotFound("This work is over, or the server was restarted since: look whether its result is there.")
    return view(job)
