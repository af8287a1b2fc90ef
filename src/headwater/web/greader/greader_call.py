"""Authenticates calls to the Google Reader API and builds its responses.

The API is served at the root of the server and under /api/greader.php:

    POST /accounts/ClientLogin                     exchanges a name and a password for a token (Auth)
    /reader/api/0/…                                everything else, with “Authorization: GoogleLogin auth=TOKEN”
    /reader/atom/STREAM                            a stream as Atom

The API ignores cookies, so other sites cannot forge calls, and the T token of forms proves nothing: any is accepted, as
Reeder sends “x”. A form without the header is accepted if its T is the auth token itself, as in Miniflux.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from headwater.errors import HeadwaterError, InputError, NotFound, StoreError
from headwater.store.readers.accounts import READ, WRITE, User
from headwater.web.auth.authentication import Identity
from headwater.web.auth.cross_site import RequestRefused
from headwater.web.auth.guess_throttle import TooManyAttempts
from headwater.web.auth.password_login import WrongPassword
from headwater.web.greader.stream_ids import MAX_FORM_BYTES, FormFields
from headwater.web.request_body import read_body
from headwater.web.site import Site

CLIENT = "client"
LARGE_ANSWER = 2000  # rows: encoding more of them would block the event loop noticeably
# bytes; Liferea 1.14 sends no header, but its token as T and up to fifty ids
MAX_ANONYMOUS_FORM_BYTES = 1 << 16


class Unauthorized(HeadwaterError):
    """The auth token is missing or unknown."""

    def __init__(self, message: str = "Unauthorized!") -> None:
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class GReaderCall:
    """An authenticated request: who calls, and the fields that were sent."""

    request: Request
    given: FormFields
    user: User
    secret: str
    body: bytes = b""  # only of calls that send a document instead of a form


Handler = Callable[[GReaderCall], Awaitable[Response]]


class GReaderRouter:
    """Authenticates callers and turns errors into the responses that clients understand."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def route(self, path: str, handler: Handler, *, changes: bool = False, body: int = 0) -> Route:
        """Return the route of a handler.

        Calls that change nothing accept GET and POST, since clients use either. `body` is the size limit of calls that
        send a document instead of a form.
        """
        methods = ["POST"] if changes else ["GET", "POST"]
        return Route(path, self._wrap_handler(handler, changes, body), methods=methods)

    def _wrap_handler(self, handler: Handler, changes: bool, body: int) -> Callable[[Request], Awaitable[Response]]:
        @functools.wraps(handler)
        async def answer(request: Request) -> Response:
            try:
                call = await self._identify_call(request, changes, body)
                return await handler(call)
            except Unauthorized as error:
                headers = {"WWW-Authenticate": "GoogleLogin", "X-Reader-Google-Bad-Token": "true"}
                return text_response(str(error), 401, headers)
            except RequestRefused as error:
                return text_response(str(error), error.status, dict(error.headers))
            except NotFound as error:
                return text_response(str(error), 404)
            except StoreError:
                raise
            except InputError as error:
                return text_response(str(error), 400)

        return answer

    async def _identify_call(self, request: Request, changes: bool, body: int) -> GReaderCall:
        secret = read_auth_token(request)
        found = await self._identify_caller(request, secret) if secret else None  # a stranger's form is not read
        nameless = secret is None and request.method == "POST" and not body
        given = await FormFields.read_from(
            request, 0 if body else MAX_ANONYMOUS_FORM_BYTES if nameless else MAX_FORM_BYTES
        )
        secret = given.first_value("T") if nameless else secret
        if not secret:
            raise Unauthorized
        caller = found or await self._identify_caller(request, secret)
        needed = WRITE if changes else READ
        if needed not in caller.scopes:
            raise RequestRefused(f"This token lacks the scope {needed}. Use a token that has it.", 403)
        raw = await read_body(request, body) if body else b""
        return GReaderCall(request, given, caller.user, secret, raw)

    async def _identify_caller(self, request: Request, secret: str) -> Identity:
        found = await self._site.authenticator.identify_client(request, secret, CLIENT)
        if found is None:
            raise Unauthorized
        return found

    async def login(self, request: Request) -> Response:
        """Return `SID=`, `LSID=` and `Auth=` for a name (Email) and a password or API token (Passwd)."""
        try:
            given = await FormFields.read_from(request, 1 << 14)
            name, password = given.first_value("Email") or "", given.first_value("Passwd") or ""
            user, token_id = await self._site.login.check_client(request, name, password)
        except TooManyAttempts as error:
            return text_response("Error=ServiceUnavailable", 429, {"Retry-After": str(error.seconds)})
        except WrongPassword:
            return text_response("Error=BadAuthentication", 403)
        except RequestRefused as error:
            return text_response(str(error), error.status)
        except StoreError:
            raise
        except InputError as error:
            return text_response(str(error), 400)
        label = request.headers.get("user-agent") or given.first_value("client") or ""
        auth = await self._site.authenticator.start_session(user, CLIENT, label, token_id)
        values = {"SID": auth, "LSID": auth, "Auth": auth}
        if given.first_value("output") == "json":
            return json_response(values)
        return text_response("".join(f"{key}={value}\n" for key, value in values.items()))


def read_auth_token(request: Request) -> str | None:
    """Return the token of an Authorization header with the scheme GoogleLogin or Bearer."""
    scheme, _, rest = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return rest.strip() or None
    if scheme.lower() != "googlelogin":
        return None
    key, _, value = rest.strip().partition("=")
    return value.strip().strip('"') or None if key.strip().lower() == "auth" else None


def edit_token(secret: str) -> str:
    """Return the T token of a session: 57 characters, as in FreshRSS."""
    return hashlib.sha256(b"T token of " + secret.encode()).hexdigest()[:57]


def text_response(text: str, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return PlainTextResponse(text, status, headers)


def ok_response() -> Response:
    return text_response("OK")


async def in_thread_if_large(make: Callable[[], Response], parts: int) -> Response:
    """Build a response of `parts` rows; a large one in a thread, so that it does not block other requests."""
    return await asyncio.to_thread(make) if parts > LARGE_ANSWER else make()


def json_response(value: Any) -> Response:
    return Response(orjson.dumps(value), media_type="application/json; charset=utf-8")
