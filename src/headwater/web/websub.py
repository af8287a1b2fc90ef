"""WebSub over HTTP: `POST /hub` for those who want to be told when our feeds change."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.types import ASGIApp, Receive, Scope, Send

from headwater.node.pushing import Pushing
from headwater.publish.hub import PATH
from headwater.web.answers import say

LONGEST_FORM = 16 << 10
_FORM = b"application/x-www-form-urlencoded"


class WebSub:
    """Answers for the hub; everything else goes on to the application."""

    def __init__(self, app: ASGIApp, pushing: Pushing) -> None:
        self._app = app
        self._hub = pushing.hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == PATH:
            return await self._ask(scope, receive, send)
        return await self._app(scope, receive, send)

    async def _ask(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            sentence = "This is a WebSub hub for the feeds of this server: subscribe to them by POST."
            return await say(send, 405, sentence, [(b"allow", b"POST")])
        if not dict(scope["headers"]).get(b"content-type", b"").strip().lower().startswith(_FORM):
            return await say(send, 415, f"A request to the hub is a form: {_FORM.decode()}.")
        body = await body_of(receive, LONGEST_FORM)
        if body is None:
            return await say(send, 413, f"A request to the hub has at most {LONGEST_FORM:,} bytes.")
        try:
            form = dict(parse_qsl(body.decode(), max_num_fields=50, errors="strict"))
        except ValueError:
            return await say(send, 400, "The form cannot be read: it is not UTF-8, or has too many fields.")
        status, sentence = await self._hub.take(form)
        more = [(b"retry-after", b"600")] if status == 503 else None
        return await say(send, status, sentence, more)


async def body_of(receive: Receive, most: int) -> bytes | None:
    """The body of a request; None where it is longer than that, or where the other side hangs up."""
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > most:
            return None
        chunks.append(chunk)
        if not message.get("more_body"):
            return b"".join(chunks)
