"""The job page: shows the progress of a background job."""

from __future__ import annotations

from starlette.responses import Response

from headwater.errors import NotFound
from headwater.store.readers.accounts import READ
from headwater.web.page import PageGroup, Visit
from headwater.web.site import json_response

pages = PageGroup()


@pages.get("/jobs/{job_id}", READ)
async def show_job(visit: Visit) -> Response:
    job = visit.site.background_jobs.find_job(visit.path("job_id"))
    if job is None:
        raise NotFound("This job has ended, or the server was restarted since. Look whether its result is there.")
    if visit.wants_json:
        progress = {"running": job.running, "done": job.done, "total": job.total, "doing": job.doing}
        return json_response(progress | {"part": job.result is not None})
    if visit.part == "result" and job.result is not None:
        return visit.render_part(f"_job_{job.page}.html", job=job)
    return visit.render("job_page.html", job=job)
