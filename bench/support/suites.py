"""Scores readers by the suites of feedparser and gofeed: Headwater, feedparser, fastfeedparser if installed.

A document of feedparser's suite states its expected fields in a comment (`Expect: feed['title'] == 'x'`), one of
gofeed's in a JSON file of the same name. Expectations about fields that a `Document` has are counted, others are left
out. All readers are compared by the same rules: titles and names as text, HTML by its text and links, dates to the
second; content counts as a missing summary. Expectations about embedded pages are counted apart as well: Headwater
leaves a link to them, other readers leave nothing.

`python -m bench.support.suites FOLDER [--misses]`, where FOLDER is `tests` of feedparser's source package or `testdata`
of gofeed's.
"""

from __future__ import annotations

import argparse
import ast
import calendar
import importlib
import importlib.util
import json
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from headwater.formats import read
from headwater.model import Document, Entry, Person

Key = tuple[str | int, ...]
Lookup = Callable[[Key], object]
_EXPECT = re.compile(rb"Expect:\s*(.*?)\s*(?:-->)?\s*\r?\n")
_HEADER = re.compile(rb"Header:\s*([\w-]+):\s*(.*?)\s*(?:-->)?\r?\n")
_EMBEDDED = re.compile(rb"(?:<|&lt;)(?:iframe|embed)\b", re.IGNORECASE)
_TAG = re.compile(r"<[^>]*>")
_LINK = re.compile(r"""(?:href|src)=["']([^"']*)["']""")
_ADDRESS = re.compile(r" \([^()]*@[^()]*\)$")  # a name with its mail address, which we keep apart
_HTML = {"summary", "description", "tagline", "subtitle", "content"}
_EXACT = {"link", "id", "guid", "language", "email", "href", "url", "type", "encoding"}


class Expectation(NamedTuple):
    """A field of a document of the suite, and its value."""

    document: Path
    key: Key
    value: object


def load_expectations(folder: Path) -> Iterator[Expectation]:
    """Find the expectations about fields that a `Document` has."""
    for path in sorted(folder.rglob("*.xml")):
        expected = path.with_suffix(".json")
        if expected.exists():
            yield from _load_gofeed(path, json.loads(expected.read_bytes()))
            continue
        found = _EXPECT.search(path.read_bytes())
        if found is None:
            continue
        try:
            condition = ast.parse(found[1].decode("utf-8"), mode="eval").body
        except (SyntaxError, UnicodeDecodeError):
            continue
        parts = condition.values if isinstance(condition, ast.BoolOp) else [condition]
        for part in parts:
            if not (isinstance(part, ast.Compare) and isinstance(part.ops[0], ast.Eq)):
                continue
            key = _read_key(part.left)
            if key is not None and _is_field(key):
                try:
                    yield Expectation(path, key, ast.literal_eval(part.comparators[0]))
                except ValueError:  # an expression, not a value
                    continue


# Fields of gofeed's models, and feedparser's keys for them. Some are objects whose value is what counts.
_GOFEED_FEED: dict[str, Key] = {
    "title": ("title",),
    "subtitle": ("subtitle",),
    "description": ("subtitle",),
    "link": ("link",),
    "id": ("id",),
    "language": ("language",),
    "generator": ("generator",),
    "updatedParsed": ("updated_parsed",),
}
_GOFEED_ITEM: dict[str, Key] = {
    "title": ("title",),
    "summary": ("summary",),
    "description": ("summary",),
    "content": ("content", 0, "value"),
    "link": ("link",),
    "id": ("id",),
    "guid": ("id",),
    "publishedParsed": ("published_parsed",),
    "pubDateParsed": ("published_parsed",),
    "updatedParsed": ("updated_parsed",),
}


def _load_gofeed(path: Path, expected: dict[str, Any]) -> Iterator[Expectation]:
    """Translate an expected result of gofeed; its names of fields differ between its models."""
    items = expected.get("items") or expected.get("entries") or []
    for start, fields, known in (
        (("feed",), expected, _GOFEED_FEED),
        *((("entries", k), item, _GOFEED_ITEM) for k, item in enumerate(items)),
    ):
        for name, value in fields.items():
            for key, one in _translate_gofeed(name, value, known):
                if one not in (None, "") and _is_field((*start, *key)):
                    yield Expectation(path, (*start, *key), one)


def _translate_gofeed(name: str, value: Any, known: dict[str, Key]) -> Iterator[tuple[Key, object]]:
    if name in known:
        if name.endswith("Parsed"):
            yield known[name], datetime.fromisoformat(value).timestamp()
        else:
            yield known[name], value.get("value") if isinstance(value, dict) else value
    elif name == "categories":
        for k, one in enumerate(value):
            yield ("tags", k, "term"), one.get("value") or one.get("term") if isinstance(one, dict) else one
    elif name == "authors" and known is _GOFEED_ITEM and value and isinstance(value[0], dict):
        for part, key in (("name", "name"), ("email", "email"), ("uri", "href")):
            yield ("author_detail", key), value[0].get(part)
    elif name in ("enclosure", "enclosures"):
        for k, one in enumerate(value if isinstance(value, list) else [value]):
            yield ("enclosures", k, "href"), one.get("url")
            yield ("enclosures", k, "type"), one.get("type")


def _read_key(node: ast.expr) -> Key | None:
    """Return the path of `entries[0]['title']` or `feed.link`; a detail's value is the field itself."""
    steps: list[str | int] = []
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            steps.append(node.slice.value)  # type: ignore[arg-type]  # a name or a number
            node = node.value
        elif isinstance(node, ast.Attribute):
            steps.append(node.attr)
            node = node.value
        else:
            return None
    key = (node.id, *reversed(steps))
    if len(key) > 2 and key[-1] == "value" and str(key[-2]).endswith("_detail"):
        return (*key[:-2], str(key[-2]).removesuffix("_detail"))
    return key


def _is_field(key: Key) -> bool:
    try:
        look_up(Document("rss", items=(Entry(),) * 9), key)
    except (KeyError, IndexError):
        return False
    return True


def look_up(document: Document, key: Key) -> object:
    """Return a field of our document by feedparser's name for it. Raises KeyError for fields that it does not have."""
    if key[0] == "feed" and len(key) > 1:
        return _look_up_feed(document, key[1:])
    if key[0] == "entries" and len(key) > 2 and isinstance(key[1], int):
        return _look_up_entry(document.items[key[1]], key[2:])
    raise KeyError(key)


def _look_up_feed(document: Document, key: Key) -> object:
    fields: dict[Key, object] = {
        ("title",): document.title,
        ("subtitle",): document.subtitle,
        ("tagline",): document.subtitle,
        ("description",): document.subtitle,
        ("link",): document.link,
        ("id",): document.id,
        ("guid",): document.id,
        ("language",): document.language,
        ("generator",): document.generator,
        ("updated_parsed",): document.updated,
        ("author",): ", ".join(document.authors) or None,
    }
    if key[0] == "tags" and key[2:] == ("term",):
        return _pick(document.categories, key[1])
    return fields[key]


def _look_up_entry(entry: Entry, key: Key) -> object:
    person = entry.people[0] if entry.people else Person(entry.authors[0]) if entry.authors else Person()
    fields: dict[Key, object] = {
        ("title",): entry.title,
        ("summary",): entry.summary,
        ("description",): entry.summary,
        ("content", 0, "value"): entry.content,
        ("link",): entry.link,
        ("id",): entry.id,
        ("guid",): entry.id,
        ("published_parsed",): entry.published,
        ("updated_parsed",): entry.updated,
        ("author",): person.name or person.email,
        ("author_detail", "name"): person.name,
        ("author_detail", "email"): person.email,
        ("author_detail", "url"): person.url,
        ("author_detail", "href"): person.url,
        ("source", "title"): entry.source.title if entry.source else None,
    }
    if key[0] == "tags" and key[2:] == ("term",):
        return _pick(entry.categories, key[1])
    if key[0] == "enclosures" and len(key) == 3 and key[2] in ("href", "url", "type"):
        file = _pick(entry.enclosures, key[1])
        return getattr(file, "type" if key[2] == "type" else "url", None)
    return fields[key]


def _pick(values: Sequence[object], place: str | int) -> object:
    return values[place] if isinstance(place, int) and place < len(values) else None


def get_by_key(found: Any, key: Key) -> object:
    """Return a field of feedparser's result, or of one that is built like it; None if it is missing."""
    for step in key:
        try:
            found = found[step]
        except (KeyError, IndexError, TypeError):
            return None
    return found


def is_met(key: Key, value: object, found: object) -> bool:
    """Compare a value with the expected one by the rules of its field."""
    name = str(next(step for step in reversed(key) if isinstance(step, str) and step != "value"))
    if name.endswith("_parsed"):
        return _to_epoch(value) == _to_epoch(found)
    mine, theirs = str(found or ""), str(value or "")
    if name in _EXACT:
        return mine.strip().lower() == theirs.strip().lower() if name == "language" else mine.strip() == theirs.strip()
    same = bool({_to_text(mine), _join_words(mine)} & {_to_text(theirs), _join_words(theirs)})
    if name in _HTML:
        return same and _list_links(mine) == _list_links(theirs)
    return same or (name == "author" and mine == _ADDRESS.sub("", theirs))


def _to_epoch(value: Any) -> float | None:
    if value is None or isinstance(value, float):
        return value
    return float("nan") if isinstance(value, str) else float(calendar.timegm(tuple(value)))  # not a parsed date


def _to_text(html: str) -> str:
    return _join_words(unescape(unescape(_TAG.sub(" ", html))))


def _join_words(text: str) -> str:
    return " ".join(text.split())


def _list_links(html: str) -> set[str]:
    return {unquote(link) for link in _LINK.findall(html) if link}


def load_readers(folder: Path) -> dict[str, Callable[[Path], Lookup]]:
    """Return the readers by name; each reads a document and returns a function that looks up its fields."""
    import feedparser  # type: ignore[import-untyped]

    def address(path: Path) -> str:
        return f"http://127.0.0.1:8097/tests/{path.relative_to(folder).as_posix()}"  # as in feedparser's own runs

    def read_headers(body: bytes) -> dict[str, str]:
        return {name.decode(): value.decode("latin-1") for name, value in _HEADER.findall(body[:4_000])}

    def read_ours(path: Path) -> Lookup:
        body = path.read_bytes()
        document = read(body, address(path), read_headers(body))
        return lambda key: look_up(document, key)

    def read_theirs(path: Path) -> Lookup:
        body = path.read_bytes()
        headers = {"content-location": address(path), **read_headers(body)}
        found = feedparser.parse(body, response_headers={name.lower(): value for name, value in headers.items()})
        return lambda key: get_by_key(found, key)

    readers: dict[str, Callable[[Path], Lookup]] = {"headwater": read_ours, "feedparser": read_theirs}
    if importlib.util.find_spec("fastfeedparser") is not None:
        parse = importlib.import_module("fastfeedparser").parse

        def read_fast(path: Path) -> Lookup:
            found = parse(path.read_bytes())
            return lambda key: get_by_key(found, key)

        readers["fastfeedparser"] = read_fast
    return readers


def score(folder: Path, *, misses: bool = False) -> dict[str, int]:
    """Count the expectations that each reader meets; with `misses`, print those that Headwater does not."""
    expected: dict[Path, list[Expectation]] = {}
    for one in load_expectations(folder):
        expected.setdefault(one.document, []).append(one)
    total = sum(map(len, expected.values()))
    print(f"{len(expected)} documents, {total} expectations")
    embedded = {path for path in expected if _EMBEDDED.search(path.read_bytes())}
    others = total - sum(len(expected[path]) for path in embedded)
    met: dict[str, int] = {}
    for name, load in load_readers(folder).items():
        met[name] = met_embedded = 0
        for path, ones in expected.items():
            try:
                lookup = load(path)
                results = [_find(lookup, one.key) for one in ones]
            except Exception as error:  # a reader that fails meets nothing of this document
                results = [f"{type(error).__name__}: {error}"] * len(ones)
            for one, found in zip(ones, results, strict=True):
                if is_met(one.key, one.value, found):
                    met[name] += 1
                    met_embedded += path in embedded
                elif misses and name == "headwater":
                    print(f"  {path.relative_to(folder)} {one.key}: {found!r} instead of {one.value!r}")
        without = f"; without embedded pages {met[name] - met_embedded} of {others}" if embedded else ""
        print(f"{name:16} {met[name]:5} of {total}{without}")
    return met


def _find(lookup: Lookup, key: Key) -> object:
    """Return a field; the content for a missing summary."""
    found = lookup(key)
    if found is None and key[-1] in ("summary", "description") and key[0] == "entries":
        return lookup((*key[:-1], "content", 0, "value"))
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--misses", action="store_true", help="print the expectations that Headwater does not meet")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    score(given.folder, misses=given.misses)
