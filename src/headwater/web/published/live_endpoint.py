"""Streams a query feed as server-sent events: `GET /feeds/NAME/live`, resumed by Last-Event-ID."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Scope

from headwater.errors import NotFound
from headwater.publish.live_events import LiveEvents
from headwater.store.queries.query_feeds import find_query_feed
from headwater.store.store import Store
from headwater.web.auth.guess_throttle import TooManyAttempts
from headwater.web.published.document_responses import FeedTokens, MayRead

MAX_STREAMS = 20_000  # concurrent connections
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # nginx would hold events back otherwise
}


class LiveEndpoint:
    """The live streams of one server."""

    def __init__(self, store: Store, tokens: FeedTokens, live: LiveEvents, may_read: MayRead) -> None:
        self._store = store
        self._may_read = may_read
        self._tokens = tokens
        self._live = live

    def routes(self) -> list[Route]:
        return [Route("/feeds/{name:path}/live", self.stream_events)]

    async def stream_events(self, request: Request) -> Response:
        """Stream the items of a query feed, after the given event or from now on."""
        name, query = request.path_params["name"], request.query_params
        try:
            query_feed = await self._store.read(find_query_feed, name)
        except NotFound:
            query_feed = None
        path = f"/feeds/{name}"
        try:
            is_open = await self._tokens.opens(request, path, query.get("token"))
        except TooManyAttempts as error:
            return _say(str(error), error.status, error.headers)
        if query_feed is None or not (is_open or await self._may_read(request.scope, path)):
            return _say(f"There is no query feed “{name[:100]}”, or it needs a valid token.", 404)
        last = request.headers.get("last-event-id") or query.get("last-event-id", "")
        if last and not (last.isascii() and last.isdecimal() and len(last) < 19):
            return _say("Last-Event-ID must be the id of an event of this stream.", 400)
        if self._live.watcher_count >= MAX_STREAMS:
            return _say("Too many clients are connected. Try again later.", 503, {"Retry-After": "60"})
        events = self._live.follow_query(query_feed, int(last) if last else None)
        allowed = self._while_allowed(events, request.scope, path, query.get("token"))
        return StreamingResponse(allowed, media_type="text/event-stream", headers=_HEADERS)

    async def _while_allowed(
        self, events: AsyncGenerator[bytes, None], scope: Scope, path: str, token: str | None
    ) -> AsyncGenerator[bytes, None]:
        """Yield the events until the client may no longer read the feed: a stream may outlive a token by days."""
        async with aclosing(events):
            async for event in events:
                if not (await self._tokens.still_opens(path, token) or await self._may_read(scope, path)):
                    return
                yield event


def _say(sentence: str, status: int, headers: dict[str, str] | None = None) -> Response:
    return PlainTextResponse(f"{sentence}\n", status, headers)
