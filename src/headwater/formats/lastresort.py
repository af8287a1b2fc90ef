"""Reads a document with feedparser, to compare it with our reading.

Neither `read` nor the server calls it, because feedparser can be made to run for minutes (200,000 levels or attributes,
its regular expression for authors). Run it in a process with a limit on CPU time.
"""

from __future__ import annotations

import calendar
from collections.abc import Mapping
from typing import Any

import feedparser  # type: ignore[import-untyped]

from headwater.errors import NotAFeed
from headwater.formats.values.enclosures import parse_size
from headwater.formats.values.html import CleanHtmlReader
from headwater.formats.values.links import resolve_url
from headwater.formats.values.people import drop_duplicates, extract_names
from headwater.formats.values.text import html_to_text, replace_forbidden
from headwater.model import Document, Enclosure, Entry


def read_last_resort(
    body: bytes, url: str | None = None, headers: Mapping[str, str] | None = None, *, sanitize: bool = False
) -> Document:
    """Read a document with feedparser. Raises NotAFeed if it finds no items.

    With `sanitize` feedparser cleans the HTML, as it does for its own users, before we do.
    """
    response_headers = {str(name).lower(): str(value) for name, value in (headers or {}).items()}
    if url:
        response_headers.setdefault("content-location", url)
    found = feedparser.parse(body, response_headers=response_headers, sanitize_html=sanitize)
    if not found.entries:
        raise NotAFeed("The document contains no readable items.", "unknown")
    html = CleanHtmlReader()
    feed = found.feed
    return Document(
        format=str(found.get("version") or "unknown"),
        title=html_to_text(replace_forbidden(feed.get("title", ""))),
        subtitle=html.read_html(replace_forbidden(feed.get("subtitle", "")), url),
        link=resolve_url(feed.get("link"), url),
        language=feed.get("language") or None,
        id=replace_forbidden(feed.get("id", "")) or None,
        updated=_to_epoch(feed.get("updated_parsed")),
        authors=_list_authors(feed),
        items=tuple(_convert_entry(one, html, url) for one in found.entries[:5_000]),
        encoding=found.get("encoding") or None,
        problems=("the document is so damaged that only feedparser could read it",),
    )


def _convert_entry(one: Any, html: CleanHtmlReader, url: str | None) -> Entry:
    contents = one.get("content") or [{}]
    published = _to_epoch(one.get("published_parsed"))
    updated = _to_epoch(one.get("updated_parsed")) if "updated_parsed" in one else None
    enclosures = [
        Enclosure(address, file.get("type") or None, parse_size(str(file.get("length") or "")))
        for file in one.get("enclosures", ())
        if (address := resolve_url(file.get("href"), url))
    ]
    return Entry(
        id=replace_forbidden(one.get("id", "")) or None,
        link=resolve_url(one.get("link"), url),
        title=html_to_text(replace_forbidden(one.get("title", ""))),
        published=updated if published is None else published,
        updated=updated,
        authors=_list_authors(one),
        summary=html.read_html(replace_forbidden(one.get("summary", "")), url),
        content=html.read_html(replace_forbidden(contents[0].get("value", "")), url),
        categories=drop_duplicates([replace_forbidden(tag.term) for tag in one.get("tags", ()) if tag.get("term")]),
        enclosures=tuple(enclosures),
    )


def _list_authors(value: Any) -> tuple[str, ...]:
    found = (name for one in value.get("authors", ()) for name in extract_names(one.get("name") or one.get("email")))
    return drop_duplicates([replace_forbidden(name) for name in found])


def _to_epoch(moment: tuple[int, ...] | None) -> float | None:
    try:
        return float(calendar.timegm(moment)) if moment else None
    except (ValueError, OverflowError):
        return None
