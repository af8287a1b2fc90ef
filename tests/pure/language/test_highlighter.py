"""Highlighting of scripts, and the example queries of the editor."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.language import Catalogue, parse
from headwater.language.examples import GALLERY
from headwater.language.formatter import format_script
from headwater.language.highlighter import SPAN_KINDS, highlight_script


def coloured(text: str) -> list[tuple[str, str]]:
    return [(span.kind, text[span.start : span.end]) for span in highlight_script(text)]


def test_each_kind_of_word_has_its_colour() -> None:
    text = "create feed a as return $x[title contains 'b' and size > 3] where link matches /c/i -- d"
    assert coloured(text) == [
        ("keyword", "create"),
        ("keyword", "feed"),
        ("name", "a"),
        ("keyword", "as"),
        ("keyword", "return"),
        ("variable", "$x"),
        ("operator", "["),
        ("field", "title"),
        ("keyword", "contains"),
        ("string", "'b'"),
        ("connective", "and"),
        ("field", "size"),
        ("operator", ">"),
        ("number", "3"),
        ("operator", "]"),
        ("keyword", "where"),
        ("field", "link"),
        ("keyword", "matches"),
        ("regex", "/c/i"),
        ("comment", "-- d"),
    ]


def test_words_of_stories_are_keywords_in_their_phrases_and_names_elsewhere() -> None:
    text = "return Story | changed where story sources > 3 and first of story or changed(title) each story"
    assert [word for kind, word in coloured(text) if kind == "name"] == ["Story", "changed"]
    assert ("keyword", "each") in coloured(text)


def test_errors_are_marked() -> None:
    assert coloured("&& == “x” ../y http://z") == [
        ("error", "&&"),
        ("error", "=="),
        ("error", "“x”"),
        ("error", "../y"),
        ("error", "http://z"),
    ]
    assert coloured('"open') == [("error", '"open')]


@given(st.text())
def test_any_text_has_spans_in_order_that_do_not_overlap(text: str) -> None:
    spans = highlight_script(text)
    edges = [edge for span in spans for edge in (span.start, span.end)]
    assert edges == sorted(edges)
    assert all(span.start < span.end <= len(text) and span.kind in SPAN_KINDS for span in spans)


def test_the_ten_examples_parse_and_are_formatted() -> None:
    known = Catalogue(tags=frozenset({"news", "blogs", "science"}))
    assert len(GALLERY) == 10
    for example in GALLERY:
        script = parse(example.text, known)
        assert script.warnings == ()
        assert parse(format_script(script)) == script
        assert example.title
        assert example.about.endswith(".")
