"""The web application: the first page, the form that adds a feed, health and metrics.

`create_app(store, status)` is all a server needs. `status` tells what the node does at this moment. `add` takes what
somebody typed and returns the stored feed, or raises an InputError whose sentence is shown; without it the address is
stored as it stands and the node finds out what is there. `names` are the host names under which the server may be
used to change things, beside localhost and addresses in digits. `base` is the address that published documents give as
theirs; it is never taken from a request, whose Host header anybody can write.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlencode

import jinja2
import orjson
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from headwater import __version__, when
from headwater.errors import HeadwaterError, InputError, StoreError
from headwater.node.crawler import Status
from headwater.node.quality import last_report
from headwater.publish.cache import Documents
from headwater.publish.live import Live
from headwater.store.store import Store
from headwater.store.values import Added, NewFeed
from headwater.web import metrics
from headwater.web.feeds import Feeds
from headwater.web.first import Note, look, web_address
from headwater.web.forms import Forms, Refused
from headwater.web.headers import HEADERS, SafeHeaders
from headwater.web.live import LiveStreams

Add = Callable[[str], Awaitable[Added]]
HERE = Path(__file__).parent


def create_app(
    store: Store,
    status: Callable[[], Status],
    *,
    add: Add | None = None,
    names: Sequence[str] = (),
    base: str = "http://localhost:8040",
    live: Live | None = None,
    clock: Callable[[], float] = time.time,
) -> Starlette:
    """The application over an open store."""
    site = Site(store, status, add or _as_it_stands(store, clock), Forms(names), clock)
    documents = Documents(store, base, clock=clock)
    return Starlette(
        routes=[
            Route("/", site.first),
            Route("/feeds", site.add_feed, methods=["POST"]),
            Route("/health", site.health),
            Route("/metrics", site.metrics),
            Route("/quality.json", site.quality),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ],
        middleware=[
            Middleware(Feeds, documents=documents),
            Middleware(LiveStreams, store=store, documents=documents, live=live or Live(store)),
            Middleware(SafeHeaders),
        ],
        exception_handlers={StoreError: site.store_failed, Refused: site.refused, Exception: site.broken},
    )


class Site:
    """The pages. They read the store anew each time: it is the truth."""

    def __init__(
        self, store: Store, status: Callable[[], Status], add: Add, forms: Forms, clock: Callable[[], float]
    ) -> None:
        self._store = store
        self._status = status
        self._add = add
        self._forms = forms
        self._clock = clock
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters["number"] = lambda value: f"{value:,.0f}"
        self._templates.filters["iso"] = lambda at: datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
        self._templates.filters["web_address"] = web_address
        self._templates.globals.update(relative=when.relative, exactly=when.exactly, version=__version__)

    async def first(self, request: Request) -> Response:
        """What is happening, and how to add feeds."""
        note = None
        if (added := request.query_params.get("added", "")).isdecimal():
            note = await self._added(int(added[:18]), created="known" not in request.query_params)
        return await self._page(request, note)

    async def add_feed(self, request: Request) -> Response:
        form = await self._forms.read(request)
        address = form.get("address", "").strip()
        try:
            if not address:
                raise InputError("No address was given: paste the address of a feed, or of a page that has one.")
            added = await self._add(address)
        except StoreError:
            raise
        except HeadwaterError as error:
            return await self._page(request, Note(str(error), problem=True, address=address), 400)
        query = {"added": added.feed.id} | ({} if added.created else {"known": 1})
        return RedirectResponse(f"/?{urlencode(query)}", 303)

    async def health(self, request: Request) -> Response:
        """200 while the store answers, else 503 with the reason."""
        summary = await self._store.summary(self._clock())
        status = self._status()
        last = summary.last[0].at if summary.last else None
        return _json(
            {
                "status": "ok",
                "version": __version__,
                "feeds": summary.feeds,
                "items": summary.items,
                "failing": summary.failing,
                "under_way": status.under_way,
                "last_refresh": last,
                "next_due": status.next_due,
                "queries": status.queries,
                "targets": [asdict(aim) for aim in status.aims],
            }
        )

    async def metrics(self, request: Request) -> Response:
        summary = await self._store.summary(self._clock())
        figures = metrics.text(summary, self._status(), await last_report(self._store))
        return Response(figures, media_type=metrics.TYPE)

    async def quality(self, request: Request) -> Response:
        """How good the watching is, as the node reported it within the last minute; 503 before it has."""
        report = await last_report(self._store)
        if report is None:
            return _json({"message": "No node has reported yet: the first report comes after a minute."}, 503)
        return _json(report)

    async def store_failed(self, request: Request, error: Exception) -> Response:
        if request.url.path == "/health":
            return _json({"status": "failing", "message": str(error)}, 503)
        return self._render("problem.html", 503, title="The database does not answer", message=str(error))

    async def refused(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, Refused)
        return self._render("problem.html", error.status, title="Nothing was changed", message=str(error))

    async def broken(self, request: Request, error: Exception) -> Response:
        """A defect of ours; the server's log has it. Sent from outside the middleware, so it brings its headers."""
        message = "Something went wrong here. Nothing is lost; the server's log says more."
        response = self._render("problem.html", 500, title="Headwater made a mistake", message=message)
        response.headers.update(HEADERS)
        return response

    async def _added(self, feed_id: int, created: bool) -> Note | None:
        try:
            feed = await self._store.feed(feed_id)
        except HeadwaterError:
            return None
        what = "was added and is refreshed in a moment" if created else "was there already"
        return Note(f"{feed.title or feed.url} {what}.")

    async def _page(self, request: Request, note: Note | None, status: int = 200) -> Response:
        page = await look(self._store, self._status(), self._clock())
        cookie, token = self._forms.token(request)
        response = self._render("first.html", status, page=page, note=note, token=token)
        self._forms.remember(response, cookie, secure=request.url.scheme == "https")
        return response

    def _render(self, template: str, status: int, **values: object) -> HTMLResponse:
        html = self._templates.get_template(template).render(now=self._clock(), **values)
        return HTMLResponse(html, status)


def _as_it_stands(store: Store, clock: Callable[[], float]) -> Add:
    async def add(address: str) -> Added:
        if not address.lower().startswith(("http://", "https://")):
            raise InputError(f"“{address[:200]}” is no web address: it should begin with https:// or http://.")
        (added,) = await store.add_feeds([NewFeed(address)], clock())
        return added

    return add


def _json(value: object, status: int = 200) -> Response:
    return Response(orjson.dumps(value), status, media_type="application/json")
