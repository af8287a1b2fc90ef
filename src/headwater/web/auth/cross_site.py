"""Forms that only our own pages can send (CSRF), read with a limit.

Three walls, because there is no login yet. The browser's own word (Sec-Fetch-Site, else Origin) must say that the form
was sent by our page. A secret in a SameSite cookie must fit the signature inside the form. And the server must have
been reached as localhost, by an address in digits or by a name the operator gave, since a stranger's name that he
points at us (DNS rebinding) would pass the other two.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Collection, Sequence
from urllib.parse import parse_qsl, urlsplit

from itsdangerous import BadSignature, Signer
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from headwater.errors import HeadwaterError

COOKIE = "headwater_form"
LARGEST_FORM = 16_384


class RequestRefused(HeadwaterError):
    """A form that is not taken, with a sentence for whoever sent it; `field` is where it is wrong, if in one."""

    def __init__(self, message: str, status: int = 403, field: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.field = field


class SignedForms:
    """Signs forms with a secret of this process: after a restart an open page has to be loaded again."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._names = {name.lower() for name in names}
        self._signer = Signer(secrets.token_bytes(32))

    def make_token(self, request: Request) -> tuple[str, str]:
        """The visitor's cookie, old or new, and the value that belongs into the form's field `token`."""
        cookie = request.cookies.get(COOKIE) or secrets.token_urlsafe(24)
        return cookie, self._signer.get_signature(cookie).decode()

    def set_cookie(self, response: Response, cookie: str, secure: bool) -> None:
        response.set_cookie(COOKIE, cookie, httponly=True, samesite="strict", secure=secure)

    async def read_form(self, request: Request, largest: int = LARGEST_FORM) -> dict[str, str]:
        """The fields of a form sent by a page of ours; Refused for all others."""
        check_host(request, self._names)
        check_same_site(request)
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > largest:
                raise RequestRefused("The form is larger than any of ours.", 413)
        fields = dict(parse_qsl(body.decode("utf-8", "replace"), max_num_fields=50))
        self._check_token(request, fields.get("token", ""))
        return fields

    async def read_upload(self, request: Request, field: str, largest: int) -> tuple[dict[str, str], bytes]:
        """The fields of a form with a file, and what is in the file; Refused for other senders and for large ones."""
        check_host(request, self._names)
        check_same_site(request)
        length = request.headers.get("content-length", "")
        if not length.isdecimal():
            raise RequestRefused("The browser does not say how large the file is.", 411)
        if int(length[:18]) > largest:
            raise RequestRefused(f"The file is larger than {largest // 1_000_000} MB.", 413, field)
        try:
            async with request.form(max_files=1, max_fields=20) as form:
                fields = {name: value for name, value in form.items() if isinstance(value, str)}
                file = form.get(field)
                body = await file.read() if isinstance(file, UploadFile) else b""
        except HTTPException as error:
            raise RequestRefused(f"The form cannot be read: {error.detail}", 400) from error
        self._check_token(request, fields.get("token", ""))
        return fields, body

    def _check_token(self, request: Request, token: str) -> None:
        try:
            self._signer.unsign(f"{request.cookies.get(COOKIE, '')}.{token}")
        except BadSignature as error:
            raise RequestRefused("The form is too old or did not come from this page: load the page again.") from error


def check_host(request: HTTPConnection, names: Collection[str]) -> None:
    """Refused unless the server was reached by a name that is ours."""
    host = (request.url.hostname or "").lower()
    if host != "localhost" and host not in names and not _is_ip_address(host):
        raise RequestRefused(
            f"Changes are not taken under the name “{host[:100]}”: the operator has to list it in the setting names."
        )


def check_same_site(request: HTTPConnection) -> None:
    """Refused if the browser says that another site sent this."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        if site not in ("same-origin", "none"):
            raise RequestRefused("The form was sent by another site.")
        return
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise RequestRefused("The form was sent by another site.")


def _is_ip_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
