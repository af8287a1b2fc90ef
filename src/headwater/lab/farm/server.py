"""The feed farm as a running server, for tests, benchmarks and the demo."""

from __future__ import annotations

from typing import Self

import orjson

from headwater.errors import NotFound
from headwater.lab.farm import pages
from headwater.lab.farm.faults import Case, misbehave
from headwater.lab.farm.fields import Fields
from headwater.lab.farm.http import Answer, Request, compose
from headwater.lab.farm.listener import Listener
from headwater.lab.farm.log import Line


class Farm(Fields):
    """A real HTTP server with `feeds` feeds whose content is a function of `seed`, feed and time.

    `async with Farm(feeds=5, seed=1, speed=1000) as farm:` serves until the block ends; `farm.url(k)` is the address of
    feed k, `farm.published(k)` what it has published since the start, `farm.advance(seconds)` lets time pass at once,
    `farm.faults[k] = Fault("503")` makes a feed misbehave from now on, `farm.log` tells what was asked. `clock` gives
    the wall time, and a function that returns a constant makes time stand still between two advances. A farm given the
    `started` of an earlier one goes on as if it had never stopped.
    """

    _listener: Listener | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen on every address; with port 0 the first one picks the port for all."""
        self._listener = Listener(self)
        self.port = await self._listener.start([self.address(number) for number in range(self.hosts)], self.port)

    async def stop(self) -> None:
        """Stop listening and end every connection."""
        if self._listener is not None:
            await self._listener.stop()

    def answer(self, request: Request) -> Answer:
        request.arrived = self.clock.wall()
        self.log.begin(request.host)
        if request.method not in (b"GET", b"HEAD"):
            return compose(405, b"", ("Allow", "GET, HEAD"))
        answer = self._routed(request)
        if self.latency:
            answer.wait += self.latency
        return answer

    def over(self, request: Request, answer: Answer) -> None:
        line = Line(
            request.arrived, self.clock.wall(), request.method.decode("latin-1"), request.target, request.feed,
            answer.status, request.host, request.peer,
        )  # fmt: skip
        self.log.end(line)

    def _routed(self, request: Request) -> Answer:
        target = request.target
        if target.startswith("/feeds/") and (name := target[7:].partition("?")[0]).isdecimal():
            feed = int(name[:12])
            if feed < self.feeds:
                request.feed = feed
                return self._feed(feed, request)
        return self._page(request)

    def _feed(self, feed: int, request: Request) -> Answer:
        fault = self.faults.get(feed) if self.faults else None
        if fault is not None:
            asked = self.asked[feed]
            self.asked[feed] += 1
            if fault.active(asked):
                source = self.source(feed)
                case = Case(feed, asked, self.base(feed), lambda: self.ordinary(feed, request), source.document)
                return misbehave(fault, case)
        return self.ordinary(feed, request)

    def _page(self, request: Request) -> Answer:
        try:
            return pages.answer(self, request)
        except (NotFound, ValueError) as error:
            return compose(404, f"{error}\n".encode(), ("Content-Type", "text/plain; charset=utf-8"))

    def start_line(self) -> bytes:
        """What `--json` prints when the farm listens."""
        line = {
            "event": "listening", "url": self.base(), "opml": f"{self.base()}/opml", "host": self.host,
            "port": self.port, "hosts": self.hosts, "feeds": self.feeds, "seed": self.seed,
            "speed": self.clock.speed, "window": self.window, "started": self.clock.started,
            "faults": len(self.faults),
        }  # fmt: skip
        return orjson.dumps(line)
