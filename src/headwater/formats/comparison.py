"""Compares what Headwater and other readers read in a document, item by item."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import msgspec

from headwater.errors import InputError, NotAFeed
from headwater.formats.sniff import read
from headwater.formats.values.dates import parse_date
from headwater.formats.values.people import extract_names
from headwater.formats.values.text import html_to_text
from headwater.model import Document, Enclosure, Entry

_FIELDS = ("id", "link", "title", "published", "updated", "authors", "categories", "enclosures", "summary", "content")


class FieldDifference(msgspec.Struct, frozen=True):
    """A field of an item that another reader reads differently; a field of None stands for the whole item."""

    item: int  # its place in our document, or in theirs if we lack it; the first is 1
    title: str | None
    field: str | None
    ours: Any
    theirs: Any


class OtherReader(msgspec.Struct, frozen=True):
    """The result of another reader. `problem` says why it read nothing."""

    name: str
    items: int
    differences: tuple[FieldDifference, ...] = ()
    problem: str | None = None


class ReaderComparison(msgspec.Struct, frozen=True):
    """What Headwater read in a document, and where other readers read something else."""

    format: str
    items: int
    readers: tuple[OtherReader, ...]


def list_other_readers() -> list[str]:
    """Return the names of the other readers that are installed."""
    return [name for name in _READERS if find_spec(name) is not None]


def compare_readers(body: bytes, url: str | None = None) -> ReaderComparison:
    """Compare our reading of a document with that of every other reader. Raises InputError if none is installed."""
    names = list_other_readers()
    if not names:
        raise InputError("No other reader is installed to compare with. Install one: pip install feedparser")
    ours = read(body, url=url, summaries=False)
    found = [_compare_with(name, ours, body, url) for name in names]
    return ReaderComparison(ours.format, len(ours.items), tuple(found))


def _compare_with(name: str, ours: Document, body: bytes, url: str | None) -> OtherReader:
    try:
        theirs = _READERS[name](body, url)
    except NotAFeed as error:
        return OtherReader(name, 0, problem=str(error))
    except Exception as error:  # another program's code, on a document that may be damaged
        return OtherReader(name, 0, problem=f"{type(error).__name__}: {error}")
    return OtherReader(name, len(theirs), tuple(_compare_items(ours.items, theirs)))


def _compare_items(ours: Sequence[Entry], theirs: Sequence[Entry]) -> list[FieldDifference]:
    """Compare item by item: by place if both have as many, else by id, link or title.

    Some readers give the content as summary of an item without one, or the summary as content: no difference.
    """
    found: list[FieldDifference] = []
    if len(ours) == len(theirs):
        pairs: list[tuple[int, Entry, Entry | None]] = [
            (place, mine, other) for place, (mine, other) in enumerate(zip(ours, theirs, strict=True), 1)
        ]
        left: list[tuple[int, Entry]] = []
    else:
        waiting = list(enumerate(theirs, 1))
        pairs = []
        for place, mine in enumerate(ours, 1):
            match = next((one for one in waiting if _have_same_name(mine, one[1])), None)
            if match is not None:
                waiting.remove(match)
            pairs.append((place, mine, None if match is None else match[1]))
        left = waiting
    for place, mine, other in pairs:
        if other is None:
            found.append(FieldDifference(place, mine.title, None, mine.link or mine.id, None))
        else:
            found += [
                FieldDifference(place, mine.title, field, my_value, their_value)
                for field in _FIELDS
                if (my_value := _show(mine, field)) != (their_value := _show(other, field))
                and not (field == "summary" and my_value is None and their_value == _show(other, "content"))
                and not (field == "content" and my_value is None and their_value == _show(mine, "summary"))
            ]
    return [*found, *(FieldDifference(place, one.title, None, None, one.link or one.id) for place, one in left)]


def _have_same_name(mine: Entry, other: Entry) -> bool:
    for name in ("id", "link", "title"):
        values = getattr(mine, name), getattr(other, name)
        if None not in values:
            return bool(values[0] == values[1])
    return False


def _show(entry: Entry, field: str) -> Any:
    """Return a field in the form in which readers are compared: HTML as text, files by address, whole seconds."""
    value = getattr(entry, field)
    if field in ("summary", "content"):
        return html_to_text(value, 10_000) if value else None
    if field == "enclosures":
        return sorted(one.url for one in value)
    if field in ("authors", "categories"):
        return list(value)
    return int(value) if isinstance(value, float) else value


def _read_with_feedparser(body: bytes, url: str | None) -> tuple[Entry, ...]:
    from headwater.formats.lastresort import read_last_resort

    return read_last_resort(body, url, sanitize=True).items


def _read_with_fastfeedparser(body: bytes, url: str | None) -> tuple[Entry, ...]:
    import fastfeedparser  # type: ignore[import-not-found,import-untyped,unused-ignore]

    return tuple(_convert_fast_entry(one) for one in fastfeedparser.parse(body).entries)


def _convert_fast_entry(one: Any) -> Entry:
    contents = one.get("content") or [{}]
    published, updated = parse_date(one.get("published")), parse_date(one.get("updated"))
    return Entry(
        id=one.get("id") or None,
        link=one.get("link") or None,
        title=html_to_text(one.get("title") or ""),
        published=updated if published is None else published,
        updated=updated,
        authors=extract_names(one.get("author")),
        summary=one.get("description") or None,
        content=contents[0].get("value") or None,
        categories=tuple(tag["term"] for tag in one.get("tags") or () if tag.get("term")),
        enclosures=tuple(Enclosure(file["url"]) for file in one.get("enclosures") or () if file.get("url")),
    )


_READERS: dict[str, Callable[[bytes, str | None], tuple[Entry, ...]]] = {
    "feedparser": _read_with_feedparser,
    "fastfeedparser": _read_with_fastfeedparser,
}
