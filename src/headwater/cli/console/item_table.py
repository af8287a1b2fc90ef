"""Reads tables of items for `headwater query eval` and `stories`: JSON lines or a trace, in the order of arrival."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from headwater.cli.console.inputs import decode_json_lines, read_bytes
from headwater.errors import InputError
from headwater.formats.values.dates import parse_date
from headwater.formats.values.html import clean_markup
from headwater.formats.values.links import normalise_url
from headwater.language import Catalogue
from headwater.model import Document, Enclosure, Entry, Item, Markup, Source
from headwater.novelty import identify_items
from headwater.novelty.judgement import accept_date
from headwater.query.items.origin import Origin
from headwater.query.stories.story_items import StoryItem

Strings = tuple[str, ...]


class _TableEnclosure(msgspec.Struct):
    url: str
    type: str | None = None
    length: int | None = None


class _TableLine(msgspec.Struct):
    """One line of a table. Without `arrived` the item arrived at its date, or with the line before.

    The fields from `identity` on are those of an export. `dated` says whether `published` is the publisher's date,
    `version` how often the publisher has changed the item, from 1.
    """

    id: int | str
    feed: Annotated[str, msgspec.Meta(min_length=1)]
    feed_url: str | None = None
    tags: Strings | None = None
    guid: str | None = None
    title: str | None = None
    content: str | None = None
    summary: str | None = None
    categories: Strings | str | None = None
    authors: Strings | str | None = None
    language: str | None = None
    published: str | float | None = None
    updated: str | float | None = None
    arrived: str | float | None = None
    link: str | None = None
    enclosures: tuple[_TableEnclosure, ...] | None = None
    identity: str | None = None
    dated: bool | None = None
    feed_title: str | None = None
    registered: bool = True
    origin: Source | None = None
    version: int = 1


@dataclass(frozen=True, slots=True)
class ItemRow:
    """A version of an item, its id in the table, and its arrival."""

    id: int | str
    item: Item
    origin: Origin
    arrived: float


@dataclass(frozen=True, slots=True)
class ItemTable:
    rows: tuple[ItemRow, ...]

    @property
    def catalogue(self) -> Catalogue:
        """The feeds and tags of the table; they count as registered."""
        origins = [row.origin for row in self.rows]
        names = {origin.name: origin.url for origin in origins if origin.name is not None}
        titles = {(origin.title, origin.url) for origin in origins if origin.title is not None}
        tags = frozenset(tag for origin in origins for tag in origin.tags)
        return Catalogue(names, {}, tags, tuple(sorted(titles)))


def read_item_table(data: bytes, name: str) -> ItemTable:
    rows: list[ItemRow] = []
    feeds: dict[str, int] = {}
    by_id: dict[tuple[int, int | str], Item] = {}  # a line with a known id is a new version of that item
    by_identity: dict[tuple[int, str], Item] = {}
    now = 0.0
    for number, line in decode_json_lines(data, name, _TableLine, ""):
        published, arrived = _parse_time(line.published), _parse_time(line.arrived)
        now = arrived if arrived is not None else max(now, published or 0.0)
        feed = feeds.setdefault(line.feed, len(feeds) + 1)
        row = _make_row(line, number, feed, published, now)
        before = by_id.get((feed, line.id)) or by_identity.get((feed, row.item.identity))
        if before is not None:
            row = replace(row, item=_make_version(row.item, before))
        by_id[feed, line.id] = by_identity[feed, row.item.identity] = row.item
        rows.append(row)
    return ItemTable(tuple(rows))


def _parse_time(value: str | float | None) -> float | None:
    return parse_date(value) if isinstance(value, str) else value


def _make_version(item: Item, before: Item) -> Item:
    """Return a later version of an item as the store keeps it: an update without a date does not move it."""
    item = msgspec.structs.replace(item, identity=before.identity, id=before.id, first_seen=before.first_seen)
    return item if item.dated else msgspec.structs.replace(item, published=before.published, dated=before.dated)


def _list_values(given: Strings | str | None) -> Strings:
    """Return several values; an export joins them in one text."""
    return tuple(filter(None, given.split("; "))) if isinstance(given, str) else given or ()


def _make_row(line: _TableLine, number: int, feed: int, published: float | None, now: float) -> ItemRow:
    updated = _parse_time(line.updated)
    facts: dict[str, Any] = {
        "title": line.title,
        "link": line.link,
        "authors": _list_values(line.authors),
        "categories": _list_values(line.categories),
        "enclosures": tuple(Enclosure(file.url, file.type, file.length) for file in line.enclosures or ()),
        "language": line.language,
        "source": line.origin,
    }
    summary, content = (None if text is None else Markup(text) for text in (line.summary, line.content))
    entry = Entry(id=line.guid, published=published, updated=updated, summary=summary, content=content, **facts)
    date = accept_date(updated if published is None else published, now) if line.dated is not False else None
    if date is None:  # an export has the date that the server gave the item
        published = published if line.dated is False and published is not None else now
    item = Item(
        feed_id=feed,
        identity=line.identity or identify_items(Document("table", items=(entry,)))[0],
        content_hash=repr(entry),  # any change is a new version
        published=date if date is not None else published or now,
        dated=date is not None,
        updated=updated,
        first_seen=now,
        id=line.id if isinstance(line.id, int) else number,
        version=line.version,
        summary=clean_markup(summary),
        content=clean_markup(content),
        **facts,
    )
    name = None if "://" in line.feed else line.feed  # a feed without a name is called by its address
    url = line.feed_url or (line.feed if name is None else f"table:{line.feed}")
    return ItemRow(line.id, item, Origin(name, url, line.tags or (), line.registered, title=line.feed_title), now)


MAX_BYTES = 1024 * 1024 * 1024
TRACE_SUFFIXES = (".parquet", ".csv", ".tsv")


class _StoryLine(msgspec.Struct):
    id: int | str
    source: Annotated[str, msgspec.Meta(min_length=1)]
    published_at: float | str
    title: str | None = None
    link: str | None = None


def read_story_items(file: str) -> list[StoryItem]:
    """Read a trace (Parquet, CSV) or JSON lines. The rows of a trace are called NAME:ROW, after the file."""
    items = _read_trace(Path(file)) if _is_trace(file) else _read_lines(read_bytes(file, MAX_BYTES), file)
    return sorted(items, key=lambda item: item.arrived)


def _is_trace(file: str) -> bool:
    return any(suffix.lower() in TRACE_SUFFIXES for suffix in Path(file).suffixes)


def _read_trace(path: Path) -> Iterator[StoryItem]:
    from headwater.lab.traces.trace_files import encode_sources, parse_times, read_columns, read_strings

    table, _ = read_columns(path, text=True)
    times = parse_times(table["published_at"], path.name)
    codes, names = encode_sources(table["source"], path.name)
    titles = read_strings(table, "title", np.arange(len(times)), None)
    if titles is None:
        raise InputError(f"The trace {path.name} has no column “title”, and stories are grouped by titles.")
    name = path.name.partition(".")[0]
    for row, (code, at, title) in enumerate(zip(codes, times, titles, strict=True)):
        source = names[code]
        yield StoryItem(f"{name}:{row}", source, source, title, float(at))


def _read_lines(data: bytes, name: str) -> Iterator[StoryItem]:
    for number, line in decode_json_lines(data, name, _StoryLine, " with id, source, published_at and title"):
        at = parse_date(line.published_at) if isinstance(line.published_at, str) else line.published_at
        if at is None:
            raise InputError(
                f"{name}, line {number}: “{line.published_at}” is not a date; give UTC seconds since 1970, or a date "
                "like 2026-11-01T07:30:00Z."
            )
        link = normalise_url(line.link) if line.link else None
        yield StoryItem(line.id, line.source, line.source, line.title, at, link)
