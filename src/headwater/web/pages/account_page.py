"""The account pages: sign in and out, set the owner up, register, change a password."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from itsdangerous import BadData, URLSafeTimedSerializer
from starlette.responses import RedirectResponse, Response

from headwater.credentials import hash_password
from headwater.errors import InputError, NotFound
from headwater.store.readers.accounts import READ, WRITE, User, add_user, change_user, find_user
from headwater.store.saved_state import load_state, save_state
from headwater.web.auth.authentication import Forbidden, safe_return_path
from headwater.web.auth.client_address import is_secure
from headwater.web.auth.cross_site import RequestRefused
from headwater.web.auth.guess_throttle import TooManyAttempts
from headwater.web.auth.oidc import LOGIN_SECONDS, OidcError, OidcProvider
from headwater.web.auth.password_login import PasswordLogin, WrongPassword
from headwater.web.page import OPEN, PageGroup, Visit
from headwater.web.site import Site

OIDC_COOKIE = "headwater_oidc"

pages = PageGroup()
_oidc_signer = URLSafeTimedSerializer(secrets.token_bytes(32))


@pages.get("/login", OPEN)
async def show_login(visit: Visit) -> Response:
    site = visit.site
    back = visit.form.get("next") or visit.query("next")
    registration = site.settings.registration
    values = {"next": safe_return_path(back), "by_provider": site.oidc is not None, "registration": registration}
    return visit.render("login_page.html", **values)


@pages.post("/login", OPEN, error_page=show_login, error_field="password")
async def sign_in(visit: Visit) -> Response:
    user = await visit.site.login.check_password(visit.request, visit.field("name"), visit.form.get("password", ""))
    return await _start_session(visit, user, visit.form.get("next"))


@pages.post("/logout", OPEN)
async def sign_out(visit: Visit) -> Response:
    response = RedirectResponse("/login", 303)
    await visit.site.authenticator.sign_out(visit.request, response)
    return response


@pages.get("/welcome", OPEN)
async def show_setup(visit: Visit) -> Response:
    """Ask for the owner's name and password; only people with the link from the log, or at this machine, may answer."""
    if not await visit.site.authenticator.is_open():
        return RedirectResponse("/login", 303)
    return visit.render("setup_page.html", code=(visit.form.get("code") or visit.query("code"))[:100])


@pages.post("/welcome", OPEN, error_page=show_setup)
async def set_up_owner(visit: Visit) -> Response:
    if not await visit.site.authenticator.is_open():
        return RedirectResponse("/login", 303)
    code, name = visit.form.get("code", ""), visit.form.get("name", "")
    return await _start_session(
        visit, await visit.site.login.set_up_owner(visit.request, code, name, _read_new_password(visit.form))
    )


@pages.get("/register", OPEN)
async def show_registration(visit: Visit) -> Response:
    if not visit.site.settings.registration:
        raise RequestRefused("Registration is closed. Ask the owner for an account.")
    return visit.render("registration_page.html")


@pages.post("/register", OPEN, error_page=show_registration)
async def register_reader(visit: Visit) -> Response:
    password = _read_new_password(visit.form)
    user = await visit.site.login.register_reader(visit.request, visit.form.get("name", ""), password)
    return await _start_session(visit, user)


@pages.get("/password", READ)
async def show_password_form(visit: Visit) -> Response:
    return visit.render("password_page.html", user=visit.user)


@pages.post("/password", WRITE, error_page=show_password_form)
async def change_password(visit: Visit) -> Response:
    """Change the password; every session ends but this one."""
    if visit.user.has_password:
        await _check_old_password(visit, visit.form.get("old", ""))
    elif visit.identity is not None and visit.identity.by == "token":
        raise Forbidden("A token cannot set the first password: sign in, or use “headwater users password”.")
    hashed = await asyncio.to_thread(hash_password, _read_new_password(visit.form))
    return await _start_session(visit, await visit.store.write(change_user, visit.user.id, password=hashed))


async def _check_old_password(visit: Visit, old: str) -> None:
    """Check the old password as slowly as at the login: somebody else may have found an open session."""
    try:
        await visit.site.login.check_password(visit.request, visit.user.name, old)
    except WrongPassword as error:
        raise WrongPassword("The present password is wrong.", "old") from error
    except TooManyAttempts as error:
        raise TooManyAttempts(error.seconds, "old") from error


def _read_new_password(form: Mapping[str, str]) -> str:
    password = form.get("password", "")
    if password != form.get("again", password):
        raise InputError("The two passwords differ.", "again")
    return password


async def _start_session(visit: Visit, user: User, to: str | None = None) -> Response:
    response = RedirectResponse(safe_return_path(to), 303)
    await visit.site.authenticator.sign_in(visit.request, response, user)
    return response


def setup_url(base: str, login: PasswordLogin) -> str:
    """Return the link for the log of the first start."""
    return f"{base.rstrip('/')}/welcome?{urlencode({'code': login.setup_code})}"


# OpenID Connect


@pages.get("/oidc/login", OPEN)
async def start_oidc_login(visit: Visit) -> Response:
    """Send the browser to the provider; a signed cookie keeps the values that it must bring back."""
    asked = {name: secrets.token_urlsafe(32) for name in ("state", "nonce", "verifier")}
    try:
        address = await _require_provider(visit.site).authorisation_url(_callback_url(visit.site), **asked)
    except OidcError as error:
        return _render_oidc_failure(visit, str(error), 502)
    response = RedirectResponse(address, 303)
    signed = _oidc_signer.dumps({**asked, "next": safe_return_path(visit.query("next"))})
    # Lax: the browser comes back from another site, by a link.
    response.set_cookie(
        OIDC_COOKIE,
        signed if isinstance(signed, str) else signed.decode(),
        max_age=LOGIN_SECONDS,
        path="/oidc",
        httponly=True,
        samesite="lax",
        secure=is_secure(visit.request),
    )
    return response


@pages.get("/oidc/callback", OPEN)
async def finish_oidc_login(visit: Visit) -> Response:
    """Sign in whom the provider sent back."""
    provider, request = _require_provider(visit.site), visit.request
    try:
        expected = _oidc_signer.loads(request.cookies.get(OIDC_COOKIE, ""), max_age=LOGIN_SECONDS)
    except BadData:
        return _render_oidc_failure(visit, "This sign-in was not started here, or took too long. Sign in again.", 400)
    if not hmac.compare_digest(visit.query("state").encode(), expected["state"].encode()):
        return _render_oidc_failure(visit, "This sign-in was not started here. Sign in again.", 400)
    if not visit.query("code"):
        reason = visit.query("error_description") or visit.query("error") or "no reason"
        return _render_oidc_failure(visit, f"The provider refused: {reason[:200]}.", 403)
    try:
        claims = await provider.load_claims(
            visit.query("code"), _callback_url(visit.site), expected["nonce"], expected["verifier"]
        )
        user = await _find_oidc_user(visit.site, provider, claims)
    except OidcError as error:
        return _render_oidc_failure(visit, str(error), 502)
    except (Forbidden, InputError) as error:
        return _render_oidc_failure(visit, str(error), 403)
    response = await _start_session(visit, user, expected["next"])
    response.delete_cookie(OIDC_COOKIE, path="/oidc", httponly=True, samesite="lax", secure=is_secure(request))
    return response


async def _find_oidc_user(site: Site, provider: OidcProvider, claims: Mapping[str, Any]) -> User:
    """Find the account of the claimed name. Its first visitor keeps it: providers give names away again."""
    claim = provider.client.claim
    name = claims.get(claim)
    if not isinstance(name, str) or not name.strip():
        raise Forbidden(f"The provider did not send the claim `{claim}`, which names the account.")
    if claim == "email" and claims.get("email_verified") is False:
        raise Forbidden("The provider has not verified this mail address.")
    store = site.store
    try:
        user = await store.read(find_user, name)
    except NotFound as error:
        if not site.settings.registration:
            raise Forbidden(f"“{name[:100]}” has no account here. Ask the owner for one.") from error
        user = await store.write(add_user, name, None, site.clock())
    subject = f"{claims['iss']} {claims['sub']}".encode()
    known = await store.read(load_state, f"oidc: {user.id}")
    if known is None:
        await store.write(save_state, f"oidc: {user.id}", 1, subject, site.clock())
    elif not hmac.compare_digest(known[1], subject):
        raise Forbidden(f"The account “{user.name}” belongs to somebody else at the provider.")
    return user


def _require_provider(site: Site) -> OidcProvider:
    if site.oidc is None:
        raise NotFound("This server has no OpenID Connect provider.")
    return site.oidc


def _callback_url(site: Site) -> str:
    return f"{site.base_url}/oidc/callback"


def _render_oidc_failure(visit: Visit, message: str, status: int) -> Response:
    return visit.site.render_page(visit.request, "error_page.html", status, title="Signing in failed", message=message)
