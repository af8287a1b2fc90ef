"""Reads JSON Feed 1 and 1.1, tolerant of wrong types, and RSS in JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import orjson
from lxml import etree

from headwater.errors import NotAFeed
from headwater.formats.parse.context import ReadOptions
from headwater.formats.parse.document import count_missing, read_rss_elements
from headwater.formats.parse.element_names import NAMESPACES
from headwater.formats.parse.json_recovery import mend_json
from headwater.formats.values import enclosures, encodings
from headwater.formats.values.dates import parse_date
from headwater.formats.values.html import HtmlReader, find_first_picture
from headwater.formats.values.languages import normalise_language
from headwater.formats.values.links import is_web_url, resolve_url
from headwater.formats.values.people import drop_duplicates, find_address, summarise_people
from headwater.formats.values.text import TITLE_LIMIT, clean_plain_title, replace_forbidden, to_one_line, truncate_utf8
from headwater.model import Chapter, Document, Enclosure, Entry, Episode, Person, Source

_MAX_REPEATS = 5_000  # of one name in one element; more items are not read anyway
_MAX_DEPTH = 20
_NAMESPACE_OF_PREFIX = {prefix: space for space, prefix in NAMESPACES.items() if prefix}


def is_rss_in_json(value: Any) -> bool:
    """Say whether a JSON document is RSS in JSON."""
    rss = value.get("rss") if isinstance(value, dict) else None
    return isinstance(rss, dict) and isinstance(rss.get("channel"), dict)


def build_rss_elements(value: dict[str, Any]) -> etree._Element:
    """Build the `rss` element that RSS in JSON stands for."""
    root = etree.Element("rss", version=str(value["rss"].get("version", ""))[:8])
    _fill_element(etree.SubElement(root, "channel"), value["rss"]["channel"], 0)
    return root


def _fill_element(element: etree._Element, given: dict[str, Any], depth: int) -> None:
    """Fill an element from an object. Below an item (`depth` 2), plain values are attributes."""
    for name, value in given.items():
        for one in (value if isinstance(value, list) else [value])[:_MAX_REPEATS]:
            if name == "#value":
                element.text = _to_text(one)
            elif depth < 2 or isinstance(one, dict):
                _add_child(element, name, one, depth)
            elif (text := _to_text(one)) is not None and name.isidentifier():
                element.set(name, text)


def _add_child(element: etree._Element, name: str, value: Any, depth: int) -> None:
    prefix, colon, local = name.rpartition(":")
    if not local.isidentifier() or (colon and prefix.lower() not in _NAMESPACE_OF_PREFIX):
        return
    child = etree.SubElement(element, f"{{{_NAMESPACE_OF_PREFIX[prefix.lower()]}}}{local}" if colon else local)
    if not isinstance(value, dict):
        child.text = _to_text(value)
    elif depth < _MAX_DEPTH:
        _fill_element(child, value, depth + 1)


def _to_text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return replace_forbidden(str(value)) if isinstance(value, str | int | float) else None


_ITEM_LIMIT = 5_000


def read_json(body: bytes, charset: str | None, base: str | None, options: ReadOptions) -> Document:
    """Read a JSON document. Raises NotAFeed if it is not a feed."""
    value, codec, problems, is_truncated = _load_json(body, charset)
    if not isinstance(value, dict):
        raise NotAFeed("This is JSON, but not a JSON Feed: it is not an object.", "json")
    if is_rss_in_json(value):
        return read_rss_elements(build_rss_elements(value), base, options, codec, tuple(problems))
    version = _read_string(value.get("version")) or ""
    items = value.get("items")
    if "jsonfeed.org" not in version and not _has_feed_items(value):
        raise NotAFeed("This is JSON, but not a JSON Feed: it has neither its version nor items.", "json")
    number = version.rstrip("/").rpartition("/")[2]
    feed_url = resolve_url(_read_string(value.get("feed_url")), base)
    base = feed_url if base is None else base
    spoken = normalise_language(_read_string(value.get("language")))
    authors = _read_people(value)
    shown = _ItemDefaults(options.html, authors, spoken, options.summaries)
    items = items if isinstance(items, list) else []
    if is_truncated and not items:
        raise NotAFeed("This JSON document is truncated.", "truncated")
    if len(items) > _ITEM_LIMIT:
        problems.append(f"only the first {_ITEM_LIMIT} of {len(items)} items were read")
    document = Document(
        format=f"json {number}" if number in ("1", "1.1") else "json",
        title=_read_title(value),
        subtitle=shown.html.read_plain_text(_read_string(value.get("description"))),
        link=resolve_url(_read_string(value.get("home_page_url")), base),
        language=spoken,
        id=feed_url,
        authors=summarise_people(authors)[0],
        hub=drop_duplicates(_read_hubs(value.get("hubs"), base)),
        self=feed_url,
        icon=resolve_url(_read_string(value.get("icon")), base)
        or resolve_url(_read_string(value.get("favicon")), base),
        next=resolve_url(_read_string(value.get("next_url")), base),
        items=tuple(_read_item(item, base, shown) for item in items[:_ITEM_LIMIT] if isinstance(item, dict)),
        encoding=codec,
        problems=tuple(problems),
    )
    return count_missing(document, len(document.items) + is_truncated)


def _has_feed_items(value: Mapping[str, Any]) -> bool:
    """Say whether an object without JSON Feed's version has its items, and a title, an address or another version."""
    items = value.get("items")
    if not isinstance(items, list):
        return False
    if "title" in value or "home_page_url" in value:
        return True
    fields = {"id", "url", "title", "content_html", "content_text"}
    return "version" in value and all(isinstance(item, dict) and fields & item.keys() for item in items)


def _load_json(body: bytes, charset: str | None) -> tuple[Any, str, list[str], bool]:
    """Parse with orjson, which has limits, else with json, which accepts NaN, lone surrogates and other encodings.

    Return the value, its encoding, the problems, and whether the document was cut off.
    """
    try:
        return orjson.loads(body), "utf-8", [], False
    except orjson.JSONDecodeError:
        pass
    text, codec, problem = encodings.decode_document(body, charset)
    text = text.lstrip("\ufeff").strip()
    problems = [problem] if problem else []
    with suppress(ValueError):
        return _parse_tolerantly(text), codec, problems, False
    mended = mend_json(text)
    try:
        value = _parse_tolerantly(mended.text)
    except ValueError as error:
        if mended.truncated:
            raise NotAFeed("This JSON document is truncated.", "truncated") from error
        raise NotAFeed("This is not valid JSON, and not a feed in another format.", "json") from error
    return value, codec, [*problems, "the JSON is not valid and was recovered"], mended.truncated


def _parse_tolerantly(text: str) -> Any:
    try:
        return json.loads(text, strict=False, parse_constant=lambda _name: None)
    except RecursionError as error:
        raise NotAFeed("This JSON is nested deeper than any feed and was not read.", "json") from error


@dataclass(frozen=True, slots=True)
class _ItemDefaults:
    """How HTML is read, the feed's authors and language, and whether content stands in for a missing summary."""

    html: HtmlReader
    authors: tuple[Person, ...]
    language: str | None
    summaries: bool


def _read_item(item: Mapping[str, Any], base: str | None, shown: _ItemDefaults) -> Entry:
    identity = item.get("id")
    link = resolve_url(_read_string(item.get("url")), base) or resolve_url(_read_string(item.get("external_url")), base)
    identity = _read_string(identity) or link
    published = parse_date(_read_string(item.get("date_published")))
    updated = parse_date(_read_string(item.get("date_modified")))
    html = shown.html.read_html(_read_string(item.get("content_html")), link or base)
    content = html or shown.html.read_plain_text(_read_string(item.get("content_text")))
    summary = shown.html.read_plain_text(_read_string(item.get("summary")))
    more = item.get("_headwater")
    if isinstance(more, dict):  # `formats.write` puts there what JSON Feed has no field for
        if more.get("summary_only") is True:
            summary, content = content, None
        elif given := shown.html.read_html(_read_string(more.get("summary_html")), link or base):
            summary = given
    authors, people = summarise_people(_read_people(item) or shown.authors)
    files = enclosures.merge_enclosures(_read_attachments(item, base))
    image = resolve_url(_read_string(item.get("image")), base) or resolve_url(
        _read_string(item.get("banner_image")), base
    )
    image = image or enclosures.find_picture(files) or find_first_picture(content or summary)
    return Entry(
        id=truncate_utf8(identity, TITLE_LIMIT) if identity else None,
        link=link,
        title=_read_title(item),
        published=updated if published is None else published,
        updated=updated,
        authors=authors,
        summary=content if summary is None and shown.summaries else summary,
        content=content,
        categories=drop_duplicates(_read_tags(item.get("tags"))),
        enclosures=enclosures.type_picture(files, image),
        language=normalise_language(_read_string(item.get("language"))) or shown.language,
        source=_read_source(more),
        image=image,
        people=people,
        episode=_read_episode(more, base),
    )


def _read_source(extension: Any) -> Source | None:
    """Return the feed of a republished item, for which `formats.write` uses an extension."""
    given = extension.get("source") if isinstance(extension, dict) else None
    if not isinstance(given, dict):
        return None
    address, title = _read_string(given.get("url")) or "", _read_line(given.get("title"))
    address = truncate_utf8(address, TITLE_LIMIT) if is_web_url(address) else ""
    return Source(address, title) if address or title else None


def _read_episode(extension: Any, base: str | None) -> Episode | None:
    """Return the episode, for which `formats.write` uses an extension."""
    given = extension.get("episode") if isinstance(extension, dict) else None
    if not isinstance(given, dict):
        return None
    kind = _read_string(given.get("kind"))
    files = given.get("transcripts")
    return Episode(
        enclosures.parse_duration(_read_string(given.get("duration"))),
        enclosures.parse_number(_read_string(given.get("number"))),
        enclosures.parse_number(_read_string(given.get("season"))),
        kind if kind in ("full", "trailer", "bonus") else None,
        _read_episode_file(given.get("chapters"), base),
        tuple(
            file
            for one in (files[:20] if isinstance(files, list) else ())
            if (file := _read_episode_file(one, base)) is not None
        ),
        _read_chapters(given.get("inline_chapters"), base),
    )


def _read_chapters(given: Any, base: str | None) -> tuple[Chapter, ...]:
    listed = (
        [one for one in given[: enclosures.MAX_CHAPTERS] if isinstance(one, dict)] if isinstance(given, list) else []
    )
    return tuple(
        Chapter(
            start,
            title,
            resolve_url(_read_string(one.get("url")), base),
            resolve_url(_read_string(one.get("image")), base),
        )
        for one in listed
        if isinstance(one, dict)
        and (start := enclosures.parse_offset(_read_string(one.get("start")))) is not None
        and (title := _read_line(one.get("title"))) is not None
    )


def _read_episode_file(given: Any, base: str | None) -> Enclosure | None:
    url = resolve_url(_read_string(given.get("url")), base) if isinstance(given, dict) else None
    if url is None:
        return None
    return Enclosure(
        url, _read_string(given.get("type")), language=normalise_language(_read_string(given.get("language")))
    )


def _read_string(value: Any) -> str | None:
    """Return a stripped string, also of a number; None if it is empty."""
    if value is None:
        return None
    if isinstance(value, str):
        return replace_forbidden(value).strip() or None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return str(value)[:100]


def _read_line(value: Any) -> str | None:
    text = _read_string(value)
    return to_one_line(text) if text else None


def _read_title(value: Mapping[str, Any]) -> str | None:
    """Return the title with references decoded, unless `formats.write` marked it as exact."""
    more = value.get("_headwater")
    if isinstance(more, dict) and (exact := _read_line(more.get("title"))):
        return exact
    text = _read_string(value.get("title"))
    return clean_plain_title(text) if text else None


def _read_people(value: Mapping[str, Any]) -> tuple[Person, ...]:
    """Return the people in `authors` (1.1) or `author` (1)."""
    listed = value.get("authors")
    found = listed if isinstance(listed, list) and listed else [value.get("author")]
    return tuple(person for one in found[:100] if (person := _read_person(one)) is not None)


def _read_person(one: Any) -> Person | None:
    """Return a person. A mail address is a `mailto:` page, or in the extension of `formats.write`."""
    if not isinstance(one, dict):
        name = _read_string(one)
        return Person(to_one_line(name, 500)) if name else None
    name, page, more = _read_string(one.get("name")), _read_string(one.get("url")), one.get("_headwater")
    email = _read_string(more.get("email")) if isinstance(more, dict) else None
    if page and page[:7].lower() == "mailto:":
        email = email or find_address(page)
        page = None
    found = Person(to_one_line(name, 500) if name else None, email, resolve_url(page, None))
    return found if found.label else None


def _read_tags(value: Any) -> list[str]:
    tags = value if isinstance(value, list) else [value]
    return [truncate_utf8(line, 500) for tag in tags[:1_000] if (line := _read_line(tag))]


def _read_hubs(value: Any, base: str | None) -> list[str]:
    hubs = value if isinstance(value, list) else []
    found = (resolve_url(_read_string(hub.get("url")), base) for hub in hubs[:20] if isinstance(hub, dict))
    return [address for address in found if address]


def _read_media_type(attached: Mapping[str, Any]) -> str | None:
    """Return the media type, or the extension's if `formats.write` only guessed it."""
    more = attached.get("_headwater")
    if isinstance(more, dict) and "type" in more:
        return _read_string(more["type"])
    return _read_string(attached.get("mime_type"))


def _read_attachments(item: Mapping[str, Any], base: str | None) -> list[Enclosure]:
    attached = item.get("attachments")
    found: list[Enclosure] = []
    for one in attached if isinstance(attached, list) else ():
        if isinstance(one, dict) and (url := resolve_url(_read_string(one.get("url")), base)):
            size = one.get("size_in_bytes")
            length = (
                enclosures.parse_size(str(int(size)))
                if isinstance(size, int | float) and 0 <= size < 1e15
                else enclosures.parse_size(_read_string(size))
            )
            seconds = one.get("duration_in_seconds")
            duration = enclosures.parse_duration(_read_string(seconds))
            more = one.get("_headwater")
            sizes = more if isinstance(more, dict) else {}
            found.append(
                Enclosure(
                    url,
                    _read_media_type(one),
                    length,
                    enclosures.parse_pixels(_read_string(sizes.get("width"))),
                    enclosures.parse_pixels(_read_string(sizes.get("height"))),
                    duration,
                    _read_line(one.get("title")),
                )
            )
    pictures = (resolve_url(_read_string(item.get(name)), base) for name in ("image", "banner_image"))
    found += [Enclosure(url, "image/*", None) for url in pictures if url]
    return found
