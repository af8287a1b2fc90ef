"""Readers are compared item by item, also where one of them reads fewer."""

from __future__ import annotations

import pytest

from headwater.errors import InputError
from headwater.formats import comparison
from headwater.formats.comparison import FieldDifference, compare_readers
from headwater.model import Entry, SafeHtml

FEED = b"""<rss version="2.0"><channel><title>T</title><item><guid>1</guid><title>One</title></item>
<item><guid>2</guid><title>Two</title></item></channel></rss>"""


def compare_with(monkeypatch: pytest.MonkeyPatch, *theirs: Entry) -> tuple[FieldDifference, ...]:
    monkeypatch.setattr(comparison, "_READERS", {"json": lambda body, url: theirs})  # any installed module
    (found,) = compare_readers(FEED).readers
    assert found.items == len(theirs)
    return found.differences


def test_readers_that_agree_have_no_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compare_with(monkeypatch, Entry(id="1", title="One"), Entry(id="2", title="Two")) == ()


def test_a_different_field_is_named_with_both_values(monkeypatch: pytest.MonkeyPatch) -> None:
    found = compare_with(monkeypatch, Entry(id="1", title="One"), Entry(id="2", title="Too", authors=("Ann",)))
    assert found == (
        FieldDifference(2, "Two", "title", "Two", "Too"),
        FieldDifference(2, "Two", "authors", [], ["Ann"]),
    )


def test_content_given_as_a_missing_summary_is_not_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    same, other = SafeHtml("<p>x</p>"), SafeHtml("y")
    two = Entry(id="2", title="Two", summary=same, content=same)
    found = compare_with(monkeypatch, Entry(id="1", title="One", summary=other), two)
    assert [(one.item, one.field) for one in found] == [(1, "summary"), (2, "content")]


def test_a_summary_given_as_missing_content_is_not_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    text = SafeHtml("<p>x</p>")
    monkeypatch.setattr(
        comparison, "_READERS", {"json": lambda body, url: (Entry(id="1", title="One", summary=text, content=text),)}
    )
    body = b"<rss><channel><item><guid>1</guid><title>One</title><description>x</description></item></channel></rss>"
    assert compare_readers(body).readers[0].differences == ()


def test_items_that_only_one_reads_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compare_with(monkeypatch, Entry(id="2", title="Two")) == (FieldDifference(1, "One", None, "1", None),)
    more = [Entry(id=str(number), title=title) for number, title in enumerate(("One", "Two", "Three"), 1)]
    assert compare_with(monkeypatch, *more) == (FieldDifference(3, "Three", None, None, "3"),)


def test_a_reader_that_fails_is_told_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(body: bytes, url: str | None) -> tuple[Entry, ...]:
        raise ValueError("no")

    monkeypatch.setattr(comparison, "_READERS", {"json": fail})
    (found,) = compare_readers(FEED).readers
    assert (found.items, found.problem) == (0, "ValueError: no")


def test_without_another_reader_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "_READERS", {"no_such_reader": lambda body, url: ()})
    with pytest.raises(InputError, match="No other reader is installed"):
        compare_readers(FEED)


def test_text_that_feedparser_removes_is_a_difference() -> None:
    """Our cleaner must not clean what feedparser reads: both would lose the same text."""
    body = FEED.replace(b"<guid>1", b"<description>&lt;p&gt;the &lt;path&gt; element&lt;/p&gt;</description><guid>1")
    (found,) = (one for one in compare_readers(body).readers if one.name == "feedparser")
    (summary,) = (one for one in found.differences if one.field == "summary")
    assert (summary.ours, summary.theirs) == ("the <path> element", "the  element")
