"""A refresh that leaves unchanged items out of reading is judged like one that reads them all."""

from __future__ import annotations

import asyncio
import tarfile
from collections.abc import Sequence
from html import escape
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headwater.errors import NotAFeed
from headwater.fetch.reading.document_reader import DocumentReader
from headwater.model import Document, Ending, FetchedEntry, Known, Markup, Outcome, Verdict, Window
from headwater.novelty import find_unknown_identities, judge
from headwater.novelty.item_identity import CONTENT_HASH, KEYS, RAW_HASH
from headwater.novelty.unchanged_items import ItemSources

URL = "https://example.org/feed"
NOW = 1.7e9


def make_item(guid: str, title: str = "t", date: str = "2023-11-01", text: str = "") -> str:
    return (
        f'<item><guid isPermaLink="false">{guid}</guid><title>{title}</title><link>https://example.org/{guid}</link>'
        f"<pubDate>{date}</pubDate><description>{text}</description></item>"
    )


def make_feed(items: Sequence[str], head: str = "") -> bytes:
    return f"<rss version='2.0'><channel><title>F</title>{head}{''.join(items)}</channel></rss>".encode()


def read(body: bytes, window: Window | None) -> Document[Markup]:
    async def read_once() -> Document[Markup]:
        reader = DocumentReader()
        try:
            return await reader.read(body, URL, {}, window)
        finally:
            await reader.close()

    return asyncio.run(read_once())


def refresh(known: Known, body: bytes, at: float, seen: dict[str, str], *, whole: bool = False) -> Verdict:
    document = read(body, None if whole else known.window)
    outcome = Outcome(Ending.CHANGED, URL, URL, at, 0.0, 200, document)
    unknown = find_unknown_identities(known, outcome)
    return judge(known, outcome, {name: seen[name] for name in unknown if name in seen})


def count_unread(body: bytes, window: Window) -> int:
    return sum(isinstance(item, FetchedEntry) and item.stored is not None for item in read(body, window).items)


def drop_sources(verdict: Verdict) -> Verdict:
    """Return a verdict without the hashes of bytes in its window."""
    most = CONTENT_HASH + RAW_HASH + KEYS
    window = tuple((name, stored[:most]) for name, stored in verdict.known.window)
    return replace(verdict, known=replace(verdict.known, window=window))


def compare_refreshes(bodies: Sequence[bytes]) -> Verdict:
    """Refresh two feeds with the same documents, one of which is always read whole; return the last verdict."""
    whole = partly = Known(1, URL)
    seen: dict[str, str] = {}
    verdict = None
    for place, body in enumerate(bodies):
        at = NOW + 3600.0 * place
        expected = refresh(whole, body, at, seen, whole=True)
        verdict = refresh(partly, body, at, seen)
        assert drop_sources(verdict) == expected
        whole, partly = expected.known, verdict.known
        seen |= {name: stored[:CONTENT_HASH] for name, stored in whole.window}
    assert verdict is not None
    return verdict


def test_only_new_and_changed_items_are_read() -> None:
    items = [make_item(f"g{n}", f"Title {n}", f"2023-11-{n:02}", f"text {n}") for n in range(1, 21)]
    known = refresh(Known(1, URL), make_feed(items), NOW, {}).known
    changed = [make_item("g21", "New"), *items[:4], make_item("g5", "Title 5", "2023-11-05", "other text"), *items[5:]]
    document = read(make_feed(changed, "<lastBuildDate>2023-11-21</lastBuildDate>"), known.window)
    assert [item.title for item in document.items if item.title] == ["New", "Title 5"]
    assert [item.id for item in document.items] == ["g21", *(f"g{n}" for n in range(1, 21))]
    verdict = refresh(known, make_feed(changed), NOW + 60, {})
    assert [item.title for item in verdict.new] == ["New"]
    assert [item.content or item.summary for item in verdict.updated] == ["other text"]
    assert (verdict.refresh.window, verdict.refresh.overlap) == (21, 20)
    assert compare_refreshes([make_feed(items), make_feed(changed), make_feed(changed[1:])]).refresh.new == 0


def test_atom_is_read_partly_too() -> None:
    entry = "<entry><id>{0}</id><title>T {0}</title><updated>2023-11-01T00:00:00Z</updated></entry>"
    feed = '<feed xmlns="http://www.w3.org/2005/Atom"><title>F</title>{}</feed>'
    first, second = (
        feed.format("".join(entry.format(f"urn:{n}") for n in numbers)).encode() for numbers in ("12", "312")
    )
    known = refresh(Known(1, URL), first, NOW, {}).known
    assert count_unread(second, known.window) == 2
    compare_refreshes([first, second])


_GUIDS = st.sampled_from(["a", "b", "c", "d", "e&amp;f", "g" * 600, ""])
_TEXTS = st.sampled_from(
    [
        "",
        "one",
        "&lt;p&gt;two",
        "<![CDATA[<p>x</item> <item>]]>",
        "<![CDATA[</item>]]>",
        "<!-- </item> -->",
        "<b>x",
        "é",
    ]
)
_DATES = st.sampled_from(
    ["2023-11-01", "2023-11-02T10:00:00.5Z", "", "2040-01-01", "1970-01-01", "2023-11-14T22:13:20Z"]
)
_ITEMS = st.builds(make_item, _GUIDS, st.sampled_from(["t", "u", "<item>"]), _DATES, _TEXTS)
_OTHERS = st.sampled_from(
    ["<item/>", "<!-- <item><guid>a</guid></item> -->", "<item><guid>a</guid></item >", "<x>&y;</x>"]
)


@given(st.lists(st.lists(_ITEMS | _ITEMS | _ITEMS | _OTHERS, max_size=6), min_size=1, max_size=5), st.randoms())
def test_verdicts_are_those_of_reading_the_whole(documents: list[list[str]], rng: object) -> None:
    compare_refreshes([make_feed(items) if items else b"<rss><channel/></rss>" for items in documents])


_SOUND = st.builds(
    make_item,
    st.sampled_from("abcdefgh"),
    st.sampled_from(["t", "u"]),
    st.sampled_from(["2023-11-01", "2023-11-02", ""]),
    st.sampled_from(["one", "two", "<![CDATA[<p>x</item> <item>]]>"]),
)


@given(st.lists(st.lists(_SOUND, min_size=1, max_size=8, unique_by=lambda item: item[:40]), min_size=2, max_size=5))
def test_verdicts_of_ordinary_feeds_are_those_of_reading_the_whole(documents: list[list[str]]) -> None:
    compare_refreshes([make_feed(items) for items in documents])


@pytest.mark.parametrize(
    "later",
    [
        make_feed([make_item("a"), make_item("a", "other")]),
        make_feed([make_item("a"), "<item><title>no guid</title></item>"]),
        make_feed([make_item("a"), make_item("a")]),
        make_feed([make_item("a"), "<item><guid>x</guid><title>broken<b></title></item>"]),
        make_feed(["<!--", make_item("a"), "-->", make_item("b")]),
        make_feed([make_item("a"), make_item("b")])[:-40],
        make_feed([make_item("a"), make_item("b", "caf\xe9")]).decode().encode("latin-1"),
    ],
)
def test_doubtful_documents_are_read_whole(later: bytes) -> None:
    first = make_feed([make_item("a"), make_item("c")])
    known = refresh(Known(1, URL), first, NOW, {}).known
    compare_refreshes([first, later, first])
    assert count_unread(later, known.window) == 0


def test_bytes_are_noted_only_for_the_item_whose_guid_stands_in_them() -> None:
    body = make_feed([make_item("aa"), make_item("bb"), make_item("c&amp;c")])
    document = read(body, None)
    swapped = replace(document, items=(document.items[1], document.items[0], document.items[2]))
    noted = ItemSources(body).note_sources(swapped).items
    assert [isinstance(item, FetchedEntry) for item in noted] == [False, False, True]


def test_real_documents_are_judged_alike(shared_data: Path) -> None:
    """Of each document every seventh item counts as new and every ninth as changed."""
    with tarfile.open(shared_data / "feeds.tar.xz") as archive:
        members = [one for one in archive if one.isfile() and not one.name.endswith(".csv")]
        bodies = [archive.extractfile(one).read() for one in members]  # type: ignore[union-attr]
    unread = items = 0
    for body in [one for one in bodies if len(one) < 60_000]:
        try:
            known = refresh(Known(1, URL), body, NOW, {}).known
        except NotAFeed:
            continue
        window = [
            (name, "0" * 24 + stored[24:49] if k % 9 == 4 else stored)
            for k, (name, stored) in enumerate(known.window)
            if k % 7 != 3
        ]
        known = replace(known, window=tuple(window))
        whole = replace(known, window=tuple((name, stored[:49]) for name, stored in window))
        verdict = refresh(known, body, NOW + 60, {})
        assert drop_sources(verdict) == refresh(whole, body, NOW + 60, {}, whole=True)
        unread, items = unread + count_unread(body, known.window), items + len(verdict.known.window)
    assert unread > 0.4 * items


def test_windows_stay_short() -> None:
    [(_, stored)] = refresh(Known(1, URL), make_feed([make_item("a", text=escape("<p>x") * 99)]), NOW, {}).known.window
    assert len(stored) < 80
