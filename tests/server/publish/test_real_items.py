"""Real items, imported and published again, are valid, and our reader and feedparser find every field."""

from __future__ import annotations

import calendar
import math
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import feedparser
import pytest
from msgspec import structs
from msgspec.structs import replace
from validity import problems

from headwater.errors import InputError
from headwater.formats import read, read_to_keep
from headwater.model import Ending, Entry, Feed, Item, Known, Outcome, Person
from headwater.novelty import judge
from headwater.publish.published_documents import DocumentPlace, compose_document, render_document, to_entries

NOW = 1_800_000_000.0
EVERY = 6  # takes every sixth document; the soak takes all

Imported = list[tuple[Feed, tuple[Item, ...]]]


def real_items(shared_data: Path) -> Imported:
    """Return the items that a refresh of each document would store."""
    found: Imported = []
    with tarfile.open(shared_data / "feeds.tar.xz") as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            if file is None:
                continue
            try:
                document = read_to_keep(file.read(), url="https://source.example/feed")
            except InputError:
                continue
            url = f"https://source.example/{len(found)}"
            outcome = Outcome(Ending.CHANGED, url, url, NOW, 0.1, 200, document)
            verdict = judge(Known(1, url), outcome, {})
            if verdict.new:
                found.append((Feed(1, url, document.title), verdict.new))
    return found


@pytest.fixture(scope="module")
def imported(shared_data: Path) -> Imported:
    return real_items(shared_data)


def published(feed: Feed, items: Sequence[Item], format: str) -> tuple[tuple[Entry, ...], bytes]:
    shown = to_entries(items, {1: feed})
    place = DocumentPlace("https://our.example", "/tags/x", format)
    return shown, render_document(compose_document(place, "x", shown, NOW, hub=("https://our.example/hub",)))


def check(imported: Imported, format: str) -> None:
    for feed, items in imported:
        shown, body = published(feed, items, format)
        assert problems(body, format) == [], feed
        again = read(body, url="https://our.example/tags/x", summaries=False)
        for mine, was in zip(again.items, shown, strict=True):
            if format == "atom":  # RFC 4287 requires an author and a date of change for every entry
                mine = replace(mine, authors=() if not was.authors else mine.authors)
                mine = replace(mine, updated=None if was.updated is None else mine.updated)
            if format == "rss":  # RSS can only write 0 for an unknown length
                mine, was = unsized(mine), without_addresses(unsized(was))
            assert facts(mine) == facts(was), (feed, was.id)


def without_addresses(entry: Entry) -> Entry:
    """Remove the fields that RSS cannot hold: an author's page, and the addresses of several authors with names."""
    if len(entry.people) == 1 and entry.people[0].email:
        return replace(entry, people=(replace(entry.people[0], url=None),))
    written = tuple(Person(one.name or one.url, None if one.name else one.email) for one in entry.people)
    return replace(entry, people=written if any(one.email for one in written) else ())


def unsized(entry: Entry) -> Entry:
    return replace(entry, enclosures=tuple(replace(one, length=one.length or None) for one in entry.enclosures))


def facts(entry: Entry) -> dict[str, Any]:
    """Return every field, with dates in whole seconds as in RSS, and without the line end after <pre>, which HTML
    ignores.
    """
    found = structs.asdict(entry)
    for name in ("published", "updated"):
        found[name] = None if found[name] is None else math.floor(found[name])
    for name in ("summary", "content"):
        found[name] = None if found[name] is None else found[name].replace("<pre>\n", "<pre>")
    return found


def check_by_feedparser(imported: Imported, format: str) -> None:
    for feed, items in imported:
        shown, body = published(feed, items, format)
        parsed = feedparser.parse(body, sanitize_html=False, resolve_relative_uris=False)
        assert not parsed.bozo, (feed, parsed.get("bozo_exception"))
        for mine, was in zip(parsed.entries, shown, strict=True):
            got, wanted = by_feedparser(mine, was, format), expected(was)
            if got != wanted:  # it repairs doubly encoded texts, but not attributes
                got, wanted = mended(got), mended(wanted)
            assert got == wanted, (feed, was.id)


def by_feedparser(mine: Any, was: Entry, format: str) -> dict[str, Any]:
    """Return the fields as feedparser has them, without those that it fills from others."""

    def seconds(when: time.struct_time | None) -> int | None:
        return None if when is None else calendar.timegm(when)

    files = [one.get("href") for one in mine.get("enclosures", ())]
    files += [one.get("url") for one in mine.get("media_content", ())]
    return {
        "id": mine.id,
        "title": mine.get("title") or None,
        "link": None if was.link is None else mine.get("link"),
        "published": seconds(mine.get("published_parsed")),
        "updated": None if was.updated is None else seconds(mine.get("updated_parsed")),
        "authors": tuple(_named(*pair) for pair in zip(mine.get("authors", ()), was.authors, strict=True)),
        "summary": None if was.summary is None else mine.get("summary"),
        "content": mine.content[0].value if was.content else None,
        "categories": tuple(tag.term for tag in mine.get("tags", ())),
        "enclosures": sorted(set(files)),  # a file with sizes is an enclosure and in Media RSS
        "language": mine.title_detail.language if format == "atom" else mine.get("language"),
    }


def mended(facts: dict[str, Any]) -> dict[str, Any]:
    def once(text: str | None) -> str | None:
        try:
            return None if text is None else text.encode("latin-1").decode()
        except UnicodeError:
            return text

    return facts | {"title": once(facts["title"]), "categories": tuple(map(once, facts["categories"]))}


def _named(one: Any, was: str) -> str | None:
    """Return an author's name; feedparser splits names that contain an address."""
    name, mail = one.get("name"), one.get("email")
    return was if mail and mail in was and (name or "") in was else name


def expected(was: Entry) -> dict[str, Any]:
    found: dict[str, Any] = structs.asdict(was)
    for name in ("source", "image", "people", "episode"):  # feedparser has other names for them
        del found[name]
    for name in ("published", "updated"):
        found[name] = None if found[name] is None else math.floor(found[name])
    return found | {"enclosures": sorted(one.url for one in was.enclosures)}


@pytest.mark.parametrize("format", ["rss", "atom", "json"])
def test_published_documents_are_valid_and_survive_our_reader(imported: Imported, format: str) -> None:
    check(imported[::EVERY], format)


@pytest.mark.parametrize("format", ["rss", "atom"])
def test_feedparser_reads_every_field_back(imported: Imported, format: str) -> None:
    check_by_feedparser(imported[:: 3 * EVERY], format)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("format", ["rss", "atom", "json"])
def test_all_real_documents_are_published_without_losing_a_field(imported: Imported, format: str) -> None:
    assert len(imported) > 300
    check(imported, format)
    if format != "json":
        check_by_feedparser(imported, format)
