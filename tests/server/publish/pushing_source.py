"""A real source with a hub, and a real node with a web server that can subscribe to it."""

from __future__ import annotations

import asyncio
import hmac
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode
from xml.sax.saxutils import escape

import httpx
import uvicorn
from publish_server import served

from headwater.assembly import build
from headwater.node.node import Node
from headwater.node.websub import PushService
from headwater.settings import load_settings
from headwater.web.app import create_app


@dataclass
class PushingSource:
    """A feed at /feed.xml with a hub at /hub, which acts only when the test tells it."""

    base: str = ""
    in_header: bool = True
    in_document: bool = True
    own: str = "/the-feed"  # its self link, which differs from the polled address
    redirects: int = 0
    answer: int = 202
    titles: list[str] = field(default_factory=lambda: ["first"])
    polls: int = 0
    asked: list[dict[str, str]] = field(default_factory=list)

    def document(self, titles: list[str]) -> bytes:
        links = f'<atom:link rel="hub" href="{self.base}/hub"/><atom:link rel="self" href="{self.base}{self.own}"/>'
        items = "".join(f"<item><title>{escape(t)}</title><guid>urn:test:{escape(t)}</guid></item>" for t in titles)
        return (
            '<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel><title>Source</title>'
            f"{links if self.in_document else ''}{items}</channel></rss>"
        ).encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = (await receive()).get("body", b"")
        headers: list[tuple[bytes, bytes]] = []
        status, answer = 404, b""
        if scope["path"] == "/feed.xml":
            self.polls += 1
            status, answer = 200, self.document(self.titles)
            if self.in_header:
                links = f'<{self.base}/hub>; rel="hub", <{self.base}{self.own}>; rel="self"'
                headers = [(b"link", links.encode())]
        elif scope["path"] == "/hub" and self.redirects:
            self.redirects -= 1
            status, headers = 307, [(b"location", b"/hub")]
        elif scope["path"] == "/hub":
            self.asked.append(dict(parse_qsl(body.decode())))
            status, answer = self.answer, b"because"
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    async def verify(self, number: int = -1, **other: str) -> httpx.Response:
        """Verify the subscription as a hub does; `other` replaces parameters of the request."""
        asked = self.asked[number]
        query = {"hub.mode": "subscribe", "hub.topic": asked["hub.topic"], "hub.challenge": "ch4llenge"}
        query |= {"hub.lease_seconds": "864000"} | {f"hub.{name}": value for name, value in other.items()}
        async with httpx.AsyncClient() as client:
            return await client.get(f"{asked['hub.callback']}?{urlencode(query)}")

    async def push(
        self, *titles: str, secret: str | None = None, method: str = "sha256", signed: bool = True, body: bytes = b""
    ) -> httpx.Response:
        asked = self.asked[-1]
        body = body or self.document(list(titles))
        digest = hmac.new((secret or asked["hub.secret"]).encode(), body, method).hexdigest()
        headers = {"Content-Type": "application/rss+xml"} | (
            {"X-Hub-Signature": f"{method}={digest}"} if signed else {}
        )
        async with httpx.AsyncClient() as client:
            return await client.post(asked["hub.callback"], content=body, headers=headers)


@asynccontextmanager
async def source(**how: Any) -> AsyncIterator[PushingSource]:
    made = PushingSource(**how)
    async with served(made) as base:
        made.base = base
        yield made


@asynccontextmanager
async def running(folder: Path, public: bool = True, **more: Any) -> AsyncIterator[tuple[Node, PushService, str]]:
    """Run a node with its pages, hub and callbacks, as `headwater serve` does."""
    listener = socket.create_server(("127.0.0.1", 0))
    base = f"http://127.0.0.1:{listener.getsockname()[1]}"
    usual: dict[str, Any] = {"data": folder, "allow_private": True, "per_host": 64, "budget": 100_000.0}
    usual |= {"public_url": base} if public else {}
    async with build("node", load_settings(**usual | more)) as node:
        pushing = PushService(node, base)
        app = create_app(node, base=base, push_service=pushing)
        config = uvicorn.Config(app, log_config=None, lifespan="off", server_header=False, timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        async with pushing:
            task = asyncio.create_task(server.serve(sockets=[listener]))
            try:
                yield node, pushing, base
            finally:
                server.should_exit = True
                await task
                listener.close()


async def until(holds: Callable[[], Any | Awaitable[Any]], what: str, seconds: float = 150.0) -> None:
    """Wait until a condition holds; the failure names it."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                result = holds()
                if asyncio.iscoroutine(result):
                    result = await result
                if result:
                    return
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"not within {seconds:g} s: {what}") from None
