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
from headwater.fetch import errand
from headwater.fetch.encodings import Bomb, Damaged, decode
from headwater.fetch.errand import ByErrand, Hop, Hopped
from headwater.fetch.etiquette import A_IM, conditions, fresh_for, merged, retry_after, validators_of
from headwater.fetch.guard import WEB_PORTS, Guard, Lookup, look_up
from headwater.fetch.hosts import HostGate
from headwater.fetch.journey import Elsewhere, Journey, Redirects, Way
from headwater.fetch.push import with_links
from headwater.fetch.reader import Read, Reader
from headwater.fetch.transport import Failure, Limits, Reply, Transport
from headwater.formats import read_to_keep
from headwater.model import Document, Ending, Outcome, Validators

_SMALL_WIRE, _SMALL_DECODED = 64 << 10, 1 << 20  # decoded at once; anything larger in a thread
_USUAL_ENDS = (b"</rss>", b"</feed>", b"</rdf:RDF>", b"</rss>\n", b"</feed>\n", b"</rdf:RDF>\n", b"}")
_CLOSED = re.compile(rb"(?i)</(?:[\w.-]+:)?(?:rss|feed|rdf|channel)\s*>|\}\s*$")


def name_ourselves(contact: str | None) -> str:
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
        read: Read = read_to_keep,
        tls: ssl.SSLContext | None = None,
        lookup: Lookup = look_up,
        clock: Callable[[], float] = time.time,
        errands: Callable[[Hop], Awaitable[Hopped]] | None = None,
    ) -> None:
        """With `errands`, requests are made by who that gives them to. `pause` is a gap that local hosts know too."""
        self._limits = Limits(deadline, min_rate, max_wire, max_decoded)
        self._clock = clock
        self._reader = Reader(read)
        self.gate = HostGate(per_host, gap if pause is None else pause, everywhere=pause is not None)
        made: Callable[..., Transport] = Transport if errands is None else partial(ByErrand, errands)
        self._transport = made(
            Guard(allow_private=allow_private, ports=ports),
            self.gate,
            self._limits,
            user_agent=user_agent or name_ourselves(contact),
            tls=tls,
            lookup=lookup,
            connections=connections,
        )
        self._redirects = Redirects(self._transport, deadline, clock)

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transport.__aexit__(kind, error, trace)
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
        journey = Journey(url, url, self._clock(), time.monotonic())
        return await self._fetch(journey, validators, body_hash, delta)

    async def fetch_ours(
        self,
        url: str,
        validators: Validators | None = None,
        *,
        body_hash: str | None = None,
        delta: bool = False,
        mine: Callable[[str], bool],
        way: Way | None = None,
    ) -> Outcome | Way:
        """Fetch as far as redirects lead to addresses that are `mine`; then whoever may goes on from the `way`."""
        journey = Journey(url, url, self._clock(), time.monotonic(), mine=mine)
        if way is not None:
            journey = Journey.onwards(way, mine)
        try:
            return await self._fetch(journey, validators, body_hash, delta)
        except Elsewhere:
            return journey.way()

    async def _fetch(
        self, journey: Journey, validators: Validators | None, body_hash: str | None, delta: bool
    ) -> Outcome:
        asked = conditions(validators, delta=delta)
        try:
            reply = await self._redirects.follow(journey, asked)
            if reply.status == 304 and asked:
                return journey.end(
                    Ending.UNCHANGED,
                    status=304,
                    validators=merged(validators, reply.headers),
                    fresh_for=fresh_for(reply.headers, journey.started),
                    retry_after=retry_after(reply.headers, journey.started),
                )
            if reply.status in (200, 203) or (reply.status == 226 and A_IM in asked and _is_delta(reply)):
                return await self._take(journey, reply, body_hash)
            return self._refuse(journey, reply)
        except Failure as failure:
            journey.received += failure.received
            return journey.end(failure.ending, failure.message, status=failure.status, retry_after=failure.retry_after)

    async def run(self, hop: Hop) -> Hopped:
        """An errand for another process; whatever comes of it is an answer."""
        return await errand.run(self._transport, hop)

    async def get(self, url: str, *, accept: str = "*/*", max_bytes: int | None = None) -> Page:
        """Fetch a page, following redirects; any status is an answer, no answer raises (AddressError, Unreachable)."""
        journey = Journey(url, url, self._clock(), time.monotonic())
        try:
            reply = await self._redirects.follow(journey, {"Accept": accept}, max_bytes)
            body = await self._decode(reply, max_bytes) if reply.body else b""
        except Failure as failure:
            raise _error_of(failure, url) from failure
        moved = journey.at if journey.hops and journey.permanent else None
        return Page(reply.status, journey.at, reply.headers, body, reply.headers.get("Content-Type", ""), url, moved)

    def check(self, url: str) -> None:
        """Raises AddressError for an address that we would not go to, as far as it can be told without asking."""
        self._transport.check(url)

    async def read(self, page: Page) -> Document:
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
        return await self._once("POST", url, sent, data, max_bytes, True if read else None)

    async def ask(self, url: str, *, accept: str = "*/*", max_bytes: int = 64 << 10) -> Page:
        """One GET; a redirect is returned, never followed."""
        return await self._once("GET", url, {"Accept": accept}, None, max_bytes)

    async def _once(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        data: bytes | None,
        max_bytes: int,
        every_body: bool | None = True,
    ) -> Page:
        try:
            _, reply = await self._transport.hop(
                url, {"Accept": "*/*", **headers}, method=method, data=data, max_wire=max_bytes, every_body=every_body
            )
            body = await self._decode(reply, max_bytes) if reply.body else b""
        except Failure as failure:
            raise _error_of(failure, url) from failure
        return Page(reply.status, url, reply.headers, body, reply.headers.get("Content-Type", ""), url)

    async def _take(self, journey: Journey, reply: Reply, old_hash: str | None) -> Outcome:
        """Read the document of a good answer."""
        body = await self._decode(reply, None)
        status, headers = reply.status, reply.headers
        validators: Validators | None = validators_of(headers)
        body_hash: str | None = hashlib.sha256(body).hexdigest()
        fresh = fresh_for(headers, journey.started)
        if body_hash == old_hash and status != 226:
            return journey.end(
                Ending.UNCHANGED, status=status, validators=validators, fresh_for=fresh, body_hash=body_hash
            )
        try:
            document = await self._reader.read(body, journey.at, headers)
        except NotAFeed as error:
            return journey.end(Ending.UNREADABLE, str(error), status=status)
        document = with_links(document, headers.getall(hdrs.LINK, ()), journey.at)
        ending, message = Ending.CHANGED, ""
        if status == 226:
            ending = Ending.PARTIAL
            body_hash = None  # of a part, which tells nothing about the next whole document
        elif not _is_closed(body):
            ending, message = Ending.PARTIAL, "The document breaks off before its end; nothing counts as gone."
            validators = body_hash = None  # so that the whole document is asked for again
        return journey.end(
            ending,
            message,
            status=status,
            document=document,
            validators=validators,
            fresh_for=fresh,
            body_hash=body_hash,
        )

    def _refuse(self, journey: Journey, reply: Reply) -> Outcome:
        """Every answer that brings no document."""
        status = reply.status
        host = urlsplit(journey.at).hostname or journey.at
        wait = retry_after(reply.headers, journey.started) if status >= 300 else None
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
        return journey.end(ending, message, status=status, retry_after=wait)

    async def _decode(self, reply: Reply, cap: int | None) -> bytes:
        """Decode small bodies at once and others in a thread, so that a bomb delays nobody."""
        most = self._limits.max_decoded if cap is None else cap
        encoding = ",".join(reply.headers.getall(hdrs.CONTENT_ENCODING, ()))
        try:
            if len(reply.body) <= _SMALL_WIRE:
                try:
                    return decode(reply.body, encoding, min(most, _SMALL_DECODED))
                except Bomb:
                    if most <= _SMALL_DECODED:
                        raise
            elif not encoding:
                return decode(reply.body, encoding, most)
            return await asyncio.to_thread(decode, reply.body, encoding, most)
        except Bomb as error:
            raise Failure(
                Ending.TOO_LARGE,
                f"The document is too large: more than {most:,} bytes when unpacked.",
                status=reply.status,
            ) from error
        except Damaged as error:
            raise Failure(
                Ending.UNREADABLE, f"The document cannot be unpacked: {error}.", status=reply.status
            ) from error


def _is_delta(reply: Reply) -> bool:
    """Whether a 226 was made by the one manipulation we asked for (RFC 3229 §10.5.2)."""
    return reply.headers.get("IM", "").strip().lower() == "feed"


def _is_closed(body: bytes) -> bool:
    """Whether the root element (or JSON object) is closed: a connection that just ends looks like a short document."""
    if body.endswith(_USUAL_ENDS) or _CLOSED.search(body[-4096:].replace(b"\0", b"")):
        return True
    return any(end in body for end in _USUAL_ENDS[:3])  # with a long appendix: advertisements, statistics


def _error_of(failure: Failure, url: str) -> AddressError | Unreachable:
    if failure.ending is Ending.BLOCKED:
        return AddressError(failure.message)
    return Unreachable(failure.message, failure.ending)
