"""JSON Feed 1 and 1.1 → Document, forgiving about types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from headwater.errors import NotAFeed
from headwater.formats import encoding, media
from headwater.formats.context import Wanted
from headwater.formats.dates import parse_date
from headwater.formats.document import read_elements
from headwater.formats.html import Cleaner
from headwater.formats.languages import language
from headwater.formats.links import is_web, resolve
from headwater.formats.people import distinct
from headwater.formats.rssjson import elements, is_rss
from headwater.formats.text import TITLE_LIMIT, cut, fit, one_line, plain_title
from headwater.model import Document, Enclosure, Entry, Source

_ITEM_LIMIT: Final = 5_000


def read_json(body: bytes, charset: str | None, base: str | None, wanted: Wanted) -> Document:
    """The Document a JSON body holds; raises NotAFeed when it holds none."""
    value, codec, problems = _load(body, charset)
    if not isinstance(value, dict):
        raise NotAFeed("This is JSON but no JSON Feed: it is not an object.", "json")
    if is_rss(value):
        return read_elements(elements(value), base, wanted, codec, tuple(problems))
    version = _string(value.get("version")) or ""
    items = value.get("items")
    if "jsonfeed.org" not in version and not (
        isinstance(items, list) and ("title" in value or "home_page_url" in value)
    ):
        raise NotAFeed("This is JSON but no JSON Feed: it has neither a version of JSON Feed nor items.", "json")
    number = version.rstrip("/").rpartition("/")[2]
    feed_url = resolve(_string(value.get("feed_url")), base)
    base = feed_url if base is None else base
    spoken = language(_string(value.get("language")))
    authors = _authors(value)
    shown = _Shown(Cleaner(wanted.clean), authors, spoken, wanted.summaries)
    cleaner = shown.cleaner
    items = items if isinstance(items, list) else []
    if len(items) > _ITEM_LIMIT:
        problems.append(f"{len(items)} items, of which the first {_ITEM_LIMIT} were read")
    return Document(
        format=f"json {number}" if number in ("1", "1.1") else "json",
        title=_title(value),
        subtitle=cleaner.plain(_string(value.get("description"))),
        link=resolve(_string(value.get("home_page_url")), base),
        language=spoken,
        id=feed_url,
        authors=authors,
        hub=distinct(_hubs(value.get("hubs"), base)),
        self=feed_url,
        icon=resolve(_string(value.get("icon")), base) or resolve(_string(value.get("favicon")), base),
        next=resolve(_string(value.get("next_url")), base),
        items=tuple(_entry(item, base, shown) for item in items[:_ITEM_LIMIT] if isinstance(item, dict)),
        encoding=codec,
        problems=tuple(problems),
    )


def _load(body: bytes, charset: str | None) -> tuple[Any, str, list[str]]:
    """orjson, which knows limits; what it refuses (NaN, lone surrogates, other encodings) gets a second try."""
    try:
        return orjson.loads(body), "utf-8", []
    except orjson.JSONDecodeError:
        pass
    text, codec, problem = encoding.decode(body, charset)
    text = text.lstrip("\ufeff").strip()
    problems = [problem] if problem else []
    try:
        return json.loads(text, strict=False, parse_constant=lambda _name: None), codec, problems
    except RecursionError as error:
        raise NotAFeed("This JSON is nested deeper than any feed and was not read.", "json") from error
    except ValueError as error:
        if not text.rstrip().endswith(("}", "]")):
            raise NotAFeed("This JSON document is truncated.", "truncated") from error
        raise NotAFeed("This is no valid JSON, and nothing else that is a feed.", "json") from error


@dataclass(frozen=True, slots=True)
class _Shown:
    """How the items of a document are made: what cleans them, whom and which language they have when they say nothing,
    and whether their content stands for a summary that they lack."""

    cleaner: Cleaner
    authors: tuple[str, ...]
    language: str | None
    summaries: bool


def _entry(item: Mapping[str, Any], base: str | None, shown: _Shown) -> Entry:
    cleaner = shown.cleaner
    identity = item.get("id")
    link = resolve(_string(item.get("url")), base) or resolve(_string(item.get("external_url")), base)
    identity = _string(identity) or link
    published = parse_date(_string(item.get("date_published")))
    updated = parse_date(_string(item.get("date_modified")))
    html = cleaner.html(_string(item.get("content_html")), link or base)
    content = html or cleaner.plain(_string(item.get("content_text")))
    summary = cleaner.plain(_string(item.get("summary")))
    more = item.get("_headwater")
    if isinstance(more, dict):  # what `formats.write` says there because JSON Feed cannot
        if more.get("summary_only") is True:
            summary, content = content, None
        elif given := cleaner.html(_string(more.get("summary_html")), link or base):
            summary = given
    return Entry(
        id=cut(identity, TITLE_LIMIT) if identity else None,
        link=link,
        title=_title(item),
        published=updated if published is None else published,
        updated=updated,
        authors=_authors(item) or shown.authors,
        summary=content if summary is None and shown.summaries else summary,
        content=content,
        categories=distinct(_tags(item.get("tags"))),
        enclosures=media.distinct(_enclosures(item, base)),
        language=language(_string(item.get("language"))) or shown.language,
        source=_source(more),
    )


def _source(extension: Any) -> Source | None:
    """Where a republished item comes from, as `formats.write` says it: JSON Feed has no field for it."""
    given = extension.get("source") if isinstance(extension, dict) else None
    if not isinstance(given, dict) or not is_web(address := _string(given.get("url")) or ""):
        return None
    return Source(cut(address, TITLE_LIMIT), _line(given.get("title")))


def _string(value: Any) -> str | None:
    """Strings, and numbers where strings should be; stripped, None when empty."""
    if value is None:
        return None
    if isinstance(value, str):
        return fit(value).strip() or None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return str(value)[:100]


def _line(value: Any) -> str | None:
    text = _string(value)
    return one_line(text) if text else None


def _title(value: Mapping[str, Any]) -> str | None:
    """The title, in which publishers leave references; `formats.write` says which of its own are none."""
    more = value.get("_headwater")
    if isinstance(more, dict) and (exact := _line(more.get("title"))):
        return exact
    text = _string(value.get("title"))
    return plain_title(text) if text else None


def _authors(value: Mapping[str, Any]) -> tuple[str, ...]:
    """`authors` of 1.1, else `author` of 1; people without a name go by their address."""
    listed = value.get("authors")
    found = listed if isinstance(listed, list) and listed else [value.get("author")]
    names = []
    for one in found[:100]:
        name = _string(one.get("name")) or _string(one.get("url")) if isinstance(one, dict) else _string(one)
        if name and (line := one_line(name.removeprefix("mailto:"), 500)):
            names.append(line)
    return distinct(names)


def _tags(value: Any) -> list[str]:
    tags = value if isinstance(value, list) else [value]
    return [cut(line, 500) for tag in tags[:1_000] if (line := _line(tag))]


def _hubs(value: Any, base: str | None) -> list[str]:
    hubs = value if isinstance(value, list) else []
    found = (resolve(_string(hub.get("url")), base) for hub in hubs[:20] if isinstance(hub, dict))
    return [address for address in found if address]


def _type(attached: Mapping[str, Any]) -> str | None:
    """The type that is given, unless whoever wrote it says that it is only supposed."""
    more = attached.get("_headwater")
    if isinstance(more, dict) and "type" in more:
        return _string(more["type"])
    return _string(attached.get("mime_type"))


def _enclosures(item: Mapping[str, Any], base: str | None) -> list[Enclosure]:
    attached = item.get("attachments")
    found: list[Enclosure] = []
    for one in attached if isinstance(attached, list) else ():
        if isinstance(one, dict) and (url := resolve(_string(one.get("url")), base)):
            size = one.get("size_in_bytes")
            length = (
                media.whole(str(int(size)))
                if isinstance(size, int | float) and 0 <= size < 1e15
                else media.whole(_string(size))
            )
            found.append(Enclosure(url, _type(one), length))
    pictures = (resolve(_string(item.get(name)), base) for name in ("image", "banner_image"))
    found += [Enclosure(url, "image/*", None) for url in pictures if url]
    return found
