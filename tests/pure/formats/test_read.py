"""Documents are read into the expected values."""

from __future__ import annotations

import csv
import io
import json
import tarfile
from pathlib import Path

import pytest

from headwater.errors import NotAFeed
from headwater.formats import read
from headwater.model import Chapter, Enclosure, Episode, Hints, Person, Source

RSS = b"""<?xml version="1.0"?>
<rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/" xmlns:dc="http://purl.org/dc/elements/1.1/"
 xmlns:atom="http://www.w3.org/2005/Atom" xmlns:sy="http://purl.org/rss/1.0/modules/syndication/">
<channel><title>AT&amp;amp;T &lt;b&gt;news&lt;/b&gt;</title><link>/home</link><description>Words</description>
<language>en-us</language><managingEditor>ed@example.org (Ed Itor)</managingEditor><ttl>90</ttl>
<lastBuildDate>Thu, 01 Jan 2004 19:48:21 GMT</lastBuildDate><category>News</category><generator>Gen 1</generator>
<atom:link rel="self" href="https://example.org/feed"/><atom:link rel="hub" href="https://hub.example/"/>
<skipHours><hour>1</hour><hour>24</hour></skipHours><skipDays><day>Sunday</day></skipDays>
<sy:updatePeriod>hourly</sy:updatePeriod><sy:updateFrequency>2</sy:updateFrequency>
<image><url>/logo.png</url><title>x</title><link>https://wrong.example/</link></image>
<item><title>One</title><link>https://example.org/1</link><guid isPermaLink="false">id-1</guid>
<pubDate>Thu, 01 Jan 2004 19:48:21 GMT</pubDate>
<description>&lt;p&gt;Short &lt;a href="/x"&gt;x&lt;/a&gt;&lt;/p&gt;</description>
<content:encoded><![CDATA[<p>Long</p><script>alert(1)</script>]]></content:encoded><dc:creator>Ann</dc:creator>
<category>a</category><category>b</category>
<enclosure url="https://example.org/1.mp3" type="audio/mpeg" length="1,234"/></item>
<item><title>Two</title><guid>https://example.org/2</guid></item>
</channel></rss>"""


def test_bytes_of_any_kind_are_read_and_text_is_refused_by_name() -> None:
    body = b"<rss version='2.0'><channel><title>T</title></channel></rss>"
    assert read(memoryview(body)) == read(bytearray(body)) == read(body)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes the bytes of a document, not str"):
        read(body.decode())  # type: ignore[arg-type]


def test_rss_2_is_read_field_by_field() -> None:
    document = read(RSS, url="https://example.org/feed")
    assert (document.format, document.title, document.link) == ("rss 2.0", "AT&T news", "https://example.org/home")
    assert (document.subtitle, document.language, document.updated) == ("Words", "en-us", 1072986501.0)
    assert (document.authors, document.categories, document.generator) == (("Ed Itor",), ("News",), "Gen 1")
    assert (document.self, document.hub) == ("https://example.org/feed", ("https://hub.example/",))
    assert document.icon == "https://example.org/logo.png"
    assert document.hints == Hints(5400.0, (0, 1), ("Sunday",), "hourly", 2)
    assert document.problems == ()
    first, second = document.items
    assert (first.id, first.link, first.title) == ("id-1", "https://example.org/1", "One")
    assert (first.published, first.updated, first.authors) == (1072986501.0, None, ("Ann",))
    assert first.summary == '<p>Short <a href="https://example.org/x" rel="noopener noreferrer">x</a></p>'
    assert (first.content, first.categories, first.language) == ("<p>Long</p>", ("a", "b"), "en-us")
    assert first.enclosures == (Enclosure("https://example.org/1.mp3", "audio/mpeg", 1234),)
    assert (second.id, second.link, second.authors) == ("https://example.org/2", "https://example.org/2", ())


def test_atom_is_read_with_bases_languages_and_text_constructs() -> None:
    document = read(
        b"""<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="de" xml:base="https://example.org/a/">
        <title type="html">Caf&amp;eacute; &lt;i&gt;x&lt;/i&gt;</title><id>tag:example.org,2004:1</id>
        <updated>2004-01-01T19:48:21Z</updated><link href="."/><link rel="next" href="?page=2"/>
        <author><name>Ann</name><email>ann@example.org</email></author><icon>/i.png</icon>
        <entry xml:lang="fr"><title>a &lt; b</title><id>urn:x</id><link rel="self" href="self"/>
        <link rel="alternate" type="application/json" href="json"/><link rel="alternate" href="b/c"/>
        <link rel="enclosure" href="d.mp3" type="audio/mpeg" length="5"/>
        <published>2004-01-01T10:00:00+01:00</published><updated>2004-01-02T10:00:00Z</updated>
        <category term="t" label="L"/><summary>1 &lt; 2</summary>
        <content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"
        xml:base="deep/">Hi <b>you</b> <a href="z">z</a></div></content>
        </entry><entry><updated>2004-01-02T10:00:00Z</updated><source><author><name>Bob</name></author></source></entry></feed>"""
    )
    assert (document.format, document.title, document.id) == ("atom 1.0", "Café x", "tag:example.org,2004:1")
    assert (document.link, document.next) == ("https://example.org/a/", "https://example.org/a/?page=2")
    assert (document.authors, document.icon, document.language) == (("Ann",), "https://example.org/i.png", "de")
    first, second = document.items
    assert (first.title, first.link, first.language) == ("a < b", "https://example.org/a/b/c", "fr")
    assert (first.published, first.updated) == (1072947600.0, 1073037600.0)
    assert (first.authors, first.categories, first.summary) == (("Ann",), ("t",), "1 &lt; 2")
    assert first.content == 'Hi <b>you</b> <a href="https://example.org/a/deep/z" rel="noopener noreferrer">z</a>'
    assert first.enclosures == (Enclosure("https://example.org/a/d.mp3", "audio/mpeg", 5),)
    assert (second.published, second.authors, second.language) == (1073037600.0, ("Bob",), "de")


def test_rdf_items_beside_the_channel_are_found_and_identified_by_rdf_about() -> None:
    document = read(
        b"""<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"
        xmlns:dc="http://purl.org/dc/elements/1.1/"><channel rdf:about="https://example.org/rdf"><title>T</title>
        <link>https://example.org/</link><dc:language>en</dc:language></channel>
        <item rdf:about="https://example.org/1"><title>One</title><dc:date>2004-01-01T19:48:21Z</dc:date>
        <dc:creator>Ann</dc:creator><dc:subject>s</dc:subject></item></rdf:RDF>"""
    )
    (item,) = document.items
    assert (document.format, document.id, document.language) == ("rdf 1.0", "https://example.org/rdf", "en")
    assert (item.id, item.link, item.published) == ("https://example.org/1", "https://example.org/1", 1072986501.0)
    assert (item.authors, item.categories) == (("Ann",), ("s",))


def test_json_feed_is_read() -> None:
    document = read(
        b"""{"version": "https://jsonfeed.org/version/1.1", "title": "T", "home_page_url": "https://example.org/",
        "feed_url": "https://example.org/feed.json", "language": "en",
        "authors": [{"name": "Ann"}, {"url": "mailto:bo@example.org"}],
        "hubs": [{"type": "WebSub", "url": "https://hub.example/"}], "next_url": "https://example.org/2",
        "items": [{"id": 7, "url": "/1", "title": "One", "summary": "a < b",
        "content_html": "<p>x<script>y</script></p>",
        "date_published": "2004-01-01T19:48:21Z", "tags": ["a"], "image": "/i.png",
        "attachments": [{"url": "/1.mp3", "mime_type": "audio/mpeg", "size_in_bytes": 5}]},
        {"id": "8", "content_text": "1 < 2"}, "junk"]}"""
    )
    first, second = document.items
    assert (document.format, document.hub, document.next) == (
        "json 1.1",
        ("https://hub.example/",),
        "https://example.org/2",
    )
    assert (first.id, first.link, first.content) == ("7", "https://example.org/1", "<p>x</p>")
    assert (first.summary, first.authors, first.published) == ("a &lt; b", ("Ann", "bo@example.org"), 1072986501.0)
    assert [one.url for one in first.enclosures] == ["https://example.org/1.mp3", "https://example.org/i.png"]
    assert second.content == "1 &lt; 2"


def test_cdf_is_read() -> None:
    document = read(
        b"""<CHANNEL HREF="http://example.org/" LASTMOD="2004-04-06T23:05:43-05:00"><TITLE>T</TITLE>
        <ABSTRACT>A</ABSTRACT>
        <ITEM HREF="http://example.org/1"><TITLE>One</TITLE><ABSTRACT>B</ABSTRACT></ITEM></CHANNEL>"""
    )
    assert (document.format, document.title, document.subtitle) == ("cdf", "T", "A")
    assert (document.items[0].link, document.items[0].title) == ("http://example.org/1", "One")


@pytest.mark.parametrize(
    ("fragment", "field", "expected"),
    [
        ("<link>a b</link>", "link", "https://example.org/a b"),
        ('<link href="https://a.example/"/>', "link", "https://a.example/"),
        ("<link>javascript:alert(1)</link>", "link", None),
        ("<link>&lt;a href='/a?b&amp;amp;c'>there&lt;/a></link>", "link", "https://example.org/a?b&c"),
        ("<link>&lt;a href='javascript:alert(1)'>there&lt;/a></link>", "link", None),
        ("<guid>https://a.example/1</guid>", "link", "https://a.example/1"),
        ('<guid isPermaLink="false">https://a.example/1</guid>', "link", None),
        ('<enclosure url="https://a.example/1.mp3"/>', "link", "https://a.example/1.mp3"),
        ('<enclosure url="https://a.example/1.jpg" type="image/jpeg"/><enclosure url="https://a.example/1.mp3"/>',
         "link", "https://a.example/1.mp3"),
        ('<enclosure url="https://a.example/1.jpg" type="image/jpeg"/>', "link", "https://a.example/1.jpg"),
        ("<atom:id>https://a.example/1</atom:id>", "link", "https://a.example/1"),
        ("<atom:id>urn:a:1</atom:id>", "link", None),
        ("<author>ann@example.org (Ann Onym)</author>", "authors", ("Ann Onym",)),
        ("<author>Ann Onym &lt;ann@example.org&gt;</author>", "authors", ("Ann Onym",)),
        ("<author>ann@example.org</author>", "authors", ("ann@example.org",)),
        ("<dc:creator>Ann</dc:creator><dc:creator>Bob</dc:creator>", "authors", ("Ann", "Bob")),
        ("<itunes:author>Pod</itunes:author>", "authors", ("Pod",)),
        ("<DC:Creator>Ann</DC:Creator>", "authors", ("Ann",)),
        ("<title>5 &lt; 6 &amp;amp; 7</title>", "title", "5 < 6 & 7"),
        ("<title><![CDATA[<em>x</em> &hellip;]]></title>", "title", "x …"),
        ("<title>a\n  b</title>", "title", "a b"),
        ("<title>Using &lt;vector&gt; in C++</title>", "title", "Using <vector> in C++"),
        ("<title>caf&eacute;&nbsp;x &bogus; y & z</title>", "title", "café\u00a0x &bogus; y & z"),
        ("<description>a</description><description>b</description>", "content", "b"),
        ("<description>Tom &amp; Jerry &amp;eacute;</description>", "summary", "Tom &amp; Jerry é"),
        ("<description>a</description><summary>b</summary>", "summary", "a"),
        ("<description>a</description><summary>b</summary>", "content", "b"),
        ("<summary>a</summary><description>b</description>", "summary", "a"),
        ("<summary>a</summary><description>b</description>", "content", "b"),
        ("<summary>a</summary><description>a</description>", "content", None),
        ("<media:description>m</media:description>", "summary", "m"),
        ("<dc:language>fr</dc:language>", "language", "fr"),
        ("<itunes:keywords>a, b</itunes:keywords>", "categories", ("a", "b")),
        ("<itunes:keywords text='a'/><itunes:keywords text='b'/>", "categories", ("a", "b")),
        ("<tags>a, b</tags><category>c</category>", "categories", ("a", "b", "c")),
        ("<pubDate>nonsense</pubDate>", "published", None),
        ('<media:group><media:content url="/v.mp4" medium="video"/><media:thumbnail url="/t.png"/></media:group>',
         "enclosures",
         (Enclosure("https://example.org/v.mp4", "video/*"), Enclosure("https://example.org/t.png", "image/*"))),
    ],
)  # fmt: skip
def test_each_element_fills_its_field(fragment: str, field: str, expected: object) -> None:
    body = f"<rss version='2.0'><channel><item>{fragment}</item></channel></rss>"
    (item,) = read(body.encode(), url="https://example.org/").items
    assert getattr(item, field) == expected


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"", "empty"),
        (b"  \r\n ", "empty"),
        (b"<!DOCTYPE html><html><head><title>x</title></head><body>x</body></html>", "html"),
        (b'<html><body><form><input type="password"></form></body></html>', "login"),
        (b'<opml version="2.0"><body><outline xmlUrl="https://a.example/"/></body></opml>', "opml"),
        (b'{"error": "no"}', "json"),
        (b"<rss><channel><title>x", "truncated"),
        (b'<feed xmlns="http://www.w3.org/2005/Atom"><title>x</title><entry><ti', "truncated"),
        (b'{"version": "https://jsonfeed.org/version/1", "items": [{"id"', "truncated"),
        (b"Not found", "unknown"),
        (b"%PDF-1.4 ...", "unknown"),
        (b'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url/></urlset>', "sitemap"),
        (b"<book><chapter/></book>", "xml"),
    ],
)
def test_a_document_that_is_not_a_feed_is_named(body: bytes, what: str) -> None:
    with pytest.raises(NotAFeed) as caught:
        read(body)
    assert caught.value.what == what
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0<ab>", "a picture"),
        (b"\x1f\x8b\x08\0\0<o>\0", "gzip-compressed data"),
        (b"PK\x03\x04<a>", "a ZIP archive"),
        (b"SQLite format 3\0<a>", "a SQLite database"),
    ],
)
def test_a_binary_file_is_named_even_if_it_contains_tags(body: bytes, kind: str) -> None:
    with pytest.raises(NotAFeed, match=f"This is {kind}, not a feed."):
        read(body)


def test_every_real_document_is_read_and_has_the_items_its_manifest_counts(shared_data: Path) -> None:
    # The manifest counts `"id"` in JSON documents, which authors and attachments have too, and item tags in RSS.
    differing = set()
    with tarfile.open(shared_data / "feeds.tar.xz") as archive:
        bodies = {
            member.name.removeprefix("./"): archive.extractfile(member).read() for member in archive if member.isfile()
        }  # type: ignore[union-attr]
    for row in csv.DictReader(io.StringIO(bodies["MANIFEST.csv"].decode())):
        document = read(bodies[row["file"]], url="https://example.org/feed")
        if len(document.items) != int(row["items"]):
            differing.add(row["format"])
    assert differing <= {"jsonfeed"}


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("Me &lt;me@example.org&gt;", "Me"),
        ("Jane Doe (@jane)", "Jane Doe (@jane)"),
        ("@jack", "@jack"),
        ("Ann (mailto:&amp;#97;&amp;#110;&amp;#110;&amp;#64;example.org)", "Ann"),
        ("Smith &amp; Sons (Ltd)", "Smith & Sons (Ltd)"),
        ("&lt;a href='https://example.org/a'>Ann&lt;/a> (Oslo)", "Ann (Oslo)"),
        ("mailto:Ann%20Onym%20%3Cann%40example.org%3E?subject=Your%20piece", "Ann Onym"),
        ("MAILTO:ann@example.org?subject=hello", "ann@example.org"),
        ("ann@example.org (Ann (Annie) Onym)", "Ann (Annie) Onym"),
        ("Ann (Annie) Onym &lt;ann@example.org&gt;", "Ann (Annie) Onym"),
        ("Ann &lt;ann@example.org&gt; (editor)", "Ann (editor)"),
        ("ann@example.org (Ann &amp;lt;i&amp;gt;Onym&amp;lt;/i&amp;gt;)", "Ann Onym"),
        ("Ann Onym)", "Ann Onym)"),
        (" (Ann Onym)", "Ann Onym"),
        ("(Ann) and (Bob)", "(Ann) and (Bob)"),
        ("ann@example.org (Ann", "Ann"),
    ],
)
def test_people_are_named_without_addresses_and_markup(written: str, name: str) -> None:
    body = f"<rss version='2.0'><channel><item><author>{written}</author></item></channel></rss>"
    assert read(body.encode()).items[0].authors == (name,)


def test_several_people_in_one_element_are_separated_by_their_addresses() -> None:
    body = "<rss version='2.0'><channel><item><author>{}</author></item></channel></rss>"
    listed = body.format("ann@example.org (Ann); Bob &lt;bob@example.org&gt;, cy@example.org").encode()
    assert read(listed).items[0].authors == ("Ann", "Bob", "cy@example.org")
    assert read(body.format("Onym, Ann").encode()).items[0].authors == ("Onym, Ann",)


def test_a_person_of_foaf_may_have_the_name_in_an_attribute() -> None:
    body = b"""<rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:f="http://xmlns.com/foaf/0.1/">
    <channel><item><dc:creator><f:Person f:name="Ann"><f:homepage>https://ann.example/</f:homepage></f:Person>
    </dc:creator></item></channel></rss>"""
    assert read(body).items[0].authors == ("Ann",)


def test_files_behind_feedburner_and_torrents_are_enclosures() -> None:
    body = b"""<rss version="2.0" xmlns:feedburner="http://rssnamespace.org/feedburner/ext/1.0"
    xmlns:media="http://search.yahoo.com/mrss/"><channel><item>
    <enclosure url="https://proxy.example.org/1" length="7" type="audio/mpeg"/>
    <feedburner:origEnclosureLink>https://example.org/1.mp3</feedburner:origEnclosureLink>
    <media:peerLink href="https://example.org/1.torrent" type="application/x-bittorrent"/></item></channel></rss>"""
    assert read(body).items[0].enclosures == (
        Enclosure("https://example.org/1.mp3", "audio/mpeg", 7),
        Enclosure("https://example.org/1.torrent", "application/x-bittorrent", None),
    )


def test_type_and_length_of_a_file_are_merged_from_two_elements() -> None:
    body = b"""<rss version="2.0" xmlns:media="http://search.yahoo.com/mrss/"><channel><item>
    <media:content url="https://example.org/1.mp3" type="audio/mpeg"/><media:content url="https://example.org/2.pdf"/>
    <enclosure url="https://example.org/1.mp3" length="7" type="audio/x-mpeg"/>
    <enclosure url="https://example.org/2.pdf" length="9" type="application/pdf"/></item></channel></rss>"""
    assert read(body).items[0].enclosures == (
        Enclosure("https://example.org/1.mp3", "audio/mpeg", 7),
        Enclosure("https://example.org/2.pdf", "application/pdf", 9),
    )


@pytest.mark.parametrize(
    ("written", "length"),
    [
        ("1234567", 1_234_567),
        ("12,345", 12_345),
        ("3.2 MB", 3_200_000),
        (" 1 kB ", 1_000),
        ("7 bytes", 7),
        ("1GB", 10**9),
        ("2 MiB", None),
        ("-1", None),
        ("large", None),
        ("9" * 20, None),
        ("9" * 20 + "TB", None),
    ],
)
def test_the_length_of_a_file_is_in_bytes_whatever_unit_it_is_given_in(written: str, length: int | None) -> None:
    file = f"<enclosure url='https://example.org/1' length='{written}'/>"
    body = f"<rss version='2.0'><channel><item>{file}</item></channel></rss>"
    assert read(body.encode()).items[0].enclosures == (Enclosure("https://example.org/1", None, length),)


def test_the_description_of_a_picture_is_its_title() -> None:
    """Mastodon describes pictures for people who do not see them."""
    (item,) = read(
        b'<rss xmlns:media="http://search.yahoo.com/mrss/"><channel><item><description>Look!</description>'
        b'<media:content url="https://e.example/p.png" type="image/png" medium="image">'
        b'<media:description type="plain">Lizards in a desert</media:description></media:content>'
        b'<media:content url="https://e.example/a.mp3" type="audio/mpeg">'
        b"<media:description>Long notes</media:description></media:content></item></channel></rss>"
    ).items
    assert [one.title for one in item.enclosures] == ["Lizards in a desert", None]
    assert item.summary == "Look!"


def test_files_inside_a_media_group_or_a_link_are_found() -> None:
    body = b"""<feed xmlns="http://www.w3.org/2005/Atom" xmlns:m="http://search.yahoo.com/mrss/"><entry>
    <link href="https://example.org/1"><m:thumbnail>https://example.org/1.png</m:thumbnail></link>
    <m:group><m:category>Music</m:category><m:keywords>loud, short</m:keywords></m:group></entry></feed>"""
    (item,) = read(body).items
    assert item.link == "https://example.org/1"
    assert item.enclosures == (Enclosure("https://example.org/1.png", "image/*"),)
    assert item.categories == ("Music", "loud", "short")


@pytest.mark.parametrize(
    "body",
    [
        '<feed xmlns="http://www.w3.org/2005/Atom"><entry>%s<content type="html">long</content></entry></feed>',
        '<rss version="2.0"><channel><item>%s<content:encoded>long</content:encoded></item></channel></rss>',
    ],
)
def test_content_is_the_summary_of_an_item_without_one_but_is_not_kept_twice(body: str) -> None:
    (item,) = read((body % "").encode()).items
    assert (item.summary, item.content) == ("long", "long")
    (item,) = read((body % "<summary>short</summary>").encode()).items
    assert (item.summary, item.content) == ("short", "long")
    (item,) = read((body % "").encode(), summaries=False).items
    assert (item.summary, item.content) == (None, "long")


def test_content_of_json_is_the_summary_of_an_item_without_one_but_is_not_kept_twice() -> None:
    feed = {"version": "https://jsonfeed.org/version/1.1", "title": "t", "items": [{"id": "1", "content_html": "long"}]}
    rss = {"rss": {"channel": {"item": [{"content:encoded": "long"}]}}}
    for value in (feed, rss):
        body = json.dumps(value).encode()
        assert (read(body).items[0].summary, read(body).items[0].content) == ("long", "long")
        (item,) = read(body, summaries=False).items
        assert (item.summary, item.content) == (None, "long")


def test_content_in_several_forms_is_shown_in_the_richest() -> None:
    body = b"""<feed version="0.3" xmlns="http://purl.org/atom/ns#"><entry><content type="multipart/alternative">
    <content type="text/plain">two  words</content>
    <content type="text/html" mode="escaped">&lt;b>two&lt;/b> words</content></content></entry></feed>"""
    assert read(body).items[0].content == "<b>two</b> words"


@pytest.mark.parametrize(
    ("kind", "held", "shown"),
    [
        ("image/png", "iVBORw0KGgoAAAAN", None),
        ("application/octet-stream", "PGI+aGk8L2I+", "<b>hi</b>"),
        ("image/svg+xml", "no picture", "no picture"),
    ],
)
def test_binary_content_is_not_shown_as_text(kind: str, held: str, shown: str | None) -> None:
    body = f'<feed xmlns="http://www.w3.org/2005/Atom"><entry><content type="{kind}">{held}</content></entry></feed>'
    assert read(body.encode()).items[0].content == shown


def test_a_feed_without_a_link_has_its_identity_if_that_is_an_address() -> None:
    feed = '<feed xmlns="http://www.w3.org/2005/Atom"><id>{}</id><link rel="self" href="https://example.org/f"/></feed>'
    assert read(feed.format("https://example.org/").encode()).link == "https://example.org/"
    assert read(feed.format("urn:x:1").encode()).link is None


def test_an_empty_self_link_is_the_address_of_the_document() -> None:
    feed = (
        b'<feed xmlns="http://www.w3.org/2005/Atom" xml:base="https://example.org/f"><link rel="self" href=""/></feed>'
    )
    assert read(feed).self == "https://example.org/f"
    assert read(feed.replace(b"self", b"alternate")).link is None


def test_a_namespace_broken_by_a_line_end_is_still_that_namespace() -> None:
    body = b"""<rss version="2.0"><channel><a:link xmlns:a="http://www
    .w3.org/2005/Atom" rel="hub" href="https://hub.example/"/></channel></rss>"""
    assert read(body).hub == ("https://hub.example/",)


def test_a_player_is_the_link_of_an_item_that_has_no_other() -> None:
    item = "<item>%s<media:player url='/play/7' xmlns:media='http://search.yahoo.com/mrss/'/></item>"
    links = ["<guid isPermaLink='false'>7</guid>", "<guid>http://example.org/7</guid>", "<link>/seven</link>"]
    body = f"<rss><channel>{''.join(item % link for link in links)}</channel></rss>".encode()
    found = [entry.link for entry in read(body, "http://example.org/feed").items]
    assert found == ["http://example.org/play/7", "http://example.org/7", "http://example.org/seven"]


def test_categories_of_itunes_and_google_play_are_read() -> None:
    space = "xmlns:g='http://www.google.com/schemas/play-podcasts/1.0'"
    body = f"<rss {space}><channel><title>Talk</title><g:category text='Gardens'/></channel></rss>".encode()
    assert read(body).categories == ("Gardens",)


def test_categories_inside_a_categories_element_are_read() -> None:
    around = "<categories><category>Mac</category><name>x</name><category>iOS</category></categories>"
    body = f"<rss><channel><item><title>t</title>{around}</item></channel></rss>".encode()
    assert read(body).items[0].categories == ("Mac", "iOS")


def test_the_query_of_an_address_in_a_title_is_not_decoded() -> None:
    body = b"<rss version='2.0'><channel><title>?page=1&amp;copy=2 &amp;copy; me</title></channel></rss>"
    assert read(body).title == "?page=1&copy=2 \N{COPYRIGHT SIGN} me"


def test_references_to_numbers_without_a_character_stay() -> None:
    title = (
        "&#128512; is a character; &#1114112;, &#x110000; and &#99999999999999999999; are none, nor &#0; and &#55296;"
    )
    item = read(f"<rss><channel><item><title>{title.replace('&', '&amp;')}</title></item></channel></rss>".encode())
    assert item.items[0].title == title.replace("&#128512;", "😀")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("men&#39;s souls", "men's souls"),
        ("caf&eacute; &amp; cr&#xe8;me", "café & crème"),
        ("AT&T, a < b, <i> & &copy=2", "AT&T, a < b, <i> & &copy=2"),
        ("&squirrel; &notice; &#x110000; &#0; &#xD800; &#;", "&squirrel; &notice; &#x110000; &#0; &#xD800; &#;"),
    ],
)
def test_references_in_titles_of_json_feed_are_decoded_and_nothing_else_is(written: str, meant: str) -> None:
    feed = {"version": "https://jsonfeed.org/version/1", "title": written, "items": [{"id": "1", "title": written}]}
    document = read(json.dumps(feed).encode())
    assert (document.title, document.items[0].title) == (meant, meant)


def test_an_empty_last_item_of_a_truncated_document_is_dropped() -> None:
    whole = b"<rss version='2.0'><channel><title>x</title><item><title>one</title></item><item><ti"
    assert [item.title for item in read(whole).items] == ["one"]
    assert [item.title for item in read(whole + b"tle><![CDA").items] == ["one"]


def test_rss_in_json_is_read_as_rss() -> None:
    body = b"""{"rss": {"version": "2.0", "channel": {"title": "T", "link": "http://a.example/", "language": "en-us",
        "image": {"url": "http://a.example/i.png"}, "source:account": "x", "bad name": 1, "ttl": 60, "item": [
        {"title": "One", "link": "/1", "pubDate": "Thu, 01 Jan 1970 00:01:00 GMT", "description": "<b>x</b><script>",
         "guid": {"isPermaLink": "false", "#value": "g1"}, "category": ["a", {"domain": "d", "#value": "b"}],
         "enclosure": {"url": "http://a.example/1.mp3", "type": "audio/mpeg", "length": 12}},
        {"description": "no title", "guid": "http://a.example/2"}]}}}"""
    found = read(body, url="http://a.example/rss.json")
    assert (found.format, found.title, found.language, found.icon) == (
        "rss 2.0",
        "T",
        "en-us",
        "http://a.example/i.png",
    )
    assert found.hints.ttl == 3600
    one, two = found.items
    assert (one.id, one.link, one.published, one.summary) == ("g1", "http://a.example/1", 60.0, "<b>x</b>")
    assert one.categories == ("a", "b")
    assert one.enclosures == (Enclosure("http://a.example/1.mp3", "audio/mpeg", 12),)
    assert (two.link, two.summary) == ("http://a.example/2", "no title")


def test_a_document_without_its_last_character_is_complete() -> None:
    assert read(b"<feed xmlns='http://www.w3.org/2005/Atom'><title>x</title></feed").title == "x"


def test_warnings_of_the_server_before_the_document_are_ignored() -> None:
    body = b"<br />\n<b>Warning</b>: something in x.php<br />\n<?xml version='1.0'?><rss><channel><title>T</title>"
    body += b"<item><title>one</title></item></channel></rss>"
    found = read(body)
    assert (found.title, [item.title for item in found.items]) == ("T", ["one"])
    assert found.problems


@pytest.mark.parametrize(
    "element",
    [
        b"<itunes:image href='/e.jpg' xmlns:itunes='http://www.itunes.com/dtds/podcast-1.0.dtd'/>",
        b"<image><url>/e.jpg</url><title>not the item's</title></image>",
    ],
)
def test_the_picture_of_an_item_is_one_of_its_files(element: bytes) -> None:
    body = b"<rss><channel><item><title>one</title>" + element + b"</item></channel></rss>"
    (item,) = read(body, url="http://a.example/feed").items
    assert item.enclosures == (Enclosure("http://a.example/e.jpg", "image/*", None),)
    assert (item.title, item.link) == ("one", None)


ATOM = "<feed xmlns='http://www.w3.org/2005/Atom' xml:lang='en'>{}</feed>"


@pytest.mark.parametrize(
    ("written", "title", "summary"),
    [
        (
            "R&amp;D on the &lt;marquee> element",
            "R&D on the <marquee> element",
            "R&amp;D on the &lt;marquee&gt; element",
        ),
        ("R&amp;amp;D on &lt;i>it&lt;/i>", "R&D on it", "R&amp;D on <i>it</i>"),
        ("one&lt;br>two", "one<br>two", "one<br>two"),
    ],
)
def test_atom_without_a_type_is_text_unless_it_is_clearly_html(written: str, title: str, summary: str) -> None:
    body = ATOM.format(f"<entry><title>{written}</title><summary>{written}</summary></entry>")
    (item,) = read(body.encode()).items
    assert (item.title, item.summary) == (title, summary)


@pytest.mark.parametrize(
    ("entry", "spoken"),
    [
        ("<entry xml:lang=''><content>x</content></entry>", None),
        ("<entry><summary xml:lang='fr'>x</summary><content>y</content></entry>", "en"),
        ("<entry><summary xml:lang='fr'>x</summary></entry>", "fr"),
        ("<entry xml:lang='de'><title>x</title><content xml:lang='fr'>y</content></entry>", "fr"),
    ],
)
def test_the_language_of_an_item_is_that_of_its_content_summary_or_title(entry: str, spoken: str | None) -> None:
    assert read(ATOM.format(entry).encode()).items[0].language == spoken


def test_links_of_a_document_without_an_address_are_resolved_against_its_own_links() -> None:
    body = b"<rss><channel><link>https://example.org/blog/</link><item><link>/1</link><guid>/1</guid></item></channel></rss>"
    (item,) = read(body).items
    assert (item.link, item.id) == ("https://example.org/1", "/1")
    (item,) = read(body, url="https://other.example/feed").items
    assert item.link == "https://other.example/1"


def test_a_feed_without_updated_has_its_date_of_issue() -> None:
    body = (
        b"<rss xmlns:t='http://purl.org/dc/terms/'><channel>%s<t:issued>1970-01-01T00:01:00Z</t:issued></channel></rss>"
    )
    assert read(body % b"").updated == 60.0
    assert read(body % b"<t:modified>1970-01-01T00:02:00Z</t:modified>").updated == 120.0


@pytest.mark.parametrize(
    ("elements", "authors", "writers"),
    [
        ("<i:owner><i:name>Net</i:name></i:owner><i:author>Pod</i:author>", ("Pod",), ("Pod",)),
        ("<webMaster>w@example.org (Web)</webMaster><i:owner><i:name>Net</i:name></i:owner>", ("Net",), ()),
        ("<webMaster>w@example.org (Web)</webMaster><i:author/>", ("Web",), ()),
        ("<i:author>Pod</i:author><managingEditor>e@example.org (Ed)</managingEditor>", ("Ed",), ("Pod",)),
        (
            "<managingEditor>e@example.org (Ed)</managingEditor><author>a@example.org</author>",
            ("Ed", "a@example.org"),
            ("a@example.org",),
        ),
    ],
)
def test_the_author_of_a_feed_is_read_from_the_best_element(
    elements: str, authors: tuple[str, ...], writers: tuple[str, ...]
) -> None:
    """Items inherit the authors of the feed, but not its contacts."""
    space = "xmlns:i='http://www.itunes.com/dtds/podcast-1.0.dtd'"
    found = read(f"<rss {space}><channel>{elements}<item><title>one</title></item></channel></rss>".encode())
    assert (found.authors, found.items[0].authors) == (authors, writers)


def test_contacts_of_a_feed_are_not_authors_of_its_items() -> None:
    found = read(
        b"""<rss xmlns:dc='http://purl.org/dc/elements/1.1/'><channel><title>Papers</title>
        <webMaster>www-admin@example.org</webMaster><managingEditor>ed@example.org (Ed Itor)</managingEditor>
        <dc:publisher>Press</dc:publisher><item><title>one</title></item>
        <item><title>two</title><author>ann@example.org (Ann)</author><dc:creator>Bob</dc:creator></item>
        </channel></rss>"""
    )
    assert found.contacts == (
        Person(None, "www-admin@example.org"),
        Person("Ed Itor", "ed@example.org"),
        Person("Press"),
    )
    assert [(item.authors, item.people) for item in found.items] == [
        ((), ()),
        (("Ann", "Bob"), (Person("Ann", "ann@example.org"), Person("Bob"))),
    ]


@pytest.mark.parametrize(
    ("element", "person"),
    [
        ("<author><name>Ann</name><email>ann@example.org</email><uri>/ann</uri></author>",
         Person("Ann", "ann@example.org", "https://example.org/ann")),
        ("<author><email>ann@example.org</email></author>", Person(None, "ann@example.org")),
        ("<author><name>Ann &lt;ann@example.org&gt;</name></author>", Person("Ann", "ann@example.org")),
        ("<author><name>@ann</name><uri>https://example.org/ann</uri></author>",
         Person("@ann", None, "https://example.org/ann")),
    ],
)  # fmt: skip
def test_name_mail_and_page_of_a_person_are_apart(element: str, person: Person) -> None:
    body = f"<feed xmlns='http://www.w3.org/2005/Atom'><title>t</title><entry><id>1</id>{element}</entry></feed>"
    (item,) = read(body.encode(), url="https://example.org/feed").items
    assert (item.people, item.authors) == ((person,), (person.label,))


def test_the_page_of_a_person_without_a_name_is_resolved_and_safe() -> None:
    atom = "<feed xmlns='http://www.w3.org/2005/Atom'><entry><id>1</id><author><uri>{}</uri></author></entry></feed>"
    (item,) = read(atom.format("/me").encode(), url="https://example.org/feed").items
    assert item.people == (Person(url="https://example.org/me"),)
    (item,) = read(atom.format("javascript:x()").encode(), url="https://example.org/feed").items
    assert (item.people, item.authors) == ((), ())


def test_chapters_inside_the_document_are_kept() -> None:
    (item,) = read(
        b"""<rss xmlns:psc='http://podlove.org/simple-chapters'><channel><item><title>one</title>
        <psc:chapters version='1.2'><psc:chapter start='0' title='Intro'/><psc:chapter start='soon' title='Never'/>
        <psc:chapter start='00:01:02.500' title='Two' href='/2' image='javascript:x'/><psc:chapter start='1:00'/>
        </psc:chapters></item></channel></rss>""",
        url="https://example.org/feed",
    ).items
    two = Chapter(62.5, "Two", "https://example.org/2")
    assert item.episode == Episode(inline_chapters=(Chapter(0.0, "Intro"), two))


def test_podcast_fields_and_media_sizes_are_read() -> None:
    (item,) = read(
        b"""<rss xmlns:i='http://www.itunes.com/dtds/podcast-1.0.dtd' xmlns:p='https://podcastindex.org/namespace/1.0'
        xmlns:m='http://search.yahoo.com/mrss/'><channel><title>t</title><item><title>one</title>
        <enclosure url='https://example.org/1.mp3' type='audio/mpeg' length='1000'/><i:image href='https://example.org/1.jpg'/>
        <i:duration>1:02:03</i:duration><i:episode>7</i:episode><i:season>2</i:season><i:episodeType>Bonus</i:episodeType>
        <p:transcript url='https://example.org/1.vtt' type='text/vtt' language='en'/>
        <p:chapters url='https://example.org/1.json' type='application/json+chapters'/>
        <m:content url='https://example.org/1.mp4' type='video/mp4' width='640' height='360' duration='12.5'/>
        </item></channel></rss>"""
    ).items
    transcript = Enclosure("https://example.org/1.vtt", "text/vtt", language="en")
    chapters = Enclosure("https://example.org/1.json", "application/json+chapters")
    assert item.episode == Episode(3723.0, 7.0, 2.0, "bonus", chapters, (transcript,))
    assert item.image == "https://example.org/1.jpg"
    assert item.enclosures == (
        Enclosure("https://example.org/1.mp3", "audio/mpeg", 1000),
        Enclosure("https://example.org/1.mp4", "video/mp4", None, 640, 360, 12.5),
        Enclosure("https://example.org/1.jpg", "image/*"),
    )


def test_the_lead_picture_is_the_first_that_is_not_an_icon() -> None:
    body = b"""<rss><channel><title>t</title><item><title>one</title><description>&lt;img src="https://example.org/i.png"
    width="16" height="16"&gt;&lt;img src="https://example.org/a.png?x=1&amp;amp;y=2"&gt;</description></item></channel></rss>"""
    assert read(body).items[0].image == "https://example.org/a.png?x=1&y=2"


@pytest.mark.parametrize(
    ("name", "tag"),
    [("English", "en"), ("hindi", "hi"), ("pt_BR", "pt-BR"), ("Sindarin", "Sindarin"), ("a_language", "a_language")],
)
def test_names_of_languages_become_tags(name: str, tag: str) -> None:
    rss = f'<rss version="2.0"><channel><title>t</title><language>{name}</language></channel></rss>'
    assert read(rss.encode()).language == tag


def test_a_source_is_known_by_its_page_or_by_its_name_alone() -> None:
    atom = '<feed xmlns="http://www.w3.org/2005/Atom"><entry><source><title>The Daily</title>{}</source></entry></feed>'
    page = '<link href="https://daily.example/"/><id>urn:daily</id>'
    for inside, address in ((page, "https://daily.example/"), ("<id>urn:daily</id>", ""), ("", "")):
        assert read(atom.format(inside).encode()).items[0].source == Source(address, "The Daily")
    (item,) = read(b"<rss><channel><item><source>The Daily</source></item></channel></rss>").items
    assert item.source == Source("", "The Daily")
