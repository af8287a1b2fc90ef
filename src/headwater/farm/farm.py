"""Serves feeds drawn from a seed, for tests, benchmarks and the demo."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from email.utils import formatdate
from typing import Self

import orjson

from headwater.errors import InputError, NotFound
from headwater.farm import farm_pages
from headwater.farm.farm_documents import FarmItem, item_identity
from headwater.farm.farm_feed import BodyCache, FarmFeed
from headwater.farm.farm_pages import LoggedRequest, RequestLog
from headwater.farm.faults import Fault, FaultCase, answer_wrongly
from headwater.farm.http_protocol import FarmListener, FarmRequest, FarmResponse, make_response
from headwater.farm.timeline import FORMATS, RATES, FarmClock, FarmProfile, check_rates, make_profile

CACHE_BYTES = 128 << 20


class Farm:
    """An HTTP server with `feeds` feeds whose content is a function of seed, feed and time.

    `async with Farm(feeds=5, seed=1, speed=1000) as farm:` serves until the block ends. `farm.url(k)` is the address of
    feed k, `farm.published_items(k)` its items since the start. `farm.advance(seconds)` moves the clock,
    `farm.faults[k] = Fault("503")` makes a feed misbehave from now on, and `farm.log` lists the requests. `clock`
    returns the wall time; a constant one stops time between two advances. A farm with the `started` of an earlier farm
    continues it. `windows` are the sizes of single feeds' documents, where they differ from `window`. With `deltas` a
    client that asks by `A-IM: feed` gets new items only (RFC 3229).
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
        windows: Mapping[int, int] | None = None,
        deltas: bool = False,
    ) -> None:
        _check_settings(feeds, speed, window, hosts, host, format)
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
        self.clock = FarmClock(clock, speed, started)
        self.faults: dict[int, Fault] = dict(faults or {})
        self.windows = dict(windows or {})
        self.deltas = deltas
        self.log = RequestLog(log_size)
        self.asked: Counter[int] = Counter()  # feed with a fault → number of requests so far
        self._hints = hints
        self._farm_feeds: dict[int, FarmFeed] = {}
        self._bodies = BodyCache(CACHE_BYTES)
        self._date = (0, b"")
        self._listener: FarmListener | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen on every address. With port 0, the first address picks the port for all."""
        self._listener = FarmListener(self)
        self.port = await self._listener.start([self.host_address(number) for number in range(self.hosts)], self.port)

    async def stop(self) -> None:
        """Stop listening and end every connection."""
        if self._listener is not None:
            await self._listener.stop()

    def answer_request(self, request: FarmRequest) -> FarmResponse:
        request.arrived = self.clock.wall_time()
        self.log.begin_request(request.host)
        if request.method == b"POST" and request.target == "/hook":
            return make_response(204)  # a web hook that accepts every delivery
        if request.method not in (b"GET", b"HEAD"):
            return make_response(405, b"", ("Allow", "GET, HEAD"))
        answer = self._route(request)
        if self.latency:
            answer.wait += self.latency
        return answer

    def finish_request(self, request: FarmRequest, answer: FarmResponse) -> None:
        line = LoggedRequest(
            request.arrived, self.clock.wall_time(), request.method.decode("latin-1"), request.target, request.feed,
            answer.status, request.host, request.peer,
        )  # fmt: skip
        self.log.end_request(line)

    def _route(self, request: FarmRequest) -> FarmResponse:
        target = request.target
        if target.startswith("/feeds/") and (name := target[7:].partition("?")[0]).isdecimal():
            feed = int(name[:12])
            if feed < self.feeds:
                request.feed = feed
                return self._answer_feed(feed, request)
        return self._answer_page(request)

    def _answer_feed(self, feed: int, request: FarmRequest) -> FarmResponse:
        fault = self.faults.get(feed) if self.faults else None
        if fault is not None:
            earlier = self.asked[feed]
            self.asked[feed] += 1
            if fault.is_active(earlier):
                source = self.get_feed(feed)
                case = FaultCase(
                    feed,
                    earlier,
                    self.base_url(feed),
                    lambda: self.answer_correctly(feed, request),
                    source.make_document,
                )
                return answer_wrongly(fault, case)
        return self.answer_correctly(feed, request)

    def _answer_page(self, request: FarmRequest) -> FarmResponse:
        try:
            return farm_pages.answer_page(self, request)
        except (NotFound, ValueError) as error:
            return make_response(404, f"{error}\n".encode(), ("Content-Type", "text/plain; charset=utf-8"))

    def start_event(self) -> bytes:
        """Return the line that `--json` prints when the farm listens."""
        line = {
            "event": "listening", "url": self.base_url(), "opml": f"{self.base_url()}/opml", "host": self.host,
            "port": self.port, "hosts": self.hosts, "feeds": self.feeds, "seed": self.seed,
            "speed": self.clock.speed, "window": self.window, "started": self.clock.started,
            "faults": len(self.faults),
        }  # fmt: skip
        return orjson.dumps(line)

    def host_address(self, number: int) -> str:
        """Return the IP address of host `number`."""
        if number == 0:
            return self.host
        return f"127.0.{number // 250}.{number % 250 + 1}"

    def base_url(self, feed: int = 0) -> str:
        return f"http://{self.host_address(feed % self.hosts)}:{self.port}"

    def url(self, feed: int) -> str:
        """Return the address of feed `feed`."""
        return f"{self.base_url(feed)}/feeds/{feed}"

    @property
    def urls(self) -> list[str]:
        return [self.url(feed) for feed in range(self.feeds)]

    def advance(self, seconds: float) -> None:
        """Move the clock forward by `seconds` of wall time."""
        self.clock.advance(seconds)

    def feed_profile(self, feed: int) -> FarmProfile:
        profile = make_profile(self.seed, feed, self.rates, self.format)
        return profile if self._hints else replace(profile, hints="none")

    def published_items(self, feed: int, since: float | None = None, until: float | None = None) -> list[FarmItem]:
        """Return the items that a feed published in [since, until); by default from the start until now."""
        clock, source = self.clock, self.get_feed(feed)
        start = clock.origin if since is None else clock.to_farm_time(since)
        end = clock.farm_time() if until is None else clock.to_farm_time(until)
        return [source.make_item(posting) for posting in source.timeline.postings_between(start, end)]

    def shown_items(self, feed: int) -> list[FarmItem]:
        """Return the items in the feed's window now, newest first."""
        source = self.get_feed(feed)
        return [source.make_item(posting) for posting in source.current_state().postings]

    def item_identity(self, feed: int, number: int) -> str:
        """Return the identity (guid) of an item."""
        return item_identity(self.seed, feed, number)

    def collect_stats(self) -> dict[str, object]:
        """Return the figures from which completeness can be computed: published items by feed, requests, clocks."""
        now = self.clock.farm_time()
        counts = [len(self.get_feed(k).timeline.postings_between(self.clock.origin, now)) for k in range(self.feeds)]
        return {
            "seed": self.seed, "feeds": self.feeds, "window": self.window, "speed": self.clock.speed,
            "rates": self.rates, "started": self.clock.started, "now": self.clock.wall_time(),
            "farm_time": now, "farm_time_at_start": self.clock.origin,
            "requests": sum(self.log.statuses.values()), "statuses": dict(self.log.statuses),
            "most_at_once": self.log.most_at_once,
            "published": sum(counts), "published_by_feed": counts,
        }  # fmt: skip

    def answer_correctly(self, feed: int, request: FarmRequest) -> FarmResponse:
        """Return the feed's response without faults."""
        return self.get_feed(feed).answer_request(request, self._date_header())

    def find_item(self, feed: int, number: int) -> FarmItem:
        """Return a published item. Raises NotFound."""
        source = self.get_feed(self._check_feed(feed))
        posting = source.timeline.find_posting(number)
        if posting is None or posting.at > self.clock.farm_time():
            raise NotFound(f"Feed {feed} has no item {number} yet.")
        return source.make_item(posting)

    def _check_feed(self, feed: int) -> int:
        if not 0 <= feed < self.feeds:
            raise NotFound(f"The farm has no feed {feed}. Its feeds are 0 to {self.feeds - 1}.")
        return feed

    def prepare_documents(self) -> None:
        """Render every document now, so that a first request costs as much as a second one."""
        gzip = {b"accept-encoding": b"gzip"}
        for feed in range(self.feeds):
            self.answer_correctly(feed, FarmRequest(b"GET", f"/feeds/{feed}", gzip, "", ""))

    def get_feed(self, feed: int) -> FarmFeed:
        source = self._farm_feeds.get(feed)
        if source is None:
            profile = self.feed_profile(self._check_feed(feed))
            source = self._farm_feeds[feed] = FarmFeed(
                profile,
                self.seed,
                self.clock,
                self.windows.get(feed, self.window),
                self.base_url(feed),
                self._bodies,
                self.deltas,
            )
        return source

    def _date_header(self) -> bytes:
        second = int(self.clock.wall_time())
        if second != self._date[0]:
            self._date = (second, formatdate(second, usegmt=True).encode())
        return self._date[1]


def _check_settings(feeds: int, speed: float, window: int, hosts: int, host: str, format: str | None) -> None:
    if feeds < 1 or window < 1:
        raise InputError(f"A farm needs at least 1 feed and a window of at least 1 item, not {feeds} and {window}.")
    if not 0 < speed < 1e9:
        raise InputError(f"Speed must be above 0, not {speed:g}.")
    if not 1 <= hosts <= 60_000 or (hosts > 1 and not host.startswith("127.0.0.")):
        raise InputError(f"{hosts} hosts need addresses of 127.0.0.0/16 (at most 60,000 hosts), not {host}.")
    if format is not None and format not in FORMATS:
        raise InputError(f"Format must be one of {', '.join(FORMATS)}, not “{format}”.")
