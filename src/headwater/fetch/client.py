"""The fetcher: an address in, an `Outcome` out, whatever the server does."""

from __future__ import annotations

import asyncio
import hashlib
import re
import ssl
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
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
from headwater.fetch.http.redirects import FetchProgress, Handover, NotOurHost, RedirectFollower
from headwater.fetch.http.remote_session import RemoteReply, RemoteRequest, RemoteSession
from headwater.fetch.reading.document_reader import DocumentReader, ReadFunction
from headwater.formats import read_to_keep
from headwater.model import Document, Ending, Outcome, Validators

_SMALL_WIRE, _SMALL_DECODED = 64 << 10, 1 << 20  # decoded at once; anything larger in a thread
_COMMON_ENDS = (b"</rss>", b"</feed>", b"</rdf:RDF>", b"</rss>\n", b"</feed>\n", b"</rdf:RDF>\n", b"}")
_ROOT_END = re.compile(rb"(?i)</(?:[\w.-]+:)?(?:rss|feed|rdf|channel)\s*>|\}\s*$")


def build_user_agent(contact: str | None) -> str:
    """Product, version, and where to complain."""
    return f"Headwater/{headwater.__version__} (feed aggregator{'; +' + contact if contact else ''})"


@dataclass(frozen=True, slots=True)
class Page:
    """An answer that is not judged as a feed: for discovery, articles, icons, hubs and web hooks.

    `url` is what was asked for, `moved_to` where a chain of permanent redirects led, as in `Outcome`.
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
    """One guarded client for everything that leaves. Use it as an async context manager, one for each process."""

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
        errands: Callable[[RemoteRequest], Awaitable[RemoteReply]] | None = None,
    ) -> None:
        """With `errands`, requests are made by who that gives them to. `pause` is a gap that local hosts know too."""
        self._limits = RequestLimits(deadline, min_rate, max_wire, max_decoded)
        self._clock = clock
        self._reader = DocumentReader(read)
        self.gate = HostGate(per_host, gap if pause is None else pause, everywhere=pause is not None)
        made: Callable[..., GuardedSession] = GuardedSession if errands is None else partial(RemoteSession, errands)
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
    ) -> Outcome:
        """Fetch a feed; never raises for anything a server or an address does.

        A 200 whose body has the hash `body_hash` ends as UNCHANGED with status 200 and is not read again.
        """
        journey = FetchProgress(url, url, self._clock(), time.monotonic())
        return await self._fetch_feed(journey, validators, body_hash, delta)

    async def fetch_until_handover(
        self,
        url: str,
        validators: Validators | None = None,
        *,
        body_hash: str | None = None,
        delta: bool = False,
        mine: Callable[[str], bool],
        way: Handover | None = None,
    ) -> Outcome | Handover:
        """Fetch as far as redirects lead to addresses that are `mine`; then whoever may goes on from the `way`."""
        journey = FetchProgress(url, url, self._clock(), time.monotonic(), mine=mine)
        if way is not None:
            journey = FetchProgress.resume(way, mine)
        try:
            return await self._fetch_feed(journey, validators, body_hash, delta)
        except NotOurHost:
            return journey.make_handover()

    async def _fetch_feed(
        self, journey: FetchProgress, validators: Validators | None, body_hash: str | None, delta: bool
    ) -> Outcome:
        asked = build_conditions(validators, delta=delta)
        try:
            reply = await self._redirects.follow(journey, asked)
            if reply.status == 304 and asked:
                return journey.make_outcome(
                    Ending.UNCHANGED,
                    status=304,
                    validators=merge_validators(validators, reply.headers),
                    fresh_for=compute_freshness(reply.headers, journey.started),
                    retry_after=parse_retry_after(reply.headers, journey.started),
                )
            if reply.status in (200, 203) or (reply.status == 226 and A_IM in asked and _is_delta(reply)):
                return await self._read_document(journey, reply, body_hash)
            return self._end_without_document(journey, reply)
        except FetchFailure as failure:
            journey.received += failure.received
            return journey.make_outcome(
                failure.ending, failure.message, status=failure.status, retry_after=failure.retry_after
            )

    async def run_request(self, hop: RemoteRequest) -> RemoteReply:
        """An errand for another process; whatever comes of it is an answer."""
        return await remote_session.run_remote_request(self._session, hop)

    async def get(self, url: str, *, accept: str = "*/*", max_bytes: int | None = None) -> Page:
        """Fetch a page, following redirects; any status is an answer, no answer raises (AddressError, Unreachable)."""
        journey = FetchProgress(url, url, self._clock(), time.monotonic())
        try:
            reply = await self._redirects.follow(journey, {"Accept": accept}, max_bytes)
            body = await self._decode_reply(reply, max_bytes) if reply.body else b""
        except FetchFailure as failure:
            raise _make_error(failure, url) from failure
        moved = journey.at if journey.hops and journey.permanent else None
        return Page(reply.status, journey.at, reply.headers, body, reply.headers.get("Content-Type", ""), url, moved)

    def check_address(self, url: str) -> None:
        """Raises AddressError for an address that we would not go to, as far as it can be told without asking."""
        self._session.check_url(url)

    async def read_feed(self, page: Page) -> Document:
        """Read a page as a feed, with the limits of every document; raises NotAFeed."""
        return await self._reader.read(page.body, page.final_url, page.headers)

    async def post(
        self,
        url: str,
        data: bytes | Mapping[str, str],
        headers: Mapping[str, str] | None = None,
        *,
        max_bytes: int = 64 << 10,
        read: bool = True,
    ) -> Page:
        """Send something to a hub or web hook; a redirect is returned, never followed. Unless we `read` what it says,
        only its status counts, however much follows."""
        sent = dict(headers or {})
        if not isinstance(data, bytes):
            data = urlencode(data).encode()
            sent.setdefault("Content-Type", "application/x-www-form-urlencoded")
        return await self._send_once("POST", url, sent, data, max_bytes, True if read else None)

    async def fetch_once(self, url: str, *, accept: str = "*/*", max_bytes: int = 64 << 10) -> Page:
        """One GET; a redirect is returned, never followed."""
        return await self._send_once("GET", url, {"Accept": accept}, None, max_bytes)

    async def _send_once(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        data: bytes | None,
        max_bytes: int,
        every_body: bool | None = True,
    ) -> Page:
        try:
            _, reply = await self._session.send_request(
                url, {"Accept": "*/*", **headers}, method=method, data=data, max_wire=max_bytes, every_body=every_body
            )
            body = await self._decode_reply(reply, max_bytes) if reply.body else b""
        except FetchFailure as failure:
            raise _make_error(failure, url) from failure
        return Page(reply.status, url, reply.headers, body, reply.headers.get("Content-Type", ""), url)

    async def _read_document(self, journey: FetchProgress, reply: HttpReply, old_hash: str | None) -> Outcome:
        """Read the document of a good answer."""
        body = await self._decode_reply(reply, None)
        status, headers = reply.status, reply.headers
        validators: Validators | None = read_validators(headers)
        body_hash: str | None = hashlib.sha256(body).hexdigest()
        fresh = compute_freshness(headers, journey.started)
        if body_hash == old_hash and status != 226:
            return journey.make_outcome(
                Ending.UNCHANGED, status=status, validators=validators, fresh_for=fresh, body_hash=body_hash
            )
        try:
            document = await self._reader.read(body, journey.at, headers)
        except NotAFeed as error:
            return journey.make_outcome(Ending.UNREADABLE, str(error), status=status)
        document = add_header_links(document, headers.getall(hdrs.LINK, ()), journey.at)
        ending, message = Ending.CHANGED, ""
        if status == 226:
            ending = Ending.PARTIAL
            body_hash = None  # of a part, which tells nothing about the next whole document
        elif not _is_complete(body):
            ending, message = Ending.PARTIAL, "The document breaks off before its end; nothing counts as gone."
            validators = body_hash = None  # so that the whole document is asked for again
        return journey.make_outcome(
            ending,
            message,
            status=status,
            document=document,
            validators=validators,
            fresh_for=fresh,
            body_hash=body_hash,
        )

    def _end_without_document(self, journey: FetchProgress, reply: HttpReply) -> Outcome:
        """Every answer that brings no document."""
        status = reply.status
        host = urlsplit(journey.at).hostname or journey.at
        wait = parse_retry_after(reply.headers, journey.started) if status >= 300 else None
        match status:
            case 410 if journey.permanent:
                ending, message = Ending.GONE, f"{host} says that the feed is gone for good (410)."
            case 429 | 503:
                when = f"; come back in {wait:.0f} s" if wait else ""
                ending, message = Ending.THROTTLED, f"{host} asks to come back later ({status}){when}."
            case 401 | 403 | 407 | 451:
                ending, message = Ending.DENIED, f"{host} does not let us read the feed ({status})."
            case _ if 400 <= status < 500:
                ending, message = Ending.MISSING, f"{host} has no feed at this address ({status})."
            case _ if 200 <= status < 300:
                ending, message = Ending.UNREADABLE, f"{host} answered without a document ({status})."
            case 304:
                ending, message = Ending.BROKEN, f"{host} says “not modified” although nothing was known (304)."
            case _ if 300 <= status < 400:
                ending, message = Ending.REDIRECTS, f"{host} redirects in a way that cannot be followed ({status})."
            case _:
                ending, message = Ending.BROKEN, f"{host} has a problem of its own ({status})."
        return journey.make_outcome(ending, message, status=status, retry_after=wait)

    async def _decode_reply(self, reply: HttpReply, cap: int | None) -> bytes:
        """Decode small bodies at once and others in a thread, so that a bomb delays nobody."""
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
                f"The document is too large: more than {most:,} bytes when unpacked.",
                status=reply.status,
            ) from error
        except BodyDamaged as error:
            raise FetchFailure(
                Ending.UNREADABLE, f"The document cannot be unpacked: {error}.", status=reply.status
            ) from error


def _is_delta(reply: HttpReply) -> bool:
    """Whether a 226 was made by the one manipulation we asked for (RFC 3229 §10.5.2)."""
    return reply.headers.get("IM", "").strip().lower() == "feed"


def _is_complete(body: bytes) -> bool:
    """Whether the root element (or JSON object) is closed: a connection that just ends looks like a short document."""
    if body.endswith(_COMMON_ENDS) or _ROOT_END.search(body[-4096:].replace(b"\0", b"")):
        return True
    return any(end in body for end in _COMMON_ENDS[:3])  # with a long appendix: advertisements, statistics


def _make_error(failure: FetchFailure, url: str) -> AddressError | Unreachable:
    if failure.ending is Ending.BLOCKED:
        return AddressError(failure.message)
    return Unreachable(failure.message, failure.ending)
