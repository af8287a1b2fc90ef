"""The links of a page to its feeds are found, without any network."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.fetch.page_links import FeedCandidate, read_page_links

PAGE = """<!doctype html><html><head><title> The  Daily
 Page </title><base href="/blog/">
<link rel="stylesheet" href="style.css"><link rel=alternate hreflang=de href=/de>
<link rel="alternate" type="application/rss+xml" title="Posts" href="feed.xml">
<LINK REL="Alternate Home" TYPE="application/atom+xml; charset=utf-8" HREF="//feeds.example.net/atom">
<link rel="alternate" type="application/feed+json" href="https://example.org/feed.json#top">
<link rel="alternate" type="application/json" href="/wp-json/wp/v2/pages/1">
<link rel="alternate" type="application/rdf+xml" href="javascript:alert(1)">
<!-- <link rel="alternate" type="application/rss+xml" href="commented.xml"> -->
<script>var x = '<link rel="alternate" type="application/rss+xml" href="script.xml">';</script>
</head><body><a href="https://other.example/rss">Theirs</a><a href="/about">About</a>
<a href="posts.rss">RSS <b>feed</b></a><a href="feed://example.org/x.atom">x</a><a href="mailto:feed@example.org">m</a>
<a href="/news?format=rss">n</a><a href="/feedback">no</a><a href="/sitemap.xml">map</a></body></html>"""


def test_links_are_found_with_their_base_type_and_title():
    found = read_page_links(PAGE.encode(), "https://example.org/start")
    assert found.title == "The Daily Page"
    assert found.links == (
        FeedCandidate("https://example.org/blog/feed.xml", "Posts", "application/rss+xml", "link"),
        FeedCandidate("https://feeds.example.net/atom", None, "application/atom+xml; charset=utf-8", "link"),
        FeedCandidate("https://example.org/feed.json", None, "application/feed+json", "link"),
    )


def test_anchors_that_look_like_feeds_come_with_the_own_host_first():
    found = read_page_links(PAGE.encode(), "https://example.org/start")
    assert [anchor.url for anchor in found.anchors] == [
        "https://example.org/blog/posts.rss",
        "http://example.org/x.atom",
        "https://example.org/news?format=rss",
        "https://example.org/sitemap.xml",
        "https://other.example/rss",
    ]
    assert found.anchors[0].title == "RSS feed"


def test_the_link_header_counts_too():
    header = '</feed>; rel="alternate"; type="application/rss+xml"; title="H", </x>; rel=next, <y>; rel=alternate'
    assert read_page_links(b"", "https://example.org/a", header=header).links == (
        FeedCandidate("https://example.org/feed", "H", "application/rss+xml", "link"),
    )


@pytest.mark.parametrize("charset", [None, "utf-8", "latin-1", "no-such-charset"])
def test_any_charset_is_survived(charset: str | None):
    body = '<title>é</title><link rel=feed href="/é">'.encode()
    assert read_page_links(body, "https://example.org/", charset=charset).links


@given(st.binary(max_size=300), st.text(max_size=80))
def test_no_page_and_no_header_makes_it_fail(body: bytes, header: str):
    for page in (
        body,
        b"<link rel=alternate type=text/xml href='" + body + b"'>",
        b"<base href='" + body + b"'><a href=x>",
    ):
        for candidate in read_page_links(page, "https://example.org/", header=f"<{header}>; rel=feed").links:
            assert candidate.url.startswith(("http://", "https://"))


@pytest.mark.parametrize(
    "page",
    [
        b"<div>" * 200_000,
        b"<a href=/feed>" * 80_000,
        b"<a href=/feed>x</a>" * 60_000,
        b"<" * 1_000_000,
        b"<b><i></b>" * 90_000,
    ],
)
def test_a_hostile_page_costs_little(page: bytes):
    begin = time.process_time()
    read_page_links(page, "https://example.org/")
    assert time.process_time() - begin < 2
