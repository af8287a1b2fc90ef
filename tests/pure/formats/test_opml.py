"""OPML and plain lists of feeds are read and written."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from headwater.errors import InputError
from headwater.formats.opml import Outline, read_opml
from headwater.formats.values.text import replace_forbidden
from headwater.formats.write import write_opml

LIST = b"""<?xml version="1.0"?><opml version="1.1"><head><title>Mine</title></head><body>
<outline text="News"><outline text="Tech &amp; more">
  <outline type="rss" text="A" xmlUrl="https://a.example/feed" htmlUrl="https://a.example/"/>
</outline>
<outline type="rss" title="B" XMLURL="feed://b.example/rss"/>
<outline type="rss" text="again" xmlUrl="https://a.example/feed"/>
</outline>
<outline text="evil" xmlUrl="javascript:alert(1)"/>
<outline text="C" xmlUrl="https://c.example/" category="/x/y,z"/>
</body></opml>"""


def test_folders_become_tags_and_duplicates_and_unusable_addresses_are_reported() -> None:
    found = read_opml(LIST)
    assert found.title == "Mine"
    assert found.feeds == (
        Outline("https://a.example/feed", "A", "https://a.example/", ("News", "Tech & more")),
        Outline("http://b.example/rss", "B", None, ("News",)),
        Outline("https://c.example/", "C", None, ("x/y", "z")),
    )
    assert found.duplicates == ("https://a.example/feed",)
    assert found.refused == (("javascript:alert(1)", "not an http or https address"),)


def test_ten_thousand_levels_and_a_hundred_thousand_feeds_are_read() -> None:
    deep = b'<outline text="f">' * 10_000 + b'<outline xmlUrl="https://deep.example/"/>' + b"</outline>" * 10_000
    wide = b"".join(b'<outline xmlUrl="https://example.org/%d"/>' % number for number in range(100_000))
    found = read_opml(b"<opml><body>" + deep + wide + b"</body></opml>")
    assert len(found.feeds) == 100_001
    assert found.feeds[0].tags == ("f",)


@pytest.mark.parametrize("body", [b"", b"hello", b"<html><body>no</body></html>", b"<opml><body/></opml>", b"\xff\xfe"])
def test_a_file_that_is_not_a_list_is_refused_with_a_reason(body: bytes) -> None:
    with pytest.raises(InputError, match="OPML"):
        read_opml(body)


def test_a_damaged_list_is_recovered() -> None:
    found = read_opml(b'<opml><body><outline text="a & b" xmlUrl="https://a.example/?x=1&y=2"/><outline text="c" xm')
    assert [feed.url for feed in found.feeds] == ["https://a.example/?x=1&y=2"]
    assert found.problems


def test_quotation_marks_inside_attributes_are_repaired() -> None:
    found = read_opml(
        b'<opml><body><outline text="The "best" one" xmlUrl="https://a.example/" type="rss" /></body></opml>'
    )
    assert found.feeds == (Outline("https://a.example/", 'The "best" one'),)


def test_a_plain_list_of_addresses_is_a_list_too() -> None:
    found = read_opml(b"# mine\r\nhttps://a.example/feed\r\n\r\nftp://b.example/\nhttps://a.example/feed\n")
    assert [feed.url for feed in found.feeds] == ["https://a.example/feed"]
    assert (found.duplicates, len(found.refused)) == (("https://a.example/feed",), 1)


def test_entities_in_a_list_are_not_expanded() -> None:
    bomb = b'<!DOCTYPE opml [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]>'
    found = read_opml(bomb + b'<opml><body><outline text="&b;" xmlUrl="https://a.example/"/></body></opml>')
    assert len(found.feeds[0].title or "") < 20


# Ã, Â and â may begin UTF-8 that was read as another encoding, which reading mends.
plain = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Z"), exclude_characters="ÂÃâ"), min_size=1, max_size=20
)
feeds = st.lists(
    st.builds(
        Outline,
        url=st.integers(0, 10**6).map(lambda number: f"https://example.org/{number}"),
        title=plain.filter(lambda text: "<" not in text and "&" not in text).map(
            replace_forbidden
        ),  # as stored titles are
        link=st.none() | st.just("https://example.org/?a=1&b=2"),
        tags=st.lists(st.sampled_from(["News", "Tech", "a/b"]), unique=True, max_size=3).map(tuple),
    ),
    min_size=1,
    unique_by=lambda feed: feed.url,
)


@given(feeds)
def test_a_list_survives_a_round_trip_and_has_the_texts_that_importers_show(feeds: list[Outline]) -> None:
    body = write_opml(feeds, "Mine")
    again = read_opml(body)
    assert sorted(again.feeds, key=lambda feed: feed.url) == sorted(feeds, key=lambda feed: feed.url)
    outlines = list(etree.fromstring(body).iter("outline"))
    assert all(one.get("text") and not (one.text or "").strip() for one in outlines)
    assert sorted(one.get("text") for one in outlines if one.get("xmlUrl")) == sorted(
        feed.title or "" for feed in feeds
    )


def test_every_real_list_is_read(shared_data: Path) -> None:
    most = 0
    with tarfile.open(shared_data / "opml.tar.xz") as archive:
        for member in archive:
            if member.isfile() and member.name.lower().endswith((".opml", ".xml", ".txt")):
                opened = archive.extractfile(member)
                assert opened is not None
                most = max(most, len(read_opml(opened.read()).feeds))
    assert most > 36_000


def test_an_empty_list_has_the_one_outline_that_opml_requires_and_is_read_as_empty() -> None:
    body = write_opml([])
    assert b'isComment="true"' in body
    assert read_opml(body).feeds == ()


def test_an_address_without_a_valid_host_is_refused() -> None:
    found = read_opml(b"https://a.example/feed\nhttp://[::1/feed\nhttp:///feed\nhttp://[::1]/feed\n")
    assert [one.url for one in found.feeds] == ["https://a.example/feed", "http://[::1]/feed"]
    assert [reason for _, reason in found.refused] == ["the address has no valid host"] * 2
