"""Receives requests to our WebSub hub (`POST /hub`) and pushes from other hubs (`/push/KEY`)."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from headwater.node.websub import PATH as CALLBACK_PATH
from headwater.node.websub import PushService
from headwater.publish.published_documents import parse_topic
from headwater.publish.websub_hub import HUB_PATH
from headwater.web.auth.client_address import visitor_group
from headwater.web.auth.cross_site import RequestRefused
from headwater.web.auth.guess_throttle import TooManyAttempts
from headwater.web.published.document_responses import FeedTokens
from headwater.web.request_body import read_body

MAX_HUB_FORM_BYTES = 16 << 10
MAX_PUSH_BYTES = 5 << 20  # the size limit of a fetched document
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
NO_LEASE = "There is no such subscription."
_FORM_TYPE = "application/x-www-form-urlencoded"


class WebSubEndpoints:
    """The endpoints of one server: its hub, and the callbacks of its leases at other hubs."""

    def __init__(self, pushing: PushService, tokens: FeedTokens) -> None:
        self._hub = pushing.hub
        self._client = pushing.websub_client
        self._documents = pushing.documents
        self._tokens = tokens

    def routes(self) -> list[Route]:
        return [
            Route(HUB_PATH, self.accept_hub_request, methods=METHODS),
            Route(f"{CALLBACK_PATH}{{key:path}}", self.answer_callback, methods=METHODS),
        ]

    async def accept_hub_request(self, request: Request) -> Response:
        """Queue a request of a subscriber; its callback is verified later."""
        if request.method != "POST":
            return _say("This is a WebSub hub for the feeds of this server. Subscribe by POST.", 405, Allow="POST")
        if not request.headers.get("content-type", "").strip().lower().startswith(_FORM_TYPE):
            return _say(f"A request to the hub must be a form: {_FORM_TYPE}.", 415)
        try:
            body = await read_body(request, MAX_HUB_FORM_BYTES)
        except RequestRefused:
            return _say(f"The request is too large. The hub accepts at most {MAX_HUB_FORM_BYTES:,} bytes.", 413)
        try:
            form = dict(parse_qsl(body.decode(), max_num_fields=50, errors="strict"))
        except ValueError:
            return _say("The form cannot be read: it is not UTF-8, or has too many fields.", 400)
        try:
            await self._count_guess(request, form.get("hub.topic", ""))
        except TooManyAttempts as error:
            return _say(str(error), error.status, **error.headers)
        status, sentence = await self._hub.accept_request(form, visitor_group(request) or None)
        headers = {"Retry-After": "600"} if status in (429, 503) else {}
        return _say(sentence, status, **headers)

    async def _count_guess(self, request: Request, topic: str) -> None:
        """Count a token in a topic that does not open its feed. Raises TooManyAttempts."""
        key = parse_topic(topic, self._documents.base)
        if key is not None and key[3] is not None:
            await self._tokens.opens(request, key[0], key[3])

    async def answer_callback(self, request: Request) -> Response:
        """Confirm our own subscription to a hub (GET), or receive a document that it pushes (POST)."""
        key = request.path_params["key"]
        if self._client is None:
            return _say("This server does not subscribe to hubs.", 404)
        if request.method == "GET":
            challenge = await self._client.verify_intent(key, dict(request.query_params))
            if challenge is None:
                return _say("This server did not request this subscription.", 404)
            return PlainTextResponse(challenge)  # exactly the bytes of the challenge
        if request.method != "POST":
            return _say("Hubs verify by GET and push by POST.", 405, Allow="GET, POST")
        if not await self._client.expects_pushes(key):
            return _say(NO_LEASE, 410)  # the document of a stranger is not read
        try:
            body = await read_body(request, MAX_PUSH_BYTES)
        except RequestRefused:
            return _say(f"The document is too large. A push may have at most {MAX_PUSH_BYTES:,} bytes.", 413)
        status = await self._client.receive_push(key, body, dict(request.headers))
        return _say(NO_LEASE if status == 410 else "Accepted.", status)


def _say(sentence: str, status: int, **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return PlainTextResponse(f"{sentence}\n", status, named)
