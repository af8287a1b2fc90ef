"""Serves the farm's other pages: front page, OPML, articles, pictures, request log, and the published items."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterator
from html import escape
from itertools import islice, repeat
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qs

import orjson

from headwater.errors import NotFound
from headwater.farm.farm_documents import TYPES, write_html, write_opml
from headwater.farm.http_protocol import FarmRequest, FarmResponse, make_response

if TYPE_CHECKING:
    from headwater.farm.farm import Farm

HTML = ("Content-Type", "text/html; charset=utf-8")
CHUNK = bytes(16_384)


def answer_page(farm: Farm, request: FarmRequest) -> FarmResponse:
    """Return the page at the request's path. Raises NotFound."""
    path, _, query = request.target.partition("?")
    for pattern, page in _PAGES:
        if match := pattern.fullmatch(path):
            return page(farm, request, tuple(int(part) for part in match.groups()), parse_qs(query))
    raise NotFound(f"Nothing is served at {path}. The feeds are listed at /opml.")


Numbers = tuple[int, ...]
Query = dict[str, list[str]]


def _show_front_page(farm: Farm, request: FarmRequest, numbers: Numbers, query: Query) -> FarmResponse:
    speed = farm.clock.speed
    rows = "".join(
        f'<tr><td><a href="{farm.url(k)}.html">{k}</a></td><td>{escape(p.title)}</td><td>{p.format}</td>'
        f"<td>{p.shape}</td><td>{p.rate * 86_400:.2f}</td><td>{p.hints}</td>"
        f"<td>{farm.faults[k].kind if k in farm.faults else ''}</td></tr>"
        for k, p in ((k, farm.feed_profile(k)) for k in range(min(farm.feeds, 100)))
    )
    body = (
        f"<p>This is a feed farm: {farm.feeds} feeds that publish by seed {farm.seed}, {speed:g} times as fast as "
        f"real ones, {farm.window} items at a time. <a href='/opml'>/opml</a> lists all feeds, "
        "<a href='/stats'>/stats</a> and /truth/FEED the published items, <a href='/log'>/log</a> the requests."
        "</p><table><tr><th>feed</th><th>title</th><th>format</th><th>shape</th><th>items a farm day</th><th>hints</th>"
        f"<th>fault</th></tr>{rows}</table>"
    )
    links = ((TYPES[farm.feed_profile(k).format], farm.url(k)) for k in range(min(farm.feeds, 5)))
    return make_response(200, write_html("Headwater feed farm", body, links), HTML)


def _show_opml(farm: Farm, request: FarmRequest, numbers: Numbers, query: Query) -> FarmResponse:
    feeds = ((farm.url(k), farm.feed_profile(k)) for k in range(farm.feeds))
    return make_response(200, write_opml(feeds), ("Content-Type", "text/x-opml; charset=utf-8"))


def _show_feed_page(farm: Farm, request: FarmRequest, numbers: Numbers, query: Query) -> FarmResponse:
    (feed,) = numbers
    pieces = farm.shown_items(feed)
    profile = farm.feed_profile(feed)
    rows = "".join(f'<li><a href="/items/{feed}/{p.number}">{escape(p.text.title)}</a></li>' for p in pieces)
    link = (TYPES[profile.format], f"/feeds/{feed}")
    return make_response(200, write_html(profile.title, f"<ul>{rows}</ul>", [link]), HTML)


def _show_moved_feed(farm: Farm, request: FarmRequest, numbers: Numbers, query: Query) -> FarmResponse:
    """Return the feed at its new address, without faults."""
    (request.feed,) = numbers
    return farm.answer_correctly(numbers[0], request)


def _redirect_on(farm: Farm, request: FarmRequest, numbers: Numbers, query: Query) -> FarmResponse:
    feed, left = numbers
    there = f"/hops/{feed}/{left - 1}" if left > 0 else f"/moved/{feed}"
    return make_response(302, b"", ("Location", farm.base_url(feed) + there))


def _show_article(farm: Farm, request: FarmRequest, numbers: Numbers, query: Query) -> FarmResponse:
    feed, number = numbers
    text = farm.find_item(feed, number).text
    body = f"<article>{text.content}<p>By the {text.author.lower()}.</p></article>"
    return make_response(
        200, write_html(text.title, body, [(TYPES[farm.feed_profile(feed).format], f"/feeds/{feed}")]), HTML
    )


def _show_picture(farm: Farm, request: FarmRequest, numbers: Numbers, query: Query) -> FarmResponse:
    hue = farm.find_item(*numbers).number * 47 % 360
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 80 45"><rect width="80" height="45" '
        f'fill="hsl({hue} 50% 30%)"/><path d="M10 45 38 12 48 24 56 16 76 45z" fill="hsl({hue} 60% 60%)"/></svg>'
    )
    return make_response(200, svg.encode(), ("Content-Type", "image/svg+xml"))


def _send_episode(farm: Farm, request: FarmRequest, numbers: Numbers, query: Query) -> FarmResponse:
    """Send zero bytes of the length that the enclosure declares."""
    length = farm.find_item(*numbers).text.episode
    if not length:
        raise NotFound("This item has no episode.")
    whole, part = divmod(length, len(CHUNK))
    answer = make_response(200, bytes(part), ("Content-Type", "audio/mpeg"), length=length)
    answer.stream = repeat(CHUNK, whole)
    return answer


def _show_log(farm: Farm, request: FarmRequest, numbers: Numbers, query: Query) -> FarmResponse:
    """Return the last requests as JSON, oldest first; `?limit=` sets their number (1000)."""
    limit = int(query.get("limit", ["1000"])[0])
    lines = [line._asdict() for line in islice(farm.log, max(0, len(farm.log) - limit), None)]
    return _make_json(lines)


def _show_stats(farm: Farm, request: FarmRequest, numbers: Numbers, query: Query) -> FarmResponse:
    return _make_json(farm.collect_stats())


def _show_truth(farm: Farm, request: FarmRequest, numbers: Numbers, query: Query) -> FarmResponse:
    """Return the items published in [since, until) of wall time; by default from the start until now."""
    since, until = (float(query[name][0]) if name in query else None for name in ("since", "until"))
    pieces = farm.published_items(numbers[0], since, until)
    return _make_json(
        [{"number": p.number, "id": p.identity, "published": p.date, "title": p.text.title} for p in pieces]
    )


def _make_json(value: object) -> FarmResponse:
    data = orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)
    return make_response(200, data, ("Content-Type", "application/json"))


_PAGES: tuple[tuple[re.Pattern[str], Callable[[Farm, FarmRequest, Numbers, Query], FarmResponse]], ...] = tuple(
    (re.compile(pattern), page)
    for pattern, page in (
        (r"/", _show_front_page),
        (r"/opml", _show_opml),
        (r"/feeds/(\d{1,12})\.html", _show_feed_page),
        (r"/moved/(\d{1,12})", _show_moved_feed),
        (r"/hops/(\d{1,12})/(\d{1,12})", _redirect_on),
        (r"/items/(\d{1,12})/(\d{1,15})", _show_article),
        (r"/items/(\d{1,12})/(\d{1,15})\.svg", _show_picture),
        (r"/items/(\d{1,12})/(\d{1,15})\.mp3", _send_episode),
        (r"/log", _show_log),
        (r"/stats", _show_stats),
        (r"/truth/(\d{1,12})", _show_truth),
    )
)


class LoggedRequest(NamedTuple):
    """One request. Times are the farm's wall time; `feed` is None for other pages; `host` is the Host header without
    its port; status 0 means that no response was sent."""

    arrived: float
    ended: float
    method: str
    path: str
    feed: int | None
    status: int
    host: str
    peer: str


class RequestLog:
    """The last `size` requests in the order of their end, and counts of all requests."""

    def __init__(self, size: int) -> None:
        self._requests: deque[LoggedRequest] = deque(maxlen=size)
        self.statuses: Counter[int] = Counter()
        self.under_way: Counter[str] = Counter()
        self.most_at_once: dict[str, int] = {}

    def begin_request(self, host: str) -> None:
        now = self.under_way[host] = self.under_way[host] + 1
        if now > self.most_at_once.get(host, 0):
            self.most_at_once[host] = now

    def end_request(self, line: LoggedRequest) -> None:
        self.under_way[line.host] -= 1
        self.statuses[line.status] += 1
        self._requests.append(line)

    def __iter__(self) -> Iterator[LoggedRequest]:
        return iter(self._requests)

    def __len__(self) -> int:
        return len(self._requests)

    def for_feed(self, feed: int) -> list[LoggedRequest]:
        """Return the requests for one feed's document."""
        return [line for line in self._requests if line.feed == feed]

    def clear(self) -> None:
        """Forget finished requests."""
        self._requests.clear()
        self.statuses.clear()
        self.most_at_once = {host: count for host, count in self.under_way.items() if count}
