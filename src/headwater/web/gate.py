"""In front of every page: who is not signed in is sent to the login, unless the page is for everybody.

A page that is not named here is closed, so that nobody can forget to close one. Pages ask `session.current` for the
user, and with "admin" for what only owners may do.
"""

from __future__ import annotations

import re

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from headwater.errors import StoreError
from headwater.store.people import READ, WRITE
from headwater.web.auth.authentication import SAFE_METHODS, Forbidden, NotSignedIn, require_identity
from headwater.web.auth.cross_site import RequestRefused
from headwater.web.pages.account_page import RefusalHandlers

# Published documents and the hub are answered before; the Google Reader API has its own way to sign in, and each
# endpoint of the JSON API asks for the scope it needs.
OPEN = (
    "/login",
    "/logout",
    "/welcome",
    "/register",
    "/health",
    "/metrics",
    "/favicon.ico",
    "/robots.txt",
    "/hub",
    "/api/openapi.json",
    "/api/greader.php",
)
OPEN_UNDER = ("/static/", "/accounts/", "/reader/", "/api/greader.php/", "/api/v1/", "/oidc/")

_DOUBLED = re.compile("^(?://+|/(?=api/greader.php//))((?:api/greader.php/)?)/*")


class SignInGate:
    """Lets pass who may."""

    def __init__(self, app: ASGIApp, refusals: RefusalHandlers) -> None:
        self._app = app
        self._refusals = refusals

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope.get("path", "")
        if _DOUBLED.match(path):  # newsboat puts its paths behind an address that ends with a slash
            path = _DOUBLED.sub(r"/\1", path)
            scope = {**scope, "path": path, "raw_path": path.encode()}
        if scope["type"] != "http" or path in OPEN or path.startswith(OPEN_UNDER):
            return await self._app(scope, receive, send)
        request = Request(scope, receive)
        try:
            await require_identity(request, READ if request.method in SAFE_METHODS else WRITE)
        except NotSignedIn as error:
            response = await self._refusals.answer_not_signed_in(request, error)
        except Forbidden as error:
            response = await self._refusals.answer_forbidden(request, error)
        except RequestRefused as error:
            response = await self._refusals.answer_refused(request, error)
        except StoreError as error:  # not to be passed on: a moment later the store may answer, and nobody was asked
            response = await self._refusals.answer_store_error(request, error)
        else:
            return await self._app(scope, receive, send)
        return await response(scope, receive, send)
