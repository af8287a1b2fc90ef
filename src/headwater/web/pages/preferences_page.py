"""The preferences pages: switch between light and dark, list the keyboard shortcuts."""

from __future__ import annotations

from starlette.responses import Response

from headwater.store.readers.accounts import READ
from headwater.web.page import OPEN, PageGroup, Visit
from headwater.web.site import THEMES, redirect_inside

KEYS = (
    ("j k", "next item, previous item"),
    ("o ⏎", "open the item"),
    ("v", "open the original"),
    ("m", "mark read or unread"),
    ("s", "star, or take the star away"),
    ("l", "label the open item"),
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

pages = PageGroup()


@pages.post("/theme", OPEN)
async def change_theme(visit: Visit) -> Response:
    response = redirect_inside(visit.form.get("to", "/"))
    theme = visit.form.get("theme", "")
    if theme in THEMES:
        response.set_cookie("theme", theme, max_age=YEAR, samesite="lax", httponly=True)
    else:
        response.delete_cookie("theme")
    return response


@pages.get("/keys", READ)
async def show_keys(visit: Visit) -> Response:
    if visit.part == "keys":
        return visit.render_part("_keys.html", known=KEYS, part=True)
    return visit.render("keys_page.html", known=KEYS, part=False)
