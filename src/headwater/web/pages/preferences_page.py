"""Small pages that belong to no other: the switch for light and dark, the list of keys, the progress of long work."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headwater.errors import NotFound
from headwater.web.site import THEMES, Site, json_response, redirect_inside, wants_json

KEYS = (
    ("j k", "next item, previous item"),
    ("o ⏎", "open the item"),
    ("v", "open the original"),
    ("m", "mark read or unread"),
    ("s", "star, or take the star away"),
    ("u", "mark all above it read (with undo)"),
    ("A", "mark all read (with undo)"),
    ("g a", "go to all items"),
    ("g s", "go to starred items"),
    ("g q", "go to query feeds"),
    ("g f", "go to feeds"),
    ("/", "search, or write a query"),
    ("e", "explain: why am I seeing this?"),
    ("?", "this list"),
)
YEAR = 31_536_000


def routes(frame: Site) -> list[Route]:
    async def theme(request: Request) -> Response:
        form = await frame.forms.read_form(request)
        response = redirect_inside(request, form.get("to", "/"))
        chosen = form.get("theme", "")
        if chosen in THEMES:
            response.set_cookie("theme", chosen, max_age=YEAR, samesite="lax", httponly=True)
        else:
            response.delete_cookie("theme")
        return response

    async def keys(request: Request) -> Response:
        if request.headers.get("x-part") == "keys":
            return frame.render_part("keys_list.html", request=request, known=KEYS, part=True)
        return frame.render_page(request, "keys.html", known=KEYS, part=False)

    async def job(request: Request) -> Response:
        found = frame.background_jobs.find_job(request.path_params["job_id"])
        if found is None:
            raise NotFound("This work is over, or the server was restarted since: look whether its result is there.")
        if wants_json(request):
            told = {"running": found.running, "done": found.done, "total": found.total, "doing": found.doing}
            return json_response(told | {"part": found.result is not None})
        if request.headers.get("x-part") == "result" and found.result is not None:
            return frame.render_part(f"job_{found.page}.html", request=request, job=found)
        return frame.render_page(request, "job.html", job=found)

    return [
        Route("/theme", theme, methods=["POST"]),
        Route("/keys", keys),
        Route("/jobs/{job_id}", job),
    ]
