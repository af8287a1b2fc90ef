"""A mail server and a web hook that fail at random, run in threads, and record accepted messages."""

from __future__ import annotations

import email
import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import orjson
from aiosmtpd.controller import Controller


class FailingMailServer:
    """Accepts a mail, refuses it for now, or accepts it and reports a failure."""

    def __init__(self, chance: random.Random, failure_rate: float) -> None:
        self.taken: list[Message] = []
        self._chance = chance
        self._failure_rate = failure_rate

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        drawn = self._chance.random()
        if drawn < self._failure_rate / 2:
            return "451 Not now"
        self.taken.append(email.message_from_bytes(envelope.content))
        return "451 Lost the thread" if drawn < self._failure_rate else "250 OK"


@contextmanager
def mail_server(seed: int = 1, failure_rate: float = 0.5) -> Iterator[tuple[str, FailingMailServer]]:
    handler = FailingMailServer(random.Random(seed), failure_rate)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    controller = Controller(handler, hostname="127.0.0.1", port=port)
    controller.start()
    try:
        yield f"smtp://127.0.0.1:{port}?starttls=never", handler
    finally:
        controller.stop()


class Hooks(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, chance: random.Random, failure_rate: float) -> None:
        super().__init__(("127.0.0.1", 0), _FailingHook)
        self.taken: list[tuple[dict[str, str], bytes]] = []
        self.chance = chance
        self.failure_rate = failure_rate
        self.status: int | None = None  # the only answer, if set

    @property
    def keys(self) -> dict[str, list[str]]:
        """Return the ids of the received items by idempotency key."""
        found: dict[str, list[str]] = {}
        for headers, body in self.taken:
            found[headers["Idempotency-Key"]] = [item["id"] for item in orjson.loads(body)["items"]]
        return found

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors, because the test kills clients."""


class _FailingHook(BaseHTTPRequestHandler):
    server: Hooks

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        drawn = self.server.chance.random()
        if self.server.status is not None or drawn < self.server.failure_rate / 2:
            self.send_response(self.server.status or 500)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.server.taken.append((dict(self.headers), body))
        if drawn < self.server.failure_rate:
            self.connection.close()  # accepted, but the sender never learns it
            return
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


@contextmanager
def hooks(seed: int = 1, failure_rate: float = 0.5) -> Iterator[tuple[str, Hooks]]:
    with Hooks(random.Random(seed), failure_rate) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/hook", server
        finally:
            server.shutdown()
            thread.join()
