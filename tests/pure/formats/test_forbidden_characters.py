"""Characters that XML 1.0 §2.2 forbids never reach a value."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from headwater.formats import read
from headwater.formats.opml import read_opml
from headwater.formats.write import write_opml
from headwater.model import Document

FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
CODES = (0x00, 0x01, 0x0B, 0x0C, 0x1F, 0xD800, 0xFFFE, 0xFFFF)
RSS = """<rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/"
  xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd"><channel>
  <title>{0}</title><description>{0}</description><language>{0}</language><link>https://example.org/{0}</link>
  <item><title>{0}</title><guid isPermaLink="false">{0}</guid><link>https://example.org/{0}</link>
  <author>{0}</author><dc:creator>{0}</dc:creator><category>{0}</category><itunes:subtitle>{0}</itunes:subtitle>
  <description>{0}</description><content:encoded>&lt;p title="{0}"&gt;{0}&lt;/p&gt;</content:encoded>
  <enclosure url="https://example.org/{0}" type="{0}" length="1"/></item></channel></rss>"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><id>{0}</id><title>{0}</title><subtitle type="html">{0}</subtitle>
  <entry><id>{0}</id><title type="{1}">{0}</title><author><name>{0}</name></author><category term="{0}"/>
  <link href="https://example.org/{0}"/><summary type="{1}">{0}</summary>
  <content type="html">&lt;p&gt;{0}&lt;/p&gt;</content></entry></feed>"""
CDF = """<CHANNEL HREF="https://example.org/{0}"><TITLE>{0}</TITLE><ABSTRACT>{0}</ABSTRACT>
  <ITEM HREF="https://example.org/{0}"><TITLE>{0}</TITLE><ABSTRACT>{0}</ABSTRACT></ITEM></CHANNEL>"""


def spellings(code: int) -> Iterator[str]:
    """Return the character itself, its XML reference, and its HTML reference within text."""
    yield f"a{chr(code)}b"
    yield f"a&#{code};b"
    yield f"a&amp;#{code};b"
    yield f"a&amp;#x{code:x};b&amp;amp;"


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple | list):
        for one in value:
            yield from texts(one)
    elif fields := getattr(value, "__struct_fields__", None) or getattr(value, "__dataclass_fields__", None):
        for name in fields:
            yield from texts(getattr(value, name))


def check(document: Document) -> None:
    assert document.items
    assert [text for text in texts(document) if FORBIDDEN.search(text)] == []


@pytest.mark.parametrize("code", CODES, ids=hex)
@pytest.mark.parametrize("clean", [True, False])
def test_no_value_of_a_document_holds_a_forbidden_character(code: int, clean: bool) -> None:
    for spelling in spellings(code):
        for kind in ("text", "html"):
            check(read(ATOM.format(spelling, kind).encode("utf-8", "surrogatepass"), clean=clean))
        for template in (RSS, CDF):
            check(read(template.format(spelling).encode("utf-8", "surrogatepass"), clean=clean))


@pytest.mark.parametrize("code", CODES, ids=hex)
def test_no_value_of_a_json_feed_holds_a_forbidden_character(code: int) -> None:
    for text in (f"a{chr(code)}b", f"a&#{code};b", f"<p>a&#{code};b</p>"):
        item = {"id": text, "title": text, "url": f"https://example.org/{text}", "content_html": text}
        item |= {"summary": text, "tags": [text], "authors": [{"name": text}]}
        feed = {"version": "https://jsonfeed.org/version/1.1", "title": text, "description": text, "items": [item]}
        check(read(json.dumps(feed).encode()))


@pytest.mark.parametrize("code", CODES, ids=hex)
def test_no_title_of_a_list_holds_a_forbidden_character(code: int) -> None:
    for spelling in spellings(code):
        body = f'<opml><body><outline text="{spelling}"><outline xmlUrl="https://a.example/" text="{spelling}"/>'
        found = read_opml(f"{body}</outline></body></opml>".encode("utf-8", "surrogatepass"))
        assert [text for text in texts(found.feeds) if FORBIDDEN.search(text)] == []
        assert read_opml(write_opml(found.feeds)).feeds == found.feeds
