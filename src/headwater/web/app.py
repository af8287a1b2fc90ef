"""Builds the Starlette application: routes, middleware, error answers.

request ─► PublishedResponses (published documents) ─► Compression ─► SecurityHeaders ─► routes
              pages/*       every module with a `pages` group
              api           the JSON API under /api
              greader       the Google Reader API
              static, /favicon.ico
"""

from __future__ import annotations

import pkgutil
import time
from collections.abc import Callable
from importlib import import_module

import structlog
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from headwater.errors import HeadwaterError, NotFound, StoreError
from headwater.node.aggregator import Aggregator
from headwater.node.websub import PushService
from headwater.publish.document_cache import DocumentCache
from headwater.store.publishing.private_feeds import may_read_path
from headwater.store.readers.accounts import READ
from headwater.web import pages
from headwater.web.api.api_app import answer_unknown_path, build_api
from headwater.web.auth.authentication import Authenticator, Forbidden, NotSignedIn, login_url
from headwater.web.auth.cross_site import RequestRefused
from headwater.web.auth.oidc import OidcProvider
from headwater.web.auth.password_login import PasswordLogin
from headwater.web.compression import Compression
from headwater.web.greader.greader_app import SingleSlashes, build_greader_routes
from headwater.web.page import PageGroup, build_routes
from headwater.web.published.document_responses import DocumentReaders, FeedTokens, PublishedResponses
from headwater.web.published.live_endpoint import LiveEndpoint
from headwater.web.published.websub_endpoints import WebSubEndpoints
from headwater.web.security_headers import SECURITY_HEADERS, SecurityHeaders
from headwater.web.shared.failure_advice import report_store_error
from headwater.web.shared.health import HealthProblem, describe_failure
from headwater.web.site import WEB_FOLDER, Site

log = structlog.get_logger()


def create_app(
    aggregator: Aggregator,
    *,
    base: str = "http://localhost:8040",
    push_service: PushService | None = None,
    oidc: OidcProvider | None = None,
    clock: Callable[[], float] = time.time,
) -> Starlette:
    """Build the application of a running aggregator.

    `base` is the server's address in published documents, never taken from a request: anybody can write a Host header.
    `push_service` brings the hub and its documents.
    """
    store = aggregator.store
    login = PasswordLogin(Authenticator(store, aggregator.settings, clock))
    site = Site(aggregator, login, base=base, oidc=oidc, clock=clock)
    errors = ErrorPages(site)
    documents = push_service.documents if push_service else DocumentCache(store, base, clock=clock)

    async def may_read(scope: Scope, path: str) -> bool:
        try:
            found = await login.authenticator.identify(HTTPConnection(scope))
        except (NotSignedIn, Forbidden, RequestRefused):
            return False
        signed_in = found.by != "open"
        return READ in found.scopes and await store.read(may_read_path, path, found.user, signed_in=signed_in)

    tokens = FeedTokens(documents, login.authenticator.throttle)
    app = PublishedResponses(
        documents,
        may_read,
        tokens,
        DocumentReaders(store, clock),
        routes=[
            *build_greader_routes(site),
            build_api(site),
            *build_routes(find_page_groups(), site),
            *LiveEndpoint(store, tokens, aggregator.live, may_read).routes(),
            *(WebSubEndpoints(push_service, tokens).routes() if push_service else ()),
            Route("/favicon.ico", show_icon),
            Mount("/static", StaticFiles(directory=WEB_FOLDER / "static")),
        ],
        middleware=[
            Middleware(Compression),
            Middleware(SecurityHeaders),
            Middleware(SingleSlashes),
        ],
        exception_handlers={
            StoreError: errors.answer_store_error,
            NotSignedIn: errors.answer_not_signed_in,
            Forbidden: errors.answer_forbidden,
            RequestRefused: errors.answer_refused,
            NotFound: errors.answer_not_found,
            HeadwaterError: errors.answer_error,
            404: errors.answer_not_found,
            Exception: errors.answer_defect,
        },
    )
    app.state.authenticator, app.state.login = login.authenticator, login
    return app


def find_page_groups() -> list[PageGroup]:
    """Return the `pages` of every module in pages/, so that a new page needs no second list."""
    modules = [import_module(f"{pages.__name__}.{one.name}") for one in pkgutil.iter_modules(pages.__path__)]
    return [group for module in modules if isinstance(group := getattr(module, "pages", None), PageGroup)]


class ErrorPages:
    """Answers errors: as a page, or as JSON to programs."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def answer_not_signed_in(self, request: Request, error: Exception) -> Response:
        if _is_program(request):
            return JSONResponse({"message": str(error)}, 401, {"WWW-Authenticate": "Bearer"})
        if request.method in ("GET", "HEAD"):
            return RedirectResponse(login_url(request), 303)
        return self._answer(request, 401, "You are not signed in", str(error))

    async def answer_forbidden(self, request: Request, error: Exception) -> Response:
        return self._answer(request, 403, "You don't have permission", str(error))

    async def answer_refused(self, request: Request, error: Exception) -> Response:
        status = error.status if isinstance(error, RequestRefused) else 403
        response = self._answer(request, status, "Nothing was changed", str(error))
        if isinstance(error, RequestRefused):
            response.headers.update(error.headers)
        return response

    async def answer_store_error(self, request: Request, error: Exception) -> Response:
        message = report_store_error(error) if isinstance(error, StoreError) else str(error)
        if request.url.path == "/health":
            return JSONResponse(describe_failure([HealthProblem("database", message, stops=True)]), 503)
        return self._answer(request, 503, "The database does not answer", message)

    async def answer_not_found(self, request: Request, error: Exception) -> Response:
        if request.url.path.startswith("/api/"):
            return answer_unknown_path()
        message = str(error) if isinstance(error, NotFound) else "There is no page at this address."
        return self._render(request, 404, "Page not found", message)

    async def answer_error(self, request: Request, error: Exception) -> Response:
        return self._answer(request, 400, "That did not work", str(error))

    async def answer_defect(self, request: Request, error: Exception) -> Response:
        """Answer for a defect. Starlette sends this outside the middleware, so it brings its own headers."""
        message = "Something went wrong. Nothing is lost; the server's log has the details."
        response = self._render(request, 500, "Headwater made a mistake", message)
        response.headers.update(SECURITY_HEADERS)
        return response

    def _answer(self, request: Request, status: int, title: str, message: str) -> Response:
        if _is_program(request):
            return JSONResponse({"message": message}, status)
        return self._render(request, status, title, message)

    def _render(self, request: Request, status: int, title: str, message: str) -> Response:
        return self._site.render_page(request, "error_page.html", status, title=title, message=message)


def _is_program(request: Request) -> bool:
    return request.url.path.startswith("/api/") or "authorization" in request.headers


async def show_icon(request: Request) -> Response:
    """Send the icon where browsers look for one when a document names none, as /health does."""
    return FileResponse(WEB_FOLDER / "static" / "mark.svg", headers={"Cache-Control": "max-age=3600"})
