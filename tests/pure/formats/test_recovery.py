"""Damaged documents lose as few items as possible, and say how many they lost."""

from __future__ import annotations

import random
import tarfile
from collections.abc import Sequence
from pathlib import Path

import feedparser  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from headwater.errors import NotAFeed
from headwater.formats import read
from headwater.formats.parse.recovery import count_item_tags, mend_item
from support.damaged_feeds import DAMAGES

Shown = list[tuple[str | None, str | None]]  # title and link of each item


def read_ours(body: bytes) -> Shown:
    try:
        return [(item.title, item.link) for item in read(body, clean=False).items]
    except NotAFeed:
        return []


def read_with_feedparser(body: bytes) -> Shown:
    try:
        return [(entry.get("title"), entry.get("link")) for entry in feedparser.parse(body).entries]
    except Exception:  # it fails on some damage, with many kinds of errors
        return []


class Score:
    """Items found, and items found with the right title and link, summed over documents."""

    def __init__(self) -> None:
        self.found = self.right = 0

    def add(self, shown: Shown, undamaged: Shown) -> None:
        self.found += min(len(shown), len(undamaged))  # an invented item does not make up for a lost one
        self.right += len(set(shown) & set(undamaged))


def compare_readers(kind: str, bodies: Sequence[bytes]) -> tuple[Score, Score, int]:
    """Damage documents and read them with both readers; return their scores and the number of undamaged items."""
    ours, theirs, total = Score(), Score(), 0
    for place, body in enumerate(bodies):
        damaged = DAMAGES[kind](body, random.Random(f"{kind} {place}"))
        if damaged is not None:
            undamaged = read_ours(body)
            total += len(undamaged)
            ours.add(read_ours(damaged), undamaged)
            theirs.add(read_with_feedparser(damaged), undamaged)
    return ours, theirs, total


def check_damage(kind: str, bodies: Sequence[bytes]) -> None:
    ours, theirs, total = compare_readers(kind, bodies)
    row = f"{kind}: items {ours.found} Headwater, {theirs.found} feedparser, {total} undamaged; "
    row += f"title and link right {ours.right} Headwater, {theirs.right} feedparser"
    print(f"\n{row}")  # noqa: T201 - the table, which `pytest -s` shows
    assert total > 0
    assert ours.found >= theirs.found
    assert ours.right >= theirs.right


def make_document(form: str, number: int) -> bytes:
    """Make a document of twenty items with HTML in one of three forms."""
    html = (
        '<p>Text %d with <b>bold</b>,<br/> a picture <img src="/%d.png"/> and a <a href="/a?b=1&amp;c=2">link</a>.</p>'
    )
    items = []
    for n in range(number, number + 20):
        inside = html % (n, n)
        escaped = inside.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        title, link = f"<title>Item {n}</title>", f"https://example.org/{n}"
        if form == "atom":
            items.append(
                f'<entry>{title}<link href="{link}"/><id>{link}</id><updated>2024-01-01T00:00:00Z</updated>'
                f'<author><name>Ann</name></author><content type="html">{escaped}</content></entry>'
            )
        else:
            about = f' rdf:about="{link}"' if form == "rdf" else ""
            items.append(
                f"<item{about}>{title}<link>{link}</link><pubDate>Thu, 01 Jan 2004 19:48:21 GMT</pubDate>"
                f"<description><![CDATA[{inside}]]></description></item>"
            )
    text = "\n".join(items)
    if form == "atom":
        return f'<feed xmlns="http://www.w3.org/2005/Atom"><title>Feed</title>{text}</feed>'.encode()
    if form == "rdf":
        return (
            '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/">'
            f"<channel><title>Feed</title><link>https://example.org/</link></channel>{text}</rdf:RDF>"
        ).encode()
    return f'<rss version="2.0"><channel><title>Feed</title>{text}</channel></rss>'.encode()


MADE_UP = [make_document(form, number) for form in ("rss", "rdf", "atom") for number in range(0, 100, 20)]


@pytest.fixture(scope="module")
def real_documents(shared_data: Path) -> list[bytes]:
    """Return the well-formed XML documents that have items."""
    with tarfile.open(shared_data / "feeds.tar.xz") as archive:
        members = [one for one in archive if one.isfile() and not one.name.endswith((".csv", ".json"))]
        bodies = [archive.extractfile(one).read() for one in members]  # type: ignore[union-attr]
    return [body for body in bodies if is_well_formed(body) and read_ours(body)]


def is_well_formed(body: bytes) -> bool:
    try:
        etree.fromstring(body)
    except etree.XMLSyntaxError:
        return False
    return True


@pytest.mark.parametrize("kind", DAMAGES)
def test_made_up_documents_lose_no_more_than_in_feedparser(kind: str) -> None:
    check_damage(kind, MADE_UP)


@pytest.mark.parametrize("kind", DAMAGES)
def test_real_documents_lose_no_more_than_in_feedparser(kind: str, real_documents: list[bytes]) -> None:
    check_damage(kind, [body for body in real_documents if len(body) < 6_000])


@pytest.mark.soak
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("kind", DAMAGES)
def test_large_real_documents_lose_no_more_than_in_feedparser(kind: str, real_documents: list[bytes]) -> None:
    check_damage(kind, real_documents)


def test_html_that_is_not_escaped_stays_in_its_item() -> None:
    items = "".join(
        f"<item><title>{n}</title><description>a<br>b<img src='/{n}.png'><p>c</description></item>" for n in range(38)
    )
    document = read(f"<rss version='2.0'><channel><title>t</title>{items}</channel></rss>".encode())
    assert [item.title for item in document.items] == [str(n) for n in range(38)]
    assert document.items[7].summary == 'a<br>b<img src="/7.png"><p>c</p>'
    assert document.missing == 0


def test_items_without_their_own_tags_are_found_by_those_of_their_neighbours() -> None:
    body = b"""<rss><channel><title>t</title><item><title>1</title><link>https://a/1</link>
    <item><title>2</title></item><title>3</title><link>https://a/3</link></item><item><title>4</channel></rss>"""
    assert [(item.title, item.link) for item in read(body).items] == [
        ("1", "https://a/1"),
        ("2", None),
        ("3", "https://a/3"),
        ("4", None),
    ]


def test_a_cdata_section_without_an_end_ends_with_its_item() -> None:
    body = b"""<rss><channel><item><title>1</title><description><![CDATA[<p>one</description></item>
    <item><title>2</title><description><![CDATA[<p>two <item> </p></description></item></channel></rss>"""
    assert [(item.title, item.summary) for item in read(body).items] == [
        ("1", "<p>one</p>"),
        ("2", "<p>two &lt;item&gt; </p>"),
    ]


def test_a_cdata_section_without_an_end_does_not_reach_into_the_next_items() -> None:
    """The document is well formed, because the section ends with one of the next item."""
    body = b"""<rss><channel><item><title>1</title><description><![CDATA[<p>one</description></item>
    <item><title>2</title><description><![CDATA[<p>two</p>]]></description></item></channel></rss>"""
    document = read(body)
    assert [(item.title, item.summary) for item in document.items] == [("1", "<p>one</p>"), ("2", "<p>two</p>")]
    assert document.problems == ("a CDATA section without an end reached into the next items and was recovered",)


def test_an_item_about_cdata_sections_is_left_alone() -> None:
    """A section inside another is written in two."""
    body = b"""<rss><channel><item><title>1</title><description><![CDATA[use <![CDATA[<b>]]]]><![CDATA[> here]]>
    </description></item><item><title>2</title></item></channel></rss>"""
    document = read(body)
    assert [item.title for item in document.items] == ["1", "2"]
    assert document.problems == ()


def test_unreadable_items_are_counted_and_reported() -> None:
    body = b"<rss><channel><title>t</title><item><title>1</title></item><item>&</item><item><title>3</title></item>"
    document = read(body)
    assert [item.title for item in document.items] == ["1", "3"]
    assert document.missing == 1
    assert "2 of about 3 items could be read" in document.problems


def test_a_well_formed_document_misses_nothing() -> None:
    assert all(read(body).missing == 0 and not read(body).problems for body in MADE_UP)


@given(st.sampled_from(MADE_UP), st.sampled_from(sorted(DAMAGES)), st.integers(0, 10_000))
def test_every_announced_item_is_read_or_counted_as_missing(body: bytes, kind: str, seed: int) -> None:
    damaged = DAMAGES[kind](body, random.Random(seed)) or body
    try:
        document = read(damaged, clean=False)
    except NotAFeed:
        return
    if document.problems:
        announced = count_item_tags(damaged.decode("utf-8", "replace"))
        assert len(document.items) + document.missing >= announced
    assert document.missing == 0 or document.describe_missing() in document.problems


@pytest.mark.parametrize(
    ("inner", "mended"),
    [
        ("<title>a<guid>b</guid>", "<title>a</title><guid>b</guid>"),
        ("<tktle>a</title>", "<title>a</title>"),
        (
            "<description><b>a</b> <title>b</description>",
            "<description><![CDATA[<b>a</b> <title>b]]></description>",
        ),
        ("<author><name>a</name><title>b</title>", "<author><name>a</name></author><title>b</title>"),
        ("<author>a</name></author><title>b</title>", "<author>a</author><title>b</title>"),
        ("<author><name>a</author><title>b</title>", "<author><name>a</name></author><title>b</title>"),
        ("<link>/a</link\n <title>b</title", "<link>/a</link><title>b</title>"),
        ("<link href='/a'/><slash:comments>5</slash:comments>", "<link href='/a'/>"),
        ("<description>a &lt;b> c<br></description>", "<description>a &lt;b> c&lt;br></description>"),
    ],
)
def test_the_fields_of_a_damaged_item_are_mended(inner: str, mended: str) -> None:
    assert mend_item(inner) == mended


@pytest.mark.parametrize("form", ["rdf", "atom"])
def test_a_damaged_default_namespace_loses_no_items(form: str) -> None:
    body = make_document(form, 0)
    damaged = body.replace(b'xmlns="http://purl.org/', b'xmlns="http:/+purl.org/').replace(
        b"w3.org/2005/", b"w3.org/200%/"
    )
    assert damaged != body
    assert read_ours(damaged) == read_ours(body)
    assert read_ours(damaged.replace(b":rdf=", b"\xbardf=")) == read_ours(body)


JSON_FEED = (
    '{"version": "https://jsonfeed.org/version/1.1", "title": "t", "authors": [{"name": "a"}], "items": ['
    '{"id": "1", "content_text": "a,] \\"b\\" {"}, {"id": "2", "tags": ["x"]}, {"id": "3"}]}'
)


@pytest.mark.parametrize(
    "damaged",
    [
        JSON_FEED + "\n<!-- cached {page} -->",
        JSON_FEED.replace('"}]}', '"},\n ]}'),
        JSON_FEED.replace('["x"]', '["x", ]').replace('"3"}', '"3",}'),
    ],
)
def test_json_with_needless_commas_or_text_behind_it_is_read_whole(damaged: str) -> None:
    whole, document = read(JSON_FEED.encode()), read(damaged.encode())
    assert document.items == whole.items
    assert document.missing == 0
    assert document.problems == ("the JSON is not valid and was recovered",)


def test_json_that_was_cut_off_keeps_its_complete_items() -> None:
    whole = read(JSON_FEED.encode())
    first = JSON_FEED.index("}, {") + 1
    for length in range(first, len(JSON_FEED)):
        document = read(JSON_FEED[:length].encode())
        assert document.items == whole.items[: len(document.items)]
        assert document.missing == 1
        assert document.describe_missing() in document.problems
    with pytest.raises(NotAFeed, match="truncated"):
        read(JSON_FEED[: first - 1].encode())
