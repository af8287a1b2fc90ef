"""Reads tables of items for `headwater query eval`: one JSON object per line, in the order of arrival."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import msgspec

from headwater.errors import InputError
from headwater.formats.values.dates import parse_date
from headwater.formats.values.html import clean_markup
from headwater.language import Catalogue
from headwater.model import Document, Enclosure, Entry, Item, Markup
from headwater.novelty import identify_items
from headwater.novelty.feed_kinds import CLOCK_TOLERANCE
from headwater.query.items.origin import Origin

Strings = tuple[str, ...]


class _TableEnclosure(msgspec.Struct):
    url: str
    type: str | None = None
    length: int | None = None


class _TableLine(msgspec.Struct):
    """One line of a table. Without `arrived` the item arrived at its date, or with the line before."""

    id: int | str
    feed: Annotated[str, msgspec.Meta(min_length=1)]
    feed_url: str | None = None
    tags: Strings | None = None
    guid: str | None = None
    title: str | None = None
    content: str | None = None
    summary: str | None = None
    categories: Strings | None = None
    authors: Strings | None = None
    language: str | None = None
    published: str | float | None = None
    updated: str | float | None = None
    arrived: str | float | None = None
    link: str | None = None
    enclosures: tuple[_TableEnclosure, ...] | None = None


@dataclass(frozen=True, slots=True)
class ItemRow:
    """An item of the table with its id in the table."""

    id: int | str
    item: Item
    origin: Origin


@dataclass(frozen=True, slots=True)
class ItemTable:
    rows: tuple[ItemRow, ...]

    @property
    def catalogue(self) -> Catalogue:
        """The feeds and tags of the table; they count as registered."""
        origins = [row.origin for row in self.rows]
        names = {origin.name: origin.url for origin in origins if origin.name is not None}
        return Catalogue(names, {}, frozenset(tag for origin in origins for tag in origin.tags))


def read_item_table(data: bytes, name: str) -> ItemTable:
    rows: list[ItemRow] = []
    feeds: dict[str, int] = {}
    known: dict[tuple[int, int | str], Item] = {}  # a line with a known id is a new version of that item
    now = 0.0
    decoder = msgspec.json.Decoder(_TableLine)
    for number, text in enumerate(data.splitlines(), 1):
        if not text.strip():
            continue
        try:
            line = decoder.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"{name}, line {number}: {error}. Each line is one item as a JSON object.") from error
        published, updated = _parse_time(line.published), _parse_time(line.updated)
        arrived = _parse_time(line.arrived)
        now = arrived if arrived is not None else max(now, published or 0.0)
        feed = feeds.setdefault(line.feed, len(feeds) + 1)
        row = _make_row(line, number, feed, published, updated, now)
        first = known.setdefault((feed, line.id), row.item)
        if first is not row.item:
            row = replace(row, item=msgspec.structs.replace(row.item, identity=first.identity, id=first.id))
        rows.append(row)
    return ItemTable(tuple(rows))


def _parse_time(value: str | float | None) -> float | None:
    return parse_date(value) if isinstance(value, str) else value


def _make_row(
    line: _TableLine, number: int, feed: int, published: float | None, updated: float | None, now: float
) -> ItemRow:
    facts: dict[str, Any] = {
        "title": line.title,
        "link": line.link,
        "authors": line.authors or (),
        "categories": line.categories or (),
        "enclosures": tuple(Enclosure(file.url, file.type, file.length) for file in line.enclosures or ()),
        "language": line.language,
    }
    summary, content = (None if text is None else Markup(text) for text in (line.summary, line.content))
    entry = Entry(id=line.guid, published=published, updated=updated, summary=summary, content=content, **facts)
    believable = published is not None and published <= now + CLOCK_TOLERANCE
    item = Item(
        feed_id=feed,
        identity=identify_items(Document("table", items=(entry,)))[0],
        content_hash=repr(entry),  # any change is a new version
        published=published if believable and published is not None else now,
        dated=believable,
        updated=updated,
        first_seen=now,
        id=line.id if isinstance(line.id, int) else number,
        summary=clean_markup(summary),
        content=clean_markup(content),
        **facts,
    )
    return ItemRow(line.id, item, Origin(line.feed, line.feed_url or f"table:{line.feed}", line.tags or ()))
