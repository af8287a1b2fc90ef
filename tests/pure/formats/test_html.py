"""Cleaned HTML has only allowed elements, attributes and schemes; relative links are resolved."""

from __future__ import annotations

from html.parser import HTMLParser
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.formats import read
from headwater.formats.values.html import CleanHtmlReader, clean_html, get_nh3_cleaner
from headwater.formats.values.text import CONTENT_LIMIT

BASE = "https://example.org/a/feed?x=1"

# Overlapping elements, parser tricks, invalid addresses.
DOUBTFUL = [
    "<b><i>x</b></i>", "<p><b>x</p>", "<a href=x>y</a>", "<a href='javascript:alert(1)'>x</a>", "<svg><p>x</svg>",
    "<a href='https://1.2.3/'>x</a>", "<a href='https://xn--a/'>x</a>", "<pre>\nx</pre>", "<a><b><a>x</a></b></a>",
    "<img src=x onerror=alert(1)>", "<table><b>x</b></table>", "<math><mi></math>", "<!--><b>-->", "<h1>x</h2>",
    "<style><b></style>", "<script>'<b>'</script>", '<p title="a>b">x</p>', '<iframe title="x></iframe><b>y</b>',
    "<textarea><b></textarea>", "&copy<b>x", "<b &copy>", "a<script>b</script<ul>> c",
    "<!-- a > b <i>x</i>", "<p><?x> y", "<domain>x", "<table><</table>",
    "<x-y><p>a</x-y>b", "<x-y><b>a</x-y>b</b>", "<p><x-y>a<div>b</div></x-y>c", "<div><x-y></div><b></x-y>z", "</x-y>",
    '<a href="/a/..">x</a>', '<a href="/..html">x</a>', '<a href="/.">x</a>',
    "<b>\0</b>", "\ufeff<b>x</b>", "<p/>", "<select><b>x</select>", "<b x=`y`>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>", "<a href='jav&#x09;ascript:alert(1)'>x</a>",
    "<a href='https://example.org&#47;&#x0;'>x</a>", "<a href='https://example.org/' href='javascript:x'>x</a>",
    "<img src='https://example.org/\"onerror=alert(1)'>", "<a title='&quot;><script>alert(1)</script>'>x</a>",
    "<form action=javascript:alert(1)><input type=submit>", "<object data=data:text/html;base64,PHNjcmlwdD4=></object>",
    "<svg></p><style><a title='</style><img src=x onerror=alert(1)>'>", "<a href='JaVaScRiPt:alert(1)'>x</a>",
    "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror=alert(1)&gt;'>",
    "<video poster=javascript:alert(1)><source src=data:x>", "<a href=' \x01javascript:alert(1)'>x</a>",
    "<a href=' name=' title='javascript:alert(1)' id=a>x</a><a name=b href='#a'>y</a>",
    "<a href=' id=' title='javascript:alert(1)'>x</a><a href='#a'>y</a><p id=a>",
]  # fmt: skip
_ELEMENTS = """
    a abbr audio b big blockquote body br center code dd del details div dl dt em figure font form h1 h2 head hr
    html i iframe img input li link math mi mtext
    mglyph annotation-xml nobr noscript ol option p pre q rp ruby s script section select source span
    strong style sub summary svg table tbody td template textarea th thead time title tr track tt u ul video x xyz
    domain path
""".split()  # noqa: SIM905 - shorter
_ATTRIBUTES = """
    href src title style cite onclick HREF poster xml:lang xlink:href srcdoc id name dir
""".split()  # noqa: SIM905 - shorter
_VALUES = [
    "https://example.org/", "/a", "javascript:alert(1)", "java\tscript:", "data:x", "a'b", 'a"b', ">", "#x", "x",
    " id=", " name=", " href=", " onclick=alert(1) x=",
]  # fmt: skip
_attribute = st.builds(
    lambda name, quote, value: f" {name}={quote}{value}{quote}",
    st.sampled_from(_ATTRIBUTES),
    st.sampled_from(['"', "'", ""]),
    st.sampled_from(_VALUES),
)
_tag = st.builds(
    lambda slash, element, attributes, end: f"<{slash}{element}{''.join(attributes)}{end}",
    st.sampled_from(["", "", "/"]),
    st.sampled_from(_ELEMENTS) | st.sampled_from(_ELEMENTS).map(str.upper),
    st.lists(_attribute, min_size=1, max_size=4),
    st.sampled_from([">", ">", "/>", ""]),
)
_text = st.sampled_from(
    ["x", "<", ">", "&", "&lt;", "<!--", "-->", "<![CDATA[x]]>", "<?x?>", "\0", "&#1;", "é", "\r\n"]
)


class _Audit(HTMLParser):
    """Collects the elements, attributes and address schemes that a browser would find."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.schemes: set[str] = set()
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name in ("href", "xlink:href", "src", "cite", "poster"):
                self.schemes.add(urlsplit(value or "").scheme)


def check_safe(html: str) -> None:
    for base in (BASE, None):
        check_safe_with_base(html, base)


def check_safe_with_base(html: str, base: str | None) -> None:
    cleaned = CleanHtmlReader().read_html(html, base) or ""
    found = _Audit(cleaned)
    runs = {
        "script",
        "style",
        "iframe",
        "object",
        "embed",
        "form",
        "input",
        "svg",
        "template",
        "noscript",
        "mglyph",
        "annotation-xml",
    }
    assert not found.elements & runs
    assert "style" not in found.attributes
    assert "srcdoc" not in found.attributes
    assert not {name for name in found.attributes if name.startswith("on")}
    assert not found.schemes & {"javascript", "data", "vbscript"}
    again = get_nh3_cleaner(None).clean(cleaned).strip()
    assert get_nh3_cleaner(None).clean(again).strip() == again  # parsing it again revives nothing
    found = _Audit(again)
    assert not found.elements & runs


@pytest.mark.parametrize("html", DOUBTFUL)
def test_doubtful_markup_comes_out_safe(html: str) -> None:
    check_safe(html)
    check_safe(f"<p>{html}</p>")


@given(st.lists(_tag | _text, max_size=14).map("".join))
def test_any_tags_in_any_order_come_out_safe(html: str) -> None:
    check_safe(html)
    check_safe(f"{html}<a href='#x'>x</a><a name=x>y</a>")


@pytest.mark.parametrize(
    ("address", "resolved"),
    [
        ("/b", "https://example.org/b"),
        ("b.html#c", "https://example.org/a/b.html#c"),
        ("../b", "https://example.org/b"),
        ("?y=2", "https://example.org/a/feed?y=2"),
        ("#top", "https://example.org/a/feed?x=1#top"),
        ("//cdn.example.org/x.png", "https://cdn.example.org/x.png"),
        ("https://other.example/x", "https://other.example/x"),
        ("mailto:me@example.org", "mailto:me@example.org"),
    ],
)
def test_relative_addresses_are_resolved(address: str, resolved: str) -> None:
    html = CleanHtmlReader().read_html(f'<p><a href="{address}">x</a><img src={address}></p>', BASE)
    assert html is not None
    assert f'href="{resolved}"' in html
    assert f'src="{resolved}"' in html


@pytest.mark.parametrize("base", [None, "", "ftp://example.org/", "https://[broken"])
def test_without_a_usable_base_addresses_stay_as_they_are(base: str | None) -> None:
    cleaned = CleanHtmlReader().read_html("<p><a href='/b'>x</a></p>", base)
    assert cleaned == '<p><a href="/b" rel="noopener noreferrer">x</a></p>'


def test_a_value_that_ends_like_an_attribute_stays_whole() -> None:
    cleaned = clean_html("<p><a href='#a'>1</a> <a name=a title='see id=' href='/b'>2</a></p>", None)
    assert cleaned is not None
    assert '<a id="hw-a" title="see id=" href="/b"' in cleaned


def test_text_without_markup_is_escaped_once() -> None:
    assert CleanHtmlReader().read_html("a &lt; b &amp; c &eacute;", BASE) == "a &lt; b &amp; c é"


def test_text_that_is_cut_off_ends_outside_of_a_tag() -> None:
    link = '<a href="https://example.org/">x</a>'
    for start in (0, 5):
        cleaned = clean_html("y" * start + link * (CONTENT_LIMIT // len(link)), None)
        assert cleaned is not None
        assert len(cleaned) <= CONTENT_LIMIT
        assert cleaned.endswith("</a>")


def test_elements_of_xhtml_that_have_no_end_are_written_once() -> None:
    inside = '<p>one<br/>two<img src="https://e.org/a.png"/></p><hr/><h:p>three<h:br/>four</h:p>'
    body = f"""<feed xmlns="http://www.w3.org/2005/Atom"><entry><content type="xhtml"><div
    xmlns="http://www.w3.org/1999/xhtml" xmlns:h="http://www.w3.org/1999/xhtml">{inside}</div></content></entry></feed>"""
    assert read(body.encode()).items[0].content == (
        '<p>one<br>two<img src="https://e.org/a.png"></p><hr><p>three<br>four</p>'
    )
