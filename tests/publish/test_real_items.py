"""Real items, imported and published again, keep their fields through our own reader and through feedparser."""

from __future__ import annotations

import tarfile
from dataclasses import replace
from pathlib import Path

import feedparser
import pytest

from headwater.errors import InputError
from headwater.formats import read
from headwater.model import Ending, Entry, Feed, Item, Known, Outcome
from headwater.novelty import judge
from headwater.publish.documents import Place, compose, entries, render

NOW = 1_800_000_000.0
MOST = 80  # documents; reading all again in five ways would take minutes


def real_items(shared_data: Path) -> list[tuple[Feed, tuple[Item, ...]]]:
    found = []
    with tarfile.open(shared_data / "feeds.tar.xz") as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            if file is None:
                continue
            try:
                document = read(file.read(), url="https://source.example/feed")
            except InputError:
                continue
            url = f"https://source.example/{len(found)}"
            outcome = Outcome(Ending.CHANGED, url, url, NOW, 0.1, 200, document)
            verdict = judge(Known(1, url), outcome, {})
            if verdict.new:
                found.append((Feed(1, url, document.title), verdict.new))
            if len(found) == MOST:
                break
    return found


@pytest.fixture(scope="module")
def imported(shared_data: Path) -> list[tuple[Feed, tuple[Item, ...]]]:
    return real_items(shared_data)


@pytest.mark.parametrize("format", ["rss", "atom", "json"])
def test_our_reader_reads_back_what_was_published(imported, format: str) -> None:
    for feed, items in imported:
        published = entries(items, {1: feed})
        document = compose(Place("https://our.example", "/tags/x", format), "x", published, NOW, archives=0)
        again = read(render(document), url="https://our.example/tags/x")
        assert [item.id for item in again.items] == [item.id for item in published], feed
        for mine, was in zip(again.items, published, strict=True):
            if format == "atom" and not was.authors:  # RFC 4287 §4.1.1 wants an author: the feed's
                mine = replace(mine, authors=())
            assert facts(mine) == facts(was), (feed, was.id)


def facts(entry: Entry) -> tuple[object, ...]:
    when = None if entry.published is None else round(entry.published)
    return (
        entry.title,
        entry.link,
        when,
        entry.authors,
        entry.categories,
        entry.source,
        bool(entry.content or entry.summary),
    )


@pytest.mark.parametrize("format", ["rss", "atom"])
def test_feedparser_reads_back_what_was_published(imported, format: str) -> None:
    for feed, items in imported:
        published = entries(items, {1: feed})
        document = compose(Place("https://our.example", "/tags/x", format), "x", published, NOW, archives=0)
        parsed = feedparser.parse(render(document))
        assert not parsed.bozo, (feed, parsed.get("bozo_exception"))
        assert [each.id for each in parsed.entries] == [item.id for item in published]
        for mine, was in zip(parsed.entries, published, strict=True):
            assert ("published_parsed" in mine) == (was.published is not None)
            assert bool(mine.get("title")) == bool(was.title)
            assert len(mine.get("tags", ())) >= len(was.categories)
