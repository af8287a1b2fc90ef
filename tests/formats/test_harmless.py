"""The quick way of cleaning writes what nh3 writes, byte for byte, wherever it writes anything."""

from __future__ import annotations

import random
import re
import tarfile
from itertools import product
from pathlib import Path
from time import process_time
from token import COMMENT
from tokenize import tokenize

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater
from headwater.errors import NotAFeed
from headwater.formats import read
from headwater.formats.html import PLAIN, nh3_cleaner

BASES = (
    "https://example.org/feed",
    "http://127.0.0.1:38783/feeds/2?a=1#b",
    "HTTP://Example.org:80/a/../b",
    "https://example.org",
    "https://example.org/a/b/c?d=/e/f",
    "ftp://example.org/",
    None,
)

ORDINARY = [
    "<p>Hello, <b>world</b> &amp; <i>all</i></p>",
    '<a href="https://example.org/a?b=1&amp;c=2" target="_blank">x</a><br/>',
    '<ul>\n<li>one</li>\n<li><p>two</p></li></ul><img src="http://example.org/x.png" alt="a &quot;b&quot;" />',
    "<style>p > b { color: red }</style><p>a > b &#8217; &nbsp; &copy; R&D</p>",
    "<h2>Summary</h2>no start</p><li>one</li><li>two</ul>",
    "<p>one<p>two<div>three</div>",
    "<p><strong>a<em>b</strong></em> <b>c<a href='http://example.org/'>d</b> &#8217;e</a></p>",
    "<h2><span>a<sub>b</h2><p><q>c<p>d<ul><li><cite>e<li>f</ul>",
    '<inset id="1" class="x">a</inset><graphic type="y"/>',
    '<p><a href="/a-b/c_d.html">x</a> <a href="/e">y</a></p>',
    '<a href="http://127.0.0.1:38783/a">x</a><img src="http://localhost:8080/b.png">',
    "<table><tr><td>a</td><td>b</td></tr></table>",
    "if a < b and b > c: <code>List<module></code> of <version>, <https://example.org/>",
    "<html><head><title>x</title></head><body class='a'><p>one</p></body></html>",
    '<h2 class="a"><div>x</div></h2><img src="../a/b.png"><a href="">y</a><a href="../../../c">z</a>',
    '<p><video controls poster="/p.png"><source src="https://example.org/v.mp4" type="video/mp4"></video> a film</p>',
    "<letter-body><p>one</p><letter-part>two <b>three</b></letter-part></letter-body>",
    '<p>to <a href="#（設定）">a heading</a>, to <a href="ftp://example.org/pub">a server</a></p>',
    "one<br>two\n<p>three</p>\n\n<h2>four</h2> <blockquote></blockquote><em>five</em>",
    "<table>\n<tbody>\n<tr><th>a</th><td><p>b</td></tr></tbody></table>",
]
# What nh3 has to see: overlaps, tricks of parsers, addresses that may be none.
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
]  # fmt: skip
_NAMES = """
    a abbr audio b big blockquote body br center code dd del details div dl dt em figure font form h1 h2 head hr
    html i iframe img input li link math nobr noscript ol option p pre q rp ruby s script section select source span
    strong style sub summary svg table tbody td template textarea th thead time title tr track tt u ul video x xyz
    domain path
""".split()  # noqa: SIM905 - shorter
_VALUES = [
    "https://example.org/", "HTTP://Example.ORG:80/a?b&c=d&copy=1", "javascript:alert(1)", "//example.org", "#top", "",
    "/a/b.html?c=d#e", "/a/../b", "/a/.", "/%2e/x", "/é", "/a b", "/.hidden", "/a?b='", "#é", "/a\\b", "/a//b", "/a;b",
    "mailto:me@example.org", "https://example.org:99999/", "a&quot;b", "a&#39;b", "é\u00a0", "data:x", "https://a.0x1",
    "https://256.0.0.1/", "https://1.2.3.4:65536", "http://0.0.0.0:059999/", "https://localhost:", "https://01.2.3.4",
    "https://ex ample.org/", "\thttps://example.org", "https://example.org/\n",
    "page.html", "a/b.png?c=d#e", "../a", "../../b/c?d", "../", "../../..", "../.a", "..//a", "./a", "a/../b", "?a=b",
    "a:b/c", "1:2", "..", ".", "a/.", "b.html#é", "é.html", "//cdn.example.org/a.png?b", "//example.org:80/",
    "//Example.org/a", "//xn--a.example/a", "#引言?a",
    "#a b", "#%e9", "#（見出し）", "#\ufdd0", "ftp://example.org", "FTP://example.org/a b?c", "ftp://a:b@1.2.3/",
    "https://example.org/a b?c=d e", "HTTPS://example.org/ä", "tel:+1-2", "http:x", "https:/x", "ftp:x", "magnet:?x=1",
    "java script:x", "mailto:a@example.org?subject=b c", "https://[::1]/", "https://example.org/&amp;b c",
]  # fmt: skip
_attribute = st.builds(
    lambda name, quote, value: f" {name}={quote}{value}{quote}",
    st.sampled_from(["href", "src", "title", "alt", "style", "cite", "lang", "onclick", "HREF", "poster", "xml:lang"]),
    st.sampled_from(['"', "'", ""]),
    st.sampled_from(_VALUES),
)
_tag = st.builds(
    lambda slash, name, attributes, end: f"<{slash}{name}{''.join(attributes)}{end}",
    st.sampled_from(["", "", "/"]),
    st.sampled_from(_NAMES).map(lambda name: name if len(name) % 5 else name.upper()) | st.sampled_from(_NAMES),
    st.lists(_attribute, max_size=2),
    st.sampled_from([">", ">", ">", " />", "/>", " >", ""]),
)
_text = st.sampled_from([
    "x", " ", "\n", "a & b", "&amp;", "&lt;", "&#8217;", "&#x27;", "&#128;", "&#1;", "&#xD800;", "&nbsp;", "\u00a0",
    "&copy", "&notit;", "&utm_x=", "<", "\r\n", "<!-- c -->", "<!-->", "<!--a--b-->", "<![CDATA[x]]>", "<?x?>", "&",
    "é", ">", "&#", "&#;", "&#x;", "&NotEqualTilde;", "&nvlt;", "&Tab;", "]]>", "\x0c", "&#9;", "&unknown;",
    "&#128512;", "\x0b",
])  # fmt: skip
_nested = st.recursive(
    _text,
    lambda inside: st.builds(
        lambda name, attributes, parts: f"<{name}{''.join(attributes)}>{''.join(parts)}</{name}>",
        st.sampled_from(_NAMES),
        st.lists(_attribute, max_size=1),
        st.lists(inside, max_size=4),
    ),
    max_leaves=12,
)


def agrees(html: str, bases: tuple[str | None, ...] = BASES) -> bool:
    """Whether the quick way took it; fails when it did and wrote something else than nh3."""
    taken = False
    for base in bases:
        quick = PLAIN.cleaned(html, base)
        if quick is not None:
            taken = True
            assert quick == nh3_cleaner(base).clean(html), base
    return taken


@pytest.mark.parametrize("html", ORDINARY)
def test_ordinary_markup_is_cleaned_without_a_parser(html: str) -> None:
    assert agrees(html)


@pytest.mark.parametrize("html", DOUBTFUL)
def test_doubtful_markup_is_left_to_nh3_or_written_as_nh3_does(html: str) -> None:
    agrees(html)
    agrees(f"<p>{html}</p>")


@pytest.mark.parametrize("first", ["", "<", "<p>", "<p title='a'>", "</p>", "<br/>", "x", "&lt;"])
def test_all_short_markup_agrees(first: str) -> None:
    pieces = (
        "<",
        ">",
        "p",
        "<p>",
        "</p>",
        "<b>",
        "</b>",
        "<br>",
        "<a href='%2e/x'",
        " title",
        "='a'",
        "/",
        "x y",
        "&lt;",
    )
    for parts in product(pieces, repeat=3):
        agrees(first + "".join(parts), (None,))


def test_no_group_is_repeated_possessively() -> None:
    """Python before 3.11.5 takes what matched half for matched (`(?:<p>)*+` all of `<`)."""
    repeated = re.compile(r"\)(?:[*+?]|\{\d*,?\d*\})\+")
    for source in Path(headwater.__file__).parent.rglob("*.py"):
        with source.open("rb") as file:
            texts = [token.string for token in tokenize(file.readline) if token.type != COMMENT]
        assert not list(filter(repeated.search, texts)), source


@given(st.lists(_tag | _text, max_size=14).map("".join))
def test_any_tags_in_any_order_agree(html: str) -> None:
    agrees(html)


@given(st.lists(_nested, max_size=5).map("".join))
def test_well_nested_elements_agree(html: str) -> None:
    agrees(html)


@given(
    st.lists(st.tuples(st.sampled_from(["p", "div", "h2", "blockquote", "b", "code"]), st.text(max_size=9)), min_size=1)
)
def test_elements_one_after_another_agree_whatever_is_written_in_them(elements: list[tuple[str, str]]) -> None:
    agrees("".join(f"{text[::-1]}<{name}>{text}</{name}>" for name, text in elements))


@given(st.sampled_from(ORDINARY + DOUBTFUL), st.lists(st.tuples(st.integers(0, 99), _tag | _text), max_size=3))
def test_vectors_with_something_put_into_them_agree(html: str, changes: list[tuple[int, str]]) -> None:
    for at, what in changes:
        html = html[:at] + what + html[at:]
    agrees(html)


@pytest.mark.parametrize("html", ["<b>{0}</i>", "<div>{0}"])
def test_markup_nested_for_ever_and_ended_without_start_takes_no_time(html: str) -> None:
    start, _, end = html.partition("{0}")

    def spent(times: int) -> float:
        began = process_time()
        for _ in range(200_000 // times):
            PLAIN.cleaned(start * times + end * times, None)
        return process_time() - began

    agrees(start * 3_000 + end * 3_000, BASES[:1])  # nh3 takes the square of it, so no more than that
    few = min(spent(1_000) for _ in range(3))
    assert spent(100_000) < 10 * few + 0.5  # the square would be a hundred times as much


def test_real_markup_agrees_whole_and_damaged(shared_data: Path) -> None:
    chance = random.Random(7)
    seen = taken = 0
    with tarfile.open(shared_data / "feeds.tar.xz") as archive:
        for member in archive:
            if not member.isfile() or member.name.endswith(".csv") or member.size > 300_000:
                continue
            try:
                document = read(archive.extractfile(member).read(), clean=False)  # type: ignore[union-attr]
            except NotAFeed:
                continue
            for item in document.items[:10]:
                for html in filter(None, (item.summary, item.content)):
                    seen += 1
                    taken += agrees(html, BASES[:1])
                    at = chance.randrange(len(html))
                    agrees(html[:at] + html[at + chance.randrange(1, 4) :], BASES[:1])
    assert taken > 0.7 * seen


def test_links_without_end_do_not_push_out_the_tags_that_recur() -> None:
    tags = PLAIN._tags
    PLAIN.cleaned('<p lang="is">x</p>', None)
    for number in range(20_000):
        PLAIN.cleaned(f'<a href="https://example.org/{number}">x</a>', None)
    assert 'p lang="is"' in tags
    assert len(tags) <= 8_192
