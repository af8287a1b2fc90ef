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
from headwater.web.auth.authentication import Forbidden, NotSignedIn, login_url, require_user, safe_return_path
from headwater.web.auth.cross_site import RequestRefused, SignedForms
from headwater.web.auth.password_login import PasswordLogin, TooManyAttempts, WrongPassword
from headwater.web.page import FlashMessage, make_field_error


class PageRenderer(Protocol):
    """How a page is made; the frame around it is somebody else's."""

    def __call__(self, request: Request, template: str, status: int = 200, **values: object) -> Response: ...


def routes(
    door: PasswordLogin, forms: SignedForms, page: PageRenderer, *, by_provider: bool = False
) -> Sequence[BaseRoute]:
    """`by_provider`: the login page offers OpenID Connect."""
    pages = AccountPages(door, forms, page, by_provider)
    return [
        Route("/login", pages.show_login, methods=["GET", "POST"]),
        Route("/logout", pages.sign_out, methods=["POST"]),
        Route("/welcome", pages.set_up_owner, methods=["GET", "POST"]),
        Route("/register", pages.register_reader, methods=["GET", "POST"]),
        Route("/password", pages.change_password, methods=["GET", "POST"]),
    ]


class AccountPages:
    """The pages about one's own account."""

    def __init__(self, door: PasswordLogin, forms: SignedForms, page: PageRenderer, by_provider: bool) -> None:
        self._offers_oidc = by_provider
        self._login = door
        self._authenticator = door.authenticator
        self._forms = forms
        self._render_page = page

    async def show_login(self, request: Request) -> Response:
        if request.method == "GET":
            return self._render_login(request, request.query_params.get("next", ""))
        form = await self._forms.read_form(request)
        name, back = form.get("name", "").strip(), form.get("next", "")
        try:
            user = await self._login.check_password(request, name, form.get("password", ""))
        except (WrongPassword, TooManyAttempts) as error:
            return self._render_flash(
                self._render_login(request, back, make_field_error(error, form, "password"), _error_status(error)),
                error,
            )
        response = RedirectResponse(safe_return_path(back), 303)
        await self._authenticator.sign_in(request, response, user)
        return response

    def _render_login(
        self, request: Request, back: str, note: FlashMessage | None = None, status: int = 200
    ) -> Response:
        values: dict[str, object] = {"next": safe_return_path(back), "note": note, "by_provider": self._offers_oidc}
        return self._render_page(
            request, "login.html", status, **values, registration=self._authenticator.access.registration
        )

    async def sign_out(self, request: Request) -> Response:
        await self._forms.read_form(request)
        response = RedirectResponse("/login", 303)
        await self._authenticator.sign_out(request, response)
        return response

    async def set_up_owner(self, request: Request) -> Response:
        """Name and password of the owner, for whoever has the link of the log, or sits at the machine."""
        if not await self._authenticator.is_open():
            return RedirectResponse("/login", 303)
        if request.method == "GET":
            code = request.query_params.get("code", "")
            return self._render_setup(request, code)
        form = await self._forms.read_form(request)
        code = form.get("code", "")
        try:
            user = await self._login.set_up_owner(request, code, form.get("name", ""), _read_new_password(form))
        except InputError as error:
            return self._render_flash(
                self._render_setup(request, code, make_field_error(error, form), _error_status(error)), error
            )
        response = RedirectResponse("/", 303)
        await self._authenticator.sign_in(request, response, user)
        return response

    def _render_setup(
        self, request: Request, code: str, note: FlashMessage | None = None, status: int = 200
    ) -> Response:
        return self._render_page(request, "welcome.html", status, code=code[:100], note=note)

    async def register_reader(self, request: Request) -> Response:
        if not self._authenticator.access.registration:
            return self._render_problem(request, 403, "Registration is closed", "Ask the owner for an account.")
        if request.method == "GET":
            return self._render_page(request, "register.html")
        form = await self._forms.read_form(request)
        try:
            user = await self._login.register_reader(request, form.get("name", ""), _read_new_password(form))
        except InputError as error:
            page = self._render_page(request, "register.html", _error_status(error), note=make_field_error(error, form))
            return self._render_flash(page, error)
        response = RedirectResponse("/", 303)
        await self._authenticator.sign_in(request, response, user)
        return response

    async def change_password(self, request: Request) -> Response:
        """A new password; every session ends but this one."""
        user = await require_user(request)
        if request.method == "GET":
            return self._render_page(request, "password.html", user=user)
        form = await self._forms.read_form(request)
        try:
            if user.has_password:
                await self._check_old_password(request, user.name, form.get("old", ""))
            hashed = await asyncio.to_thread(hash_password, _read_new_password(form))
        except InputError as error:
            page = self._render_page(
                request, "password.html", _error_status(error), user=user, note=make_field_error(error, form)
            )
            return self._render_flash(page, error)
        changed = await self._authenticator.store.accounts.change(user.id, password=hashed)
        response = RedirectResponse("/", 303)
        await self._authenticator.sign_in(request, response, changed)
        return response

    async def _check_old_password(self, request: Request, name: str, old: str) -> None:
        """Guessing is as slow here as it is at the door: whoever found an open session does not know the password."""
        try:
            await self._login.check_password(request, name, old)
        except WrongPassword as error:
            raise WrongPassword("The present password is wrong.", "old") from error
        except TooManyAttempts as error:
            raise TooManyAttempts(error.seconds, "old") from error

    def _render_problem(self, request: Request, status: int, title: str, message: str) -> Response:
        return self._render_page(request, "problem.html", status, title=title, message=message)

    @staticmethod
    def _render_flash(response: Response, error: Exception) -> Response:
        if isinstance(error, TooManyAttempts):
            response.headers["Retry-After"] = str(error.seconds)
        return response


def _error_status(error: Exception) -> int:
    return 429 if isinstance(error, TooManyAttempts) else 403 if isinstance(error, WrongPassword) else 400


def _read_new_password(form: dict[str, str]) -> str:
    password = form.get("password", "")
    if password != form.get("again", password):
        raise InputError("The two passwords are not the same.", "again")
    return password


class RefusalHandlers:
    """What is answered to those who may not: pages lead to the login, the API says 401 or 403 as JSON."""

    def __init__(self, page: PageRenderer) -> None:
        self._render_page = page

    async def answer_not_signed_in(self, request: Request, error: Exception) -> Response:
        if _is_api_path(request):
            return JSONResponse({"message": str(error)}, 401, {"WWW-Authenticate": "Bearer"})
        if request.method in ("GET", "HEAD"):
            return RedirectResponse(login_url(request), 303)
        return self._render_page(request, "problem.html", 401, title="You are not signed in", message=str(error))

    async def answer_forbidden(self, request: Request, error: Exception) -> Response:
        if _is_api_path(request):
            return JSONResponse({"message": str(error)}, 403)
        return self._render_page(request, "problem.html", 403, title="This is not for you", message=str(error))

    async def answer_store_error(self, request: Request, error: Exception) -> Response:
        """Nobody can be recognised while the store does not answer."""
        if _is_api_path(request):
            return JSONResponse({"message": str(error)}, 503)
        return self._render_page(request, "problem.html", 503, title="The database does not answer", message=str(error))

    async def answer_refused(self, request: Request, error: Exception) -> Response:
        status = error.status if isinstance(error, RequestRefused) else 403
        if _is_api_path(request):
            return JSONResponse({"message": str(error)}, status)
        return self._render_page(request, "problem.html", status, title="Nothing was changed", message=str(error))

    @property
    def handlers(self) -> dict[Any, Any]:
        return {
            NotSignedIn: self.answer_not_signed_in,
            Forbidden: self.answer_forbidden,
            RequestRefused: self.answer_refused,
        }


def _is_api_path(request: Request) -> bool:
    return request.url.path.startswith("/api/") or "authorization" in request.headers


def setup_url(base: str, door: PasswordLogin) -> str:
    """The link for the log of the first start."""
    return f"{base.rstrip('/')}/welcome?{urlencode({'code': door.setup_code})}"
