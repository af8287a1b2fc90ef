"""`GET /feeds/NAME/live`: a query feed as server-sent events, resumed by Last-Event-ID."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from urllib.parse import parse_qsl

from starlette.types import ASGIApp, Receive, Scope, Send

from headwater.errors import NotFound
from headwater.model import QueryFeed
from headwater.publish.document_cache import DocumentCache
from headwater.publish.live_events import LiveEvents
from headwater.store.queries.query_feeds import find_query_feed
from headwater.store.store import Store
from headwater.web.answers import send_text

MOST_STREAMS = 20_000  # connections at a time
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # or nginx keeps events to itself
    (b"x-content-type-options", b"nosniff"),
]


class LiveEndpoint:
    """Answers for live streams; everything else goes on to the application."""

    def __init__(self, app: ASGIApp, store: Store, documents: DocumentCache, live: LiveEvents) -> None:
        self._app = app
        self._store = store
        self._documents = documents
        self._live = live

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope.get("path", "")
        if scope["type"] != "http" or not (path.startswith("/feeds/") and path.endswith("/live")):
            return await self._app(scope, receive, send)
        if scope["method"] != "GET":
            return await send_text(send, 405, "Only GET is answered here.", [(b"allow", b"GET")])
        name = path.removeprefix("/feeds/").removesuffix("/live")
        given = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        try:
            query = await self._store.read(find_query_feed, name)
        except NotFound:
            query = None
        if query is None or not await self._documents.may_read(f"/feeds/{name}", given.get("token")):
            return await send_text(send, 404, f"There is no query feed “{name[:100]}”, or not without a valid token.")
        last = dict(scope["headers"]).get(b"last-event-id", b"").decode("latin-1") or given.get("last-event-id", "")
        if last and not (last.isascii() and last.isdecimal() and len(last) < 19):
            return await send_text(send, 400, "Last-Event-ID is the number of an event that was sent by this stream.")
        if self._live.watcher_count >= MOST_STREAMS:
            return await send_text(send, 503, "Too many are watching; try again later.", [(b"retry-after", b"60")])
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        sending = asyncio.create_task(self._send_events(query, int(last) if last else None, send))
        while (await receive())["type"] != "http.disconnect":
            pass
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        return None

    async def _send_events(self, query: QueryFeed, after: int | None, send: Send) -> None:
        async with aclosing(self._live.follow_query(query, after)) as events:
            async for event in events:
                await send({"type": "http.response.body", "body": event, "more_body": True})
