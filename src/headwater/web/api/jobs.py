"""Long work that goes on behind an answer, and how far it is."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from headwater.errors import NotFound
from headwater.web.api.endpoint import ApiCall, EndpointGroup, Parameters, ResponseBody
from headwater.web.api.values import Time
from headwater.web.importing import ImportResult
from headwater.web.jobs import BackgroundJob
from headwater.web.pages.comparing import StrategyComparison

job_group = EndpointGroup("jobs", "Long work: imports and comparisons. A job is known until the server is restarted.")


class BackgroundJobView(ResponseBody, frozen=True):
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
    imported: ImportResult | None
    compared: StrategyComparison | None
    problem: str | None


def view_job(job: BackgroundJob) -> BackgroundJobView:
    return BackgroundJobView(
        id=job.id,
        title=job.title,
        running=job.running,
        done=job.done,
        total=job.total,
        unit=job.unit,
        doing=job.doing,
        started=job.started,
        ended=job.ended,
        imported=job.result if isinstance(job.result, ImportResult) else None,
        compared=job.result if isinstance(job.result, StrategyComparison) else None,
        problem=job.problem,
    )


class JobParameters(Parameters, frozen=True):
    id: Annotated[str, Meta(min_length=1, max_length=50, pattern=r"^[A-Za-z0-9_-]+$")]


@job_group.get("/jobs/{id}")
async def show_job(call: ApiCall, asked: JobParameters) -> BackgroundJobView:
    """Say how far a job is. Whoever knows its number may ask."""
    job = call.frame.background_jobs.find_job(asked.id)
    if job is None:
        raise NotFound("This work is over, or the server was restarted since: look whether its result is there.")
    return view_job(job)
