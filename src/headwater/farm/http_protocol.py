"""Serves HTTP by a bare asyncio protocol, so that benchmarks do not measure the farm.

A site returns a `FarmResponse`, a value that also describes misbehaviour (wait, drip, break off); only the protocol
acts on it. Requests of a connection are answered in order, and the site is told when each of them is finished.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from headwater.errors import InputError

MAX_HEAD = 65_536
TLS_HANDSHAKE = 0x16  # the first byte of a client that tries https
REASON_PHRASES = {
    200: "OK", 206: "Partial Content", 226: "IM Used", 301: "Moved Permanently", 302: "Found", 303: "See Other",
    304: "Not Modified", 307: "Temporary Redirect", 308: "Permanent Redirect", 400: "Bad Request", 401: "Unauthorized",
    403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed", 410: "Gone", 429: "Too Many Requests",
    431: "Request Header Fields Too Large", 451: "Unavailable For Legal Reasons", 500: "Internal Server Error",
    502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout",
}  # fmt: skip


@dataclass(slots=True)
class FarmRequest:
    """The head of a request; the site adds its arrival and feed. Header names are lower-case."""

    method: bytes
    target: str
    headers: dict[bytes, bytes]
    peer: str
    host: str
    arrived: float = 0.0
    feed: int | None = None


@dataclass(slots=True)
class FarmResponse:
    """The bytes to send, and how to send them.

    The protocol waits `wait` seconds, then `drip` seconds before each byte. `stream` follows the data and may be
    endless. `end` says what happens to the connection: keep, close, reset or hang.
    """

    status: int
    data: bytes
    wait: float = 0.0
    drip: float = 0.0
    stream: Iterator[bytes] | None = None
    end: str = "keep"

    @property
    def is_immediate(self) -> bool:
        return not (self.wait or self.drip or self.stream) and self.end == "keep"


def make_response(status: int, body: bytes = b"", *headers: tuple[str, str], length: int | None = None) -> FarmResponse:
    """Return a response with the given headers and a Content-Length, which `length` can falsify."""
    lines = [
        f"HTTP/1.1 {status} {REASON_PHRASES.get(status, 'Unknown')}",
        f"Content-Length: {len(body) if length is None else length}",
    ]
    lines += [f"{name}: {value}" for name, value in headers]
    return FarmResponse(status, "\r\n".join((*lines, "", "")).encode() + body)


class FarmSite(Protocol):
    """Answers the requests that a FarmProtocol parses."""

    def answer_request(self, request: FarmRequest) -> FarmResponse: ...

    def finish_request(self, request: FarmRequest, answer: FarmResponse) -> None:
        """Note that the response was sent or the connection lost."""


class FarmProtocol(asyncio.Protocol):
    """One connection."""

    def __init__(self, site: FarmSite, connections: set[FarmProtocol]) -> None:
        self._site = site
        self._connections = connections
        self._buffer = b""
        self._slow_response: asyncio.Task[None] | None = None
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._peer = ""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport does not inherit from it
        peer = transport.get_extra_info("peername")
        self._peer = f"{peer[0]}:{peer[1]}" if peer else ""
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        self._may_write.set()
        if self._slow_response is not None:
            self._slow_response.cancel()

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def abort(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        if self._slow_response is None:
            self._answer_requests()

    def _answer_requests(self) -> None:
        while self._buffer and self._slow_response is None:
            head, found, rest = self._buffer.partition(b"\r\n\r\n")
            if not found:
                if self._buffer[0] == TLS_HANDSHAKE:
                    self._refuse_request(400)
                elif len(self._buffer) > MAX_HEAD:
                    self._refuse_request(431)
                return
            self._buffer = rest
            request = self._parse_head(head)
            if request is None:
                self._refuse_request(400)
                return
            self._send_response(request)

    def _parse_head(self, head: bytes) -> FarmRequest | None:
        first, *lines = head.split(b"\r\n")
        parts = first.split(b" ")
        if len(parts) != 3:
            return None
        headers = {}
        for line in lines:
            name, _, value = line.partition(b":")
            headers[name.lower()] = value.strip()
        if parts[2] == b"HTTP/1.0":
            headers.setdefault(b"connection", b"close")
        host = headers.get(b"host", b"").rpartition(b":")[0] or headers.get(b"host", b"")
        return FarmRequest(parts[0], parts[1].decode("latin-1"), headers, self._peer, host.decode("latin-1"))

    def _send_response(self, request: FarmRequest) -> None:
        answer = self._site.answer_request(request)
        if request.method == b"HEAD":
            answer = FarmResponse(answer.status, answer.data.partition(b"\r\n\r\n")[0] + b"\r\n\r\n", wait=answer.wait)
        last = request.headers.get(b"connection", b"").lower() == b"close" or b"content-length" in request.headers
        if last and answer.end == "keep":
            answer.end = "close"
        if answer.is_immediate:
            self._transport.write(answer.data)
            self._site.finish_request(request, answer)
        else:
            self._slow_response = asyncio.get_running_loop().create_task(self._send_slowly(request, answer))

    async def _send_slowly(self, request: FarmRequest, answer: FarmResponse) -> None:
        try:
            if answer.wait:
                await asyncio.sleep(answer.wait)
            if answer.drip:
                for position in range(len(answer.data)):
                    self._transport.write(answer.data[position : position + 1])
                    await asyncio.sleep(answer.drip)
            else:
                self._transport.write(answer.data)
            for chunk in answer.stream or ():
                self._transport.write(chunk)
                await self._may_write.wait()
                await asyncio.sleep(0)
                if self._transport.is_closing():
                    return
            if answer.end == "hang":
                await asyncio.Event().wait()
            if answer.end == "reset":
                await asyncio.sleep(0.05)  # a reset would overtake the data just sent
        finally:
            self._slow_response = None
            self._site.finish_request(request, answer)
        self._end_response(answer.end)

    def _end_response(self, end: str) -> None:
        if end == "reset":
            # With a linger time of zero the kernel sends RST instead of FIN.
            sock = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()
        elif end == "close":
            self._transport.close()
        else:
            self._answer_requests()

    def _refuse_request(self, status: int) -> None:
        self._transport.write(make_response(status, b"", ("Connection", "close")).data)
        self._transport.close()
        self._buffer = b""


class FarmListener:
    """Serves a site on any number of addresses under one port."""

    def __init__(self, site: FarmSite) -> None:
        self._site = site
        self._servers: list[asyncio.Server] = []
        self._connections: set[FarmProtocol] = set()

    async def start(self, addresses: Sequence[str], port: int) -> int:
        """Listen, and return the port. With port 0, the first address picks it for all."""
        loop = asyncio.get_running_loop()
        try:
            for address in addresses:
                sock = _open_socket(address, port)
                port = sock.getsockname()[1]
                self._servers.append(await loop.create_server(self._make_connection, sock=sock))
        except BaseException:
            await self.stop()
            raise
        return port

    async def stop(self) -> None:
        for server in self._servers:
            server.close()
        for connection in list(self._connections):
            connection.abort()
        for server in self._servers:
            await server.wait_closed()
        self._servers.clear()

    def _make_connection(self) -> FarmProtocol:
        return FarmProtocol(self._site, self._connections)


def _open_socket(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(4096)  # benchmarks open all connections at once
        sock.setblocking(False)
    except (OSError, OverflowError) as error:
        sock.close()
        reasons = {
            errno.EADDRINUSE: "the port is in use",
            errno.EACCES: "permission denied",
        }
        reason = reasons.get(getattr(error, "errno", None) or 0, str(error))
        raise InputError(f"The farm cannot listen on {host}:{port}: {reason}. Choose another --port.") from error
    return sock
