"""feedparser as a last resort, for documents so damaged that nothing else reads them.

Never called by `read`: feedparser can be made to run for minutes (200,000 levels or attributes, its regular expression
for authors), so a caller runs this in a process of its own, with a limit on CPU time, and ends it when it takes longer.
"""

from __future__ import annotations

import calendar
from collections.abc import Mapping
from typing import Any

import feedparser  # type: ignore[import-untyped]

from headwater.errors import NotAFeed
from headwater.formats.html import Cleaner
from headwater.formats.links import resolve
from headwater.formats.media import whole
from headwater.formats.people import distinct, named
from headwater.formats.text import fit, from_html
from headwater.model import Document, Enclosure, Entry


def read_last_resort(body: bytes, url: str | None = None, headers: Mapping[str, str] | None = None) -> Document:
    """What feedparser makes of a document; raises NotAFeed when it finds no items either."""
    heard = {str(name).lower(): str(value) for name, value in (headers or {}).items()}
    if url:
        heard.setdefault("content-location", url)
    found = feedparser.parse(body, response_headers=heard, sanitize_html=False)
    if not found.entries:
        raise NotAFeed("Nothing in this document can be read as a feed.", "unknown")
    cleaner = Cleaner(True)
    feed = found.feed
    return Document(
        format=str(found.get("version") or "unknown"),
        title=from_html(fit(feed.get("title", ""))),
        subtitle=cleaner.html(fit(feed.get("subtitle", "")), url),
        link=resolve(feed.get("link"), url),
        language=feed.get("language") or None,
        id=fit(feed.get("id", "")) or None,
        updated=_seconds(feed.get("updated_parsed")),
        authors=_people(feed),
        items=tuple(_entry(one, cleaner, url) for one in found.entries[:5_000]),
        encoding=found.get("encoding") or None,
        problems=("the document was so damaged that only feedparser could read it",),
    )


def _entry(one: Any, cleaner: Cleaner, url: str | None) -> Entry:
    contents = one.get("content") or [{}]
    published = _seconds(one.get("published_parsed"))
    updated = _seconds(one.get("updated_parsed")) if "updated_parsed" in one else None
    enclosures = [
        Enclosure(address, file.get("type") or None, whole(str(file.get("length") or "")))
        for file in one.get("enclosures", ())
        if (address := resolve(file.get("href"), url))
    ]
    return Entry(
        id=fit(one.get("id", "")) or None,
        link=resolve(one.get("link"), url),
        title=from_html(fit(one.get("title", ""))),
        published=updated if published is None else published,
        updated=updated,
        authors=_people(one),
        summary=cleaner.html(fit(one.get("summary", "")), url),
        content=cleaner.html(fit(contents[0].get("value", "")), url),
        categories=distinct([fit(tag.term) for tag in one.get("tags", ()) if tag.get("term")]),
        enclosures=tuple(enclosures),
    )


def _people(value: Any) -> tuple[str, ...]:
    found = (name for one in value.get("authors", ()) for name in named(one.get("name") or one.get("email")))
    return distinct([fit(name) for name in found])


def _seconds(moment: tuple[int, ...] | None) -> float | None:
    try:
        return float(calendar.timegm(moment)) if moment else None
    except (ValueError, OverflowError):
        return None
