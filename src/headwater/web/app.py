"""The web application: pages, published documents, health and metrics.

`create_app(store, status)` is all a server needs. `status` tells what the node does at this moment. `add` takes what
somebody typed and returns the stored feed, or raises an InputError whose sentence is shown; without it the address is
stored as it stands and the node finds out what is there. `names` are the host names under which the server may be
used to change things, beside localhost and addresses in digits. `base` is the address that published documents give as
theirs; it is never taken from a request, whose Host header anybody can write. `node` is the aggregator running in this
process, where there is one; `pushing` has its hub and brings the documents that name it. `access` says who may come in,
`provider` who else knows people.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from headwater import __version__
from headwater.cluster.node import shared
from headwater.cluster.status import cluster_status
from headwater.errors import HeadwaterError, InputError, NotFound, StoreError
from headwater.node.crawler import Status
from headwater.node.node import Node
from headwater.node.pushing import Pushing
from headwater.node.quality import last_report
from headwater.publish.cache import Documents
from headwater.publish.live import Live
from headwater.store.people import ADMIN
from headwater.store.store import Store
from headwater.store.values import Added, Allowed, NewFeed
from headwater.web import account_pages, metrics, oidc
from headwater.web.account_pages import Refusals
from headwater.web.api.app import api, nothing_here
from headwater.web.cluster_metrics import ClusterFigures
from headwater.web.feeds import Feeds, Fronted
from headwater.web.forms import Forms
from headwater.web.frame import HERE, AddWithin, Frame, as_json
from headwater.web.gate import Gate
from headwater.web.greader import routes as greader
from headwater.web.headers import HEADERS, SafeHeaders
from headwater.web.live import LiveStreams
from headwater.web.oidc import Provider
from headwater.web.pages import cluster, common, discover, editor, feed, feeds, quality, reading, settings, undoing
from headwater.web.pages.status import look
from headwater.web.session import Access, Visitors, current
from headwater.web.signing_in import Door
from headwater.web.websub import WebSub


def create_app(
    store: Store,
    status: Callable[[], Status],
    *,
    add: AddWithin | None = None,
    names: Sequence[str] = (),
    base: str = "http://localhost:8040",
    live: Live | None = None,
    pushing: Pushing | None = None,
    node: Node | None = None,
    access: Access | None = None,
    provider: Provider | None = None,
    clock: Callable[[], float] = time.time,
) -> Starlette:
    """The application over an open store."""
    frame = Frame(
        store,
        status,
        add=add or _as_it_stands(store, clock),
        forms=Forms(names),
        clock=clock,
        base=base,
        node=node,
    )
    site = Site(frame)
    door = Door(Visitors(store, access or Access(tuple(names)), clock))
    refusals = Refusals(frame.page)
    documents = pushing.documents if pushing else Documents(store, base, clock=clock)
    app = Fronted(
        documents,
        routes=[
            *reading.routes(frame),
            *feeds.routes(frame),
            *feed.routes(frame),
            *quality.routes(frame),
            *editor.routes(frame),
            *discover.routes(frame),
            *settings.routes(frame),
            *common.routes(frame),
            *undoing.routes(frame),
            *cluster.routes(frame),
            *account_pages.routes(door, frame.forms, frame.page, by_provider=provider is not None),
            *greader.routes(store, door, frame.add, base, frame.allowance),
            *(oidc.routes(provider, door.visitors, base, frame.page) if provider else ()),
            Route("/status", site.status),
            Route("/health", site.health),
            Route("/metrics", site.metrics),
            Route("/quality.json", site.quality),
            Route("/favicon.ico", mark),
            api(frame),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ],
        middleware=[
            Middleware(Feeds, documents=documents),
            Middleware(LiveStreams, store=store, documents=documents, live=live or Live(store)),
            *([Middleware(WebSub, pushing=pushing)] if pushing else []),
            Middleware(SafeHeaders),
            Middleware(Gate, refusals=refusals),
        ],
        exception_handlers={
            StoreError: site.store_failed,
            **refusals.handlers,
            NotFound: site.not_found,
            HeadwaterError: site.wrong,
            404: site.not_found,
            Exception: site.broken,
        },
    )
    app.state.visitors, app.state.door = door.visitors, door
    return app


class Site:
    """What is happening, for people and for machines, and how errors are told."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._store = frame.store

    async def status(self, request: Request) -> Response:
        """What is happening, and how to add feeds. Of all feeds, so it is for owners."""
        await current(request, ADMIN)
        page = await look(self._store, self._frame.status(), self._frame.clock())
        given = self._frame.settings
        folder = None if given.database else shlex.quote(str(given.data.absolute()))  # the address may have a password
        return self._frame.page(request, "status.html", page=page, folder=folder)

    async def health(self, request: Request) -> Response:
        """200 while the store answers, else 503 with the reason."""
        summary = await self._store.summary(self._frame.clock())
        status = self._frame.status()
        last = summary.last[0].at if summary.last else None
        return as_json(
            {
                "status": "ok",
                "version": __version__,
                "feeds": summary.feeds,
                "items": summary.items,
                "failing": summary.failing,
                "under_way": status.under_way,
                "last_refresh": last,
                "next_due": status.next_due,
                "network_away_since": status.network_away_since,
                "queries": status.queries,
                "targets": [asdict(aim) for aim in status.aims],
            }
        )

    async def metrics(self, request: Request) -> Response:
        summary = await self._store.summary(self._frame.clock())
        more = [ClusterFigures(await cluster_status(self._store))] if shared(self._frame.settings) else []
        figures = metrics.text(summary, self._frame.status(), await last_report(self._store), more)
        return Response(figures, media_type=metrics.TYPE)

    async def quality(self, request: Request) -> Response:
        """How good the watching is, as the node reported it within the last minute; 503 before it has."""
        await current(request, ADMIN)
        report = await last_report(self._store)
        if report is None:
            return as_json({"message": "No node has reported yet: the first report comes after a minute."}, 503)
        return as_json(report)

    async def store_failed(self, request: Request, error: Exception) -> Response:
        if request.url.path == "/health":
            return as_json({"status": "failing", "message": str(error)}, 503)
        return self._problem(request, 503, "The database does not answer", str(error))

    async def not_found(self, request: Request, error: Exception) -> Response:
        if request.url.path.startswith("/api/"):
            return nothing_here()
        message = str(error) if isinstance(error, NotFound) else "Nothing has this address: was it mistyped?"
        return self._problem(request, 404, "Not here", message)

    async def wrong(self, request: Request, error: Exception) -> Response:
        """What a page did not answer itself: the sentence, and that nothing came of it."""
        return self._problem(request, 400, "That cannot be done", str(error))

    async def broken(self, request: Request, error: Exception) -> Response:
        """A defect of ours; the server's log has it. Sent from outside the middleware, so it brings its headers."""
        message = "Something went wrong here. Nothing is lost; the server's log says more."
        response = self._problem(request, 500, "Headwater made a mistake", message)
        response.headers.update(HEADERS)
        return response

    def _problem(self, request: Request, status: int, title: str, message: str) -> Response:
        return self._frame.bare("problem.html", status, request=request, title=title, message=message)


async def mark(request: Request) -> Response:
    """Our icon where browsers look for one when a document names none, as /health does."""
    return FileResponse(HERE / "static" / "mark.svg", headers={"Cache-Control": "max-age=3600"})


def _as_it_stands(store: Store, clock: Callable[[], float]) -> AddWithin:
    async def add(address: str, user_id: int, allowed: Allowed | None) -> Added:
        if not address.lower().startswith(("http://", "https://")):
            raise InputError(f"“{address[:200]}” is no web address: it should begin with https:// or http://.")
        (added,) = await store.add_feeds([NewFeed(address)], clock(), subscriber=user_id, allowed=allowed)
        return added

    return add
