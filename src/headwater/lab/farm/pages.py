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
from headwater.lab.farm.documents import TYPES, html, opml
from headwater.lab.farm.http import Answer, Request, compose

if TYPE_CHECKING:
    from headwater.lab.farm.server import Farm

HTML = ("Content-Type", "text/html; charset=utf-8")
CHUNK = bytes(16_384)


def answer(farm: Farm, request: Request) -> Answer:
    """The page at the request's path; NotFound when there is none."""
    path, _, query = request.target.partition("?")
    for pattern, page in _PAGES:
        if match := pattern.fullmatch(path):
            return page(farm, request, tuple(int(part) for part in match.groups()), parse_qs(query))
    raise NotFound(f"The farm has nothing at {path}; its feeds are listed at /opml.")


Numbers = tuple[int, ...]
Query = dict[str, list[str]]


def _front(farm: Farm, request: Request, numbers: Numbers, query: Query) -> Answer:
    speed = farm.clock.speed
    rows = "".join(
        f'<tr><td><a href="{farm.url(k)}.html">{k}</a></td><td>{escape(p.title)}</td><td>{p.format}</td>'
        f"<td>{p.shape}</td><td>{p.rate * 86_400:.2f}</td><td>{p.hints}</td>"
        f"<td>{farm.faults[k].kind if k in farm.faults else ''}</td></tr>"
        for k, p in ((k, farm.profile(k)) for k in range(min(farm.feeds, 100)))
    )
    body = (
        f"<p>This is a feed farm: {farm.feeds} feeds that publish by a seed ({farm.seed}), {speed:g} times as fast as "
        f"real ones, {farm.window} items at a time. Subscribe to all of them by <a href='/opml'>/opml</a>; what was "
        "published is told at <a href='/stats'>/stats</a> and /truth/FEED, what was asked at <a href='/log'>/log</a>."
        "</p><table><tr><th>feed</th><th>title</th><th>format</th><th>shape</th><th>items a farm day</th><th>hints</th>"
        f"<th>fault</th></tr>{rows}</table>"
    )
    links = ((TYPES[farm.profile(k).format], farm.url(k)) for k in range(min(farm.feeds, 5)))
    return compose(200, html("Headwater feed farm", body, links), HTML)


def _opml(farm: Farm, request: Request, numbers: Numbers, query: Query) -> Answer:
    feeds = ((farm.url(k), farm.profile(k)) for k in range(farm.feeds))
    return compose(200, opml(feeds), ("Content-Type", "text/x-opml; charset=utf-8"))


def _feed_page(farm: Farm, request: Request, numbers: Numbers, query: Query) -> Answer:
    (feed,) = numbers
    pieces = farm.shown(feed)
    profile = farm.profile(feed)
    rows = "".join(f'<li><a href="/items/{feed}/{p.number}">{escape(p.text.title)}</a></li>' for p in pieces)
    link = (TYPES[profile.format], f"/feeds/{feed}")
    return compose(200, html(profile.title, f"<ul>{rows}</ul>", [link]), HTML)


def _moved(farm: Farm, request: Request, numbers: Numbers, query: Query) -> Answer:
    """The feed at its new address, where it behaves."""
    (request.feed,) = numbers
    return farm.ordinary(numbers[0], request)


def _hop(farm: Farm, request: Request, numbers: Numbers, query: Query) -> Answer:
    feed, left = numbers
    there = f"/hops/{feed}/{left - 1}" if left > 0 else f"/moved/{feed}"
    return compose(302, b"", ("Location", farm.base(feed) + there))


def _item(farm: Farm, request: Request, numbers: Numbers, query: Query) -> Answer:
    feed, number = numbers
    text = farm.piece(feed, number).text
    body = f"<article>{text.content}<p>By the {text.author.lower()}.</p></article>"
    return compose(200, html(text.title, body, [(TYPES[farm.profile(feed).format], f"/feeds/{feed}")]), HTML)


def _picture(farm: Farm, request: Request, numbers: Numbers, query: Query) -> Answer:
    hue = farm.piece(*numbers).number * 47 % 360
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 80 45"><rect width="80" height="45" '
        f'fill="hsl({hue} 50% 30%)"/><path d="M10 45 38 12 48 24 56 16 76 45z" fill="hsl({hue} 60% 60%)"/></svg>'
    )
    return compose(200, svg.encode(), ("Content-Type", "image/svg+xml"))


def _episode(farm: Farm, request: Request, numbers: Numbers, query: Query) -> Answer:
    """As many zero bytes as the enclosure promised."""
    length = farm.piece(*numbers).text.episode
    if not length:
        raise NotFound("This item has no episode.")
    whole, part = divmod(length, len(CHUNK))
    answer = compose(200, bytes(part), ("Content-Type", "audio/mpeg"), length=length)
    answer.stream = repeat(CHUNK, whole)
    return answer


def _log(farm: Farm, request: Request, numbers: Numbers, query: Query) -> Answer:
    """The last requests as JSON, oldest first; `?limit=` says how many (1000)."""
    limit = int(query.get("limit", ["1000"])[0])
    lines = [line._asdict() for line in islice(farm.log, max(0, len(farm.log) - limit), None)]
    return _json(lines)


def _stats(farm: Farm, request: Request, numbers: Numbers, query: Query) -> Answer:
    return _json(farm.stats())


def _truth(farm: Farm, request: Request, numbers: Numbers, query: Query) -> Answer:
    """What a feed published in [since, until), in wall-clock seconds; by default since the start, until now."""
    since, until = (float(query[name][0]) if name in query else None for name in ("since", "until"))
    pieces = farm.published(numbers[0], since, until)
    return _json([{"number": p.number, "id": p.identity, "published": p.date, "title": p.text.title} for p in pieces])


def _json(value: object) -> Answer:
    data = orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)
    return compose(200, data, ("Content-Type", "application/json"))


_PAGES: tuple[tuple[re.Pattern[str], Callable[[Farm, Request, Numbers, Query], Answer]], ...] = tuple(
    (re.compile(pattern), page)
    for pattern, page in (
        (r"/", _front),
        (r"/opml", _opml),
        (r"/feeds/(\d{1,12})\.html", _feed_page),
        (r"/moved/(\d{1,12})", _moved),
        (r"/hops/(\d{1,12})/(\d{1,12})", _hop),
        (r"/items/(\d{1,12})/(\d{1,15})", _item),
        (r"/items/(\d{1,12})/(\d{1,15})\.svg", _picture),
        (r"/items/(\d{1,12})/(\d{1,15})\.mp3", _episode),
        (r"/log", _log),
        (r"/stats", _stats),
        (r"/truth/(\d{1,12})", _truth),
    )
)
