"""feedparser reads damaged documents as a last resort."""

from __future__ import annotations

import pytest

from headwater.errors import NotAFeed
from headwater.formats.lastresort import read_last_resort


def test_feedparsers_result_becomes_a_clean_document() -> None:
    body = b"""<rss version="2.0"><channel><title>T &amp;amp; x</title><item><title>One</title><link>/1</link>
    <author>a@example.org (Ann)</author><pubDate>Thu, 01 Jan 2004 19:48:21 GMT</pubDate><category>c</category>
    <description>&lt;p onclick="x()"&gt;Hi&lt;/p&gt;</description>
    <enclosure url="/1.mp3" type="audio/mpeg" length="5"/>"""
    document = read_last_resort(body, url="https://example.org/feed")
    (item,) = document.items
    assert (item.title, item.link, item.authors) == ("One", "https://example.org/1", ("Ann",))
    assert (item.summary, item.published, item.categories) == ("<p>Hi</p>", 1072986501.0, ("c",))
    assert item.enclosures[0].url == "https://example.org/1.mp3"
    assert document.problems


def test_a_document_without_items_is_not_a_feed() -> None:
    with pytest.raises(NotAFeed):
        read_last_resort(b"hello")
