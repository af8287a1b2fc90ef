"""Measures publishing beside bare Starlette and nginx in the same run.

1. Requests per CPU second of the server for a cached feed, 200 and 304, on keep-alive connections.
2. Idle live streams: how many are held, and the server's memory for each.
3. Delays from the fetch of an item to the feed, the live stream and the web hook, and from a hub's push to the feed,
   while 1,000 items a second come in.

Each server is a process of its own, and only its CPU time counts. Every step has a deadline.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hmac
import json
import multiprocessing
import os
import re
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from bench.support import publish_servers as servers

SPAWN = multiprocessing.get_context("spawn")
DEADLINE = 120.0
PATH = "/feeds/everything.atom"
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PROBE = re.compile(r"probe (\d+\.\d+)")


@contextmanager
def server(target: Callable[..., None], *args: Any) -> Iterator[tuple[int, int, Connection]]:
    """Start a server; yield its pid, its port and the pipe to it."""
    here, there = SPAWN.Pipe()
    process = SPAWN.Process(target=target, args=(there, *args), daemon=True)
    process.start()
    try:
        end = time.monotonic() + DEADLINE
        while not here.poll(0.1):
            if not process.is_alive() or time.monotonic() > end:
                raise TimeoutError(f"The server “{target.__name__}” did not start.")
        assert process.pid is not None
        yield process.pid, here.recv(), here
    finally:
        process.kill()
        process.join()


def cpu(pid: int) -> float:
    """Return the CPU seconds of all threads of a process."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def memory(pid: int) -> int:
    """Return the bytes in memory that a process does not share."""
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return (int(fields[1]) - int(fields[2])) * _PAGE


@asynccontextmanager
async def connected(
    port: int, limit: int = 1 << 20
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=limit)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def ask(port: int, headers: bytes = b"") -> tuple[bytes, bytes]:
    """Send one request; return headers and body of the response."""
    async with connected(port) as (reader, writer):
        writer.write(b"GET %b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%b\r\n" % (PATH.encode(), headers))
        answer = await reader.read()
    head, _, body = answer.partition(b"\r\n\r\n")
    return head, body


async def rate(pid: int, port: int, headers: bytes, requests: int, at_once: int = 16) -> float:
    """Return requests per second of the server's CPU."""
    request = b"GET %b HTTP/1.1\r\nHost: x\r\n%b\r\n" % (PATH.encode(), headers)

    async def several(count: int) -> None:
        async with connected(port) as (reader, writer):
            for _ in range(count):
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                found = re.search(rb"(?i)content-length: (\d+)", head)
                if found and not head.startswith(b"HTTP/1.1 304"):
                    await reader.readexactly(int(found[1]))

    async with asyncio.timeout(DEADLINE):
        await several(100)
        begin = cpu(pid)
        await asyncio.gather(*(several(requests // at_once) for _ in range(at_once)))
        return requests // at_once * at_once / (cpu(pid) - begin)


def _own_headers(head: bytes) -> dict[str, str]:
    """Return the headers of a response without those that the server adds."""
    lines = (line.partition(": ") for line in head.decode().split("\r\n")[1:])
    return {name.lower(): value for name, _, value in lines if name.lower() not in ("date", "connection")}


def _etag(head: bytes) -> bytes:
    found = re.search(rb"(?i)etag: (\S+)", head)
    assert found is not None
    return found[1]


async def requests_per_cpu(folder: Path, requests: int, rounds: int) -> dict[str, dict[str, float]]:
    """Return server → 200s and 304s per CPU second. Servers take turns, so that disturbances hit all."""
    with contextlib.ExitStack() as stack:
        pid, port, _ = stack.enter_context(server(servers.ours, str(folder)))
        head, body = await ask(port)
        etag = _etag(head)
        there = {"headwater": (pid, port, etag)}
        bare, _ = await ask(port, b"If-None-Match: %b\r\n" % etag)
        assert bare.startswith(b"HTTP/1.1 304")
        pid, port, _ = stack.enter_context(server(servers.starlette, body, _own_headers(head), _own_headers(bare)))
        there["bare Starlette"] = (pid, port, etag)
        if servers.NGINX is not None:
            pid, port = stack.enter_context(servers.nginx(folder / "nginx", body))
            await asyncio.sleep(0.5)
            head, same = await ask(port)
            assert same == body
            there["nginx, a file"] = (pid, port, _etag(head))
        found: dict[str, dict[str, list[float]]] = {name: {"200": [], "304": []} for name in there}
        for _ in range(rounds):
            for name, (pid, port, tag) in there.items():
                found[name]["200"].append(await rate(pid, port, b"", requests))
                found[name]["304"].append(await rate(pid, port, b"If-None-Match: %b\r\n" % tag, requests))
    return {name: {kind: median(rates) for kind, rates in kinds.items()} for name, kinds in found.items()}


async def hold_idle_streams(folder: Path, wanted: int) -> tuple[int, float]:
    """Return how many live streams were held at once, and the server's bytes of memory for each."""
    room = servers.raise_limit() - 200
    number = min(wanted, room)
    request = b"GET /feeds/everything/live HTTP/1.1\r\nHost: x\r\n\r\n"
    with server(servers.ours, str(folder)) as (pid, port, _):
        await ask(port)
        writers = []
        held = 0

        async def hold() -> None:
            nonlocal held
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
            writers.append(writer)
            writer.write(request)
            await reader.readuntil(b"retry: 3000")
            held += 1

        async with asyncio.timeout(DEADLINE):
            await hold()
            before = memory(pid)
            for start in range(1, number, 100):
                await asyncio.gather(*(hold() for _ in range(start, min(start + 100, number))))
            await asyncio.sleep(1)
            grown = memory(pid) - before
        for writer in writers:
            writer.transport.abort()
        await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)
    return held, grown / max(held - 1, 1)


@asynccontextmanager
async def _receiver(arrived: dict[str, float]) -> AsyncIterator[str]:
    """Run a web hook that records when each probe arrives."""

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                found = re.search(rb"(?i)content-length: (\d+)", head)
                body = await reader.readexactly(int(found[1]) if found else 0)
                _note(arrived, body.decode())
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        writer.transport.abort()

    hook = await asyncio.start_server(take, "127.0.0.1", 0)
    async with hook:
        yield f"http://127.0.0.1:{hook.sockets[0].getsockname()[1]}/hook"


def _heard(line: Connection, seconds: float) -> Any:
    if not line.poll(seconds):
        raise TimeoutError("The node did not take the items in time.")
    return line.recv()


def _note(arrived: dict[str, float], text: str) -> None:
    for sent in _PROBE.findall(text):
        arrived.setdefault(sent, time.time())


async def _push(port: int, pushed: set[str], seconds: float) -> None:
    """Send ten signed pushes a second, each a document with one probe."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sent = f"{time.time():.6f}"
        body = (
            '<rss version="2.0"><channel><title>Pushed</title>'
            f"<item><title>probe {sent}</title><guid>urn:push:{sent}</guid></item></channel></rss>"
        ).encode()
        pushed.add(sent)
        digest = hmac.new(servers.SECRET.encode(), body, "sha256").hexdigest()
        async with connected(port) as (reader, writer):
            writer.write(
                f"POST /push/{servers.KEY} HTTP/1.1\r\nHost: x\r\nContent-Type: application/rss+xml\r\n"
                f"X-Hub-Signature: sha256={digest}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                + body
            )
            head = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head[:20]:
            raise RuntimeError(f"The push was not taken: {head[:40]!r}.")
        await asyncio.sleep(0.1)


async def measure_delays(folder: Path, per_second: int, seconds: float) -> tuple[float, float, dict[str, list[float]]]:
    """Measure delays under load.

    Returns the items per second that came in, the CPU seconds per thousand of them, and the seconds from fetch to feed,
    live stream and web hook, and from push to feed.
    """
    feed: dict[str, float] = {}
    live: dict[str, float] = {}
    hook: dict[str, float] = {}
    pushed: set[str] = set()

    async def watch_feed(port: int) -> None:
        etag = b"x"
        async with connected(port) as (reader, writer):
            while True:
                writer.write(b"GET /feeds/probes.json HTTP/1.1\r\nHost: x\r\nIf-None-Match: %b\r\n\r\n" % etag)
                head = await reader.readuntil(b"\r\n\r\n")
                found = re.search(rb"(?i)content-length: (\d+)", head)
                if found and b" 304 " not in head[:20]:
                    _note(feed, (await reader.readexactly(int(found[1]))).decode())
                    etag = _etag(head) if b"etag" in head else etag
                await asyncio.sleep(0.02)

    async def watch_live(port: int) -> None:
        async with connected(port) as (reader, writer):
            writer.write(b"GET /feeds/probes/live HTTP/1.1\r\nHost: x\r\n\r\n")
            while line := await reader.readline():
                _note(live, line.decode())

    async with _receiver(hook) as address:
        with server(servers.busy_node, str(folder), address, per_second, seconds) as (_, port, line):
            watching = [asyncio.create_task(watch_feed(port)), asyncio.create_task(watch_live(port))]
            await asyncio.sleep(1)
            line.send("go")
            async with asyncio.timeout(DEADLINE + 3 * seconds):
                (rate, worked), _ = await asyncio.gather(
                    asyncio.to_thread(_heard, line, DEADLINE + seconds), _push(port, pushed, seconds)
                )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(15):
                    while True:  # the last items are still on their way
                        if len(hook) >= len(live) >= per_second // 100 * seconds + len(pushed):
                            break
                        await asyncio.sleep(0.1)
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)
    came = {"feed": feed, "live stream": live, "web hook": hook}
    waits = {name: [at - float(sent) for sent, at in one.items() if sent not in pushed] for name, one in came.items()}
    return rate, worked, waits | {"feed, pushed": [at - float(sent) for sent, at in feed.items() if sent in pushed]}


def main(small: bool) -> dict[str, Any]:
    """Print and return all figures."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as place:
        folder = Path(place)
        for name in ("one", "two", "three"):
            (folder / name).mkdir()
        rates = asyncio.run(requests_per_cpu(folder / "one", 400 if small else 6_000, 1 if small else 5))
        found["rates"] = rates
        base = rates["bare Starlette"]
        print("A cached feed, requests per CPU second of the server (beside bare Starlette):")
        for name, kinds in rates.items():
            shown = "   ".join(f"{kind} {of:8,.0f} ({of / base[kind]:.2f})" for kind, of in kinds.items())
            print(f"  {name:16} {shown}")
        if "nginx, a file" not in rates:
            print("  nginx is not installed: no column for it")
        wanted = 200 if small else 10_000
        held, each = asyncio.run(hold_idle_streams(folder / "two", wanted))
        found |= {"held": held, "bytes_each": each}
        short = "" if held >= wanted else f" (of {wanted:,}: the limit of open files forbids more)"
        print(f"Idle live streams held: {held:,}{short}, {each / 1024:.1f} kB of the server's memory for each")
        speed, worked, waits = asyncio.run(measure_delays(folder / "three", *((400, 2) if small else (1_000, 20))))
        found |= {"items_per_second": speed, "cpu_per_thousand": worked, "delays": waits}
        print(
            f"From fetch, at {speed:,.0f} items per second taking {worked:.2f} CPU seconds per thousand "
            "(every hundredth is watched):"
        )
        for name, seconds in waits.items():
            if len(seconds) < 2:
                print(f"  to the {name:13} nothing came")
                continue
            p99 = quantiles(seconds, n=100)[98]
            print(
                f"  to the {name:13} median {median(seconds) * 1000:6.0f} ms, p99 {p99 * 1000:6.0f} ms ({len(seconds)})"
            )
    return found


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--small", action="store_true", help="a size for tests")
    options.add_argument("--json", action="store_true", help="as JSON")
    given = options.parse_args()
    result = main(given.small)
    if given.json:
        print(json.dumps(result))
