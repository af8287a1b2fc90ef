"""Compresses answers by Accept-Encoding: zstd, br or gzip.

Answers in parts (live events) are sent as they come. A page that answers a form is not compressed: it may show a new
secret beside text of the form, whose length would then betray something about it (BREACH).
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable, Mapping, MutableMapping
from functools import lru_cache

import brotli
import zstandard
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MIN_BYTES = 600  # smaller answers fit into one packet anyway
BYTES_IN_THREAD = 1 << 17  # compressing more would delay other requests
_TYPES = ("text/", "application/json", "application/xml", "application/javascript", "image/svg+xml")
_SUFFIXES = ("+json", "+xml")


def _compress_zstd(body: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=6).compress(body)


def _compress_brotli(body: bytes) -> bytes:
    return bytes(brotli.compress(body, quality=5))


def _compress_gzip(body: bytes) -> bytes:
    return gzip.compress(body, 6, mtime=0)


# In the order in which we prefer them: zstd takes half of the time of gzip, for smaller answers.
COMPRESSORS: Mapping[str, Callable[[bytes], bytes]] = {
    "zstd": _compress_zstd,
    "br": _compress_brotli,
    "gzip": _compress_gzip,
}
CODINGS = tuple(COMPRESSORS)


@lru_cache(1024)
def choose_coding(accepted: str, offered: tuple[str, ...] = CODINGS) -> str | None:
    """Return the best coding for the value of an Accept-Encoding header, None for no coding (RFC 9110 §12.5.3).

    >>> choose_coding("gzip, deflate, br"), choose_coding("gzip;q=1.0, br;q=0.5"), choose_coding("identity")
    ('br', 'gzip', None)
    """
    weights: dict[str, float] = {}
    for part in accepted.lower().split(","):
        coding, _, parameter = part.partition(";")
        weights[coding.strip()] = _parse_weight(parameter)
    best = max(offered, key=lambda coding: weights.get(coding, weights.get("*", 0.0)))  # the first of equal ones
    weight = weights.get(best, weights.get("*", 0.0))
    return best if weight > 0 and weight >= weights.get("identity", 0.0) else None


def _parse_weight(parameter: str) -> float:
    name, _, value = parameter.partition("=")
    if name.strip() != "q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0


class Compression:
    """Middleware that compresses complete answers with text."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] == "HEAD":
            return await self._app(scope, receive, send)
        start: Message | None = None

        async def send_compressed(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message  # its headers depend on the body
                return
            if start is not None:
                body = message.get("body", b"")
                if not message.get("more_body") and (body := await _compress(scope, start, body)):
                    message = {**message, "body": body}
                await send(start)
                start = None
            await send(message)

        return await self._app(scope, receive, send_compressed)


async def _compress(scope: Scope, start: MutableMapping[str, object], body: bytes) -> bytes:
    """Return the body, compressed if that is right, and adapt the headers."""
    headers = MutableHeaders(scope=start)
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if not kind.startswith(_TYPES) and not kind.endswith(_SUFFIXES):
        return body
    headers.add_vary_header("Accept-Encoding")
    is_answered_form = scope["method"] == "POST" and kind == "text/html"
    if len(body) < MIN_BYTES or is_answered_form or "content-encoding" in headers or start["status"] == 206:
        return body
    accepted = ",".join(value.decode("latin-1") for name, value in scope["headers"] if name == b"accept-encoding")
    coding = choose_coding(accepted)
    if coding is None:
        return body
    compress = COMPRESSORS[coding]
    small = await asyncio.to_thread(compress, body) if len(body) > BYTES_IN_THREAD else compress(body)
    headers["Content-Encoding"] = coding
    headers["Content-Length"] = str(len(small))
    if (etag := headers.get("etag", "")).startswith('"'):
        headers["ETag"] = f"W/{etag}"  # the coded bytes are others
    return small
