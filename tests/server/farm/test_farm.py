"""The feed farm serves the published items of its feeds over real HTTP, with correct validators."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from email.utils import parsedate_to_datetime
from xml.etree import ElementTree

import aiohttp
import pytest
from multidict import CIMultiDictProxy

from headwater.errors import InputError
from headwater.farm.farm import Farm
from headwater.farm.timeline import BLOCK, compute_postings
from headwater.times import DAY

Start = Callable[..., Awaitable[Farm]]
NOON = 1_800_014_400.0  # a fixed wall clock; any time would do


async def get(url: str, **headers: str) -> tuple[int, CIMultiDictProxy[str], bytes]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with (
        aiohttp.ClientSession(auto_decompress=False) as session,
        session.get(url, headers=named, skip_auto_headers=["Accept-Encoding"], allow_redirects=False) as answer,
    ):
        return answer.status, answer.headers, await answer.read()


def ids(format: str, body: bytes) -> list[str]:
    """Return the identities in a document, parsed by the standard library."""
    if format == "json":
        return [item["id"] for item in json.loads(body)["items"]]
    root = ElementTree.fromstring(body)
    if format == "rss":
        return [guid.text or "" for guid in root.iter("guid")]
    if format == "atom":
        return [entry.findtext("{*}id") or "" for entry in root.iter("{http://www.w3.org/2005/Atom}entry")]
    about = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}about"
    return [item.attrib[about] for item in root.iter("{http://purl.org/rss/1.0/}item")]


@pytest.mark.parametrize("format", ["rss", "atom", "rdf", "json"])
async def test_a_document_shows_the_newest_items_that_were_published(farm: Start, format: str) -> None:
    one = await farm(feeds=3, seed=5, window=7, rates=(5, 10), format=format, clock=lambda: NOON)
    for feed in range(3):
        status, _, body = await get(one.url(feed))
        assert status == 200
        now = one.clock.farm_time()
        everything = compute_postings(5, feed, 0, now, rates=(5, 10))
        wanted = [f"urn:headwater-farm:5:{feed}:{posting.number}" for posting in reversed(everything[-7:])]
        assert ids(format, body) == wanted
        assert wanted == [piece.identity for piece in one.shown_items(feed)]


async def test_items_appear_when_time_passes_and_not_before(farm: Start) -> None:
    one = await farm(feeds=1, rates=(10, 10), window=1000, format="rss", clock=lambda: NOON)
    _, _, before = await get(one.url(0))
    assert one.published_items(0) == []
    one.advance(3 * DAY)
    _, _, after = await get(one.url(0))
    new = [piece.identity for piece in one.published_items(0)]
    assert len(new) > 10
    assert ids("rss", after) == new[::-1] + ids("rss", before)


async def test_speed_compresses_the_pattern_and_keeps_the_dates_true(farm: Start) -> None:
    one = await farm(feeds=1, speed=1000, rates=(10, 10), window=1000, format="rss", clock=lambda: NOON)
    one.advance(86.4 * 3)  # three farm days
    pieces = one.published_items(0)
    assert len(pieces) == len(compute_postings(1, 0, one.clock.origin, one.clock.origin + 3 * DAY, rates=(10, 10))) > 10
    assert all(NOON <= piece.date <= NOON + 86.4 * 3 for piece in pieces)
    _, _, body = await get(one.url(0))
    dates = [
        parsedate_to_datetime(date.text or "").timestamp() for date in ElementTree.fromstring(body).iter("pubDate")
    ]
    assert dates[: len(pieces)] == [int(piece.date) for piece in reversed(pieces)]


async def test_validators_bring_a_304_until_something_is_published(farm: Start) -> None:
    one = await farm(feeds=40, rates=(3, 9), clock=lambda: NOON)
    kinds = {one.feed_profile(feed).validators: feed for feed in range(40)}
    assert set(kinds) == {"both", "etag", "last-modified"}
    for kind, feed in kinds.items():
        _, headers, _ = await get(one.url(feed))
        assert ("ETag" in headers) is (kind != "last-modified")
        assert ("Last-Modified" in headers) is (kind != "etag")
        known = {}
        if "ETag" in headers:
            known["If_None_Match"] = headers["ETag"]
        if "Last-Modified" in headers:
            known["If_Modified_Since"] = headers["Last-Modified"]
        status, again, body = await get(one.url(feed), **known)
        assert (status, body) == (304, b"")
        assert {name: again.get(name) for name in ("ETag", "Last-Modified")} == {
            name: headers.get(name) for name in ("ETag", "Last-Modified")
        }
        one.advance(2 * DAY)
        status, _, _ = await get(one.url(feed), **known)
        assert status == 200


async def test_if_none_match_takes_lists_weak_tags_and_stars_and_wins_over_the_date(farm: Start) -> None:
    one = await farm(feeds=40, rates=(3, 9), clock=lambda: NOON)
    feed = next(feed for feed in range(40) if one.feed_profile(feed).validators == "both")
    _, headers, _ = await get(one.url(feed))
    for given in (f'"other", {headers["ETag"]}', f"W/{headers['ETag']}", "*"):
        assert (await get(one.url(feed), If_None_Match=given))[0] == 304
    status, _, _ = await get(one.url(feed), If_None_Match='"other"', If_Modified_Since=headers["Last-Modified"])
    assert status == 200
    assert (await get(one.url(feed), If_Modified_Since="yesterday, perhaps"))[0] == 200
    assert (await get(one.url(feed), If_Modified_Since="Fri, 01 Jan 2100 00:00:00 GMT"))[0] == 304


async def test_another_item_in_the_same_second_is_never_hidden_by_last_modified(farm: Start) -> None:
    """A reader that has only Last-Modified and polls many times a second must see every new item."""
    one = await farm(feeds=60, speed=2000, rates=(30, 60), window=100, format="rss", clock=lambda: NOON)
    feed = next(feed for feed in range(60) if one.feed_profile(feed).validators == "last-modified")
    seen: set[str] = set()
    known: dict[str, str] = {}
    for _ in range(60):
        one.advance(0.25)
        status, headers, body = await get(one.url(feed), **known)
        if status == 200:
            seen.update(ids("rss", body))
            known = {"If_Modified_Since": headers["Last-Modified"]} if "Last-Modified" in headers else {}
        assert {piece.identity for piece in one.published_items(feed)} <= seen
    assert len(one.published_items(feed)) > 5


async def test_a_packed_document_is_the_same_document_under_another_etag(farm: Start) -> None:
    one = await farm(feeds=20, clock=lambda: NOON)
    feed = next(k for k in range(20) if one.feed_profile(k).gzip and one.feed_profile(k).validators == "both")
    _, plain, body = await get(one.url(feed))
    _, packed, small = await get(one.url(feed), Accept_Encoding="gzip")
    assert gzip.decompress(small) == body
    assert plain["ETag"] != packed["ETag"]
    assert (await get(one.url(feed), If_None_Match=packed["ETag"], Accept_Encoding="gzip"))[0] == 304


async def test_a_restarted_farm_continues_the_earlier_one(farm: Start) -> None:
    first = await farm(feeds=2, speed=50, clock=lambda: NOON)
    first.advance(20_000)
    second = await farm(feeds=2, speed=50, clock=lambda: NOON + 20_000, started=first.clock.started)
    assert second.shown_items(1) == first.shown_items(1)
    assert second.published_items(0) == first.published_items(0)


async def test_opml_lists_every_feed_once_and_spreads_them_over_hosts(farm: Start) -> None:
    one = await farm(feeds=30, hosts=4)
    _, _, body = await get(f"{one.base_url()}/opml")
    listed = [o.attrib["xmlUrl"] for o in ElementTree.fromstring(body).iter("outline") if "xmlUrl" in o.attrib]
    assert sorted(listed) == sorted(one.urls)
    assert len({url.split("/")[2] for url in listed}) == 4
    for url in listed[:8]:
        assert (await get(url))[0] == 200
    assert {line.host for line in one.log} == {"127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"}


async def test_pages_lead_to_feeds_and_items_to_articles(farm: Start) -> None:
    one = await farm(feeds=3, format="atom")
    for path, target in (("/", one.url(0)), ("/feeds/2.html", "/feeds/2")):
        _, headers, page = await get(one.base_url() + path)
        assert headers["Content-Type"].startswith("text/html")
        assert f'<link rel="alternate" type="application/atom+xml" href="{target}">'.encode() in page
    piece = one.shown_items(1)[0]
    status, _, page = await get(f"{one.base_url()}/items/1/{piece.number}")
    assert status == 200
    assert piece.text.content.encode() in page
    assert (await get(f"{one.base_url()}/items/1/{piece.number + 500}"))[0] == 404
    assert (await get(f"{one.base_url()}/feeds/3"))[0] == 404


async def test_statistics_and_truth_list_the_published_items(farm: Start) -> None:
    one = await farm(feeds=4, speed=1000, clock=lambda: NOON)
    one.advance(600)
    await get(one.url(1))
    stats = json.loads((await get(f"{one.base_url()}/stats"))[2])
    assert stats["published_by_feed"] == [len(one.published_items(feed)) for feed in range(4)]
    assert stats["statuses"] == {"200": 1}
    truth = json.loads((await get(f"{one.base_url()}/truth/1?since={NOON - 900}"))[2])
    assert [item["id"] for item in truth] == [piece.identity for piece in one.published_items(1, since=NOON - 900)]
    log = json.loads((await get(f"{one.base_url()}/log"))[2])
    assert (log[0]["feed"], log[0]["status"], log[0]["path"]) == (1, 200, "/feeds/1")


async def test_the_log_counts_concurrent_requests_of_a_host(farm: Start) -> None:
    one = await farm(feeds=6, hosts=2, latency=1.0)  # long enough for all four to arrive on a busy machine
    await asyncio.gather(*(get(one.url(feed)) for feed in (0, 2, 4, 1)))
    assert one.log.most_at_once == {"127.0.0.1": 3, "127.0.0.2": 1}
    one.log.clear()
    one.latency = 0.0
    for feed in range(6):
        await get(one.url(feed))
    assert one.log.most_at_once == {"127.0.0.1": 1, "127.0.0.2": 1}
    assert [line.feed for line in one.log] == [0, 1, 2, 3, 4, 5]
    assert all(line.ended >= line.arrived for line in one.log)


async def test_head_requests_closing_and_pipelining_work(farm: Start) -> None:
    one = await farm(feeds=2)
    reader, writer = await asyncio.open_connection("127.0.0.1", one.port)
    writer.write(
        b"HEAD /feeds/0 HTTP/1.1\r\nHost: x\r\n\r\nGET /feeds/1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    head, _, rest = (await reader.read()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert rest.startswith(b"HTTP/1.1 200 OK")  # no body came after the first head
    writer.close()
    for nonsense, status in (
        (b"hello\r\n\r\n", b"400"),
        (b"\x16\x03\x01", b"400"),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000, b"431"),
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", one.port)
        writer.write(nonsense)
        assert status in await reader.readline()
        writer.close()


async def test_a_port_in_use_is_refused_with_one_sentence(farm: Start) -> None:
    one = await farm()
    with pytest.raises(InputError, match=f"cannot listen on 127.0.0.1:{one.port}: the port is in use"):
        await farm(port=one.port)


@pytest.mark.parametrize(
    "options",
    [{"feeds": 0}, {"speed": 0}, {"speed": float("nan")}, {"window": 0}, {"hosts": 0}, {"format": "gopher"},
     {"rates": (0, 1)}, {"rates": (2, 1)}, {"hosts": 2, "host": "0.0.0.0"}],
)  # fmt: skip
def test_an_impossible_farm_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(InputError):
        Farm(**options)  # type: ignore[arg-type]


async def test_the_farm_starts_with_a_history(farm: Start) -> None:
    one = await farm(feeds=1, rates=(1, 1))
    assert one.clock.origin >= BLOCK
    assert len(one.shown_items(0)) == 20
