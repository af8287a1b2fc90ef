"""Identifies the sender of a request: token, session, trusted proxy, open loopback.

In this order: an API token (`Authorization: Bearer …`), a session's cookie, the header of a trusted reverse proxy, and,
while the owner has no password (open mode), the loopback: anybody at this machine is the owner.

A change by cookie, proxy or loopback must come from one of our own pages, or any site that the person visits could send
it (CSRF), and under one of our own names, or a stranger could point a name of theirs at us (DNS rebinding).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from headwater.credentials import hash_secret, make_secret
from headwater.errors import HeadwaterError, InputError, NotFound, StoreError
from headwater.settings import Settings
from headwater.store.readers.accounts import (
    ADMIN,
    READ,
    SCOPES,
    WRITE,
    ApiToken,
    Session,
    User,
    add_user,
    end_session,
    extend_session,
    find_client,
    find_owner,
    find_session,
    find_token_user,
    find_user,
    record_token_use,
    start_session,
)
from headwater.store.store import Store
from headwater.web.auth.client_address import is_loopback, is_secure, is_within, parse_networks, peer_address
from headwater.web.auth.cross_site import check_host, check_same_site
from headwater.web.auth.guess_throttle import GuessThrottle, TooManyAttempts, token_key

COOKIE = "headwater_session"
SESSION_SECONDS = 30 * 86_400.0  # seconds a session lasts after its last use
USE_INTERVAL = 300.0  # seconds before a use is written down again
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class NotSignedIn(HeadwaterError):
    """The request has no valid credentials."""


class Forbidden(HeadwaterError):
    """The user or the token lacks a permission."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A user, how they were identified (token, session, proxy, open), and their scopes."""

    user: User
    by: str
    scopes: frozenset[str]


class Authenticator:
    """Identifies the sender of a request. An application has one, at `app.state.authenticator`."""

    def __init__(self, store: Store, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self.store = store
        self.settings = settings
        self.clock = clock
        self.throttle = GuessThrottle(clock)
        self._trusted_networks = parse_networks(self.settings.trusted_proxies)
        self._owner_has_password = False  # the owner has a password, and so open mode is over for good

    async def identify(self, request: HTTPConnection) -> Identity:
        """Identify the sender. Raises NotSignedIn. Scopes are checked later."""
        given = request.headers.get("authorization")
        if given is not None:
            return await self._identify_by_token(request, given)
        if cookie := request.cookies.get(COOKIE):
            found = await self.identify_by_session(cookie, "page")
            if found is not None:
                return found
        if (found := await self._identify_by_proxy(request)) is not None:
            return found
        if (found := await self._identify_by_loopback(request)) is not None:
            return found
        raise NotSignedIn("Sign in first.")

    async def _identify_by_token(self, request: HTTPConnection, given: str) -> Identity:
        scheme, _, secret = given.partition(" ")
        if scheme.lower() != "bearer" or not secret:
            raise NotSignedIn("Sign in by “Authorization: Bearer TOKEN”.")
        with self.throttle.count_attempt(token_key(request)) as attempt:
            found = await self.store.read(find_token_user, hash_secret(secret.strip()))
            if found is None:
                raise NotSignedIn("This token is not known here, or was revoked.")
            attempt.take_back()
        return await self._use_token(*found)

    async def identify_client(self, request: HTTPConnection, secret: str, kind: str) -> Identity | None:
        """Identify a reader app, which sends the secret of a session or an API token.

        An unknown secret counts as a guess. Raises TooManyAttempts for an address that has sent too many of them; its
        sessions go on.
        """
        hash = hash_secret(secret)
        try:
            with self.throttle.count_attempt(token_key(request)) as attempt:
                found = await self.store.read(find_client, hash, kind, self.clock())
                if found is None:
                    return None
                attempt.take_back()
        except TooManyAttempts:
            if (session := await self.identify_by_session(secret, kind)) is None:
                raise
            return session
        return await (self._use_session(found, hash) if isinstance(found, Session) else self._use_token(*found))

    async def identify_by_session(self, secret: str, kind: str) -> Identity | None:
        hash = hash_secret(secret)
        found = await self.store.read(find_session, hash, kind, self.clock())
        return None if found is None else await self._use_session(found, hash)

    async def _use_session(self, found: Session, hash: bytes) -> Identity:
        now = self.clock()
        if now - found.last_seen > USE_INTERVAL:
            await self._record_use(extend_session, hash, now, now + SESSION_SECONDS)
        return Identity(found.user, "session", user_scopes(found.user))

    async def _use_token(self, user: User, token: ApiToken) -> Identity:
        now = self.clock()
        if token.last_used is None or now - token.last_used > USE_INTERVAL:
            await self._record_use(record_token_use, token.id, now)
        return Identity(user, "token", user_scopes(user) & set(token.scopes))

    async def _record_use(self, change: Callable[..., None], *values: object) -> None:
        """Record the use of a session or token, if the store can be written: reading goes on while a disk is full."""
        with contextlib.suppress(StoreError):
            await self.store.write(change, *values)

    async def _identify_by_proxy(self, request: HTTPConnection) -> Identity | None:
        """Trust the header of a trusted proxy; from any other peer it is only a claim."""
        header = self.settings.proxy_header
        if header is None or not is_within(peer_address(request), self._trusted_networks):
            return None
        name = request.headers.get(header)
        if not name:
            return None
        try:
            user = await self.store.read(find_user, name)
        except NotFound as error:
            if not self.settings.registration:
                raise Forbidden(f"“{name[:100]}” has no account here. Ask the owner for one.") from error
            try:
                user = await self.store.write(add_user, name, None, self.clock())
            except InputError as problem:
                raise Forbidden(str(problem)) from problem
        return Identity(user, "proxy", user_scopes(user))

    async def is_open(self) -> bool:
        """Return whether the owner has no password yet."""
        if not self._owner_has_password:
            self._owner_has_password = (await self.store.read(find_owner)).has_password
        return not self._owner_has_password

    async def _identify_by_loopback(self, request: HTTPConnection) -> Identity | None:
        if not is_loopback(request) or not await self.is_open():
            return None
        check_host(request, self.settings.own_names)
        owner = await self.store.read(find_owner)
        return Identity(owner, "open", user_scopes(owner))

    def check_sender(self, request: HTTPConnection) -> None:
        """Refuse a change that another site sent, or that came under a foreign host name."""
        check_host(request, self.settings.own_names)
        check_same_site(request)

    # sessions

    async def sign_in(self, request: Request, response: Response, user: User) -> None:
        """Start a session in this browser."""
        secret = await self.start_session(user, "page", request.headers.get("user-agent", ""))
        response.set_cookie(
            COOKIE,
            secret,
            max_age=int(SESSION_SECONDS),
            httponly=True,
            samesite="lax",
            secure=is_secure(request),
            path="/",
        )

    async def start_session(self, user: User, kind: str, label: str, token_id: int | None = None) -> str:
        """Start a session and return its secret; one that is started with an API token ends with it."""
        secret, now = make_secret(), self.clock()
        expires = now + SESSION_SECONDS
        await self.store.write(start_session, hash_secret(secret), user.id, kind, label, now, expires, token_id)
        return secret

    async def sign_out(self, request: Request, response: Response) -> None:
        """End the session of this browser."""
        if cookie := request.cookies.get(COOKIE):
            await self.store.write(end_session, hash_secret(cookie))
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="lax", secure=is_secure(request))


async def require_identity(request: Request, scope: str = READ) -> Identity:
    """Return the sender's identity, if they have the scope (read, write, admin).

    Raises NotSignedIn (pages: to /login; API: 401), Forbidden (403) or RequestRefused (403, sent by another site).
    """
    authenticator: Authenticator = request.app.state.authenticator
    found: Identity | None = request.scope.get("headwater.identity")
    if found is None:
        found = await authenticator.identify(request)
        request.scope["headwater.identity"] = found
    if request.method not in SAFE_METHODS and found.by != "token":
        authenticator.check_sender(request)
    if scope not in found.scopes:
        raise Forbidden(explain_missing_scope(found, scope))
    return found


def explain_missing_scope(found: Identity, scope: str) -> str:
    if scope == ADMIN and not found.user.is_owner:
        return "Only an owner may do this."
    return f"This token may not do this: it lacks the scope {scope}."


def user_scopes(user: User) -> frozenset[str]:
    return frozenset(SCOPES if user.is_owner else (READ, WRITE))


def login_url(request: Request) -> str:
    """Return the login page that leads back to this request."""
    back = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return "/login" if back == "/" else f"/login?{urlencode({'next': back})}"


def safe_return_path(address: str | None) -> str:
    """Return the path if it is one of this server, else “/”. Browsers read “//” and “/\\” as other hosts.

    >>> [safe_return_path(to) for to in ("/feeds?x=1", "https://evil.example/", "//evil.example", None)]
    ['/feeds?x=1', '/', '/', '/']
    """
    if not address or not address.startswith("/") or not address.isprintable() or "\\" in address:
        return "/"
    try:
        parts = urlsplit(address)
    except ValueError:
        return "/"
    return address if not parts.scheme and not parts.netloc and not address.startswith("//") else "/"
