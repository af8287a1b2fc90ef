"""WebSub over HTTP: `POST /hub` for those who want to be told of our changes, `/push/KEY` for hubs that tell us."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.types import ASGIApp, Receive, Scope, Send

from headwater.node.websub.push_service import PushService
from headwater.node.websub.websub_client import PATH as CALLBACKS
from headwater.node.websub.websub_client import WebSubClient
from headwater.publish.websub_hub import HUB_PATH
from headwater.web.answers import send_text

LONGEST_FORM = 16 << 10
LONGEST_PUSH = 5 << 20  # as much as a fetched document may weigh
_FORM = b"application/x-www-form-urlencoded"


class WebSubEndpoints:
    """Answers for the hub and for callbacks; everything else goes on to the application."""

    def __init__(self, app: ASGIApp, pushing: PushService) -> None:
        self._app = app
        self._hub = pushing.hub
        self._subscriber = pushing.websub_client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == HUB_PATH:
            return await self._accept_hub_request(scope, receive, send)
        if scope["type"] == "http" and scope["path"].startswith(CALLBACKS):
            if self._subscriber is None:
                return await send_text(send, 404, "Nobody is expected here.")
            return await self._answer_callback(self._subscriber, scope, receive, send)
        return await self._app(scope, receive, send)

    async def _accept_hub_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            sentence = "This is a WebSub hub for the feeds of this server: subscribe to them by POST."
            return await send_text(send, 405, sentence, [(b"allow", b"POST")])
        if not dict(scope["headers"]).get(b"content-type", b"").strip().lower().startswith(_FORM):
            return await send_text(send, 415, f"A request to the hub is a form: {_FORM.decode()}.")
        body = await read_limited_body(receive, LONGEST_FORM)
        if body is None:
            return await send_text(send, 413, f"A request to the hub has at most {LONGEST_FORM:,} bytes.")
        try:
            form = dict(parse_qsl(body.decode(), max_num_fields=50, errors="strict"))
        except ValueError:
            return await send_text(send, 400, "The form cannot be read: it is not UTF-8, or has too many fields.")
        status, sentence = await self._hub.accept_request(form)
        more = [(b"retry-after", b"600")] if status == 503 else None
        return await send_text(send, status, sentence, more)

    async def _answer_callback(self, subscriber: WebSubClient, scope: Scope, receive: Receive, send: Send) -> None:
        key = scope["path"].removeprefix(CALLBACKS)
        if scope["method"] == "GET":
            answer = await subscriber.verify_intent(key, dict(parse_qsl(scope["query_string"].decode("latin-1"))))
            if answer is None:
                return await send_text(send, 404, "Nothing of the kind was asked for here.")
            return await _send_plain(send, answer.encode())
        if scope["method"] != "POST":
            return await send_text(send, 405, "Hubs ask by GET and push by POST.", [(b"allow", b"GET, POST")])
        body = await read_limited_body(receive, LONGEST_PUSH)
        if body is None:
            return await send_text(send, 413, f"A push has at most {LONGEST_PUSH:,} bytes.")
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        status = await subscriber.receive_push(key, body, headers)
        return await send_text(send, status, "There is no such subscription." if status == 410 else "Taken.")


async def _send_plain(send: Send, body: bytes) -> None:
    """The very bytes of a challenge, as text that no browser takes for a page."""
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"x-content-type-options", b"nosniff"),
        (b"content-security-policy", b"default-src 'none'"),
        (b"content-length", b"%d" % len(body)),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def read_limited_body(receive: Receive, most: int) -> bytes | None:
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
