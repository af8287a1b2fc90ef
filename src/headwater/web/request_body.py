"""Reads bodies and forms up to a limit."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from headwater.web.auth.cross_site import RequestRefused

MAX_FORM_BYTES = 16_384
MAX_FIELDS = 50
_BROKEN_OFF = "The request broke off before its end."


async def read_body(request: Request, limit: int, too_large: str = "The request is too large.") -> bytes:
    """Read a body of at most `limit` bytes; a longer one is refused (413) before it is read to the end."""
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:18]) > limit:
        raise RequestRefused(too_large, 413)
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > limit:
                raise RequestRefused(too_large, 413)
    except ClientDisconnect as error:  # nobody hears the answer, but the log must not call it a defect
        raise RequestRefused(_BROKEN_OFF, 400) from error
    return bytes(body)


async def read_form(request: Request, limit: int = MAX_FORM_BYTES) -> dict[str, str]:
    """Read the fields of a form; of several fields with one name the last counts."""
    body = await read_body(request, limit, "The form is larger than any of this server.")
    return dict(parse_qsl(body.decode("utf-8", "replace"), max_num_fields=MAX_FIELDS))


async def read_upload(request: Request, field: str, limit: int) -> tuple[dict[str, str], bytes]:
    """Read a form with a file in `field`: its other fields, and the file."""
    length = request.headers.get("content-length", "")
    if not length.isdecimal():
        raise RequestRefused("The browser did not send the size of the file (Content-Length).", 411)
    if int(length[:18]) > limit:
        raise RequestRefused(f"The file is larger than {limit // 1_000_000} MB.", 413, field)
    try:
        async with request.form(max_files=1, max_fields=20) as form:
            fields = {name: value for name, value in form.items() if isinstance(value, str)}
            file = form.get(field)
            body = await file.read() if isinstance(file, UploadFile) else b""
    except ClientDisconnect as error:
        raise RequestRefused(_BROKEN_OFF, 400) from error
    except HTTPException as error:
        raise RequestRefused(f"The form cannot be read: {error.detail}", 400) from error
    return fields, body
