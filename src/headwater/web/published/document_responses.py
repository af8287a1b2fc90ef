"""Published documents over HTTP, answered before anything else looks at the request.

    /feeds/NAME.rss  .atom  .json  .html            a query feed      ?page=N is an archive page (RFC 5005)
    /tags/TAG.rss  .atom  .json  .html  .opml       a tag             ?token=… opens a private feed
    /feeds.opml                                     all subscriptions

A document has a strong ETag for each coding and a Last-Modified; who has it already is told 304 (RFC 9110 §13), who
asks for `A-IM: feed` and has an earlier state gets what is new (226, RFC 3229). No framework here: a popular feed is
asked for thousands of times between two changes, and all but the choice between these answers has been made before.
"""

from __future__ import annotations

import re
from email.utils import formatdate
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from headwater.publish.document_cache import CachedDocument, DocumentCache
from headwater.publish.published_documents import DocumentKey, parse_document_path
from headwater.web.answers import Headers, send_text
from headwater.web.security_headers import SECURITY_HEADERS

ReadyResponse = tuple[int, Headers, bytes]
MAX_AGE, MAX_AGE_ARCHIVE = 60, 86_400
_PAGE_HEADERS = [(name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
_GZIP_SUFFIX = "-gz"
_ZERO_WEIGHT = re.compile(r"\s*q\s*=\s*0(\.0*)?\s*")


class DocumentResponses:
    """Answers for published documents; everything else goes on to the application."""

    def __init__(self, app: ASGIApp, documents: DocumentCache) -> None:
        self._app = app
        self._documents = documents
        self._header_cache: dict[tuple[int, bool], tuple[CachedDocument, dict[bool, tuple[Headers, Headers]]]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or (key := _parse_request(scope["path"], scope["query_string"])) is None:
            return await self._app(scope, receive, send)
        if scope["method"] not in ("GET", "HEAD"):
            return await send_text(send, 405, "Only GET and HEAD are answered here.", [(b"allow", b"GET, HEAD")])
        if isinstance(key, str):
            return await send_text(send, 404, key)
        found = await self._documents.find_document(*key)
        if found is None:
            if (there := await self._find_tag_path(key)) is not None:
                return await send_text(send, 307, f"The tag is at {there}.", [(b"location", quote(there).encode())])
            return await send_text(send, 404, _explain_missing(key))
        private = self._documents.is_private(key[0])
        return await send_response(send, *self._choose_response(scope, found, private))

    async def _find_tag_path(self, key: DocumentKey) -> str | None:
        """Where a tag is that somebody looks for among the query feeds, which have the first right to a name."""
        path, format, page, _ = key
        if page is not None or not path.startswith("/feeds/"):
            return None
        tagged = f"/tags/{path.removeprefix('/feeds/')}"
        return (
            f"{tagged}.{format}"
            if await self._documents.find_document(tagged, format, None, None) is not None
            else None
        )

    def find_ready_response(self, scope: Scope) -> ReadyResponse | None:
        """The answer where everything is at hand, as it is for nearly all requests; None where somebody must look."""
        if scope["type"] != "http" or not self._documents.is_current or scope["method"] not in ("GET", "HEAD"):
            return None
        key = _parse_request(scope["path"], scope["query_string"])
        if not isinstance(key, tuple) or key[3] is not None or self._documents.is_private(key[0]):
            return None
        found = self._documents.find_ready(key)
        return None if found is None else self._choose_response(scope, found, False)

    def _choose_response(self, scope: Scope, found: CachedDocument, private: bool) -> ReadyResponse:
        none_match = since = accepts = manipulations = b""
        for name, value in scope["headers"]:
            if name == b"if-none-match":
                none_match = none_match + b"," + value if none_match else value
            elif name == b"accept-encoding":
                accepts = accepts + b"," + value if accepts else value
            elif name == b"if-modified-since":
                since = value
            elif name == b"a-im":
                manipulations = value
        zipped = bool(accepts) and _accepts_gzip(accepts)
        full, unchanged = self._load_headers(found, private)[zipped]
        # RFC 9110 §13.2.2: If-Modified-Since counts only where there is no If-None-Match. Only the very date that we
        # gave means that nothing has changed since.
        if none_match:
            if none_match == unchanged[_ETAG_INDEX][1] or _matches_etag(none_match, found.etag):
                return 304, unchanged, b""
        elif since and since == unchanged[_MODIFIED_INDEX][1]:
            return 304, unchanged, b""
        head = scope["method"] == "HEAD"
        if manipulations and none_match and "feed" in _list_tokens(manipulations.decode("latin-1")):
            part = self._documents.render_delta(found, _parse_etags(none_match))
            if part is not None:
                return 226, _delta_headers(self._load_headers(found, private)[False][0], part), b"" if head else part
        return 200, full, b"" if head else found.zipped if zipped else found.body

    def _load_headers(self, found: CachedDocument, private: bool) -> dict[bool, tuple[Headers, Headers]]:
        """For gzip and for plain: the headers of 200 and of 304."""
        kept = self._header_cache.get((id(found), private))
        if kept is None or kept[0] is not found:
            if len(self._header_cache) > 10_000:
                self._header_cache.clear()
            made = {zipped: _build_headers(found, zipped, private) for zipped in (True, False)}
            kept = self._header_cache[id(found), private] = (found, made)
        return kept[1]


_ETAG_INDEX, _MODIFIED_INDEX = 0, 3  # their places in the headers
_WHOLE_ONLY = (b"content-length", b"cache-control")


async def send_response(send: Send, status: int, headers: Headers, body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _delta_headers(whole: Headers, part: bytes) -> Headers:
    """RFC 3229 §10.4.1: only what is new, with the ETag of the whole, and not for caches."""
    return [
        *((name, value) for name, value in whole if name not in _WHOLE_ONLY),
        (b"im", b"feed"),
        (b"cache-control", b"no-store"),
        (b"content-length", b"%d" % len(part)),
    ]


class PublishedResponses(Starlette):
    """An application in front of which published documents are answered as soon as they are at hand.

    Starlette's own middleware costs as much as such an answer. What needs the store goes its way through all of it.
    """

    def __init__(self, documents: DocumentCache, **options: Any) -> None:
        super().__init__(**options)
        self._responses = DocumentResponses(self, documents)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (ready := self._responses.find_ready_response(scope)) is not None:
            await send_response(send, *ready)
        else:
            await super().__call__(scope, receive, send)


def _build_headers(found: CachedDocument, zipped: bool, private: bool) -> tuple[Headers, Headers]:
    age = MAX_AGE_ARCHIVE if found.archive else MAX_AGE
    always = [
        (b"etag", f'"{found.etag}{_GZIP_SUFFIX if zipped else ""}"'.encode()),
        (b"cache-control", b"%s, max-age=%d" % (b"private" if private else b"public", age)),
        (b"vary", b"accept-encoding, a-im"),
        (b"last-modified", formatdate(found.modified, usegmt=True).encode()),
        *_link_header(found),
    ]
    full = [
        *always,
        (b"content-type", found.type.encode()),
        (b"content-length", b"%d" % len(found.zipped if zipped else found.body)),
        *(_PAGE_HEADERS if found.type.startswith("text/html") else [(b"x-content-type-options", b"nosniff")]),
    ]
    return [*full, (b"content-encoding", b"gzip")] if zipped else full, always


def _link_header(found: CachedDocument) -> Headers:
    links = ", ".join(f'<{address}>; rel="{relation}"' for address, relation in found.links)
    return [(b"link", links.encode("ascii", "replace"))] if links else []


def _parse_request(path: str, query: bytes) -> DocumentKey | str | None:
    return parse_document_path(path, query.decode("latin-1")) if path.startswith(("/feeds", "/tags/")) else None


def _explain_missing(key: DocumentKey) -> str:
    path, format, page, _ = key
    if page is not None:
        return f"There is no page {page} of {path}.{format}."
    return f"Nothing is published at {path}.{format}, or not without a valid token."


def _accepts_gzip(accepts: bytes) -> bool:
    if b"gzip" not in accepts and b"*" not in accepts:
        return False
    wishes = {}
    for part in accepts.decode("latin-1").lower().split(","):
        coding, _, weight = part.partition(";")
        wishes[coding.strip()] = not _ZERO_WEIGHT.fullmatch(weight)
    return wishes.get("gzip", wishes.get("*", False))


def _list_tokens(value: str) -> list[str]:
    return [part.partition(";")[0].strip().lower() for part in value.split(",")]


def _parse_etags(given: bytes) -> list[str]:
    """The tags of If-None-Match, weak or strong, of either coding (RFC 9110 §13.1.2: compared weakly)."""
    parts = (part.strip().removeprefix("W/").strip('"') for part in given.decode("latin-1").split(","))
    return [part.removesuffix(_GZIP_SUFFIX) for part in parts]


def _matches_etag(given: bytes, etag: str) -> bool:
    return given.strip() == b"*" or etag in _parse_etags(given)
