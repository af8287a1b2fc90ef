"""The validity checks find known faults; Hypothesis searches for documents that fail them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from validity import problems

from headwater.formats.values.text import to_one_line
from headwater.model import Enclosure, Feed, Item, Source
from headwater.publish.published_documents import (
    DocumentPlace,
    PageAddress,
    compose_document,
    render_document,
    to_entries,
)

RSS = (
    '<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel><title>t</title><link>https://e.org/</link>'
    '<description>d</description><atom:link rel="self" href="https://e.org/f"/>{}</channel></rss>'
)
ATOM = (
    '<feed xmlns="http://www.w3.org/2005/Atom"><id>urn:xy:1</id><title>t</title><updated>2026-11-15T00:00:00Z</updated>'
    '<author><name>a</name></author><link rel="self" href="https://e.org/f"/>{}</feed>'
)
ENTRY = "<entry><id>urn:xy:2</id><title>t</title><updated>2026-11-15T00:00:00Z</updated><content>c</content>{}</entry>"
OPML = '<opml version="2.0"><head><title>t</title></head><body>{}</body></opml>'
CONTENT = 'xmlns:content="http://purl.org/rss/1.0/modules/content/"'
MEDIA = 'xmlns:media="http://search.yahoo.com/mrss/"'
JSON = '{{"version":"https://jsonfeed.org/version/1.1","title":"t","items":[{}]}}'


@pytest.mark.parametrize(
    ("format", "document"),
    [
        ("rss", RSS.replace("<title>t</title>", "").format("")),
        ("rss", RSS.format("<item/>")),
        ("rss", RSS.format("<item><title>t</title><pubDate>2026-11-15</pubDate></item>")),
        ("rss", RSS.format("<item><title>t</title><pubDate>Mon, 15 Nov 2026 00:00:00 GMT</pubDate></item>")),
        ("rss", RSS.format("<item><title>t</title><link>/relative</link></item>")),
        ("rss", RSS.format("<item><title>t</title><guid>not an address</guid></item>")),
        ("rss", RSS.format("<item><title>t</title><guid>urn:xy:1</guid></item>")),
        ("rss", RSS.format('<item><title>t</title><guid isPermaLink="false">1</guid></item>' * 2)),
        ("rss", RSS.format('<item><title>t</title><enclosure url="https://e.org/" type="image/*" length="1"/></item>')),
        ("rss", RSS.format('<item><title>t</title><enclosure url="https://e.org/" type="image/png"/></item>')),
        ("rss", RSS.format("<item><title>t</title><summary>s</summary></item>")),
        ("rss", RSS.format('<atom:link rel="self" href="https://e.org/g"/>')),
        ("rss", RSS.format("<language>not a language</language>")),
        ("atom", ATOM.replace("<id>urn:xy:1</id>", "").format("")),
        ("atom", ATOM.format(ENTRY.format("") * 2)),
        ("atom", ATOM.replace("<author><name>a</name></author>", "").format(ENTRY.format(""))),
        ("atom", ATOM.format(ENTRY.replace("<content>c</content>", "").format(""))),
        ("atom", ATOM.format(ENTRY.replace("2026-11-15T00:00:00Z", "15 November").format(""))),
        ("atom", ATOM.format(ENTRY.replace("urn:xy:2", "two").format(""))),
        ("atom", ATOM.format(ENTRY.format('<link rel="alternate" href="https://e.org/a b"/>'))),
        ("atom", ATOM.format(ENTRY.format('<link rel="enclosure" href="https://e.org/" type="mp3"/>'))),
        ("atom", ATOM.format(ENTRY.format("<category/>"))),
        ("rss", RSS.format("<item><title>t</title><link>https://e.org/ä</link></item>")),
        ("rss", RSS.format("<item><title>t</title><link>https://e.org/?a[]=1</link></item>")),
        ("rss", RSS.format("<item><title>a &lt;b</title></item>")),
        ("rss", RSS.format("<item><title>t</title></item><ttl>1</ttl>")),
        ("rss", RSS.format(f"<item><title>t</title><content:encoded {CONTENT}>c</content:encoded></item>")),
        ("rss", RSS.format(f'<item><title>t</title><media:content {MEDIA} url="https://e.org/" fileSize="0"/></item>')),
        ("rss", RSS.format("<image><url>https://e.org/i</url><title>u</title><link>https://e.org/</link></image>")),
        ("rss", RSS.format("<language>english</language>")),
        ("rss", RSS.format("<language>us</language>")),
        ("atom", ATOM.format(ENTRY.replace("urn:xy:2", "tag:e.org:2").format(""))),
        ("atom", ATOM.format(ENTRY.replace("urn:xy:2", "urn:uuid:2").format(""))),
        ("atom", ATOM.format(ENTRY.replace("urn:xy:2", "urn:xy:a/b").format(""))),
        ("atom", ATOM.format(ENTRY.replace("urn:xy:2", "https:///a").format(""))),
        ("atom", ATOM.format(ENTRY.format("") + "<subtitle>late</subtitle>")),
        ("opml", OPML.format("")),
        ("opml", OPML.format("<outline/>")),
        ("opml", OPML.format('<outline text="a" title="a"/>')),
        ("opml", OPML.format('<outline text="a" type="rss" xmlUrl="https://e.org/f"/>')),
        ("opml", OPML.format('<outline text="a" title="a" type="rss" xmlUrl="https://e.org/f" htmlUrl="a b"/>')),
        (
            "json",
            JSON.replace('"title"', '"feed_url":"https://e.org/f","next_url":"https://e.org/f","title"').format(""),
        ),
        ("json", JSON.format('{"id":"1","content_html":"","_a.b":{}}')),
        ("json", JSON.format('{"id":"1","content_html":"","_a":{"_b":{}}}')),
        ("json", JSON.format('{"id":"1","content_html":"","authors":[{"name":""}]}')),
        ("json", JSON.replace("1.1", "9").format("")),
        ("json", JSON.format('{"id":"1"}')),
        ("json", JSON.format('{"id":"1","content_html":""},{"id":"1","content_html":""}')),
        ("json", JSON.format('{"id":1,"content_html":""}')),
        ("json", JSON.format('{"id":"1","content_html":"","date_published":"today"}')),
        ("json", JSON.format('{"id":"1","content_html":"","attachments":[{"url":"https://e.org/"}]}')),
    ],
)
def test_invalid_documents_are_reported(format: str, document: str) -> None:
    assert problems(document.encode(), format)


def test_valid_documents_pass() -> None:
    assert problems(RSS.format("<item><title>t</title></item>").encode(), "rss") == []
    assert problems(ATOM.format(ENTRY.format("")).encode(), "atom") == []
    assert problems(JSON.format('{"id":"1","content_html":""}').encode(), "json") == []
    assert problems(OPML.format('<outline text="no feeds" isComment="true"/>').encode(), "opml") == []


WORDS = st.text(max_size=30)
LINES = st.text(max_size=30).map(to_one_line).filter(bool)  # as our reader normalises names and categories
ADDRESSES = st.builds(
    "{}{}".format, st.sampled_from(["https://example.org/", "http://bücher.example?", "tag:e", "urn:e:"]), WORDS
)
FILES = st.builds(
    Enclosure,
    ADDRESSES,
    st.none() | st.sampled_from(["image/*", "audio/mpeg", "mp3", "text/html; charset=utf-8", "a/b/c"]) | WORDS,
    st.none() | st.integers(0, 2**40),
)
ITEMS = st.builds(
    Item,
    feed_id=st.just(1),
    identity=st.text(min_size=1, max_size=30) | ADDRESSES,
    content_hash=st.just(""),
    title=st.none() | WORDS,
    link=st.none() | ADDRESSES,
    published=st.floats(0, 4e9),
    dated=st.just(True),
    updated=st.none() | st.floats(0, 4e9),
    first_seen=st.just(0.0),
    authors=st.lists(LINES, max_size=2).map(tuple),
    summary=st.none() | WORDS,
    content=st.none() | WORDS,
    categories=st.lists(LINES, max_size=3).map(tuple),
    enclosures=st.lists(FILES, max_size=3).map(tuple),
    language=st.none() | st.sampled_from(["en", "de-AT", "English", "US", "x"]) | WORDS,
    source=st.none() | st.builds(Source, ADDRESSES, st.none() | WORDS),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(ITEMS, max_size=4), st.sampled_from(["rss", "atom", "json"]))
def test_whatever_items_hold_the_document_is_valid(items: list[Item], format: str) -> None:
    shown = to_entries(items, {1: Feed(1, "https://example.org/feed", "Feed")})
    place = DocumentPlace("https://our.example", "/feeds/x", format)
    assert (
        problems(render_document(compose_document(place, "x", shown, 1e9, older=PageAddress("upto", 7))), format) == []
    )
