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
from headwater.cluster.cluster_status import read_cluster_status
from headwater.cluster.shared_node import is_shared_database
from headwater.errors import HeadwaterError, InputError, NotFound, StoreError
from headwater.node.crawl.crawler import CrawlStatus
from headwater.node.node import Node
from headwater.node.quality.quality_report import load_last_report
from headwater.node.websub.push_service import PushService
from headwater.publish.document_cache import DocumentCache
from headwater.publish.live_events import LiveEvents
from headwater.store.people import ADMIN
from headwater.store.store import Store
from headwater.store.values import AddedFeed, FeedQuotaCheck, NewFeed
from headwater.web import metrics
from headwater.web.api.api_app import answer_unknown_path, build_api
from headwater.web.auth import oidc
from headwater.web.auth.authentication import AccessSettings, Authenticator, require_user
from headwater.web.auth.cross_site import SignedForms
from headwater.web.auth.oidc import OidcProvider
from headwater.web.auth.password_login import PasswordLogin
from headwater.web.gate import SignInGate
from headwater.web.greader import greader_app as greader
from headwater.web.metrics import ClusterCollector
from headwater.web.pages import (
    account_page,
    discover_page,
    feed_list_page,
    feed_page,
    preferences_page,
    quality_page,
    query_editor_page,
    read_page,
    settings_page,
    status_page,
)
from headwater.web.pages.account_page import RefusalHandlers
from headwater.web.pages.status_page import load_status_page
from headwater.web.published.document_responses import DocumentResponses, PublishedResponses
from headwater.web.published.live_endpoint import LiveEndpoint
from headwater.web.published.websub_endpoints import WebSubEndpoints
from headwater.web.security_headers import SECURITY_HEADERS, SecurityHeaders
from headwater.web.site import WEB_FOLDER, AddFeedWithinQuota, Site, json_response


def create_app(
    store: Store,
    status: Callable[[], CrawlStatus],
    *,
    add: AddFeedWithinQuota | None = None,
    names: Sequence[str] = (),
    base: str = "http://localhost:8040",
    live: LiveEvents | None = None,
    pushing: PushService | None = None,
    node: Node | None = None,
    access: AccessSettings | None = None,
    provider: OidcProvider | None = None,
    clock: Callable[[], float] = time.time,
) -> Starlette:
    """The application over an open store."""
    frame = Site(
        store,
        status,
        add=add or _add_unchecked(store, clock),
        forms=SignedForms(names),
        clock=clock,
        base=base,
        node=node,
    )
    site = RootPages(frame)
    door = PasswordLogin(Authenticator(store, access or AccessSettings(tuple(names)), clock))
    refusals = RefusalHandlers(frame.render_page)
    documents = pushing.documents if pushing else DocumentCache(store, base, clock=clock)
    app = PublishedResponses(
        documents,
        routes=[
            *read_page.routes(frame),
            *feed_list_page.routes(frame),
            *feed_page.routes(frame),
            *quality_page.routes(frame),
            *query_editor_page.routes(frame),
            *discover_page.routes(frame),
            *settings_page.routes(frame),
            *preferences_page.routes(frame),
            *settings_page.restore_routes(frame),
            *status_page.routes(frame),
            *account_page.routes(door, frame.forms, frame.render_page, by_provider=provider is not None),
            *greader.routes(store, door, frame.add_feed, base, frame.reader_quota),
            *(oidc.routes(provider, door.authenticator, base, frame.render_page) if provider else ()),
            Route("/status", site.show_status),
            Route("/health", site.show_health),
            Route("/metrics", site.show_metrics),
            Route("/quality.json", site.show_quality),
            Route("/favicon.ico", show_icon),
            build_api(frame),
            Mount("/static", StaticFiles(directory=WEB_FOLDER / "static")),
        ],
        middleware=[
            Middleware(DocumentResponses, documents=documents),
            Middleware(LiveEndpoint, store=store, documents=documents, live=live or LiveEvents(store)),
            *([Middleware(WebSubEndpoints, pushing=pushing)] if pushing else []),
            Middleware(SecurityHeaders),
            Middleware(SignInGate, refusals=refusals),
        ],
        exception_handlers={
            StoreError: site.answer_store_error,
            **refusals.handlers,
            NotFound: site.answer_not_found,
            HeadwaterError: site.answer_error,
            404: site.answer_not_found,
            Exception: site.answer_defect,
        },
    )
    app.state.visitors, app.state.door = door.authenticator, door
    return app


class RootPages:
    """What is happening, for people and for machines, and how errors are told."""

    def __init__(self, frame: Site) -> None:
        self._frame = frame
        self._store = frame.store

    async def show_status(self, request: Request) -> Response:
        """What is happening, and how to add feeds. Of all feeds, so it is for owners."""
        await require_user(request, ADMIN)
        page = await load_status_page(self._store, self._frame.status(), self._frame.clock())
        given = self._frame.settings
        folder = None if given.database else shlex.quote(str(given.data.absolute()))  # the address may have a password
        return self._frame.render_page(request, "status.html", page=page, folder=folder)

    async def show_health(self, request: Request) -> Response:
        """200 while the store answers, else 503 with the reason."""
        summary = await self._store.summary(self._frame.clock())
        status = self._frame.status()
        last = summary.last[0].at if summary.last else None
        return json_response(
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

    async def show_metrics(self, request: Request) -> Response:
        summary = await self._store.summary(self._frame.clock())
        more = (
            [ClusterCollector(await read_cluster_status(self._store))]
            if is_shared_database(self._frame.settings)
            else []
        )
        figures = metrics.render_metrics(summary, self._frame.status(), await load_last_report(self._store), more)
        return Response(figures, media_type=metrics.CONTENT_TYPE)

    async def show_quality(self, request: Request) -> Response:
        """How good the watching is, as the node reported it within the last minute; 503 before it has."""
        await require_user(request, ADMIN)
        report = await load_last_report(self._store)
        if report is None:
            return json_response({"message": "No node has reported yet: the first report comes after a minute."}, 503)
        return json_response(report)

    async def answer_store_error(self, request: Request, error: Exception) -> Response:
        if request.url.path == "/health":
            return json_response({"status": "failing", "message": str(error)}, 503)
        return self._render_problem(request, 503, "The database does not answer", str(error))

    async def answer_not_found(self, request: Request, error: Exception) -> Response:
        if request.url.path.startswith("/api/"):
            return answer_unknown_path()
        message = str(error) if isinstance(error, NotFound) else "Nothing has this address: was it mistyped?"
        return self._render_problem(request, 404, "Not here", message)

    async def answer_error(self, request: Request, error: Exception) -> Response:
        """What a page did not answer itself: the sentence, and that nothing came of it."""
        return self._render_problem(request, 400, "That cannot be done", str(error))

    async def answer_defect(self, request: Request, error: Exception) -> Response:
        """A defect of ours; the server's log has it. Sent from outside the middleware, so it brings its headers."""
        message = "Something went wrong here. Nothing is lost; the server's log says more."
        response = self._render_problem(request, 500, "Headwater made a mistake", message)
        response.headers.update(SECURITY_HEADERS)
        return response

    def _render_problem(self, request: Request, status: int, title: str, message: str) -> Response:
        return self._frame.render_part("problem.html", status, request=request, title=title, message=message)


async def show_icon(request: Request) -> Response:
    """Our icon where browsers look for one when a document names none, as /health does."""
    return FileResponse(WEB_FOLDER / "static" / "mark.svg", headers={"Cache-Control": "max-age=3600"})


def _add_unchecked(store: Store, clock: Callable[[], float]) -> AddFeedWithinQuota:
    async def add(address: str, user_id: int, allowed: FeedQuotaCheck | None) -> AddedFeed:
        if not address.lower().startswith(("http://", "https://")):
            raise InputError(f"“{address[:200]}” is no web address: it should begin with https:// or http://.")
        (added,) = await store.add_feeds([NewFeed(address)], clock(), subscriber=user_id, allowed=allowed)
        return added

    return add
