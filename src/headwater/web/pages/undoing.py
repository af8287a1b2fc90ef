"""Taking a removal back, from the note on the page that follows it or from the list in the settings."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headwater.errors import InputError
from headwater.store.people import FEED, MERGED, QUERY, SUBSCRIPTION, TOKEN, USER, Back
from headwater.web.frame import Frame, integer
from headwater.web.pages.notes import then
from headwater.web.session import who

_OF_FEED = {FEED: "back", MERGED: "apart", SUBSCRIPTION: "subscribed"}
MOST = 100  # removals of one script


def routes(frame: Frame) -> list[Route]:
    async def undo(request: Request) -> Response:
        """Take back all that the form names, the last first: it may need what went before it."""
        found = await who(request, "write")
        form = await frame.forms.read(request)
        numbers = [number for part in form.get("undo", "").split(",")[:MOST] if (number := integer(part))]
        back = None
        for number in numbers[::-1]:
            back = await frame.store.removals.undo(number, found.user.id, frame.clock(), scopes=found.scopes)
        if back is None:
            raise InputError("The form does not say what is to be taken back: load the page again.")
        return _shown(back)

    return [Route("/undo", undo, methods=["POST"])]


def _shown(back: Back) -> Response:
    """Where it can be seen that it is back."""
    if back.kind in _OF_FEED and back.ref is not None:
        return then(f"/feed/{back.ref}", said=_OF_FEED[back.kind])
    if back.kind == QUERY:
        return then(f"/queries/{back.ref}", said="back")
    return then("/settings", said={USER: "user-back", TOKEN: "token-back"}.get(back.kind, "back"))
