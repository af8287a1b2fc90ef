"""Pictures of items through our own address: publishers do not learn who reads, pages load nothing from elsewhere.

An address is only fetched when it carries our signature, so nobody can use the server to fetch what they like. Fetching
goes through the one guarded client. Only the common kinds of pixels pass: an SVG is a document that can hold scripts.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from urllib.parse import urlencode

from itsdangerous import BadSignature, Signer
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headwater.errors import HeadwaterError
from headwater.fetch.client import Fetcher

LARGEST_PICTURE = 5 << 20
CACHE_BYTES = 32 << 20
_KINDS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


class PictureProxy:
    """Signs addresses of pictures and fetches those it has signed; keeps the last 32 MB."""

    def __init__(self, fetcher: Fetcher | None) -> None:
        self._fetcher = fetcher
        self._signer = Signer(secrets.token_bytes(32), salt="picture")
        self._pictures: OrderedDict[str, tuple[str, bytes]] = OrderedDict()
        self._size = 0

    def picture_url(self, url: str) -> str | None:
        """Our address of a picture; None where no client can fetch it."""
        if self._fetcher is None or len(url) > 4000:
            return None
        return "/picture?" + urlencode({"u": url, "s": self._signer.get_signature(url).decode()})

    async def serve_picture(self, request: Request) -> Response:
        url, signature = request.query_params.get("u", ""), request.query_params.get("s", "")
        try:
            self._signer.unsign(f"{url}.{signature}")
        except BadSignature:
            return Response("This picture's address was not made here.\n", 403, media_type="text/plain")
        found = self._pictures.get(url) or await self._fetch_picture(url)
        if found is None:
            return Response("The picture cannot be had.\n", 404, media_type="text/plain")
        kind, body = found
        headers = {"Cache-Control": "private, max-age=86400", "Content-Disposition": "inline"}
        return Response(body, media_type=kind, headers=headers)

    async def _fetch_picture(self, url: str) -> tuple[str, bytes] | None:
        assert self._fetcher is not None
        try:
            page = await self._fetcher.get(url, accept="image/*", max_bytes=LARGEST_PICTURE)
        except HeadwaterError:
            return None
        kind = picture_type(page.body)
        if not page.ok or kind is None:
            return None
        self._pictures[url] = (kind, page.body)
        self._size += len(page.body)
        while self._size > CACHE_BYTES:
            _, (_, old) = self._pictures.popitem(last=False)
            self._size -= len(old)
        return kind, page.body

    def routes(self) -> list[Route]:
        return [Route("/picture", self.serve_picture)]


def picture_type(body: bytes) -> str | None:
    """What a picture is by its first bytes; what its server calls it does not count.

    >>> picture_type(b"GIF89a..."), picture_type(b"<svg onload=alert(1)>")
    ('image/gif', None)
    """
    for start, kind in _KINDS.items():
        if body.startswith(start):
            return kind
    if body[:4] == b"RIFF" and body[8:12] == b"WEBP":
        return "image/webp"
    if body[4:12] in (b"ftypavif", b"ftypavis"):
        return "image/avif"
    return None
