"""Taking a removal back, from the note on the page that follows it or from the list in the settings."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headwater.errors import InputError
from headwater.store.people import (
    TRASHED_API_TOKEN,
    TRASHED_FEED,
    TRASHED_MERGE,
    TRASHED_QUERY_FEED,
    TRASHED_SUBSCRIPTION,
    TRASHED_USER,
    RestoredObject,
)
from headwater.web.frame import Site, parse_integer
from headwater.web.pages.notes import redirect_with_flash
from headwater.web.session import require_identity

_FEED_FLASH = {TRASHED_FEED: "back", TRASHED_MERGE: "apart", TRASHED_SUBSCRIPTION: "subscribed"}
MOST_RESTORED = 100  # removals of one script


def restore_routes(frame: Site) -> list[Route]:
    async def undo(request: Request) -> Response:
        """Take back all that the form names, the last first: it may need what went before it."""
        found = await require_identity(request, "write")
        form = await frame.forms.read_form(request)
        numbers = [
            number for part in form.get("undo", "").split(",")[:MOST_RESTORED] if (number := parse_integer(part))
        ]
        back = None
        for number in numbers[::-1]:
            back = await frame.store.removals.undo(number, found.user.id, frame.clock(), scopes=found.scopes)
        if back is None:
            raise InputError("The form does not say what is to be taken back: load the page again.")
        return _redirect_to_restored(back)

    return [Route("/undo", undo, methods=["POST"])]


def _redirect_to_restored(back: RestoredObject) -> Response:
    """Where it can be seen that it is back."""
    if back.kind in _FEED_FLASH and back.ref is not None:
        return redirect_with_flash(f"/feed/{back.ref}", said=_FEED_FLASH[back.kind])
    if back.kind == TRASHED_QUERY_FEED:
        return redirect_with_flash(f"/queries/{back.ref}", said="back")
    return redirect_with_flash(
        "/settings", said={TRASHED_USER: "user-back", TRASHED_API_TOKEN: "token-back"}.get(back.kind, "back")
    )
