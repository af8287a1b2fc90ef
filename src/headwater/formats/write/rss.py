"""Document → RSS 2.0, with the modules that carry what RSS itself cannot (Dublin Core, content, atom, media)."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.formats.links import is_web
from headwater.formats.write.markup import (
    ARCHIVE,
    DECLARATION,
    element,
    media_type,
    medium,
    pages,
    rfc822,
    rfc3339,
)
from headwater.model import Document, Enclosure, Entry, Hints

_OPEN = (
    '<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom" '
    'xmlns:content="http://purl.org/rss/1.0/modules/content/" xmlns:dc="http://purl.org/dc/elements/1.1/" '
    'xmlns:dcterms="http://purl.org/dc/terms/" xmlns:media="http://search.yahoo.com/mrss/" '
    'xmlns:sy="http://purl.org/rss/1.0/modules/syndication/">\n<channel>'
)


def write_rss(
    document: Document, *, self_url: str | None = None, hub: Sequence[str] | None = None, next_url: str | None = None
) -> bytes:
    """The document as RSS 2.0."""
    self_url = self_url or document.self
    lines = [
        _OPEN,
        element("title", document.title or document.link or "Untitled"),
        element("link", document.link or self_url or "about:blank"),
        element("description", document.subtitle or document.title or ""),
    ]
    lines += [element("atom:link", rel="self", href=self_url, type="application/rss+xml")] if self_url else []
    lines += [element("atom:link", rel="hub", href=address) for address in (document.hub if hub is None else hub)]
    lines += [element("atom:link", rel=relation, href=address) for relation, address in pages(document, next_url)]
    lines += [ARCHIVE] if document.current else []
    optional = (
        ("language", document.language),
        ("lastBuildDate", rfc822(document.updated)),
        ("generator", document.generator),
        ("dc:identifier", document.id),
    )
    lines += [element(name, value) for name, value in optional if value]
    lines += [element("dc:creator", name) for name in document.authors]
    lines += [element("category", name) for name in document.categories]
    lines += _image(document) + _hints(document.hints)
    lines += [line for entry in document.items for line in _item(entry, document.language)]
    return (DECLARATION + "\n".join([*lines, "</channel>", "</rss>", ""])).encode()


def _image(document: Document) -> list[str]:
    if document.icon is None:
        return []
    title, link = document.title or "Untitled", document.link or document.self or "about:blank"
    return ["<image>", element("url", document.icon), element("title", title), element("link", link), "</image>"]


def _hints(hints: Hints) -> list[str]:
    lines: list[str] = []
    if hints.ttl is not None:
        lines.append(element("ttl", str(max(1, round(hints.ttl / 60)))))
    if hints.skip_hours:
        lines += ["<skipHours>", *(element("hour", str(hour)) for hour in hints.skip_hours), "</skipHours>"]
    if hints.skip_days:
        lines += ["<skipDays>", *(element("day", day) for day in hints.skip_days), "</skipDays>"]
    if hints.update_period is not None:
        lines.append(element("sy:updatePeriod", hints.update_period))
    if hints.update_frequency is not None:
        lines.append(element("sy:updateFrequency", str(hints.update_frequency)))
    if (base := rfc3339(hints.update_base)) is not None:
        lines.append(element("sy:updateBase", base))
    return lines


def _item(entry: Entry, spoken: str | None) -> list[str]:
    optional = (
        ("title", entry.title),
        ("link", entry.link),
        ("pubDate", rfc822(entry.published)),
        ("dcterms:modified", rfc3339(entry.updated)),
        ("description", entry.summary),
        ("content:encoded", entry.content),
        ("dc:language", entry.language if entry.language != spoken else None),
    )
    lines = ["<item>", *(element(name, value) for name, value in optional if value)]
    if not (entry.title or entry.summary):  # RSS 2.0: at least one of title or description must be present
        lines.append(element("description", ""))
    if entry.id is not None:
        lines.append(element("guid", entry.id, isPermaLink="true" if entry.id == entry.link else "false"))
    lines += [element("dc:creator", name) for name in entry.authors]
    lines += [element("category", name) for name in entry.categories]
    if entry.source is not None:
        lines.append(element("source", entry.source.title or entry.source.url, url=entry.source.url))
    lines += [_enclosure(one, first=place == 0) for place, one in enumerate(entry.enclosures)]
    return [*lines, "</item>"]


def _enclosure(one: Enclosure, first: bool) -> str:
    """RSS knows one enclosure for each item, with all three attributes; the others are media:content."""
    length = None if one.length is None else str(one.length)
    kind = media_type(one.type)
    if first and kind and length is not None and is_web(one.url):
        return element("enclosure", url=one.url, length=length, type=kind)
    return element("media:content", url=one.url, type=kind, medium=medium(one.type), fileSize=length)
