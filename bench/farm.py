"""Measures the requests that a farm answers per second of its CPU, beside a bare asyncio protocol with constant bytes.

The bare protocol is the limit: it parses nothing and decides nothing. Both run alone in a process of their own, under
the same event loop, and get the same conditional requests over the same number of connections. Only the server's CPU
time counts. Run: `python -m bench.farm [--small]`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import psutil
import uvloop

ROOT = Path(__file__).resolve().parent.parent
CONNECTIONS = 32
Done = asyncio.Future[None]


class BareProtocol(asyncio.Protocol):
    """Answers any request with the same bytes."""

    ANSWER = b'HTTP/1.1 304 Not Modified\r\nETag: "constant"\r\n\r\n'

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(self.ANSWER)  # type: ignore[attr-defined]


async def serve_bare() -> None:
    server = await asyncio.get_running_loop().create_server(BareProtocol, "127.0.0.1", 0)
    print(orjson.dumps({"port": server.sockets[0].getsockname()[1]}).decode(), flush=True)
    await server.serve_forever()


@contextlib.contextmanager
def server(*command: str) -> Iterator[tuple[int, psutil.Process]]:
    process = subprocess.Popen([sys.executable, "-m", *command], stdout=subprocess.PIPE, cwd=ROOT)
    try:
        assert process.stdout is not None
        yield orjson.loads(process.stdout.readline())["port"], psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


class FarmClient(asyncio.Protocol):
    """A client of one connection that sends the next request after each response."""

    def __init__(self, requests: Iterator[tuple[int, bytes]], known: dict[int, bytes], done: Done) -> None:
        self._requests = requests
        self._known = known
        self._done = done
        self._buffer = b""
        self._asked = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._next()

    def _next(self) -> None:
        request = next(self._requests, None)
        if request is None:
            self._transport.close()
            self._done.set_result(None)
            return
        self._asked, data = request
        self._transport.write(data)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, body = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        lines = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
        if len(body) < int(lines.get(b"Content-Length", b"0")):
            return
        self._buffer = b""
        if self._asked not in self._known:
            names = ((b"ETag", b"If-None-Match"), (b"Last-Modified", b"If-Modified-Since"))
            given = [b"%b: %b\r\n" % (ask, lines[told]) for told, ask in names if told in lines]
            self._known[self._asked] = b"".join(given)
        self._next()


async def ask(port: int, feeds: int, rounds: int, known: dict[int, bytes]) -> None:
    """Request every feed `rounds` times with the validators in `known`, and store the returned ones there."""
    head = (
        b"GET /feeds/%d HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUser-Agent: Headwater/1 (+https://example.org)\r\n"
        b"Accept: application/atom+xml, application/rss+xml, */*;q=.1\r\nAccept-Encoding: gzip, br\r\n%b\r\n"
    )
    wanted = (feed for _ in range(rounds) for feed in range(feeds))
    shared = ((feed, head % (feed, port, known.get(feed, b""))) for feed in wanted)
    loop = asyncio.get_running_loop()
    ends = [loop.create_future() for _ in range(CONNECTIONS)]
    for end in ends:
        await loop.create_connection(functools.partial(FarmClient, shared, known, end), "127.0.0.1", port)
    await asyncio.gather(*ends)


@dataclass(frozen=True)
class Measured:
    cpu: float
    requests: int

    @property
    def rate(self) -> float:
        return self.requests / self.cpu


async def measured(port: int, process: psutil.Process, feeds: int, rounds: int, known: dict[int, bytes]) -> Measured:
    before = process.cpu_times()
    await ask(port, feeds, rounds, known)
    after = process.cpu_times()
    cpu = after.user + after.system - before.user - before.system
    return Measured(max(cpu, 0.01), feeds * rounds)  # the kernel counts in hundredths of a second


def main(small: bool) -> dict[str, float]:
    feeds, rounds = (100, 100) if small else (10_000, 20)
    with server("bench.farm", "--bare") as (port, process):
        bare = uvloop.run(measured(port, process, feeds, rounds, {}))
    with server("headwater", "farm", "--feeds", str(feeds), "--port", "0", "--json") as (port, process):
        known: dict[int, bytes] = {}
        first = uvloop.run(measured(port, process, feeds, 1, known))
        whole = uvloop.run(measured(port, process, feeds, rounds, dict.fromkeys(known, b"")))
        unchanged = uvloop.run(measured(port, process, feeds, rounds, known))
        memory = process.memory_info().rss / 2**20
    figures = {
        "bare protocol, constant bytes": bare.rate,
        "farm, 304": unchanged.rate,
        "farm, 200, document there": whole.rate,
        "farm, 200, document made": first.rate,
    }
    print(f"{feeds} feeds; requests per second of the server's CPU, and as a share of the limit:")
    for name, rate in figures.items():
        print(f"  {name:30} {rate:10,.0f}  {rate / bare.rate:.3f}")
    print(f"  memory of the farm: {memory:.0f} MiB")
    return figures


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--small", action="store_true", help="a size for tests")
    options.add_argument("--bare", action="store_true", help="be the bare protocol, until killed")
    given = options.parse_args()
    if given.bare:
        uvloop.run(serve_bare())
    else:
        main(given.small)
