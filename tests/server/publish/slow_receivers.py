"""Real HTTP/1.1 receivers on loopback, each on its own port: one answers, one never does."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit


@dataclass
class HookReceiver:
    """A receiver. With `stalls` it accepts requests and never answers; `headers` are added to answers."""

    port: int = 0
    stalls: bool = False
    headers: dict[str, str] = field(default_factory=dict)
    bodies: list[bytes] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    connections: int = 0
    open: int = 0
    most_open: int = 0
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def url(self, path: str = "/hook", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
                body = await reader.readexactly(int(fields.get("content-length", "0")))
                self.paths.append(head.split()[1])
                self.bodies.append(body)
                self.times.append(time.monotonic())
                self.arrived.set()
                if self.stalls:
                    await asyncio.sleep(3600)
                challenge = parse_qs(urlsplit(self.paths[-1]).query).get("hub.challenge", [""])[0]
                more = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
                answer = f"HTTP/1.1 200 OK\r\n{more}Content-Length: {len(challenge)}\r\n\r\n{challenge}"
                writer.write(answer.encode())
                await writer.drain()
        finally:
            self.open -= 1


@asynccontextmanager
async def receiver(stalls: bool = False, **headers: str) -> AsyncIterator[HookReceiver]:
    made = HookReceiver(stalls=stalls, headers={name.replace("_", "-"): value for name, value in headers.items()})
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            await made.serve(reader, writer)
        writer.transport.abort()
        tasks.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1000)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
