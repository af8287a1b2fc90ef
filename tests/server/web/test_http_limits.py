"""The HTTP server withstands hostile clients: huge headers, idle and slow connections, bodies without a key."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from headwater.web.auth.cross_site import RequestRefused
from headwater.web.connections import ClientConnection, ConnectionLimits, ConnectionTable
from headwater.web.http_server import HttpServer
from headwater.web.request_body import read_body, read_upload

DESCRIPTORS = 1024  # the usual limit of a process


class RunningServer:
    """`headwater serve` in a separate process."""

    def __init__(self, url: str, pid: int) -> None:
        self.url = url
        self.port = int(url.rstrip("/").rpartition(":")[2])
        self.pid = pid

    def memory(self) -> float:
        """Return the megabytes in memory."""
        found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text())
        assert found is not None
        return int(found[1]) / 1024

    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=10, source_address=(source, 0))

    def ask(self, path: str = "health") -> int:
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:
            return int(answer.status)


@contextmanager
def running_server(folder: Path, *options: str) -> Iterator[RunningServer]:
    serve = [sys.executable, "-m", "headwater", "serve", "--data", str(folder), "--port", "0", "--json", *options]
    limited = ["sh", "-c", f'ulimit -n {DESCRIPTORS}; exec "$@"', "sh", *serve]
    with subprocess.Popen(limited, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        said = ""
        while not said.endswith("}\n") and (line := process.stdout.readline()):
            said += line
        try:
            yield RunningServer(json.loads(said)["url"], process.pid)
        finally:
            process.terminate()
            process.wait(20)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tmp_path_factory.mktemp("limits"), "--public-url", "http://feeds.example") as running:
        yield running


def send_until_refused(client: socket.socket, pieces: Iterator[bytes]) -> bytes:
    """Send pieces until the server answers; return its answer."""
    with contextlib.suppress(OSError):
        for piece in pieces:
            client.sendall(piece)
    with contextlib.suppress(OSError):
        return client.recv(1000)
    return b""


@pytest.mark.parametrize("many", [True, False])
def test_two_hundred_megabytes_of_headers_take_no_memory(server: RunningServer, many: bool) -> None:
    server.ask()
    before = server.memory()

    def headers() -> Iterator[bytes]:
        yield b"GET / HTTP/1.1\r\nHost: x\r\n"
        for n in range(200):
            yield b"x-%d: " % n + b"y" * 1_000_000 + b"\r\n" if many else b"z" * 1_000_000

    with server.connect() as client:
        answer = send_until_refused(client, headers())
        assert answer.startswith(b"HTTP/1.1 431 ")
        assert server.memory() - before < 8
    assert server.ask() == 200


def test_eleven_hundred_idle_connections_lock_nobody_out(server: RunningServer) -> None:
    """From one address, and from several; fetching keeps its descriptors."""
    with contextlib.ExitStack() as stack:
        for n in range(1_100):
            source = "127.0.0.1" if n < 500 else f"127.0.0.{2 + n % 5}"
            stack.enter_context(server.connect(source))
        begin = time.monotonic()
        assert server.ask() == 200
        assert time.monotonic() - begin < 5
        assert server.descriptors() <= DESCRIPTORS - 384 + 50  # used by the process itself


def test_a_push_without_a_known_key_is_answered_before_its_body(server: RunningServer) -> None:
    with server.connect() as client:
        client.sendall(b"POST /push/unknown HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\n\r\n")
        client.settimeout(60)
        assert client.recv(1000).startswith(b"HTTP/1.1 410 ")


def test_a_form_with_an_unknown_token_is_refused_before_its_body(server: RunningServer) -> None:
    head = b"POST /reader/api/0/edit-tag HTTP/1.1\r\nHost: x\r\nAuthorization: GoogleLogin auth=wrong\r\n"
    with server.connect() as client:
        client.sendall(head + b"Content-Length: 100000\r\n\r\n")
        client.settimeout(60)
        assert client.recv(1000).startswith(b"HTTP/1.1 401 ")


# a server with short limits in this process

LIMITS = ConnectionLimits(
    *(40, 30, 2), head_seconds=0.3, body_seconds=0.3, body_rate=1000.0, stalled_seconds=0.3, closing_seconds=0.3
)


HANGING: list[Request] = []  # the requests that the present server has begun and does not answer


async def take_body(request: Request) -> Response:
    return PlainTextResponse(str(len(await request.body())))


async def answer_at_length(request: Request) -> Response:
    return PlainTextResponse("x" * 50_000_000)


async def hang(request: Request) -> Response:
    HANGING.append(request)
    await asyncio.sleep(60)
    return PlainTextResponse("late")


@asynccontextmanager
async def limited(limits: ConnectionLimits = LIMITS, proxies: tuple[str, ...] = (), **more: Any) -> AsyncIterator[int]:
    app = Starlette(
        routes=[
            Route("/body", take_body, methods=["POST"]),
            Route("/long", answer_at_length),
            Route("/hang", hang),
            Route("/", lambda request: PlainTextResponse("hello")),
        ]
    )
    HANGING.clear()
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_config=None, lifespan="off", ws="none", timeout_graceful_shutdown=1, **more)
    server = HttpServer(config, limits, proxies)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield listener.getsockname()[1]
    finally:
        server.stop()
        await task


async def answer_to(port: int, *pieces: bytes, pause: float = 0.0, **more: Any) -> bytes:
    """Send pieces with pauses, and return all bytes until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, **more)
    reading = asyncio.create_task(reader.read())
    try:
        async with asyncio.timeout(60):
            for piece in pieces:
                if reading.done():
                    break
                writer.write(piece)
                with contextlib.suppress(ConnectionError):
                    await writer.drain()
                await asyncio.sleep(pause)
            with contextlib.suppress(ConnectionError):
                return await reading
            return b""
    finally:
        reading.cancel()
        writer.transport.abort()


HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n"
CLOSE = b"Connection: close\r\n\r\n"
UPLOAD = b"POST /body HTTP/1.1\r\nHost: x\r\n"


async def test_an_ordinary_request_is_answered() -> None:
    async with limited() as port:
        assert (await answer_to(port, HEAD + CLOSE)).endswith(b"hello")
        body = b"b" * 300_000
        large = UPLOAD + b"Content-Length: 300000\r\n" + CLOSE + body
        assert (await answer_to(port, large)).endswith(b"300000")
        chunked = UPLOAD + b"Transfer-Encoding: chunked\r\n" + CLOSE + b"493e0\r\n" + body + b"\r\n0\r\n\r\n"
        assert (await answer_to(port, chunked)).endswith(b"300000")


async def test_slow_and_silent_clients_are_ended() -> None:
    """Each would otherwise keep its connection for as long as it likes."""
    trickle = [b"x: y\r\n"] * 60
    async with limited() as port:
        slow_head, silent, slow_body, unread = await asyncio.gather(
            answer_to(port, HEAD, *trickle, pause=0.1),
            answer_to(port),
            answer_to(port, UPLOAD + b"Content-Length: 1000\r\n\r\n", *trickle, pause=0.1),
            stop_reading(port),
        )
        assert slow_head.startswith(b"HTTP/1.1 408 ")
        assert silent == b""
        assert slow_body.startswith(b"HTTP/1.1 408 ")
        assert unread < 50_000_000


async def stop_reading(port: int) -> int:
    """Request a long answer and read it only after the server has given up; return the received bytes."""
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        await loop.sock_connect(client, ("127.0.0.1", port))
        await loop.sock_sendall(client, b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.sleep(3.5)
        size = 0
        with contextlib.suppress(ConnectionError):
            while piece := await asyncio.wait_for(loop.sock_recv(client, 1 << 20), 5):
                size += len(piece)
        return size


async def test_a_steady_upload_may_take_its_time() -> None:
    async with limited() as port:
        pieces = [b"b" * 5000] * 12  # far above the least rate: pauses last longer on a busy machine
        begun = UPLOAD + b"Content-Length: 60000\r\n" + CLOSE
        assert (await answer_to(port, begun, *pieces, pause=0.2)).endswith(b"60000")


async def test_too_many_headers_and_endless_trailers_are_refused() -> None:
    async with limited() as port:
        many = b"".join(b"x-%d: y\r\n" % n for n in range(150))
        assert (await answer_to(port, HEAD + many + CLOSE)).startswith(b"HTTP/1.1 431 ")
        trailer = UPLOAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\nx: "
        assert b"431" in (await answer_to(port, trailer, *[b"y" * 10_000] * 20))[:20]


async def test_busy_connections_are_never_replaced_and_others_hear_why(eventually) -> None:
    async with limited(ConnectionLimits(total=5, per_address=5, overflow=2)) as port:
        hanging = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
        for _, writer in hanging:
            writer.write(b"GET /hang HTTP/1.1\r\nHost: x\r\n\r\n")
        await eventually(lambda: len(HANGING) == 5, "all requests have begun")
        assert (await answer_to(port, HEAD + CLOSE)).startswith(b"HTTP/1.1 503 ")
        assert not any(reader.at_eof() for reader, _ in hanging)
        for _, writer in hanging:
            writer.transport.abort()

        async def is_answered() -> bool:
            return (await answer_to(port, HEAD + CLOSE)).endswith(b"hello")

        await eventually(is_answered, "there is room again")


async def test_clients_behind_a_trusted_proxy_share_no_limit(eventually) -> None:
    tight = ConnectionLimits(total=20, per_address=2, overflow=0)
    for proxies, reached in ((("127.0.0.1",), 10), ((), 2)):
        async with limited(tight, proxies) as port:
            hanging = [await asyncio.open_connection("127.0.0.1", port) for _ in range(10)]
            for _, writer in hanging:
                writer.write(b"GET /hang HTTP/1.1\r\nHost: x\r\n\r\n")
                await asyncio.sleep(0.02)
            await eventually(lambda least=reached: len(HANGING) >= least, "as many have begun as may")
            await asyncio.sleep(0.2)
            assert sum(not reader.at_eof() for reader, _ in hanging) == reached == len(HANGING)
            for _, writer in hanging:
                writer.transport.abort()


async def test_clients_that_never_finish_a_handshake_lock_nobody_out() -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    async with limited(ssl_context_factory=lambda config, default: context) as port:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(60)]
        asked = answer_to(port, HEAD + CLOSE, ssl=trusting, server_hostname="localhost")
        assert (await asked).endswith(b"hello")
        async with asyncio.timeout(60):
            assert await silent[-1][0].read() == b""
        for _, writer in silent:
            writer.transport.abort()


# the table

STEPS = st.lists(st.tuples(st.sampled_from(["admit", "busy", "wait", "end"]), st.integers(0, 40)), max_size=120)


@given(steps=STEPS, total=st.integers(1, 8), per_address=st.integers(1, 5), overflow=st.integers(0, 2))
def test_limits_hold_and_only_waiting_connections_are_replaced(
    steps: list[tuple[str, int]], total: int, per_address: int, overflow: int
) -> None:
    table = ConnectionTable(ConnectionLimits(total, per_address, overflow))
    alive: list[ClientConnection] = []
    for now, (step, number) in enumerate(steps):
        if step == "admit":
            busy = [one for one in alive if one.waiting_since is None]
            waiting = [one for one in alive if one.waiting_since is not None]
            address = f"192.0.2.{number % 4}"
            made, replaced = table.admit(address, float(now))
            assert replaced not in busy
            if replaced is not None:
                alive.remove(replaced)
            if made is not None:
                alive.append(made)
            if len(busy) < total and sum(one.address == address for one in busy) < per_address:
                assert made is not None
                assert not made.over_limit  # waiting clients lock no one out
            if replaced is not None:
                rivals = [one for one in waiting if one.address == address]
                longest = min(one.waiting_since or 0.0 for one in (rivals if replaced in rivals else waiting))
                assert replaced.waiting_since == longest
        elif alive:
            one = alive[number % len(alive)]
            if step == "busy":
                table.mark_busy(one)
            elif step == "wait":
                table.mark_waiting(one, float(now))
            else:
                table.remove(one)
                alive.remove(one)
        assert table.list_connections() == alive
        assert len(table) <= total + overflow
        for address in {one.address for one in alive}:
            assert sum(one.address == address for one in alive) <= per_address + overflow


@pytest.mark.parametrize("read", [lambda one: read_body(one, 100), lambda one: read_upload(one, "file", 100)])
async def test_a_request_that_breaks_off_is_refused_and_no_defect(read: Callable[[Request], Awaitable[object]]) -> None:
    messages = iter(({"type": "http.request", "body": b"--x", "more_body": True}, {"type": "http.disconnect"}))

    async def receive() -> Any:
        return next(messages)

    headers = [(b"content-length", b"50"), (b"content-type", b"multipart/form-data; boundary=x")]
    with pytest.raises(RequestRefused, match="broke off"):
        await read(Request({"type": "http", "method": "POST", "headers": headers}, receive))
