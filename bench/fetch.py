"""Measures requests per CPU second of the fetcher beside a bare aiohttp GET of the same responses.

The server is a process of its own that writes prepared bytes; only this process is measured. "Bare" is one session, one
`session.get` and one `read`, with nothing checked, kept or parsed. The fetcher runs without reading the document (a
`read` that returns at once), because `bench.read` measures that.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from multiprocessing.connection import Connection
from statistics import median

import aiohttp
import uvloop

from headwater.fetch.client import Fetcher
from headwater.model import Document, Markup, Validators

ITEM = b"<item><guid>%d</guid><title>Something happened</title><description>" + b"x" * 400 + b"</description></item>"
BODY = b'<rss version="2.0"><channel>' + b"".join(ITEM % n for n in range(20)) + b"</channel></rss>"
HEADERS = b'ETag: "abc"\r\nLast-Modified: Sun, 15 Nov 2026 00:00:00 GMT\r\nCache-Control: max-age=600\r\nServer: x\r\n'
FULL = b"HTTP/1.1 200 OK\r\n%bContent-Type: text/xml\r\nContent-Length: %d\r\n\r\n%b" % (HEADERS, len(BODY), BODY)
UNCHANGED = b"HTTP/1.1 304 Not Modified\r\n%b\r\n" % HEADERS


class _Answers(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(UNCHANGED if b"If-None-Match" in data else FULL)  # type: ignore[attr-defined]


def _serve(port: Connection) -> None:
    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(_Answers, "127.0.0.1", 0)
        port.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(main())


def _no_reading(body: bytes, url: str | None, headers: Mapping[str, str] | None) -> Document[Markup]:
    return Document("rss 2.0")


async def _rate(one: Callable[[], Awaitable[object]], requests: int, at_once: int = 16) -> float:
    """Return requests per CPU second with `at_once` concurrent requests."""

    async def several(count: int) -> None:
        for _ in range(count):
            await one()

    await several(50)
    begin = time.process_time()
    await asyncio.gather(*(several(requests // at_once) for _ in range(at_once)))
    return (requests // at_once * at_once) / (time.process_time() - begin)


async def measure(port: int, requests: int, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Return name → (bare aiohttp, fetcher) of each round. Both take turns, so that a busy machine slows both."""
    url = f"http://127.0.0.1:{port}/feed"
    kept = Validators('"abc"', "Sun, 15 Nov 2026 00:00:00 GMT")
    sent = {"If-None-Match": '"abc"', "If-Modified-Since": "Sun, 15 Nov 2026 00:00:00 GMT"}
    pairs: dict[str, list[tuple[float, float]]] = {"200": [], "304": []}
    async with (
        aiohttp.ClientSession() as session,
        Fetcher(allow_private=True, contact=None, per_host=64, read=_no_reading) as fetcher,
    ):

        async def bare(headers: dict[str, str]) -> None:
            async with session.get(url, headers=headers) as response:
                await response.read()

        for _ in range(rounds):
            for name, headers, validators in (("200", {}, None), ("304", sent, kept)):
                pair = (
                    await _rate(partial(bare, headers), requests),
                    await _rate(partial(fetcher.fetch, url, validators), requests),
                )
                pairs[name].append(pair)
    return pairs


def main(small: bool = False) -> dict[str, float]:
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    server = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs,), daemon=True)
    server.start()
    try:
        pairs = uvloop.run(measure(ours.recv(), *((320, 1) if small else (2400, 9))))
    finally:
        server.terminate()
        server.join()
    print("requests per CPU second (best round) and the median of the rounds' ratios; uvloop, keep-alive, 10 kB")
    print(f"{'':6}{'bare aiohttp':>14}{'Fetcher':>10}{'ratio':>8}")
    ratios = {name: median(mine / bare for bare, mine in rounds) for name, rounds in pairs.items()}
    for name, rounds in pairs.items():
        bare, mine = (max(column) for column in zip(*rounds, strict=True))
        print(f"{name:6}{bare:14,.0f}{mine:10,.0f}{ratios[name]:8.2f}")
    return ratios


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true")
    main(parser.parse_args().small)
