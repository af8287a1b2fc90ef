"""Everything a farm serves beside its feeds: its front page, OPML, articles, pictures, its log and its truth."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from itertools import islice, repeat
from typing import TYPE_CHECKING
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
    """The page at the request's path; NotFound when there is none."""
    path, _, query = request.target.partition("?")
    for pattern, page in _PAGES:
        if match := pattern.fullmatch(path):
            return page(farm, request, tuple(int(part) for part in match.groups()), parse_qs(query))
    raise NotFound(f"The farm has nothing at {path}; its feeds are listed at /opml.")


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
        f"<p>This is a feed farm: {farm.feeds} feeds that publish by a seed ({farm.seed}), {speed:g} times as fast as "
        f"real ones, {farm.window} items at a time. Subscribe to all of them by <a href='/opml'>/opml</a>; what was "
        "published is told at <a href='/stats'>/stats</a> and /truth/FEED, what was asked at <a href='/log'>/log</a>."
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
    """The feed at its new address, where it behaves."""
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
    """As many zero bytes as the enclosure promised."""
    length = farm.find_item(*numbers).text.episode
    if not length:
        raise NotFound("This item has no episode.")
    whole, part = divmod(length, len(CHUNK))
    answer = make_response(200, bytes(part), ("Content-Type", "audio/mpeg"), length=length)
    answer.stream = repeat(CHUNK, whole)
    return answer


def _show_log(farm: Farm, request: FarmRequest, numbers: Numbers, query: Query) -> FarmResponse:
    """The last requests as JSON, oldest first; `?limit=` says how many (1000)."""
    limit = int(query.get("limit", ["1000"])[0])
    lines = [line._asdict() for line in islice(farm.log, max(0, len(farm.log) - limit), None)]
    return _make_json(lines)


def _show_stats(farm: Farm, request: FarmRequest, numbers: Numbers, query: Query) -> FarmResponse:
    return _make_json(farm.collect_stats())


def _show_truth(farm: Farm, request: FarmRequest, numbers: Numbers, query: Query) -> FarmResponse:
    """What a feed published in [since, until), in wall-clock seconds; by default since the start, until now."""
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
