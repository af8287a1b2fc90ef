"""Writes a Document as RSS 2.0, with modules for what RSS lacks (Dublin Core, content, atom, media)."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.formats.values.languages import to_valid_tag
from headwater.formats.values.links import is_web_url
from headwater.formats.write.addresses import is_uri, to_uri
from headwater.formats.write.markup import (
    ARCHIVE,
    DECLARATION,
    describe_sizes,
    find_medium,
    format_rfc822,
    format_rfc3339,
    list_given_images,
    list_page_links,
    list_people,
    name_title_element,
    validate_media_type,
    write_element,
    write_episode,
    write_media_content,
    write_plain_element,
)
from headwater.model import Document, Enclosure, Entry, Hints, Person

_OPEN = (
    '<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom" '
    'xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd" xmlns:podcast="https://podcastindex.org/namespace/1.0" '
    'xmlns:psc="http://podlove.org/simple-chapters" '
    'xmlns:content="http://purl.org/rss/1.0/modules/content/" xmlns:dc="http://purl.org/dc/elements/1.1/" '
    'xmlns:dcterms="http://purl.org/dc/terms/" xmlns:media="http://search.yahoo.com/mrss/" '
    'xmlns:sy="http://purl.org/rss/1.0/modules/syndication/">\n<channel>'
)


def write_rss(
    document: Document, *, self_url: str | None = None, hub: Sequence[str] | None = None, next_url: str | None = None
) -> bytes:
    """Write a document as RSS 2.0."""
    self_url = self_url or document.self
    title, feed_language = document.title or document.link or "Untitled", to_valid_tag(document.language)
    lines = [
        _OPEN,
        write_plain_element("title", title),
        write_element("link", to_uri(document.link or self_url or "about:blank")),
        write_plain_element("description", document.subtitle or document.title or ""),
    ]
    lines += (
        [write_element("atom:link", rel="self", href=to_uri(self_url), type="application/rss+xml")] if self_url else []
    )
    lines += [
        write_element("atom:link", rel="hub", href=to_uri(address))
        for address in (document.hub if hub is None else hub)
    ]
    lines += [
        write_element("atom:link", rel=relation, href=to_uri(address))
        for relation, address in list_page_links(document, next_url)
    ]
    lines += [ARCHIVE] if document.current else []
    optional = (
        ("language", feed_language),
        ("lastBuildDate", format_rfc822(document.updated)),
        ("generator", document.generator),
        ("dc:identifier", document.id),
    )
    lines += [write_element(name, value) for name, value in optional if value]
    lines += [write_element("dc:creator", name) for name in document.authors]
    lines += [write_plain_element("category", name) for name in document.categories]
    lines += _write_image(document, title, self_url) + _write_hints(document.hints)
    seen: set[str] = set()
    lines += [line for entry in document.items for line in _write_item(entry, feed_language, seen)]
    return (DECLARATION + "\n".join([*lines, "</channel>", "</rss>", ""])).encode()


def _write_image(document: Document, title: str, self_url: str | None) -> list[str]:
    """Write the image with the channel's title and link, as RSS requires."""
    if document.icon is None:
        return []
    link = to_uri(document.link or self_url or "about:blank")
    return [
        "<image>",
        write_element("url", to_uri(document.icon)),
        write_plain_element("title", title),
        write_element("link", link),
        "</image>",
    ]


def _write_hints(hints: Hints) -> list[str]:
    lines: list[str] = []
    if hints.ttl is not None:
        lines.append(write_element("ttl", str(max(1, round(hints.ttl / 60)))))
    if hints.skip_hours:
        lines += ["<skipHours>", *(write_element("hour", str(hour)) for hour in hints.skip_hours), "</skipHours>"]
    if hints.skip_days:
        lines += ["<skipDays>", *(write_element("day", day) for day in hints.skip_days), "</skipDays>"]
    if hints.update_period is not None:
        lines.append(write_element("sy:updatePeriod", hints.update_period))
    if hints.update_frequency is not None:
        lines.append(write_element("sy:updateFrequency", str(hints.update_frequency)))
    if (base := format_rfc3339(hints.update_base)) is not None:
        lines.append(write_element("sy:updateBase", base))
    return lines


def _write_item(entry: Entry, feed_language: str | None, seen: set[str]) -> list[str]:
    """Write an item. `seen` are the guids written so far: an item without its own guid has its link."""
    own = to_valid_tag(entry.language)
    optional = (
        ("link", to_uri(entry.link) if entry.link else None),
        ("pubDate", format_rfc822(entry.published)),
        ("dcterms:modified", format_rfc3339(entry.updated)),
        ("dc:language", own if own != feed_language else None),
    )
    lines = ["<item>"]
    lines += [write_plain_element("title", entry.title)] if entry.title else []
    lines += [write_element(name, value) for name, value in optional if value]
    # RSS 2.0: one of title and description must be there; its profile: a description before content:encoded, if empty
    if entry.summary or entry.content or not entry.title:
        lines.append(write_element("description", entry.summary or ""))
    lines += [write_element("content:encoded", entry.content)] if entry.content else []
    if entry.id and entry.id not in seen:
        seen.add(entry.id)
        permanent = entry.id == entry.link and is_web_url(entry.id) and is_uri(entry.id)
        lines.append(write_element("guid", entry.id, isPermaLink="true" if permanent else "false"))
    lines += _write_people(list_people(entry))
    lines += [write_plain_element("category", name) for name in entry.categories if name]
    if entry.source is not None and entry.source.url:
        lines.append(
            write_plain_element("source", entry.source.title or entry.source.url, url=to_uri(entry.source.url))
        )
    for place, one in enumerate(entry.enclosures):
        lines += _write_enclosure(one, place == 0, name_title_element(entry, one))
    lines += [write_element("media:thumbnail", url=url) for url in list_given_images(entry)]
    lines += write_episode(entry.episode)
    return [*lines, "</item>"]


def _write_people(people: Sequence[Person]) -> list[str]:
    """Write the authors: RSS takes one, with a mail address, Dublin Core any number of names."""
    if len(people) == 1 and (email := people[0].email) is not None:
        name = people[0].name
        return [write_element("author", f"{email} ({name})" if name else email)]
    return [write_element("dc:creator", one.label) for one in people]


def _write_enclosure(one: Enclosure, first: bool, title_element: str | None) -> list[str]:
    """Write a file: the first as `enclosure`, with length 0 if unknown, the others as media:content.

    A first file with title, width, height or duration is both, because `enclosure` has none of them.
    """
    kind, url, sizes = validate_media_type(one.type), to_uri(one.url), describe_sizes(one)
    lines = []
    if first and kind and is_web_url(url):
        lines.append(write_element("enclosure", url=url, length=str(one.length or 0), type=kind))
        if not title_element and not any(sizes.values()):
            return lines
    length, medium = str(one.length) if one.length else None, find_medium(one.type)
    return [*lines, write_media_content(one, title_element, type=kind, medium=medium, fileSize=length, **sizes)]
