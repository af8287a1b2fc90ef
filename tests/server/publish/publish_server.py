"""A real server, and a client that adds no behaviour of its own."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import uvicorn

BASE = "https://feeds.example"


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[str]:
    """Run a server; yield its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(app, log_config=None, lifespan="off", server_header=False, timeout_graceful_shutdown=1)
    )
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
        listener.close()


@dataclass(frozen=True)
class Asker:
    """A client of one server that sends only the headers of the test."""

    client: httpx.AsyncClient
    base: str

    async def __call__(
        self, path: str, headers: Mapping[str, str] | None = None, method: str = "GET"
    ) -> httpx.Response:
        return await self.client.request(method, self.base + path, headers={"Accept-Encoding": "", **(headers or {})})
