"""A raw HTTP server on loopback that a test controls byte by byte, and that records its requests."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from headwater.errors import NotAFeed
from headwater.model import Document, Entry

RSS = (
    b'<?xml version="1.0" encoding="utf-8"?><rss version="2.0"><channel><title>News</title>'
    b"<link>http://example.org/</link><description>d</description>"
    b"<item><guid>1</guid><title>One</title><link>http://example.org/1</link></item>"
    b"</channel></rss>"
)


def read_titles(body: bytes, url: str | None = None, headers: Mapping[str, str] | None = None) -> Document:
    """Read titles only, so that tests of HTTP do not depend on formats."""
    titles = re.findall(rb"<item>.*?<title>(.*?)</title>", body, re.DOTALL)
    if b"<rss" not in body:
        raise NotAFeed("This is an HTML page." if b"<html" in body else "The document is empty.")
    return Document("rss 2.0", items=tuple(Entry(title=title.decode()) for title in titles))


@dataclass
class Request:
    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes = b""

    def __getitem__(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    @property
    def names(self) -> set[str]:
        return {name.lower() for name, _ in self.headers}


Handler = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]


def answer(
    status: int = 200, body: bytes = b"", headers: dict[str, str] | None = None, *, length: bool = True
) -> bytes:
    """Return the bytes of an ordinary response; header values may be invalid."""
    lines = [f"HTTP/1.1 {status} X"]
    given = dict(headers or {})
    if "Content-Length" not in given and "Transfer-Encoding" not in given and status != 304:
        given["Content-Length"] = str(len(body))
    lines += [f"{name}: {value}" for name, value in given.items()]
    return "\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + body


def feed(headers: dict[str, str] | None = None, body: bytes = RSS) -> bytes:
    return answer(200, body, {"Content-Type": "application/rss+xml", **(headers or {})})


def redirect(status: int, location: str, headers: dict[str, str] | None = None, body: bytes = b"") -> bytes:
    return answer(status, body, {"Location": location, **(headers or {})})


@dataclass
class RawServer:
    """`routes` maps a path to the bytes to answer, a list of them (one for each request), or a handler."""

    routes: dict[str, bytes | list[bytes] | Handler] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    tls: ssl.SSLContext | None = None
    host: str = "127.0.0.1"
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def __aenter__(self) -> RawServer:
        self._server = await asyncio.start_server(self._accept, self.host, 0, ssl=self.tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def url(self, path: str = "/", host: str | None = None) -> str:
        return f"http{'s' if self.tls else ''}://{host or self.host}:{self.port}{path}"

    @property
    def paths(self) -> list[str]:
        return [request.path for request in self.requests]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.connections += 1
        try:
            while await self._serve(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError, ssl.SSLError):
            pass
        finally:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ", 2)
        pairs = [line.split(": ", 1) for line in head[1:] if line]
        request = Request(method, path, [(name, value) for name, value in pairs])
        if length := request["Content-Length"]:
            request.body = await reader.readexactly(int(length))
        self.requests.append(request)
        route = self.routes.get(path, answer(404))
        if isinstance(route, list):
            route = route.pop(0) if len(route) > 1 else route[0]
        if isinstance(route, bytes):
            writer.write(route)
            await writer.drain()
            return True
        await route(request, writer)
        return False
