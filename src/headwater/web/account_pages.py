"""Signing in and out, the welcome of the first owner, registration, changing the password. Plain forms.

`routes(…)` is all an application needs; `page` renders a template of ours for a request, with `token` for its form.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from headwater.credentials import hash_password
from headwater.errors import InputError
from headwater.web.forms import Forms, Refused
from headwater.web.pages.notes import Note, wrong
from headwater.web.session import Forbidden, NotSignedIn, current, login_address, safe_next
from headwater.web.signing_in import Door, TooSoon, Wrong


class Render(Protocol):
    """How a page is made; the frame around it is somebody else's."""

    def __call__(self, request: Request, template: str, status: int = 200, **values: object) -> Response: ...


def routes(door: Door, forms: Forms, page: Render, *, by_provider: bool = False) -> Sequence[BaseRoute]:
    """`by_provider`: the login page offers OpenID Connect."""
    pages = AccountPages(door, forms, page, by_provider)
    return [
        Route("/login", pages.login, methods=["GET", "POST"]),
        Route("/logout", pages.logout, methods=["POST"]),
        Route("/welcome", pages.welcome, methods=["GET", "POST"]),
        Route("/register", pages.register, methods=["GET", "POST"]),
        Route("/password", pages.password, methods=["GET", "POST"]),
    ]


class AccountPages:
    """The pages about one's own account."""

    def __init__(self, door: Door, forms: Forms, page: Render, by_provider: bool) -> None:
        self._by_provider = by_provider
        self._door = door
        self._visitors = door.visitors
        self._forms = forms
        self._page = page

    async def login(self, request: Request) -> Response:
        if request.method == "GET":
            return self._login(request, request.query_params.get("next", ""))
        form = await self._forms.read(request)
        name, back = form.get("name", "").strip(), form.get("next", "")
        try:
            user = await self._door.enter(request, name, form.get("password", ""))
        except (Wrong, TooSoon) as error:
            return self._said(self._login(request, back, wrong(error, form, "password"), _status(error)), error)
        response = RedirectResponse(safe_next(back), 303)
        await self._visitors.sign_in(request, response, user)
        return response

    def _login(self, request: Request, back: str, note: Note | None = None, status: int = 200) -> Response:
        values: dict[str, object] = {"next": safe_next(back), "note": note, "by_provider": self._by_provider}
        return self._page(request, "login.html", status, **values, registration=self._visitors.access.registration)

    async def logout(self, request: Request) -> Response:
        await self._forms.read(request)
        response = RedirectResponse("/login", 303)
        await self._visitors.sign_out(request, response)
        return response

    async def welcome(self, request: Request) -> Response:
        """Name and password of the owner, for whoever has the link of the log, or sits at the machine."""
        if not await self._visitors.open_mode():
            return RedirectResponse("/login", 303)
        if request.method == "GET":
            code = request.query_params.get("code", "")
            return self._welcome(request, code)
        form = await self._forms.read(request)
        code = form.get("code", "")
        try:
            user = await self._door.welcome(request, code, form.get("name", ""), _twice(form))
        except InputError as error:
            return self._said(self._welcome(request, code, wrong(error, form), _status(error)), error)
        response = RedirectResponse("/", 303)
        await self._visitors.sign_in(request, response, user)
        return response

    def _welcome(self, request: Request, code: str, note: Note | None = None, status: int = 200) -> Response:
        return self._page(request, "welcome.html", status, code=code[:100], note=note)

    async def register(self, request: Request) -> Response:
        if not self._visitors.access.registration:
            return self._problem(request, 403, "Registration is closed", "Ask the owner for an account.")
        if request.method == "GET":
            return self._page(request, "register.html")
        form = await self._forms.read(request)
        try:
            user = await self._door.register(request, form.get("name", ""), _twice(form))
        except InputError as error:
            page = self._page(request, "register.html", _status(error), note=wrong(error, form))
            return self._said(page, error)
        response = RedirectResponse("/", 303)
        await self._visitors.sign_in(request, response, user)
        return response

    async def password(self, request: Request) -> Response:
        """A new password; every session ends but this one."""
        user = await current(request)
        if request.method == "GET":
            return self._page(request, "password.html", user=user)
        form = await self._forms.read(request)
        try:
            if user.has_password:
                await self._check_old(request, user.name, form.get("old", ""))
            hashed = await asyncio.to_thread(hash_password, _twice(form))
        except InputError as error:
            page = self._page(request, "password.html", _status(error), user=user, note=wrong(error, form))
            return self._said(page, error)
        changed = await self._visitors.store.accounts.change(user.id, password=hashed)
        response = RedirectResponse("/", 303)
        await self._visitors.sign_in(request, response, changed)
        return response

    async def _check_old(self, request: Request, name: str, old: str) -> None:
        """Guessing is as slow here as it is at the door: whoever found an open session does not know the password."""
        try:
            await self._door.enter(request, name, old)
        except Wrong as error:
            raise Wrong("The present password is wrong.", "old") from error
        except TooSoon as error:
            raise TooSoon(error.seconds, "old") from error

    def _problem(self, request: Request, status: int, title: str, message: str) -> Response:
        return self._page(request, "problem.html", status, title=title, message=message)

    @staticmethod
    def _said(response: Response, error: Exception) -> Response:
        if isinstance(error, TooSoon):
            response.headers["Retry-After"] = str(error.seconds)
        return response


def _status(error: Exception) -> int:
    return 429 if isinstance(error, TooSoon) else 403 if isinstance(error, Wrong) else 400


def _twice(form: dict[str, str]) -> str:
    password = form.get("password", "")
    if password != form.get("again", password):
        raise InputError("The two passwords are not the same.", "again")
    return password


class Refusals:
    """What is answered to those who may not: pages lead to the login, the API says 401 or 403 as JSON."""

    def __init__(self, page: Render) -> None:
        self._page = page

    async def not_signed_in(self, request: Request, error: Exception) -> Response:
        if _is_api(request):
            return JSONResponse({"message": str(error)}, 401, {"WWW-Authenticate": "Bearer"})
        if request.method in ("GET", "HEAD"):
            return RedirectResponse(login_address(request), 303)
        return self._page(request, "problem.html", 401, title="You are not signed in", message=str(error))

    async def forbidden(self, request: Request, error: Exception) -> Response:
        if _is_api(request):
            return JSONResponse({"message": str(error)}, 403)
        return self._page(request, "problem.html", 403, title="This is not for you", message=str(error))

    async def unknown(self, request: Request, error: Exception) -> Response:
        """Nobody can be recognised while the store does not answer."""
        if _is_api(request):
            return JSONResponse({"message": str(error)}, 503)
        return self._page(request, "problem.html", 503, title="The database does not answer", message=str(error))

    async def refused(self, request: Request, error: Exception) -> Response:
        status = error.status if isinstance(error, Refused) else 403
        if _is_api(request):
            return JSONResponse({"message": str(error)}, status)
        return self._page(request, "problem.html", status, title="Nothing was changed", message=str(error))

    @property
    def handlers(self) -> dict[Any, Any]:
        return {NotSignedIn: self.not_signed_in, Forbidden: self.forbidden, Refused: self.refused}


def _is_api(request: Request) -> bool:
    return request.url.path.startswith("/api/") or "authorization" in request.headers


def welcome_address(base: str, door: Door) -> str:
    """The link for the log of the first start."""
    return f"{base.rstrip('/')}/welcome?{urlencode({'code': door.code})}"
