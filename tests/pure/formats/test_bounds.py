"""Hostile documents take time in proportion to their size, and at most twenty times their size of memory."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from html import escape

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.formats import read
from headwater.formats.values.html import get_nh3_cleaner
from headwater.formats.values.html_limits import MAX_ATTRIBUTES, MAX_DEPTH, MAX_ELEMENTS, limit_html

Shape = Callable[[int], str]


def put_into_item(inside: str) -> str:
    return f"<rss><channel><item><title>t</title><description>{inside}</description></item></channel></rss>"


SHAPES: dict[str, Shape] = {
    "formatting elements in blocks": lambda n: put_into_item(
        escape("".join(f"<font color={k}><p>" for k in range(n // 18)))
    ),
    "formatting elements, closed by others": lambda n: put_into_item(
        escape("".join(f"<font color={k}><p>x</x></x>" for k in range(n // 28)))
    ),
    "nested elements in HTML": lambda n: put_into_item(escape("<div>" * (n // 5))),
    "nested lists in HTML": lambda n: put_into_item(escape("<ul><li>" * (n // 8))),
    "nested elements in XML": lambda n: put_into_item("<div>" * (n // 11) + "</div>" * (n // 11)),
    "nested elements in XML, not closed": lambda n: put_into_item("<div>" * (n // 5)),
    "attributes in HTML": lambda n: put_into_item(escape(f"<p {' '.join(f'a{k}=1' for k in range(n // 9))}>x")),
    "attributes in XML": lambda n: put_into_item("<p " + " ".join(f"a{k}='1'" for k in range(n // 11)) + ">x</p>"),
    "signs that begin no tag": lambda n: put_into_item("&lt;" * (n // 4)),
    "signs that begin no tag, in CDATA": lambda n: put_into_item(f"<![CDATA[{'<' * n}]]>"),
    "mentions of elements": lambda n: put_into_item(f"<![CDATA[{'<svg' * (n // 4)}]]>"),
    "tags without an end": lambda n: put_into_item(f"<![CDATA[{'<x ' * (n // 3)}]]>"),
    "comments without an end": lambda n: put_into_item(f"<![CDATA[{'<!--' * (n // 4)}]]>"),
    "elements without an end in HTML": lambda n: put_into_item(f"<![CDATA[{'<p>' * (n // 3)}]]>"),
    "line breaks in HTML": lambda n: put_into_item(f"<![CDATA[{'<br>' * (n // 4)}]]>"),
    "ends of paragraphs in HTML": lambda n: put_into_item(f"<![CDATA[{'</p>' * (n // 4)}]]>"),
    "frames": lambda n: put_into_item(f"<![CDATA[{'<iframe src=a>' * (n // 14)}]]>"),
    "players as objects": lambda n: put_into_item(f"<![CDATA[{'<object data=a>' * (n // 15)}]]>"),
    "notes outside of ruby": lambda n: put_into_item(escape("<rt>x</x>" * (n // 9))),
    "formatting elements in raw text": lambda n: put_into_item(
        escape("<div>" * 200 + "<xmp>" + "".join(f"<font color={k}><p>" for k in range(n // 24)) + "</xmp>")
    ),
    "long entities used very often": lambda n: (
        f'<!DOCTYPE rss [<!ENTITY long "{"x" * 400}">]>{put_into_item("&long;" * (n // 6))}'
    ),
    "CDATA sections without an end": lambda n: put_into_item("<![CDATA[&" * (n // 10)),
}
MANY_FIELDS: dict[str, Shape] = {
    "items without an end": lambda n: f"<rss><channel>{'<item><title>&' * (n // 14)}</channel></rss>",
    "fields without an end": lambda n: f"<rss><channel><item>{'<title>' * (n // 7)}</channel></rss>",
    "ends of fields inside a field": lambda n: put_into_item("</title>" * (n // 8)),
}
SIZE = 52_000


def time_reading(body: bytes) -> float:
    """Return the least CPU time of three readings."""
    seconds = []
    for _ in range(3):
        start = time.process_time()
        read(body)
        seconds.append(time.process_time() - start)
    return min(seconds)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("shape", [*SHAPES.values(), *MANY_FIELDS.values()], ids=[*SHAPES, *MANY_FIELDS])
def test_time_grows_with_the_size(shape: Shape) -> None:
    """Four times the size takes about four times as long; quadratic growth would take sixteen times."""
    first, last = (time_reading(shape(size).encode()) for size in (SIZE, 4 * SIZE))
    assert last < 8 * first + 0.05
    assert last < 4


_READ_AND_MEASURE = """
import sys
from headwater.formats import read

def read_peak():
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) * 1024

body = sys.stdin.buffer.read()
read(b"<rss><channel><item><description>&lt;p&gt;x</description></item></channel></rss>")
before = read_peak()
read(body)
print(read_peak() - before)
"""


@pytest.mark.timeout(120)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak of memory is read from /proc")
@pytest.mark.parametrize("name", SHAPES)
def test_memory_is_at_most_twenty_times_the_size(name: str) -> None:
    body = SHAPES[name](8 * SIZE).encode()
    done = subprocess.run([sys.executable, "-c", _READ_AND_MEASURE], input=body, capture_output=True, check=True)
    assert int(done.stdout) <= 20 * len(body)


_NAMES = st.sampled_from("p div b i font a ul li table tr td span br img script textarea svg x-y".split())  # noqa: SIM905
_ORDINARY = st.lists(
    st.one_of(
        st.builds(lambda name: f"<{name}>", _NAMES),
        st.builds(lambda name: f"</{name}>", _NAMES),
        st.builds(lambda name: f"<{name} title='a > b' href=\"/x\" disabled>", _NAMES),
        st.sampled_from(["text", " ", "<!-- <b> -->", "<!-->", "a < b", "&lt;", "</ >", "<!doctype x>", "<?x>"]),
    ),
    max_size=40,
).map("".join)


@given(_ORDINARY)
@example("<p>a<p>b<ul><li>c<li>d</ul><b>e<i>f</b>g</i>")
def test_ordinary_markup_is_cleaned_as_without_limits(markup: str) -> None:
    """Many line breaks make the markup long enough to be limited."""
    markup = "<br>" * 4_100 + markup
    cleaner = get_nh3_cleaner(None)
    assert cleaner.clean(limit_html(markup)) == cleaner.clean(markup)


def test_a_long_article_keeps_its_paragraphs_and_lists() -> None:
    article = "<p>one <b>two</b><p>three<ul><li>four<li>five</ul><table><tr><td>six<td>seven</table>" * 700
    assert limit_html(article) == article


def test_limits_keep_the_text() -> None:
    assert limit_html("<div>" * 5_000 + "x" + "</div>" * 5_000).count("<div>") == MAX_DEPTH
    attributes = " ".join(f"a{k}='<'" for k in range(10_000))
    limited = limit_html(f"<p {attributes}>x</p>")
    assert limited.count("=") == MAX_ATTRIBUTES
    assert limited.endswith(">x</p>")
    assert limit_html("<p>x" * 2 * MAX_ELEMENTS) == "<p>x" * MAX_ELEMENTS + "x" * MAX_ELEMENTS
    fonts = limit_html("".join(f"<font color={k}><p>{k} " for k in range(2_000)))
    assert fonts.count("<font") <= 16
    assert "1999 " in fonts
