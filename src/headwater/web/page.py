"""Declares pages: routes with a scope, form errors, flash messages, and the Visit that handlers get.

    pages = PageGroup(flash={"feed_added": "Feed added."})

    @pages.get("/feeds", READ)
    async def show_feeds(visit: Visit) -> Response:
        return visit.render("feed_list_page.html", rows=…)

    @pages.post("/feeds", WRITE, error_page=show_feeds)
    async def add_feed(visit: Visit) -> Response:
        added = await visit.site.add_feed(visit.field("address"), visit.user.id)
        return visit.redirect(f"/feed/{added.feed.id}", flash="feed_added")

A route cannot be declared without a scope, so no page is open by accident. Where a POST raises a HeadwaterError, its
error page is shown again with the sentence at the field and with the typed values.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from headwater.errors import HeadwaterError, NotFound, StoreError
from headwater.store.readers.accounts import User
from headwater.store.store import Store
from headwater.web.auth.authentication import Forbidden, Identity, NotSignedIn, explain_missing_scope, require_identity
from headwater.web.auth.cross_site import RequestRefused
from headwater.web.request_body import MAX_FORM_BYTES, read_form, read_upload
from headwater.web.site import Site, parse_integer

OPEN = "open"  # a scope that everybody has, also without an account

_UNDO_IDS = re.compile("[0-9]{1,18}(,[0-9]{1,18}){0,99}")


@dataclass(frozen=True, slots=True)
class FlashMessage:
    """A sentence above the page, or at a field (`at`) of a form that keeps the `typed` values.

    `undo` are the ids, separated by commas, of the trash entries that a button beside the sentence restores.
    """

    text: str
    problem: bool = False
    at: str = ""
    undo: str = ""
    typed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Visit:
    """One request to a page: its sender, its form, and the ways to answer it."""

    site: Site
    request: Request
    identity: Identity | None  # None: a visitor without an account, on an open page
    form: Mapping[str, str] = field(default_factory=dict)
    upload: bytes = b""
    flash: FlashMessage | None = None
    error: HeadwaterError | None = None  # on an error page: why the form was not accepted

    @property
    def user(self) -> User:
        if self.identity is None:
            raise NotSignedIn("Sign in first.")
        return self.identity.user

    @property
    def store(self) -> Store:
        return self.site.store

    @property
    def now(self) -> float:
        return self.site.clock()

    @property
    def zone(self) -> ZoneInfo:
        """The reader's time zone."""
        return self.site.find_reader_zone(self.request)

    @property
    def part(self) -> str:
        """The part of the page that one of our scripts requests; empty for the whole page."""
        return self.request.headers.get("x-part", "")

    @property
    def wants_json(self) -> bool:
        """Whether a script of the page sent the request; it updates the page itself."""
        return self.request.headers.get("accept", "").startswith("application/json")

    def require(self, scope: str) -> None:
        """Raise Forbidden where a part of the page needs more than its route does."""
        if self.identity is None:
            raise NotSignedIn("Sign in first.")
        if scope not in self.identity.scopes:
            raise Forbidden(explain_missing_scope(self.identity, scope))

    def path(self, name: str) -> str:
        """Return a parameter of the path; empty where the route has none of the name."""
        return str(self.request.path_params.get(name, ""))

    def query(self, name: str, default: str = "") -> str:
        return self.request.query_params.get(name, default)

    def integer(self, name: str, default: int | None = None) -> int | None:
        """Return a whole number from the query; a mistyped one counts as missing."""
        return parse_integer(self.request.query_params.get(name), default)

    def field(self, name: str) -> str:
        """Return a field of the form without surrounding blanks; empty where it is missing."""
        return self.form.get(name, "").strip()

    def render(self, template: str, **values: Any) -> Response:
        """Render a whole page with its flash message."""
        status = 200 if self.error is None else error_status(self.error)
        response = self.site.render_page(self.request, template, status, note=self.flash, **values)
        if isinstance(self.error, RequestRefused):
            response.headers.update(self.error.headers)
        return response

    def render_part(self, template: str, **values: Any) -> HTMLResponse:
        return self.site.render_part(template, request=self.request, **values)

    def redirect(self, path: str, *, flash: str | None = None, undo: object = None, **query: object) -> Response:
        """Send the browser to the page that shows the result; parameters that are None are left out."""
        return redirect_with_flash(path, said=flash, undo=undo, **query)

    def with_error(self, error: HeadwaterError, at: str = "") -> Visit:
        """Return the visit of an error page: the sentence stands at the field that the error names, else at `at`."""
        return replace(self, flash=make_field_error(error, self.form, at), error=error)


Handler = Callable[[Visit], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class PageRoute:
    """One method of one address: the scope it needs, its handler, and the page for its errors."""

    method: str
    path: str
    scope: str
    handler: Handler
    flash: Mapping[str, str]
    error_page: Handler | None = None
    error_field: str = ""
    form_limit: int = MAX_FORM_BYTES
    upload_field: str = ""

    def build(self, site: Site) -> Route:
        async def answer(request: Request) -> Response:
            identity = None if self.scope == OPEN else await require_identity(request, self.scope)
            if self.scope == OPEN and self.method == "POST":
                site.authenticator.check_sender(request)
            visit = Visit(site, request, identity, flash=read_flash(request, self.flash))
            if self.method == "POST":
                try:
                    visit = await self._read_form(visit)
                except RequestRefused as error:
                    if self.error_page is None or not error.field:
                        raise
                    return await self.error_page(visit.with_error(error))
            try:
                return await self.handler(visit)
            except (StoreError, NotFound, NotSignedIn, Forbidden):
                raise
            except HeadwaterError as error:
                if self.error_page is None:
                    raise
                return await self.error_page(visit.with_error(error, self.error_field))

        return Route(self.path, answer, methods=[self.method], name=f"{self.method} {self.path}")

    async def _read_form(self, visit: Visit) -> Visit:
        if self.upload_field:
            form, upload = await read_upload(visit.request, self.upload_field, self.form_limit)
            return replace(visit, form=form, upload=upload)
        return replace(visit, form=await read_form(visit.request, self.form_limit))


class PageGroup:
    """The pages of one module. `flash` are the sentences that `?said=KEY` may show on them."""

    def __init__(self, flash: Mapping[str, str] | None = None) -> None:
        self._flash = flash or {}
        self.routes: list[PageRoute] = []

    def get(self, path: str, scope: str) -> Callable[[Handler], Handler]:
        """Declare a page; `scope` is OPEN, READ, WRITE or ADMIN."""

        def register(handler: Handler) -> Handler:
            self.routes.append(PageRoute("GET", path, scope, handler, self._flash))
            return handler

        return register

    def post(
        self,
        path: str,
        scope: str,
        *,
        error_page: Handler | None = None,
        error_field: str = "",
        form_limit: int = MAX_FORM_BYTES,
        upload_field: str = "",
    ) -> Callable[[Handler], Handler]:
        """Declare a form. Its errors are shown by `error_page`, at `error_field` where they name no field."""

        def register(handler: Handler) -> Handler:
            route = PageRoute("POST", path, scope, handler, self._flash, error_page, error_field)
            self.routes.append(replace(route, form_limit=form_limit, upload_field=upload_field))
            return handler

        return register


def build_routes(groups: Iterable[PageGroup], site: Site) -> list[Route]:
    """Build the routes of all groups; a word in a path wins over a parameter, so /queries/new is not a query's name."""
    found = [route for group in groups for route in group.routes]
    found.sort(key=lambda route: [part.startswith("{") for part in route.path.split("/")])
    return [route.build(site) for route in found]


def error_status(error: Exception) -> int:
    """Return the HTTP status of the page that shows an error."""
    return error.status if isinstance(error, RequestRefused) else 400


def make_field_error(error: Exception, form: Mapping[str, str], at: str = "") -> FlashMessage:
    """Show an error at the field that it names, else at `at`."""
    return FlashMessage(str(error), problem=True, at=getattr(error, "field", "") or at, typed=form)


def read_flash(request: Request, sentences: Mapping[str, str]) -> FlashMessage | None:
    """Return the message of `?said=KEY`: only our own sentences, or strangers could put theirs into our pages."""
    text = sentences.get(request.query_params.get("said", ""))
    undo = request.query_params.get("undo", "")
    return FlashMessage(text, undo=undo if _UNDO_IDS.fullmatch(undo) else "") if text else None


def redirect_with_flash(to: str, **query: object) -> RedirectResponse:
    """Redirect after a form; parameters that are None are left out."""
    given = {name: value for name, value in query.items() if value is not None}
    return RedirectResponse(f"{to}?{urlencode(given, safe=',')}" if given else to, 303)
