"""Fetches a feed as an `Outcome`, or any other page as a `Page`, through one guarded session."""

from __future__ import annotations

import asyncio
import hashlib
import re
import ssl
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Self
from urllib.parse import urlencode, urlsplit

from aiohttp import hdrs

import headwater
from headwater.errors import AddressError, NotAFeed, Unreachable
from headwater.fetch.http import remote_session
from headwater.fetch.http.address_guard import WEB_PORTS, AddressGuard, Lookup, resolve_host
from headwater.fetch.http.content_encoding import BodyDamaged, BodyTooLarge, decode_body
from headwater.fetch.http.guarded_session import FetchFailure, GuardedSession, HttpReply, RequestLimits
from headwater.fetch.http.headers import (
    A_IM,
    add_header_links,
    build_conditions,
    compute_freshness,
    merge_validators,
    parse_retry_after,
    read_validators,
)
from headwater.fetch.http.host_gate import HostGate
from headwater.fetch.http.redirects import FetchProgress, Handover, HoldGrant, Redirected, RedirectFollower
from headwater.fetch.http.remote_session import RemoteReply, RemoteRequest, RemoteSession
from headwater.fetch.reading.document_reader import DocumentReader, ReadFunction
from headwater.formats import read_to_keep
from headwater.model import Document, Ending, Markup, Outcome, Validators, Window

_SMALL_WIRE, _SMALL_DECODED = 64 << 10, 1 << 20  # bytes decoded in the event loop; larger bodies in a thread
_COMMON_ENDS = (b"</rss>", b"</feed>", b"</rdf:RDF>", b"</rss>\n", b"</feed>\n", b"</rdf:RDF>\n", b"}")
_ROOT_END = re.compile(rb"(?i)</(?:[\w.-]+:)?(?:rss|feed|rdf|channel)\s*>|\}\s*$")


def build_user_agent(contact: str | None) -> str:
    """Return the User-Agent: product, version and a contact address."""
    return f"Headwater/{headwater.__version__} (feed aggregator{'; +' + contact if contact else ''})"


@dataclass(frozen=True, slots=True)
class Page:
    """A response that is not read as a feed: for discovery, articles, icons, hubs and web hooks.

    `url` is the requested address. `moved_to` is the end of a chain of permanent redirects, as in `Outcome`.
    """

    status: int
    final_url: str
    headers: Mapping[str, str]
    body: bytes
    content_type: str
    url: str = ""
    moved_to: str | None = None

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


class Fetcher:
    """The HTTP client of a process. Use it as an async context manager; every request goes through the address
    guard."""

    def __init__(
        self,
        *,
        allow_private: bool = False,
        ports: Collection[int] = WEB_PORTS,
        contact: str | None = None,
        user_agent: str | None = None,
        deadline: float = 30.0,
        min_rate: float = 200.0,
        max_wire: int = 5 << 20,
        max_decoded: int = 20 << 20,
        per_host: int = 1,
        gap: float = 1.0,
        pause: float | None = None,
        connections: int = 512,
        read: ReadFunction = read_to_keep,
        tls: ssl.SSLContext | None = None,
        lookup: Lookup = resolve_host,
        clock: Callable[[], float] = time.time,
        proxy: Callable[[RemoteRequest], Awaitable[RemoteReply]] | None = None,
    ) -> None:
        """Requests are sent by `proxy` where it is given. `pause` is a gap between requests that holds for local
        hosts too."""
        self._limits = RequestLimits(deadline, min_rate, max_wire, max_decoded)
        self._clock = clock
        self._reader = DocumentReader(read)
        self.gate = HostGate(per_host, gap if pause is None else pause, everywhere=pause is not None)
        made: Callable[..., GuardedSession] = GuardedSession if proxy is None else partial(RemoteSession, proxy)
        self._session = made(
            AddressGuard(allow_private=allow_private, ports=ports),
            self.gate,
            self._limits,
            user_agent=user_agent or build_user_agent(contact),
            tls=tls,
            lookup=lookup,
            connections=connections,
        )
        self._redirects = RedirectFollower(self._session, deadline, clock)

    def use_grants(self, hold_grant: HoldGrant) -> None:
        """Send every GET within a grant, but for those of jobs (`fetch_hop`) and of other processes (`run_request`)."""
        self._redirects.hold_grant = hold_grant

    def confirm_requests(self, confirm: Callable[[], Awaitable[None]]) -> None:
        """Await `confirm` right before each request is sent; it may cancel the task that sends it."""
        self._session.confirm_sending = confirm

    async def __aenter__(self) -> Self:
        await self._session.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.__aexit__(kind, error, trace)
        await self._reader.close()

    async def fetch(
        self,
        url: str,
        validators: Validators | None = None,
        *,
        body_hash: str | None = None,
        delta: bool = False,
        window: Window | None = None,
    ) -> Outcome:
        """Fetch a feed. Failures of the server or the address are outcomes, not exceptions.

        A 200 whose body has the hash `body_hash` ends as UNCHANGED and is not parsed again. Items that are as in
        `window`, those of the feed's last document, are not read; those of a large document are cleaned where it is.
        """
        progress = FetchProgress(url, url, self._clock(), time.monotonic())
        return await self._fetch_feed(progress, validators, body_hash, delta, window)

    async def fetch_hop(
        self,
        url: str,
        validators: Validators | None = None,
        *,
        body_hash: str | None = None,
        delta: bool = False,
        window: Window | None = None,
        way: Handover | None = None,
    ) -> Outcome | Handover:
        """Send one request of a fetch. A redirect is returned as a `Handover`, from which a later call continues."""
        progress = FetchProgress(url, url, self._clock(), time.monotonic(), hop_by_hop=True)
        if way is not None:
            progress = FetchProgress.resume(way)
        try:
            return await self._fetch_feed(progress, validators, body_hash, delta, window)
        except Redirected:
            return progress.make_handover()

    async def _fetch_feed(
        self,
        progress: FetchProgress,
        validators: Validators | None,
        body_hash: str | None,
        delta: bool,
        window: Window | None,
    ) -> Outcome:
        asked = build_conditions(validators, delta=delta)
        try:
            reply = await self._redirects.follow(progress, asked)
            if reply.status == 304 and asked:
                return progress.make_outcome(
                    Ending.UNCHANGED,
                    status=304,
                    validators=merge_validators(validators, reply.headers),
                    fresh_for=compute_freshness(reply.headers, progress.started),
                    retry_after=parse_retry_after(reply.headers, progress.started),
                )
            if reply.status in (200, 203) or (reply.status == 226 and A_IM in asked and _is_delta(reply)):
                return await self._read_document(progress, reply, body_hash, window)
            return self._end_without_document(progress, reply)
        except FetchFailure as failure:
            progress.received += failure.received
            return progress.make_outcome(
                failure.ending, failure.message, status=failure.status, retry_after=failure.retry_after
            )

    async def run_request(self, hop: RemoteRequest) -> RemoteReply:
        """Send a request on behalf of another process. Failures are replies, too."""
        return await remote_session.run_remote_request(self._session, hop)

    async def get(self, url: str, *, accept: str = "*/*", max_bytes: int | None = None) -> Page:
        """Fetch a page and follow redirects. Any status is returned; no answer raises AddressError or Unreachable."""
        progress = FetchProgress(url, url, self._clock(), time.monotonic())
        try:
            reply = await self._redirects.follow(progress, {"Accept": accept}, max_bytes)
            body = await self._decode_reply(reply, max_bytes) if reply.body else b""
        except FetchFailure as failure:
            raise _make_error(failure, url) from failure
        moved = progress.at if progress.hops and progress.permanent else None
        return Page(reply.status, progress.at, reply.headers, body, reply.headers.get("Content-Type", ""), url, moved)

    def check_address(self, url: str) -> None:
        """Raise AddressError for an address that the guard refuses before its name is resolved."""
        self._session.check_url(url)

    async def read_feed(self, page: Page) -> Document[Markup]:
        """Parse a page as a feed, within the limits for documents. Raises NotAFeed."""
        return await self._reader.read(page.body, page.final_url, page.headers)

    async def post(
        self,
        url: str,
        data: bytes | Mapping[str, str],
        headers: Mapping[str, str] | None = None,
        *,
        max_bytes: int = 64 << 10,
        read: bool = True,
        seconds: float | None = None,
    ) -> Page:
        """Send data to a hub or web hook. A redirect is returned, not followed. The body is fetched only with `read`.

        The request may take `seconds`; waiting for the host's turn does not count.
        """
        sent = dict(headers or {})
        if not isinstance(data, bytes):
            data = urlencode(data).encode()
            sent.setdefault("Content-Type", "application/x-www-form-urlencoded")
        return await self._send_once("POST", url, sent, data, max_bytes, True if read else None, seconds)

    async def fetch_once(
        self, url: str, *, accept: str = "*/*", max_bytes: int = 64 << 10, seconds: float | None = None
    ) -> Page:
        """Send one GET, which may take `seconds`. A redirect is returned, not followed."""
        return await self._send_once("GET", url, {"Accept": accept}, None, max_bytes, seconds=seconds)

    async def _send_once(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        data: bytes | None,
        max_bytes: int,
        every_body: bool | None = True,
        seconds: float | None = None,
    ) -> Page:
        try:
            async with self._redirects.hold_grant() if method == "GET" else nullcontext():
                _, reply = await self._session.send_request(
                    url,
                    {"Accept": "*/*", **headers},
                    method=method,
                    data=data,
                    seconds=seconds,
                    max_wire=max_bytes,
                    every_body=every_body,
                )
            body = await self._decode_reply(reply, max_bytes) if reply.body else b""
        except FetchFailure as failure:
            raise _make_error(failure, url) from failure
        return Page(reply.status, url, reply.headers, body, reply.headers.get("Content-Type", ""), url)

    async def _read_document(
        self, progress: FetchProgress, reply: HttpReply, old_hash: str | None, window: Window | None
    ) -> Outcome:
        """Parse the document of a successful response."""
        body = await self._decode_reply(reply, None)
        status, headers = reply.status, reply.headers
        validators: Validators | None = read_validators(headers)
        body_hash: str | None = hashlib.sha256(body).hexdigest()
        fresh = compute_freshness(headers, progress.started)
        if body_hash == old_hash and status != 226:
            return progress.make_outcome(
                Ending.UNCHANGED, status=status, validators=validators, fresh_for=fresh, body_hash=body_hash
            )
        try:
            document = await self._reader.read(body, progress.at, headers, window)
        except NotAFeed as error:
            return progress.make_outcome(Ending.UNREADABLE, str(error), status=status)
        document = add_header_links(document, headers.getall(hdrs.LINK, ()), progress.at)
        ending, message = Ending.CHANGED, ""
        if status == 226:
            ending = Ending.PARTIAL
            body_hash = None  # the hash of a part says nothing about the next whole document
        elif not _is_complete(body):
            ending, message = (
                Ending.PARTIAL,
                "The document is truncated; items missing from it are not counted as gone.",
            )
            validators = body_hash = None  # the next request must fetch the whole document
        return progress.make_outcome(
            ending,
            message,
            status=status,
            document=document,
            validators=validators,
            fresh_for=fresh,
            body_hash=body_hash,
        )

    def _end_without_document(self, progress: FetchProgress, reply: HttpReply) -> Outcome:
        """Return the outcome of a response without a document."""
        status = reply.status
        host = urlsplit(progress.at).hostname or progress.at
        wait = parse_retry_after(reply.headers, progress.started) if status >= 300 else None
        match status:
            case 410 if progress.permanent:
                ending, message = Ending.GONE, f"{host} has removed the feed permanently (410)."
            case 429 | 503:
                when = f" for {wait:.0f} s" if wait else ""
                ending, message = Ending.THROTTLED, f"{host} limits requests ({status}){when}; it is asked again later."
            case 401 | 403 | 407 | 451:
                ending, message = Ending.DENIED, f"{host} denies access to the feed ({status})."
            case _ if 400 <= status < 500:
                ending, message = Ending.MISSING, f"{host} has no feed at this address ({status})."
            case _ if 200 <= status < 300:
                ending, message = Ending.UNREADABLE, f"{host} sent no document ({status})."
            case 304:
                ending, message = Ending.BROKEN, f"{host} answered “not modified” to an unconditional request (304)."
            case _ if 300 <= status < 400:
                ending, message = Ending.REDIRECTS, f"{host} sent a redirect that cannot be followed ({status})."
            case _:
                ending, message = Ending.BROKEN, f"{host} has a server error ({status})."
        return progress.make_outcome(ending, message, status=status, retry_after=wait)

    async def _decode_reply(self, reply: HttpReply, cap: int | None) -> bytes:
        """Decode a body; large ones in a thread, so that a decompression bomb does not block the event loop."""
        most = self._limits.max_decoded if cap is None else cap
        encoding = ",".join(reply.headers.getall(hdrs.CONTENT_ENCODING, ()))
        try:
            if len(reply.body) <= _SMALL_WIRE:
                try:
                    return decode_body(reply.body, encoding, min(most, _SMALL_DECODED))
                except BodyTooLarge:
                    if most <= _SMALL_DECODED:
                        raise
            elif not encoding:
                return decode_body(reply.body, encoding, most)
            return await asyncio.to_thread(decode_body, reply.body, encoding, most)
        except BodyTooLarge as error:
            raise FetchFailure(
                Ending.TOO_LARGE,
                f"The document is too large: more than {most:,} bytes when decompressed.",
                status=reply.status,
            ) from error
        except BodyDamaged as error:
            raise FetchFailure(
                Ending.UNREADABLE, f"The document cannot be decompressed: {error}.", status=reply.status
            ) from error


def _is_delta(reply: HttpReply) -> bool:
    """Return whether a 226 uses the `feed` manipulation that was requested (RFC 3229 §10.5.2)."""
    return reply.headers.get("IM", "").strip().lower() == "feed"


def _is_complete(body: bytes) -> bool:
    """Return whether the root element (or JSON object) is closed. A lost connection looks like a short document."""
    if body.endswith(_COMMON_ENDS) or _ROOT_END.search(body[-4096:].replace(b"\0", b"")):
        return True
    return any(end in body for end in _COMMON_ENDS[:3])  # followed by a long appendix such as advertisements


def _make_error(failure: FetchFailure, url: str) -> AddressError | Unreachable:
    if failure.ending is Ending.BLOCKED:
        return AddressError(failure.message)
    return Unreachable(failure.message, failure.ending)
