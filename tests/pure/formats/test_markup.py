"""`read_to_keep` returns HTML as published; cleaned later, it is the HTML that `read` returns."""

from __future__ import annotations

import tarfile
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mypy import api

from headwater.errors import NotAFeed
from headwater.fetch.reading.document_reader import read_and_clean
from headwater.formats import read, read_to_keep
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
from headwater.novelty.item_identity import clean_entry, content_hash, identify_items, list_raw_hashes, raw_hash

ROOT = Path(__file__).parents[3]
RSS = b"""<rss version="2.0"><channel><title>t</title><description>&lt;b onclick=x>About&lt;/b></description>
<item><guid>1</guid><description>&lt;p onclick=x>&lt;a href="/a">a&lt;/a>&lt;/p></description></item></channel></rss>"""


def test_html_is_kept_as_published() -> None:
    document = read_to_keep(RSS, "https://example.org/feed")
    assert document.subtitle == Markup("<b onclick=x>About</b>", "https://example.org/feed")
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


@pytest.mark.parametrize("kind", ["read_to_keep", "read_and_clean"])
def test_real_documents_are_the_same_cleaned_at_once_later_or_in_a_worker(shared_data: Path, kind: str) -> None:
    keep = {"read_to_keep": read_to_keep, "read_and_clean": partial(read_and_clean, headers=None)}[kind]
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


def test_in_a_worker_only_items_that_are_not_kept_are_cleaned() -> None:
    items = "".join(f"<item><guid>{n}</guid><description>&lt;p class=x>{n}&lt;/p></description></item>" for n in "abc")
    body = f'<rss version="2.0"><channel>{items}</channel></rss>'.encode()
    url = "https://example.org/feed"
    first = Outcome(Ending.CHANGED, url, url, 1e9, 0.0, document=read_and_clean(body, url, None))
    known = judge(Known(1, url), first, {}).known
    changed = body.replace(b"class=x>b", b"class=x>B")
    document = read_and_clean(changed, url, None, list_raw_hashes(known.window))
    assert [item.summary.raw_hash is None for item in document.items if item.summary] == [True, False, True]
    verdict = judge(known, Outcome(Ending.CHANGED, url, url, 2e9, 0.0, document=document), {})
    assert [item.summary for item in verdict.updated] == ["<p>B</p>"]
    assert not verdict.new


_CASES = {
    'Item(*FIELDS, content="<p>")': False,
    "Item(*FIELDS, content=published.items[0].content)": False,
    "Item(*FIELDS, content=read_to_keep(BODY).items[0].content)": False,
    "write_atom(published)": False,
    "write_atom(read_to_keep(BODY))": False,
    "Item(*FIELDS, content=read(BODY).items[0].content)": True,
    "Item(*FIELDS, content=clean_html('<p>', None))": True,
    "write_atom(read(BODY))": True,
}


def test_the_type_checker_refuses_to_store_or_publish_html_that_was_not_cleaned(tmp_path: Path) -> None:
    start = """from headwater.formats import read, read_to_keep
from headwater.formats.values.html import clean_html
from headwater.formats.write import write_atom
from headwater.model import Item
BODY, FIELDS = b"", (1, "a", "", "t", "l", 0.0, True, 0.0, 0.0)
published = read(BODY, clean=False)
"""
    case = tmp_path / "case.py"
    case.write_text(start + "\n".join(_CASES))
    out, err, _ = api.run(["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(tmp_path), str(case)])
    refused = {int(line.split(":")[1]) for line in out.splitlines() if ": error:" in line}
    lines = range(start.count("\n") + 1, start.count("\n") + 1 + len(_CASES))
    assert {line for line, allowed in zip(lines, _CASES.values(), strict=True) if not allowed} == refused, out + err
