"""Autodiscovery against a real server offers only feeds that it has read, and explains failures in a sentence."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from raw_server import RawServer, answer, feed, redirect

from headwater.errors import AddressError, InputError, NotAFeed, Unreachable
from headwater.fetch import discovery
from headwater.fetch.client import Fetcher
from headwater.fetch.discovery import FeedCandidate, discover_candidates

ATOM = b'<feed xmlns="http://www.w3.org/2005/Atom"><title>Atom</title><id>urn:x</id></feed>'
JSON = b'{"version": "https://jsonfeed.org/version/1.1", "title": "Json", "items": []}'


@pytest.fixture
async def reading() -> AsyncIterator[Fetcher]:
    async with Fetcher(allow_private=True, contact=None, deadline=2.0, per_host=8) as fetcher:
        yield fetcher


def page(body: str) -> bytes:
    return answer(200, f"<!doctype html><html>{body}</html>".encode(), {"Content-Type": "text/html; charset=utf-8"})


async def test_a_feed_is_itself(server: RawServer, reading: Fetcher):
    server.routes["/feed"] = feed()
    assert await discover_candidates(reading, f"  {server.url('/feed')} \n") == [
        FeedCandidate(server.url("/feed"), "News", "rss 2.0", "address")
    ]
    assert len(server.requests) == 1


async def test_a_feed_that_moved_for_good_is_offered_where_it_is_now(server: RawServer, reading: Fetcher):
    server.routes |= {"/old": redirect(301, "/feed"), "/tmp": redirect(302, "/feed"), "/feed": feed()}
    assert (await discover_candidates(reading, server.url("/old")))[0].url == server.url("/feed")
    assert (await discover_candidates(reading, server.url("/tmp")))[0].url == server.url("/tmp")


async def test_the_links_of_a_page_are_offered_when_they_are_feeds(server: RawServer, reading: Fetcher):
    server.routes["/"] = page(
        '<base href="/b/"><link rel=alternate type="application/atom+xml" href="a">'
        '<link rel=alternate type="application/rss+xml" href="broken">'
        '<link rel=alternate type="application/feed+json" title="J" href="../j"><a href="/rss">not asked</a>'
    )
    server.routes |= {"/b/a": feed(body=ATOM), "/b/broken": page("sorry"), "/j": feed(body=JSON)}
    found = await discover_candidates(reading, server.url("/"))
    assert [(c.url, c.title, c.how) for c in found] == [
        (server.url("/b/a"), "Atom", "link"),
        (server.url("/j"), "Json", "link"),
    ]
    assert found[0].type == "atom 1.0"
    assert "/rss" not in server.paths


async def test_anchors_are_tried_when_the_page_links_nothing(server: RawServer, reading: Fetcher):
    server.routes["/"] = page('<a href="/news.rss">News</a><a href="/x.xml">no feed</a>')
    server.routes["/news.rss"] = feed()
    assert await discover_candidates(reading, server.url("/")) == [
        FeedCandidate(server.url("/news.rss"), "News", "rss 2.0", "anchor")
    ]


async def test_one_feed_under_two_addresses_is_offered_once(server: RawServer, reading: Fetcher):
    server.routes["/"] = page('<a href="/rss">a</a><a href="/feed/">b</a>')
    server.routes |= {"/rss": redirect(302, "/feed"), "/feed": feed(), "/feed/": feed()}
    assert len(await discover_candidates(reading, server.url("/"))) == 1


@pytest.mark.parametrize("path", ["/feed", "/rss", "/atom.xml", "/feed.xml", "/index.xml", "/feed.json"])
async def test_usual_places_are_tried_last(server: RawServer, reading: Fetcher, path: str):
    server.routes |= {"/blog/": page("nothing here"), path: feed()}
    assert await discover_candidates(reading, server.url("/blog/")) == [
        FeedCandidate(server.url(path), "News", "rss 2.0", "path")
    ]


async def test_a_page_without_feeds_is_reported(server: RawServer, reading: Fetcher):
    server.routes["/"] = page("<title>My  garden</title>")
    with pytest.raises(NotAFeed, match="is a web page \\(“My garden”\\), and it has no feed") as caught:
        await discover_candidates(reading, server.url("/"))
    assert caught.value.what == "html"


async def test_a_feed_that_a_page_names_and_does_not_have_is_told(server: RawServer, reading: Fetcher):
    server.routes["/"] = page('<title>Old</title><link rel=alternate type="application/rss+xml" href="/gone.xml">')
    with pytest.raises(NotAFeed, match=r"it has no feed\. It links to http://\S+/gone\.xml, but: .* \(404\)\."):
        await discover_candidates(reading, server.url("/"))


async def test_a_document_that_is_neither_page_nor_feed_is_named(server: RawServer, reading: Fetcher):
    server.routes["/x"] = answer(200, b"%PDF-1.4 ...", {"Content-Type": "application/pdf"})
    with pytest.raises(NotAFeed, match="PDF"):
        await discover_candidates(reading, server.url("/x"))


async def test_an_error_page_is_reported(server: RawServer, reading: Fetcher):
    with pytest.raises(InputError, match=r"answered with an error \(404\)"):
        await discover_candidates(reading, server.url("/missing"))


async def test_an_address_without_a_scheme_is_tried_with_https_and_then_http(server: RawServer, reading: Fetcher):
    server.routes["/feed"] = feed()
    (found,) = await discover_candidates(reading, f"127.0.0.1:{server.port}/feed")
    assert found.url == server.url("/feed")
    (found,) = await discover_candidates(reading, f"feed://127.0.0.1:{server.port}/feed")
    assert found.url == server.url("/feed")


@pytest.mark.parametrize(
    "address", ["", "   ", "ftp://example.org/", "javascript:alert(1)", "http://user@example.org/"]
)
async def test_an_address_we_do_not_go_to_is_refused(reading: Fetcher, address: str):
    with pytest.raises(AddressError):
        await discover_candidates(reading, address)


async def test_a_server_that_is_not_there_is_reported(reading: Fetcher, unused_tcp_port: int):
    with pytest.raises(Unreachable, match="refused"):
        await discover_candidates(reading, f"127.0.0.1:{unused_tcp_port}")
    with pytest.raises(Unreachable, match="could not be found"):
        await discover_candidates(reading, "no-such-name.invalid")


async def test_discovery_does_not_go_where_fetching_does_not(server: RawServer):
    async with Fetcher(contact=None) as guarded:
        with pytest.raises(AddressError):
            await discover_candidates(guarded, server.url("/"))
        with pytest.raises(AddressError):
            await discover_candidates(guarded, "localhost")
    assert server.connections == 0


async def test_an_account_of_the_fediverse_has_a_feed_that_its_page_hides(server: RawServer, reading: Fetcher):
    server.routes |= {"/@somebody": page("posts"), "/@somebody.rss": feed()}
    assert await discover_candidates(reading, server.url("/@somebody")) == [
        FeedCandidate(server.url("/@somebody.rss"), "News", "rss 2.0", "rule")
    ]


async def test_the_feed_of_a_known_site_is_asked_for_before_its_page(
    server: RawServer, reading: Fetcher, monkeypatch: pytest.MonkeyPatch
):
    """The rule only guesses: if there is no feed, the page is requested as usual."""
    derived = [FeedCandidate(server.url("/hidden.xml"), how="rule")]
    monkeypatch.setattr(discovery, "derive_site_feeds", lambda address: derived)
    server.routes |= {"/page": page('<a href="/news.rss">News</a>'), "/news.rss": feed(), "/hidden.xml": feed()}
    assert [one.url for one in await discover_candidates(reading, server.url("/page"))] == [server.url("/hidden.xml")]
    del server.routes["/hidden.xml"]
    assert [one.url for one in await discover_candidates(reading, server.url("/page"))] == [server.url("/news.rss")]


async def test_a_directory_of_podcasts_is_asked_for_the_feed(
    server: RawServer, reading: Fetcher, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(discovery, "derive_lookup", lambda address: (server.url("/lookup"), "feedUrl"))
    body = f'{{"results": [{{"feedUrl": "{server.url("/show.xml")}"}}]}}'.encode()
    server.routes |= {"/lookup": answer(200, body, {"Content-Type": "application/json"}), "/show.xml": feed()}
    assert [one.url for one in await discover_candidates(reading, server.url("/x"))] == [server.url("/show.xml")]
