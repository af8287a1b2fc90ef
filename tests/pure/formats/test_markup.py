"""`read_to_keep` returns HTML as published; cleaned later, it is the HTML that `read` returns."""

from __future__ import annotations

import tarfile
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater
from headwater.errors import NotAFeed
from headwater.formats import read, read_to_keep
from headwater.formats.lastresort import read_last_resort, read_last_resort_to_keep
from headwater.formats.sniff import read_to_keep_cleaned
from headwater.formats.values.html import (
    clean_early,
    clean_html,
    clean_markup,
    hash_markup,
    measure_markup,
    shorten_markup,
)
from headwater.model import Document, Ending, Entry, Known, Markup, Outcome
from headwater.novelty import judge
from headwater.novelty.item_identity import clean_entry, content_hash, identify_items, raw_hash

RSS = b"""<rss version="2.0"><channel><title>t</title><description>&lt;b onclick=x>About&lt;/b></description>
<item><guid>1</guid><description>&lt;p onclick=x>&lt;a href="/a">a&lt;/a>&lt;/p></description></item></channel></rss>"""


def test_items_are_kept_as_published_and_the_feed_is_clean() -> None:
    document = read_to_keep(RSS, "https://example.org/feed")
    assert document.subtitle == "<b>About</b>"
    assert document.items[0].summary == Markup('<p onclick=x><a href="/a">a</a></p>', "https://example.org/feed")
    assert document.items[0].content is None


def test_plain_text_is_clean_already() -> None:
    body = b'{"version": "https://jsonfeed.org/version/1", "items": [{"id": "1", "content_text": "a < b"}]}'
    markup = read_to_keep(body).items[0].content
    assert clean_markup(markup) == "a &lt; b"
    assert clean_early(markup) is markup


def test_markup_cleaned_early_has_the_hash_of_the_published_text() -> None:
    markup = Markup("<p class='x'>Hi</p>")
    early = clean_early(markup)
    assert early is not None
    assert (early.text, clean_markup(early)) == ("", "<p>Hi</p>")
    assert hash_markup(early) == hash_markup(markup) != hash_markup(Markup("<p>Hi</p>"))
    assert hash_markup(None) == ""


def test_shortened_markup_is_cleaned_again() -> None:
    for markup in (Markup("<p>Hello <a href='/x'>you</a></p>"), clean_early(Markup("<p>Hello <em>you</em></p>"))):
        short = shorten_markup(markup, 12)
        assert measure_markup(short) == 12 < measure_markup(markup)
        assert clean_markup(short) == "<p>Hello </p>"


def test_the_last_resort_is_markup_that_is_clean() -> None:
    (item,) = read_last_resort(RSS).items
    (kept,) = read_last_resort_to_keep(RSS).items
    assert clean_entry(kept) == item


@pytest.mark.parametrize("kind", ["read_to_keep", "read_to_keep_cleaned"])
def test_real_documents_are_the_same_cleaned_at_once_later_or_in_a_worker(shared_data: Path, kind: str) -> None:
    keep = {"read_to_keep": read_to_keep, "read_to_keep_cleaned": read_to_keep_cleaned}[kind]
    compared = 0
    with tarfile.open(shared_data / "feeds.tar.xz") as archive:
        for member in archive:
            if not member.isfile() or member.name.endswith(".csv") or member.size > 100_000:
                continue
            body = archive.extractfile(member).read()  # type: ignore[union-attr]
            try:
                expected = read(body, "https://example.org/feed", summaries=False)
            except NotAFeed:
                continue
            kept = keep(body, "https://example.org/feed")
            assert tuple(map(clean_entry, kept.items)) == expected.items, member.name
            if kind != "read_to_keep":
                raw = read_to_keep(body, "https://example.org/feed")
                assert [raw_hash(entry) for entry in kept.items] == [raw_hash(entry) for entry in raw.items]
                assert identify_items(kept) == identify_items(raw)
                assert [content_hash(entry) for entry in expected.items] == [
                    content_hash(clean_entry(entry)) for entry in raw.items
                ]
            compared += len(kept.items)
    assert compared > 1_000


@given(st.sets(st.integers(0, 19)), st.sets(st.integers(0, 19)))
def test_only_new_and_changed_items_are_cleaned(new: set[int], changed: set[int]) -> None:
    def fetch(texts: dict[int, str]) -> Outcome:
        items = tuple(Entry(id=str(n), content=Markup(f"<p>{text}</p>")) for n, text in texts.items())
        url = "https://example.org/feed"
        return Outcome(Ending.CHANGED, url, url, 1e9, 0.0, document=Document("rss", items=items))

    before = {n: f"text {n}" for n in range(20) if n not in new}
    known = judge(Known(1, "https://example.org/feed"), fetch(before), {}).known
    after = {n: f"text {n}{' changed' if n in changed else ''}" for n in range(20)}
    with patch("headwater.formats.values.html.clean_html", wraps=clean_html) as cleaning:
        verdict = judge(known, fetch(after), {})
    cleaned = {call.args[0] for call in cleaning.call_args_list}
    assert cleaned == {f"<p>{after[n]}</p>" for n in new | changed}
    assert len(verdict.new) + len(verdict.updated) == len(cleaned) == cleaning.call_count


def test_no_module_but_the_reader_asks_for_published_html_as_text() -> None:
    """Elsewhere HTML as published is `Markup`, which the type checker refuses for an `Item`."""
    folder = Path(headwater.__file__).parent
    asking = [
        path.relative_to(folder)
        for path in folder.rglob("*.py")
        if "formats" not in path.relative_to(folder).parts
        and ("clean=False" in path.read_text() or "PublishedHtmlReader" in path.read_text())
    ]
    assert asking == []
