"""Cleans the HTML of items for display, and serves their pictures through a proxy.

Items were already cleaned when they were parsed. Cleaning them again means that a bug there, or a database that another
program has written, still cannot put a script into a page. Pictures are loaded lazily and through our own address, so
publishers do not learn who reads their items.
"""

from __future__ import annotations

import re
import secrets
from collections import OrderedDict
from collections.abc import Callable
from urllib.parse import urlencode, urlsplit

import nh3
from itsdangerous import BadSignature, Signer
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from headwater.errors import HeadwaterError
from headwater.fetch.client import Fetcher
from headwater.formats.values.html import ID_PREFIX, MATHML_ATTRIBUTES, MATHML_TAGS, get_nh3_cleaner
from headwater.model import SafeHtml

MAX_PICTURE_BYTES = 5 << 20
CACHE_BYTES = 32 << 20
_KINDS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


class PictureProxy:
    """Signs the addresses of pictures and fetches those it has signed, with a cache of 32 MB."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher
        self._signer = Signer(secrets.token_bytes(32), salt="picture")
        self._pictures: OrderedDict[str, tuple[str, bytes]] = OrderedDict()
        self._size = 0

    def picture_url(self, url: str) -> str | None:
        """Return our address for a picture, None if it is too long."""
        if len(url) > 4000:
            return None
        return "/picture?" + urlencode({"u": url, "s": self._signer.get_signature(url).decode()})

    async def serve_picture(self, request: Request) -> Response:
        url, signature = request.query_params.get("u", ""), request.query_params.get("s", "")
        try:
            self._signer.unsign(f"{url}.{signature}")
        except BadSignature:
            return Response(
                "Invalid signature. Reload the page to get the current address of the picture.\n",
                403,
                media_type="text/plain",
            )
        found = self._pictures.get(url) or await self._fetch_picture(url)
        if found is None:
            return Response("The picture could not be fetched.\n", 404, media_type="text/plain")
        kind, body = found
        headers = {"Cache-Control": "private, max-age=86400", "Content-Disposition": "inline"}
        return Response(body, media_type=kind, headers=headers)

    async def _fetch_picture(self, url: str) -> tuple[str, bytes] | None:
        try:
            page = await self._fetcher.get(url, accept="image/*", max_bytes=MAX_PICTURE_BYTES)
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


def followable_link(link: str | None) -> str | None:
    """Return the link if it is http or https, else None: publishers also write javascript: and worse.

    >>> followable_link("https://a.example/"), followable_link("javascript:alert(1)")
    ('https://a.example/', None)
    """
    try:
        return link if link and urlsplit(link).scheme in ("http", "https") else None
    except ValueError:
        return None


def picture_type(body: bytes) -> str | None:
    """Return the media type of a picture by its first bytes, None for others. The server's claim is not trusted.

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


_TAGS = (
    nh3.ALLOWED_TAGS - {"img", "map", "area"} | {"address", "figcaption", "figure", "section", "tfoot"} | MATHML_TAGS
)
_ATTRIBUTES = {
    "*": {"dir", "id", "lang", "title"},
    "a": {"href"},
    "img": {"src", "alt", "width", "height"},
    "ol": {"start"},
    "td": {"colspan", "rowspan"},
    "th": {"colspan", "rowspan", "scope"},
    "time": {"datetime"},
    **MATHML_ATTRIBUTES,
}
_FIXED = {"img": {"loading": "lazy", "decoding": "async", "referrerpolicy": "no-referrer"}}


_PLAYABLE = re.compile(r'<(video|audio|source)\b[^<>]* src="([^"<>]+)"[^<>]*>')
_FILE_NAMES = {"video": "Video", "audio": "Audio", "source": "File"}


def _link_file(found: re.Match[str]) -> str:
    """Return a link to a video or audio file: pages play nothing."""
    return f'<p><a href="{found[2]}">{_FILE_NAMES[found[1]]}</a></p>'


def clean_for_page(content: SafeHtml | None, picture: Callable[[str], str | None]) -> Markup:
    """Return safe HTML. `picture` maps a picture's address to ours, or to None to leave the picture out."""
    if not content:
        return Markup("")

    def allowed(tag: str, name: str, value: str) -> str | None:
        if (tag, name) == ("img", "src"):
            return picture(value) if followable_link(value) else None
        if (tag, name) == ("a", "href"):
            return value if value.startswith(f"#{ID_PREFIX}") else followable_link(value)
        if name == "id":
            return value if value.startswith(ID_PREFIX) else None
        if name in ("width", "height"):
            return value if value.isdecimal() and len(value) <= 4 else None
        return value

    safe = _PLAYABLE.sub(_link_file, get_nh3_cleaner(None).clean(content))
    return Markup(
        nh3.clean(
            safe,
            tags=_TAGS | {"img"},
            attributes=_ATTRIBUTES,
            attribute_filter=allowed,
            set_tag_attribute_values=_FIXED,
            link_rel="noopener noreferrer",
            url_schemes={"http", "https"},
            url_relative="pass_through",
        )
    )
