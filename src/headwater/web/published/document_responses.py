"""Serves published documents in raw ASGI, with ETags, 304, deltas (226) and gzip.

    /feeds/NAME.rss  .atom  .json  .html            a query feed      ?page=N, ?upto=ID: archive pages (RFC 5005)
    /tags/TAG.rss  .atom  .json  .html  .opml       a tag             ?token=… opens a private feed
    /feeds.opml                                     all subscriptions

A document has a strong ETag for each coding and a Last-Modified. A client that has it already gets 304 (RFC 9110 §13);
one that sends `A-IM: feed` and has an earlier state gets only the new items (226, RFC 3229). A popular feed is
requested thousands of times between two changes, so its responses are prepared in advance and bypass the framework.

Readers of documents are counted by week, as keyed hashes.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import secrets
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from typing import Any

import structlog
from starlette.applications import Starlette
from starlette.requests import HTTPConnection
from starlette.types import Receive, Scope, Send

from headwater.errors import HeadwaterError, StoreError
from headwater.publish.document_cache import CachedDocument, DocumentCache
from headwater.publish.published_documents import DocumentKey, parse_document_path
from headwater.store.readers.readership import add_document_readers, week_of
from headwater.store.saved_state import load_state, save_state_once
from headwater.store.store import Store
from headwater.web.auth.guess_throttle import GuessThrottle, TooManyAttempts, token_key
from headwater.web.compression import choose_coding
from headwater.web.security_headers import SECURITY_HEADERS
from headwater.web.shared.failure_advice import report_store_error

Headers = list[tuple[bytes, bytes]]
ReadyResponse = tuple[int, Headers, bytes]
MayRead = Callable[[Scope, str], Awaitable[bool]]
"""Tells whether the sender of a request has an account that may read the feed at a path."""

MAX_AGE, MAX_AGE_ARCHIVE = 60, 86_400
_PAGE_HEADERS = [(name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
_GZIP_SUFFIX = "-gz"
_GZIP_ALONE = ("gzip",)  # one compressed body is kept for each document


class FeedTokens:
    """Checks the tokens of private feeds, for documents and live streams alike."""

    def __init__(self, documents: DocumentCache, throttle: GuessThrottle) -> None:
        self._documents = documents
        self._throttle = throttle

    async def opens(self, sender: HTTPConnection, path: str, token: str | None) -> bool:
        """Return whether a feed is public or the token opens it. Raises TooManyAttempts.

        A token that does not open its feed counts as a guess, before it is checked.
        """
        await self._documents.refresh_version()
        if not self._documents.is_private(path):
            return True
        if token is None:
            return False
        with self._throttle.count_attempt(token_key(sender)) as attempt:
            if found := self._documents.token_opens(token, path):
                attempt.take_back()
            return found

    async def still_opens(self, path: str, token: str | None) -> bool:
        """Return whether a feed is public or the token, which has opened it before, still opens it."""
        await self._documents.refresh_version()
        return not self._documents.is_private(path) or self._documents.token_opens(token, path)


class DocumentResponses:
    """Chooses the responses to requests for published documents."""

    def __init__(
        self, documents: DocumentCache, may_read: MayRead, tokens: FeedTokens, readers: DocumentReaders
    ) -> None:
        self._documents = documents
        self._readers = readers
        self._may_read = may_read
        self._tokens = tokens
        self._header_cache: dict[tuple[int, bool], tuple[CachedDocument, dict[bool, tuple[Headers, Headers]]]] = {}

    async def find_response(self, scope: Scope, key: DocumentKey | str) -> ReadyResponse:
        """Return the response to a request for a document; builds the document if necessary."""
        if scope["method"] not in ("GET", "HEAD"):
            return _text_response(405, "Use GET or HEAD for this address.", [(b"allow", b"GET, HEAD")])
        if isinstance(key, str):
            return _text_response(404, key)
        try:
            if key[3] is not None:
                await self._tokens.opens(HTTPConnection(scope), key[0], key[3])
            found = await self._documents.find_document(*key)
            if found is None and self._documents.is_private(key[0]) and await self._may_read(scope, key[0]):
                found = await self._documents.find_document(*key, signed_in=True)
        except StoreError as error:
            return _text_response(503, report_store_error(error))
        except TooManyAttempts as error:
            return _text_response(429, str(error), [(b"retry-after", b"%d" % error.seconds)])
        if found is None:
            return _text_response(404, _explain_missing(key))
        self._note_reader(scope, key)
        return self._choose_response(scope, found, self._documents.is_private(key[0]))

    def find_ready_response(self, scope: Scope) -> ReadyResponse | None:
        """Return the response if it is available without waiting, as nearly all are; None otherwise."""
        if scope["type"] != "http" or not self._documents.is_current or scope["method"] not in ("GET", "HEAD"):
            return None
        key = _parse_request(scope["path"], scope["query_string"])
        if not isinstance(key, tuple) or key[3] is not None or self._documents.is_private(key[0]):
            return None
        found = self._documents.find_ready(key)
        if found is None:
            return None
        self._note_reader(scope, key)
        return self._choose_response(scope, found, False)

    def _note_reader(self, scope: Scope, key: DocumentKey) -> None:
        client = scope.get("client")
        self._readers.note(key[0].casefold(), client[0] if client else None)

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
        zipped = bool(accepts) and choose_coding(accepts.decode("latin-1"), _GZIP_ALONE) is not None
        full, unchanged = self._load_headers(found, private)[zipped]
        # RFC 9110 §13.2.2: If-Modified-Since counts only without If-None-Match. Only exactly the date that we sent
        # means that nothing has changed since.
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
        """Return the headers of 200 and of 304, each with gzip (True) and without (False)."""
        kept = self._header_cache.get((id(found), private))
        if kept is None or kept[0] is not found:
            if len(self._header_cache) > 10_000:
                self._header_cache.clear()
            made = {zipped: _build_headers(found, zipped, private) for zipped in (True, False)}
            kept = self._header_cache[id(found), private] = (found, made)
        return kept[1]


_ETAG_INDEX, _MODIFIED_INDEX = 0, 3  # their positions in the headers of a 304
_WHOLE_ONLY = (b"content-length", b"cache-control")


def _text_response(status: int, sentence: str, more: Headers | None = None) -> ReadyResponse:
    body = sentence.encode() + b"\n"
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"x-content-type-options", b"nosniff"),
        *(more or []),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
    ]
    return status, headers, body


def _delta_headers(whole: Headers, part: bytes) -> Headers:
    """Return the headers of a delta (RFC 3229 §10.4.1): the ETag is that of the whole, and caches must not store it."""
    return [
        *((name, value) for name, value in whole if name not in _WHOLE_ONLY),
        (b"im", b"feed"),
        (b"cache-control", b"no-store"),
        (b"content-length", b"%d" % len(part)),
    ]


class PublishedResponses(Starlette):
    """An application that serves published documents before its middleware, which costs as much as the response."""

    def __init__(
        self,
        documents: DocumentCache,
        may_read: MayRead,
        tokens: FeedTokens,
        readers: DocumentReaders,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._responses = DocumentResponses(documents, may_read, tokens, readers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = self._responses.find_ready_response(scope)
        if response is None:
            key = _parse_request(scope["path"], scope["query_string"]) if scope["type"] == "http" else None
            if key is None:
                return await super().__call__(scope, receive, send)
            response = await self._responses.find_response(scope, key)
        status, headers, body = response
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        return None


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
        return f"{path}.{format} has no page {page.value}."
    return f"Nothing is public at {path}.{format}. A private feed needs a valid token, or an account that may read it."


def _list_tokens(value: str) -> list[str]:
    return [part.partition(";")[0].strip().lower() for part in value.split(",")]


def _parse_etags(given: bytes) -> list[str]:
    """Return the tags of If-None-Match without W/ and coding suffix (RFC 9110 §13.1.2: compared weakly)."""
    parts = (part.strip().removeprefix("W/").strip('"') for part in given.decode("latin-1").split(","))
    return [part.removesuffix(_GZIP_SUFFIX) for part in parts]


def _matches_etag(given: bytes, etag: str) -> bool:
    return given.strip() == b"*" or etag in _parse_etags(given)


SAVE_SECONDS = 60.0
MAX_NOTED = 50_000  # readers held in memory; beyond that a week's newcomers are not counted
KEY, VERSION = "key of document readers", 1

log = structlog.get_logger()


class DocumentReaders:
    """Notes the readers of documents. Noting costs a look into a set; new readers are saved in the background."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._week = -1
        self._noted: set[tuple[str, str]] = set()
        self._unsaved: list[tuple[str, str]] = []
        self._saved_at = -SAVE_SECONDS
        self._saving: asyncio.Task[None] | None = None

    def note(self, path: str, address: str | None) -> None:
        """Note that somebody at an address has read the document of a path."""
        now = self._clock()
        if week_of(now) != self._week:
            self._week = week_of(now)
            self._noted.clear()
        reader = (path, address or "")
        if reader not in self._noted and len(self._noted) < MAX_NOTED:
            self._noted.add(reader)
            self._unsaved.append(reader)
        if self._unsaved and now - self._saved_at >= SAVE_SECONDS and (self._saving is None or self._saving.done()):
            self._saved_at = now
            self._saving = asyncio.create_task(self._save())

    async def _save(self) -> None:
        try:
            await self.save()
        except HeadwaterError as error:  # the count is an estimate: it goes on with the next reader
            log.warning("document_readers_not_saved", error=str(error))

    async def save(self) -> None:
        """Save the readers noted since the last time."""
        some, self._unsaved = self._unsaved, []
        key = await self._load_key()
        week = self._week
        await self._store.write(
            add_document_readers, week, [(path, hash_reader(key, week, address)) for path, address in some]
        )

    async def _load_key(self) -> bytes:
        found = await self._store.read(load_state, KEY)
        if found is None:
            await self._store.write(save_state_once, KEY, VERSION, secrets.token_bytes(32), self._clock())
            found = await self._store.read(load_state, KEY)
        assert found is not None
        return found[1]


def hash_reader(key: bytes, week: int, address: str) -> bytes:
    """Return the hash of a reader. Of an IPv6 address only the network counts: hosts change the rest daily.

    >>> hash_reader(b"k", 1, "2001:db8::1") == hash_reader(b"k", 1, "2001:db8::2")
    True
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
        if isinstance(parsed, ipaddress.IPv6Address):
            address = str(parsed.ipv4_mapped or ipaddress.ip_network((parsed, 64), strict=False))
    except ValueError:
        pass
    return hashlib.blake2b(f"{week} {address}".encode(), key=key, digest_size=8).digest()
