"""Hostile documents end quickly, stay within the limits and leave nothing that runs in a browser."""

from __future__ import annotations

import tarfile
import tracemalloc
from pathlib import Path

import pytest

from headwater.errors import NotAFeed
from headwater.formats import read
from headwater.model import Document

BILLION = b"<!DOCTYPE rss [<!ENTITY a0 'lol'>" + b"".join(
    b"<!ENTITY a%d '&a%d;&a%d;&a%d;&a%d;'>" % (n, n - 1, n - 1, n - 1, n - 1) for n in range(1, 30)
)
ITEM = b"<item><title>%s</title></item>"


def rss(inside: bytes, before: bytes = b"") -> bytes:
    return before + b"<rss version='2.0'><channel><title>t</title>" + inside + b"</channel></rss>"


DOCUMENTS = {
    "billion laughs": rss(ITEM % b"&a29;", BILLION + b"]>"),
    "quadratic blow-up": rss(ITEM % (b"&a;" * 20_000), b"<!DOCTYPE rss [<!ENTITY a '" + b"x" * 20_000 + b"'>]>"),
    "deep": rss(b"<a>" * 200_000),
    "deep in an item": rss(b"<item><description>" + b"<b>" * 200_000 + b"</description></item>"),
    "many attributes": rss(b"<item " + b" ".join(b'a%d=""' % n for n in range(200_000)) + b"><title>x</title></item>"),
    "external entity": rss(ITEM % b"&x;", b'<!DOCTYPE rss [<!ENTITY x SYSTEM "file:///etc/passwd">]>'),
    "external DTD": rss(ITEM % b"x", b'<!DOCTYPE rss SYSTEM "http://127.0.0.1:9/x.dtd">'),
    "parameter entity": rss(ITEM % b"x", b'<!DOCTYPE rss [<!ENTITY % p SYSTEM "file:///etc/passwd">%p;]>'),
    "XInclude": rss(
        b'<item><xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="/etc/passwd" parse="text"/></item>'
    ),
    "many items": rss(ITEM % b"x" * 50_000),
    "huge title": rss(ITEM % (b"y" * 9_000_000)),
    "many categories": rss(b"<item>" + b"<category>c</category>" * 100_000 + b"</item>"),
    "many authors": rss(b"<item>" + b"".join(b"<author>%d</author>" % n for n in range(100_000)) + b"</item>"),
    "author bomb": rss(b"<item><author>" + b"(@" * 100_000 + b"</author></item>"),
    "title bomb": rss(ITEM % (b"&lt;a " * 200_000)),
    "comment bomb": rss(ITEM % b"x", b"<!-- -->" * 100_000),
    "doctype bomb": rss(ITEM % b"x", b"<!DOCTYPE rss [" + b"] " * 200_000),
    "bad UTF-8": rss(ITEM % b"\xc3\x28 caf\xc3\xa9 \xff"),
    "NUL and controls": rss(ITEM % b"a\0b\x01c&#0;d&#xD800;e"),
    "numbers of many digits": rss(
        b"<item><title>&amp;#%b; a</title><description>&amp;#x%b;</description></item>" % (b"9" * 5_000, b"F" * 5_000)
    ),
    "right to left": rss(ITEM % "a\u202eb".encode()),
    "impossible dates": rss(b"<item><pubDate>Mon, 99 Foo 99999 99:99:99 +9999</pubDate></item>"),
    "deep JSON": b'{"version": "https://jsonfeed.org/version/1", "items": ' + b"[" * 100_000,
    "closed deep JSON": b'{"version": "https://jsonfeed.org/version/1", "items": '
    + b"[" * 100_000
    + b"]" * 100_000
    + b"}",
    "NaN": b'{"version": "https://jsonfeed.org/version/1", "title": NaN, "items": [{"id": Infinity, "title": "x"}]}',
    "duplicate keys": b'{"version": "https://jsonfeed.org/version/1", "title": "a", "title": "b", "items": []}',
    "wrong types": b'{"version": "https://jsonfeed.org/version/1", "title": {}, "authors": 5, "hubs": [1, null], "items": '  # noqa: E501
    b'[{"id": [], "tags": {"a": 1}, "attachments": [null, {"url": 5, "size_in_bytes": 1e400}], "author": []}]}',
    "surrogates in JSON": b'{"version": "https://jsonfeed.org/version/1", "items": [{"id": "\\ud800", "title": "\\u0000"}]}',  # noqa: E501
}


def strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, tuple):
        return [text for one in value for text in strings(one)]
    if hasattr(value, "__slots__"):
        return [text for name in value.__slots__ for text in strings(getattr(value, name))]
    return []


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_hostile_document_stays_inside_the_limits(name: str) -> None:
    try:
        document = read(DOCUMENTS[name], url="https://example.org/")
    except NotAFeed:
        return
    assert len(document.items) <= 5_000
    for item in document.items:
        assert len((item.title or "").encode()) <= 2_048
        assert len((item.content or "").encode()) <= 1_048_576
        assert len(item.categories) <= 1_000
    for text in strings(document):
        assert "root:" not in text
        assert not any(char < " " and char not in "\t\r\n" for char in text)
        text.encode("utf-8")  # no lone surrogates


def test_entities_made_of_entities_are_not_expanded() -> None:
    tracemalloc.start()
    document = read(DOCUMENTS["billion laughs"])
    assert tracemalloc.get_traced_memory()[1] < 50_000_000
    tracemalloc.stop()
    assert len(document.items[0].title or "") < 100


def test_entities_of_plain_text_are_resolved() -> None:
    body = rss(ITEM % b"&me; &copy;", b'<!DOCTYPE rss [<!ENTITY me "Ann"><!ENTITY dash "&#8212;">]>')
    assert read(body).items[0].title == "Ann ©"
    assert read(body.replace(b"me", b"e")).items[0].title == "Ann ©"


def test_an_unknown_entity_takes_no_other_text_with_it() -> None:
    assert read(rss(ITEM % b"R&D.x; &x.y; AT&amp;T &e;")).items[0].title == "R&D.x; &x.y; AT&T &e;"


def test_a_long_entity_is_resolved_once_but_not_very_often() -> None:
    declared = f'<!DOCTYPE rss [<!ENTITY long "{"x" * 400}">]>'.encode()
    assert read(rss(ITEM % b"&long;" + b" " * 1_000, declared)).items[0].title == "x" * 400
    title = read(rss(ITEM % (b"&long; " * 1_000), declared)).items[0].title or ""
    assert title.startswith("x" * 400)
    assert "&long; &long;" in title


VECTORS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "<a href='javascript:alert(1)'>x</a>",
    "<a href='jav&#x09;ascript:alert(1)'>x</a>",
    "<iframe src=javascript:alert(1)></iframe>",
    "<math><mi//xlink:href='data:x,<script>alert(1)</script>'>",
    "<p style='background:url(javascript:alert(1))'>x</p>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "<form action=javascript:alert(1)><input type=submit>",
    "<object data=data:text/html;base64,PHNjcmlwdD4=></object>",
    "<!--><script>alert(1)</script>-->",
    "\"'><script>alert(1)</script>",
]


@pytest.mark.parametrize("vector", VECTORS)
def test_active_markup_is_removed_from_every_html_field_and_link(vector: str) -> None:
    escaped = vector.replace("&", "&amp;").replace("<", "&lt;")
    body = f"""<rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/"><channel>
    <description>{escaped}</description><link>{escaped}</link><image><url>{escaped}</url></image>
    <item><description>{escaped}</description><content:encoded>{escaped}</content:encoded><link>{escaped}</link>
    <enclosure url="javascript:alert(1)"/><guid>javascript:alert(1)</guid></item></channel></rss>"""
    document = read(body.encode(), url="https://example.org/")
    (item,) = document.items
    for html in (document.subtitle, item.summary, item.content):
        for bad in (
            "<script",
            "onerror",
            "onload",
            "javascript:",
            "<iframe",
            "<svg",
            "style=",
            "<form",
            "<object",
            "data:",
        ):
            assert bad not in _tags(html or "")
    for address in (document.link, item.link, document.icon, *(one.url for one in item.enclosures)):
        assert not (address or "").lower().startswith(("javascript:", "data:", "vbscript:"))


def _tags(html: str) -> str:
    """Return the text that a browser would parse as tags."""
    return "".join(f"<{part.partition('>')[0]}>" for part in html.split("<")[1:]).lower()


def test_truncation_at_any_byte_raises_nothing_but_not_a_feed(shared_data: Path) -> None:
    with tarfile.open(shared_data / "feeds.tar.xz") as archive:
        members = [member for member in archive if member.isfile() and not member.name.endswith(".csv")]
        small = sorted(members, key=lambda member: member.size)
        picked = [small[10], small[60], *[member for member in small if member.name.endswith(".json")][:1]]
        bodies = [archive.extractfile(member).read() for member in picked]  # type: ignore[union-attr]
    for body in bodies:
        step = max(1, len(body) // 1_500)
        for end in range(0, len(body), step):
            try:
                document = read(body[:end], clean=False)
            except NotAFeed:
                continue
            assert isinstance(document, Document)


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252", "koi8-r"]
)
def test_any_encoding_is_read_whether_declared_or_not(encoding: str) -> None:
    text = "Привет" if encoding == "koi8-r" else "Café"
    declared = encoding if encoding in ("cp1252", "koi8-r") else "utf-8"
    head = f'<?xml version="1.0" encoding="{declared}"?>' if declared != "utf-8" else ""
    body = f"{head}<rss version='2.0'><channel><title>{text}</title><item/></channel></rss>".encode(encoding)
    assert read(body).title == text


def test_header_declaration_and_bytes_decide_the_encoding_in_this_order() -> None:
    body = "<rss version='2.0'><channel><title>Привет</title></channel></rss>"
    assert read(body.encode("cp1251"), headers={"Content-Type": "text/xml; charset=windows-1251"}).title == "Привет"
    lying = read(body.encode(), headers={"Content-Type": "text/xml; charset=iso-8859-1"})
    assert (lying.title, lying.encoding) == ("Привет", "utf-8")
    latin = read("<rss version='2.0'><channel><title>Café</title></channel></rss>".encode("latin-1"))
    assert (latin.title, latin.encoding) == ("Café", "cp1252")


def test_one_bad_byte_keeps_a_document_utf8() -> None:
    body = rss(ITEM % ("Привет, мир! ".encode() * 50 + b"\xff"))
    document = read(body)
    assert document.encoding == "utf-8"
    assert (document.items[0].title or "").startswith("Привет, мир!")
    assert document.problems


def test_a_document_in_two_encodings_is_read_in_both() -> None:
    head = b'<?xml version="1.0" encoding="ISO-8859-1"?>'
    document = read(head + rss(ITEM % ("bes\u00f8ge ".encode("latin-1") + "s\u00f8ndag, it\u2019s".encode())))
    assert document.items[0].title == "bes\u00f8ge s\u00f8ndag, it\u2019s"
    german = read(head + rss(ITEM % "\u201eSpa\u00df\u201c".encode("cp1252")))
    assert german.items[0].title == "\u201eSpa\u00df\u201c"


def test_encodings_that_only_libxml2_knows_are_read() -> None:
    body = b'<?xml version="1.0" encoding="VISCII"?>' + rss(ITEM % b"\x80")
    assert read(body).items[0].title == "\u1ea0"


def test_items_inside_an_element_that_was_never_closed_are_found() -> None:
    body = b"<rss><channel><title>T</title><image><url>/i.png</url><item><title>one</title></item>"
    body += b"<item><title>two</title></item></channel></rss>"
    assert [item.title for item in read(body).items] == ["one", "two"]


def test_element_names_invented_by_recovery_are_read() -> None:
    body = b"<feed><entry><title>one</title><content type='xhtml'><div>a <x:>b</x:> c</div></content></entry></feed>"
    (item,) = read(body).items
    assert item.title == "one"
    assert "a" in (item.content or "")
