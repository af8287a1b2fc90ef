"""Sends one HTTP request, guarded and paced: the only way out of Headwater.

Redirects are not followed here: the caller sends the next request, and the guard checks that address too. Every error
is a `FetchFailure` with an ending and a sentence.

One timer ends all requests at their deadlines; a timer for each would cost a tenth of a request.
"""

from __future__ import annotations

import asyncio
import math
import os
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from types import SimpleNamespace, TracebackType
from typing import Any, Self

import aiohttp
from aiohttp import hdrs
from aiohttp.connector import Connection
from multidict import CIMultiDictProxy
from yarl import URL

from headwater.fetch.http.address_guard import (
    REFUSAL,
    AddressBlocked,
    AddressGuard,
    GuardedResolver,
    Lookup,
    resolve_host,
)
from headwater.fetch.http.content_encoding import ACCEPTED_ENCODINGS
from headwater.fetch.http.headers import FEED_TYPES
from headwater.fetch.http.host_gate import HostGate
from headwater.formats.values.domains import registered_domain
from headwater.model import Ending

_MAX_HEADER_LINE = 32 * 1024  # some servers send policies of 20 kB; aiohttp allows 8 kB
_MAX_HEADERS = 256
_KEEP_ALIVE = 5.0  # seconds; each idle connection costs a file descriptor, and most hosts are polled hourly
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10.0)  # `Deadlines` limits the whole request


class FetchFailure(Exception):
    """A failed request: its ending and a sentence for the user."""

    def __init__(
        self,
        ending: Ending,
        message: str,
        received: int = 0,
        *,
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.ending = ending
        self.message = message
        self.received = received
        self.status = status
        self.retry_after = retry_after


@dataclass(slots=True)
class HttpReply:
    """The response to one request. `body` is still encoded, and empty if it was not requested."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes
    received: int
    spent: float = 0.0  # seconds, without waiting for the host's turn


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits of one request. `min_rate` (bytes per second) applies after a third of the deadline."""

    deadline: float = 30.0
    min_rate: float = 200.0
    max_wire: int = 5 << 20
    max_decoded: int = 20 << 20


async def _allow_sending() -> None:
    """Let every request be sent."""


class GuardedSession:
    """A guarded, paced aiohttp session without cookies, environment proxies and automatic decoding.

    `confirm_sending` is awaited right before a request is written to its connection, and may cancel the task.
    """

    confirm_sending: Callable[[], Awaitable[None]] = staticmethod(_allow_sending)

    def __init__(
        self,
        guard: AddressGuard,
        gate: HostGate,
        limits: RequestLimits,
        *,
        user_agent: str,
        tls: ssl.SSLContext | None = None,
        lookup: Lookup = resolve_host,
        connections: int = 512,
    ) -> None:
        self._guard = guard
        self._gate = gate
        self._limits = limits
        self._headers = {hdrs.USER_AGENT: user_agent, hdrs.ACCEPT: FEED_TYPES, hdrs.ACCEPT_ENCODING: ACCEPTED_ENCODINGS}
        self._tls = tls
        self._lookup = lookup
        self._connections = connections
        self._deadlines = Deadlines()
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._resolver = GuardedResolver(self._guard, lookup=self._lookup)
        connector = aiohttp.TCPConnector(
            resolver=self._resolver,
            socket_factory=self._guard.open_socket,
            ssl=self._tls or True,
            limit=self._connections,
            keepalive_timeout=_KEEP_ALIVE,
            ttl_dns_cache=60,
            dns_cache_max_size=10_000,
        )
        session = self

        class ConfirmedRequest(aiohttp.ClientRequest):
            async def send(self, conn: Connection) -> aiohttp.ClientResponse:
                await session.confirm_sending()
                return await super().send(conn)

        make_session = partial(
            aiohttp.ClientSession,
            request_class=ConfirmedRequest,
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=self._headers,
            auto_decompress=False,
            trust_env=False,
            max_line_size=_MAX_HEADER_LINE,
            max_field_size=_MAX_HEADER_LINE,
            max_headers=_MAX_HEADERS,
        )
        self._session = make_session()
        reuse = aiohttp.TraceConfig()
        reuse.on_connection_reuseconn.append(_note_reuse)
        self._posting = make_session(connector_owner=False, trace_configs=[reuse])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._posting.close()
            await self._session.close()
            await self._resolver.close()
            self._deadlines.close()
            self._session = None

    def check_url(self, url: str) -> None:
        """Raise AddressBlocked if the guard refuses the address before its name is resolved."""
        self._guard.check_url(url)

    def parse_target(self, url: str) -> URL:
        """Return the address to request. Raises FetchFailure if the guard refuses it."""
        try:
            return self._guard.check_url(url)
        except AddressBlocked as error:
            raise FetchFailure(Ending.BLOCKED, REFUSAL) from error

    async def send_request(
        self,
        url: str,
        headers: Mapping[str, str],
        *,
        method: str = "GET",
        data: bytes | None = None,
        seconds: float | None = None,
        max_wire: int | None = None,
        every_body: bool | None = False,
    ) -> tuple[URL, HttpReply]:
        """Send one request when it is the host's turn. `every_body`: False reads bodies of 2xx only, None reads
        none."""
        target = self.parse_target(url)
        domain = registered_domain(target.raw_host or "")
        if not self._gate.try_enter(domain):
            await self._gate.enter(domain)
        try:
            begin = time.monotonic()
            reply = await self._exchange(
                method,
                target,
                headers,
                data,
                self._limits.deadline if seconds is None else seconds,
                max_wire or self._limits.max_wire,
                every_body,
            )
            reply.spent = time.monotonic() - begin
            return target, reply
        finally:
            self._gate.leave(domain)

    async def _exchange(
        self,
        method: str,
        target: URL,
        headers: Mapping[str, str],
        data: bytes | None,
        seconds: float,
        max_wire: int,
        every_body: bool | None,
    ) -> HttpReply:
        if self._session is None:
            raise RuntimeError("use the session as an async context manager")
        response, size = None, 0
        try:
            with self._deadlines.limit(seconds):
                if method == "GET":
                    response = await self._session.get(target, headers=headers, timeout=_TIMEOUT, allow_redirects=False)
                else:
                    response = await self._send_data(method, target, headers, data)
                size = sum(map(len, chain.from_iterable(response.raw_headers))) + 4 * len(response.raw_headers)
                status = response.status
                if status == 304 or every_body is None or not (200 <= status < 300 or every_body):
                    # The body of a redirect or an error is not needed: close unless it has arrived already.
                    response.release()
                    return HttpReply(status, response.headers, b"", size)
                body = await self._read_body(response, max_wire)
                return HttpReply(status, response.headers, body, size + len(body))
        except BaseException as error:
            if response is not None:
                response.close()
            if isinstance(error, FetchFailure) or not isinstance(error, Exception):
                raise
            raise make_failure(error, name_host(target), seconds, size) from error

    async def _send_data(
        self, method: str, target: URL, headers: Mapping[str, str], data: bytes | None
    ) -> aiohttp.ClientResponse:
        """Send data, once more if the server had closed the connection that was kept open; aiohttp repeats GETs only.

        The server has not seen the request then. Should it have, it recognises the repetition by its Idempotency-Key.
        """
        reused: dict[str, bool] = {}
        send = partial(self._posting.request, method, target, headers=headers, data=data, timeout=_TIMEOUT)
        try:
            return await send(allow_redirects=False, trace_request_ctx=reused)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            if not reused:
                raise
            return await send(allow_redirects=False)

    async def _read_body(self, response: aiohttp.ClientResponse, max_wire: int) -> bytes:
        announced = response.content_length
        if announced is not None and announced > max_wire:
            raise FetchFailure(
                Ending.TOO_LARGE, f"The document is too large: {announced:,} bytes, at most {max_wire:,}."
            )
        stream = response.content
        chunk = await stream.readany()
        if stream.at_eof():
            if len(chunk) > max_wire:
                raise _make_too_large(max_wire, len(chunk))
            return chunk
        begin, received, chunks = time.monotonic(), len(chunk), [chunk]
        while chunk := await stream.readany():
            chunks.append(chunk)
            received += len(chunk)
            if received > max_wire:
                raise _make_too_large(max_wire, received)
            spent = time.monotonic() - begin
            if spent > self._limits.deadline / 3 and received < spent * self._limits.min_rate:
                raise FetchFailure(
                    Ending.TIMEOUT, f"The server sends too slowly: {received:,} bytes in {spent:.0f} s.", received
                )
        return b"".join(chunks)


async def _note_reuse(session: object, context: SimpleNamespace, params: object) -> None:
    if isinstance(context.trace_request_ctx, dict):
        context.trace_request_ctx["reused"] = True


def _make_too_large(limit: int, received: int) -> FetchFailure:
    return FetchFailure(Ending.TOO_LARGE, f"The document is too large: more than {limit:,} bytes.", received)


def name_host(target: URL) -> str:
    """Return the host of an address for a message: decoded, or as written if it is not a valid international name.

    >>> name_host(URL("http://xn--bcher-kva.example/", encoded=True)), name_host(URL("http://xn--/", encoded=True))
    ('bücher.example', 'xn--')
    """
    try:
        return target.host or ""
    except UnicodeError:
        return target.raw_host or ""


def make_failure(error: Exception, host: str, deadline: float, received: int = 0) -> FetchFailure:
    """Turn an exception into a FetchFailure; its sentence is for the person who subscribed to the feed."""
    cause = getattr(error, "os_error", None)
    match error:
        case AddressBlocked() | aiohttp.InvalidURL():
            return FetchFailure(Ending.BLOCKED, REFUSAL, received)
        case _ if isinstance(cause, AddressBlocked):
            return FetchFailure(Ending.BLOCKED, REFUSAL, received)
        case aiohttp.ClientConnectorDNSError():
            return FetchFailure(Ending.DNS, f"{host} could not be found (DNS). Check the spelling.", received)
        case aiohttp.ClientConnectorCertificateError():
            why = getattr(error.certificate_error, "verify_message", "") or str(error.certificate_error)
            return FetchFailure(Ending.TLS, f"The certificate of {host} is not valid: {why}.", received)
        case aiohttp.ClientSSLError() | ssl.SSLError():
            return FetchFailure(Ending.TLS, f"The TLS connection to {host} failed.", received)
        case TimeoutError():
            return FetchFailure(Ending.TIMEOUT, f"{host} did not finish its answer within {deadline:g} s.", received)
        case aiohttp.ClientResponseError():
            if any(word in error.message for word in ("Got more than", "too long", "Too many", "too many")):
                return FetchFailure(Ending.TOO_LARGE, f"{host} sent headers that are too large.", received)
            return FetchFailure(Ending.BROKEN, f"{host} sent invalid HTTP.", received)
        case aiohttp.ClientPayloadError():
            return FetchFailure(
                Ending.CONNECTION, f"{host} closed the connection in the middle of its answer.", received
            )
        case aiohttp.ClientConnectorError():
            return FetchFailure(Ending.CONNECTION, f"{host} cannot be reached: {_describe_cause(cause)}.", received)
        case aiohttp.ServerDisconnectedError():
            return FetchFailure(Ending.CONNECTION, f"{host} closed the connection without an answer.", received)
        case aiohttp.ClientError() | OSError():
            return FetchFailure(Ending.CONNECTION, f"The connection to {host} was lost.", received)
        case _:
            return FetchFailure(
                Ending.BROKEN, f"{host} sent an answer that cannot be read ({type(error).__name__}).", received
            )


def _describe_cause(cause: object) -> str:
    """Return the operating system's message ("connection refused"); the `strerror` of libraries differs."""
    return os.strerror(cause.errno).lower() if isinstance(cause, OSError) and cause.errno else "no connection"


class Deadlines:
    """Limits blocks of code in the tasks of one event loop. Call `close` at the end."""

    def __init__(self) -> None:
        self._watched: set[_TaskDeadline] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._next_check = math.inf  # when the timer fires

    def limit(self, seconds: float) -> _TaskDeadline:
        """Return a context manager that raises TimeoutError after `seconds`."""
        return _TaskDeadline(self, time.monotonic() + seconds)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._next_check = None, math.inf

    def start_watching(self, deadline: _TaskDeadline) -> None:
        self._watched.add(deadline)
        if deadline.until < self._next_check:
            self._set_timer(deadline.until)

    def stop_watching(self, deadline: _TaskDeadline) -> None:
        self._watched.discard(deadline)

    def _set_timer(self, moment: float) -> None:
        """Move the timer. Rare, because requests mostly start in the order of their deadlines."""
        self.close()
        self._next_check = moment
        self._timer = asyncio.get_running_loop().call_later(max(moment - time.monotonic(), 0.0), self._expire_late)

    def _expire_late(self) -> None:
        self._next_check, now = math.inf, time.monotonic()
        for deadline in self._watched:
            if deadline.until <= now:
                deadline.expire()
        left = [deadline.until for deadline in self._watched if deadline.until > now]
        if left:
            self._set_timer(min(left))


class _TaskDeadline:
    __slots__ = ("_all", "_before", "_passed", "_task", "until")

    def __init__(self, every: Deadlines, until: float) -> None:
        self._all = every
        self.until = until
        self._passed = False

    def __enter__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a deadline needs a running task")
        self._task: asyncio.Task[Any] = task
        self._before = task.cancelling()
        self._all.start_watching(self)

    def expire(self) -> None:
        if not self._passed:
            self._passed = True
            self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._all.stop_watching(self)
        if self._passed and self._task.uncancel() <= self._before and kind is asyncio.CancelledError:
            raise TimeoutError from error
