"""The feed farm as a running server, for tests, benchmarks and the demo."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from email.utils import formatdate
from typing import Self

import orjson

from headwater.errors import InputError, NotFound
from headwater.lab.farm import pages
from headwater.lab.farm.clock import Clock
from headwater.lab.farm.documents import Piece, identity
from headwater.lab.farm.faults import Case, Fault, misbehave
from headwater.lab.farm.http import Answer, Request, compose
from headwater.lab.farm.listener import Listener
from headwater.lab.farm.log import Line, Log
from headwater.lab.farm.source import Shelf, Source
from headwater.lab.farm.world import FORMATS, RATES, Profile, check_rates, profile

SHELF = 128 << 20


class Farm:
    """A real HTTP server with `feeds` feeds whose content is a function of `seed`, feed and time.

    `async with Farm(feeds=5, seed=1, speed=1000) as farm:` serves until the block ends; `farm.url(k)` is the address of
    feed k, `farm.published(k)` what it has published since the start, `farm.advance(seconds)` lets time pass at once,
    `farm.faults[k] = Fault("503")` makes a feed misbehave from now on, `farm.log` tells what was asked. `clock` gives
    the wall time, and a function that returns a constant makes time stand still between two advances. A farm given the
    `started` of an earlier one goes on as if it had never stopped.
    """

    def __init__(
        self,
        feeds: int = 10,
        seed: int = 1,
        speed: float = 1.0,
        window: int = 20,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        hosts: int = 1,
        faults: Mapping[int, Fault] | None = None,
        rates: tuple[float, float] = RATES,
        format: str | None = None,
        hints: bool = True,
        latency: float = 0.0,
        clock: Callable[[], float] = time.time,
        started: float | None = None,
        log_size: int = 100_000,
    ) -> None:
        _check(feeds, speed, window, hosts, host, format)
        check_rates(rates)
        self.feeds = feeds
        self.seed = seed
        self.window = window
        self.host = host
        self.hosts = hosts
        self.port = port
        self.rates = rates
        self.format = format
        self.latency = latency
        self.clock = Clock(clock, speed, started)
        self.faults: dict[int, Fault] = dict(faults or {})
        self.log = Log(log_size)
        self.asked: Counter[int] = Counter()  # requests for feeds with faults
        self._hints = hints
        self._sources: dict[int, Source] = {}
        self._shelf = Shelf(SHELF)
        self._date = (0, b"")
        self._listener: Listener | None = None

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

    def address(self, number: int) -> str:
        """The address that stands for host `number`."""
        if number == 0:
            return self.host
        return f"127.0.{number // 250}.{number % 250 + 1}"

    def base(self, feed: int = 0) -> str:
        return f"http://{self.address(feed % self.hosts)}:{self.port}"

    def url(self, feed: int) -> str:
        """Where feed `feed` is listed."""
        return f"{self.base(feed)}/feeds/{feed}"

    @property
    def urls(self) -> list[str]:
        return [self.url(feed) for feed in range(self.feeds)]

    def advance(self, seconds: float) -> None:
        """Let `seconds` of the wall clock pass at once."""
        self.clock.advance(seconds)

    def profile(self, feed: int) -> Profile:
        made = profile(self.seed, feed, self.rates, self.format)
        return made if self._hints else replace(made, hints="none")

    def published(self, feed: int, since: float | None = None, until: float | None = None) -> list[Piece]:
        """The items of a feed dated in [since, until): by default all since the farm's start, until now."""
        clock, source = self.clock, self.source(feed)
        start = clock.origin if since is None else clock.farm(since)
        end = clock.now() if until is None else clock.farm(until)
        return [source.piece(posting) for posting in source.timeline.between(start, end)]

    def shown(self, feed: int) -> list[Piece]:
        """The items in the feed's window now, newest first."""
        source = self.source(feed)
        return [source.piece(posting) for posting in source.state().postings]

    def identity(self, feed: int, number: int) -> str:
        """What the item of that number is called."""
        return identity(self.seed, feed, number)

    def stats(self) -> dict[str, object]:
        """Everything needed to compute completeness from outside: what was published since the start, feed by feed."""
        now = self.clock.now()
        counts = [len(self.source(k).timeline.between(self.clock.origin, now)) for k in range(self.feeds)]
        return {
            "seed": self.seed, "feeds": self.feeds, "window": self.window, "speed": self.clock.speed,
            "rates": self.rates, "started": self.clock.started, "now": self.clock.wall(),
            "farm_time": now, "farm_time_at_start": self.clock.origin,
            "requests": sum(self.log.statuses.values()), "statuses": dict(self.log.statuses),
            "most_at_once": self.log.most_at_once,
            "published": sum(counts), "published_by_feed": counts,
        }  # fmt: skip

    def ordinary(self, feed: int, request: Request) -> Answer:
        """What a feed answers when nothing is wrong with it."""
        return self.source(feed).answer(request, self._date_header())

    def piece(self, feed: int, number: int) -> Piece:
        """The item of that number, if it is published already."""
        source = self.source(self._known(feed))
        posting = source.timeline.posting(number)
        if posting is None or posting.at > self.clock.now():
            raise NotFound(f"Feed {feed} has no item {number} yet.")
        return source.piece(posting)

    def _known(self, feed: int) -> int:
        if not 0 <= feed < self.feeds:
            raise NotFound(f"The farm has no feed {feed}: its feeds are 0 to {self.feeds - 1}.")
        return feed

    def prepare(self) -> None:
        """Make every document now, so that the first request for it costs no more than the second."""
        gzip = {b"accept-encoding": b"gzip"}
        for feed in range(self.feeds):
            self.ordinary(feed, Request(b"GET", f"/feeds/{feed}", gzip, "", ""))

    def source(self, feed: int) -> Source:
        source = self._sources.get(feed)
        if source is None:
            character = self.profile(self._known(feed))
            source = self._sources[feed] = Source(
                character, self.seed, self.clock, self.window, self.base(feed), self._shelf
            )
        return source

    def _date_header(self) -> bytes:
        second = int(self.clock.wall())
        if second != self._date[0]:
            self._date = (second, formatdate(second, usegmt=True).encode())
        return self._date[1]


def _check(feeds: int, speed: float, window: int, hosts: int, host: str, format: str | None) -> None:
    if feeds < 1 or window < 1:
        raise InputError(f"A farm needs at least 1 feed and a window of at least 1 item, not {feeds} and {window}.")
    if not 0 < speed < 1e9:
        raise InputError(f"The farm cannot run at speed {speed:g}: give a number above 0.")
    if not 1 <= hosts <= 60_000 or (hosts > 1 and not host.startswith("127.0.0.")):
        raise InputError(f"The farm cannot spread over {hosts} hosts from {host}: it has 127.0.0.1 and those after it.")
    if format is not None and format not in FORMATS:
        raise InputError(f"The farm does not write “{format}”; it writes {', '.join(FORMATS)}.")
