"""Writes a Document as Atom 1.0 (RFC 4287)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headwater.formats.values.languages import to_valid_tag
from headwater.formats.values.links import is_web_url
from headwater.formats.write.addresses import to_iri, to_uri
from headwater.formats.write.markup import (
    ARCHIVE,
    DECLARATION,
    describe_sizes,
    escape_text,
    find_medium,
    format_rfc3339,
    list_given_images,
    list_page_links,
    list_people,
    name_title_element,
    validate_media_type,
    write_element,
    write_episode,
    write_media_content,
)
from headwater.model import Document, Enclosure, Entry, Person, Source

_MEDIA = (
    ' xmlns:media="http://search.yahoo.com/mrss/" xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd"'
    ' xmlns:podcast="https://podcastindex.org/namespace/1.0" xmlns:psc="http://podlove.org/simple-chapters"'
)


def write_atom(
    document: Document,
    *,
    self_url: str | None = None,
    hub: Sequence[str] | None = None,
    next_url: str | None = None,
    labels: Mapping[str, Sequence[tuple[str, str, str]]] | None = None,
) -> bytes:
    """Write a document as Atom 1.0. `labels` adds categories (term, scheme, label) to entries, by id."""
    self_url = self_url or document.self
    updated = document.updated
    if updated is None:
        updated = max((when for entry in document.items if (when := _find_last_change(entry)) is not None), default=0.0)
    language = to_valid_tag(document.language)
    media = _MEDIA if _has_media(document) else ""
    lines = [
        f'<feed xmlns="http://www.w3.org/2005/Atom"{media}{_write_lang_attribute(language)}>',
        write_element("id", to_iri(document.id, self_url or document.link or document.title or "")),
        write_element("title", document.title or document.link or "Untitled"),
        write_element("updated", format_rfc3339(updated) or "1970-01-01T00:00:00Z"),
    ]
    lines += [write_element("subtitle", document.subtitle, type="html")] if document.subtitle else []
    lines += (
        [write_element("link", rel="alternate", href=to_uri(document.link), type="text/html")] if document.link else []
    )
    lines += [write_element("link", rel="self", href=to_uri(self_url), type="application/atom+xml")] if self_url else []
    lines += [
        write_element("link", rel="hub", href=to_uri(address)) for address in (document.hub if hub is None else hub)
    ]
    lines += [
        write_element("link", rel=relation, href=to_uri(address))
        for relation, address in list_page_links(document, next_url)
    ]
    lines += [ARCHIVE] if document.current else []
    lines += [write_element("icon", to_uri(document.icon))] if document.icon else []
    lines += [write_element("generator", document.generator)] if document.generator else []
    lines += _write_authors([Person(name) for name in document.authors])
    lines += [write_element("category", term=name) for name in document.categories]
    # RFC 4287 §4.1.1: an author in the feed, or one in every entry.
    if not document.authors and not all(entry.authors for entry in document.items):
        lines += _write_authors([Person(document.title or "Unknown")])
    more = labels or {}
    lines += [
        line
        for entry in document.items
        for line in _write_entry(entry, document, language, updated, more.get(entry.id or "", ()))
    ]
    return (DECLARATION + "\n".join([*lines, "</feed>", ""])).encode()


def _has_media(document: Document) -> bool:
    return any(entry.enclosures or entry.episode for entry in document.items)


def _find_last_change(entry: Entry) -> float | None:
    return entry.published if entry.updated is None else entry.updated


def _write_authors(people: Sequence[Person]) -> list[str]:
    return [
        "<author>"
        + write_element("name", one.label)
        + (write_element("email", one.email) if one.email else "")
        + (write_element("uri", to_uri(one.url)) if one.url else "")
        + "</author>"
        for one in people
    ]


def _write_lang_attribute(tag: str | None) -> str:
    return "" if tag is None else f' xml:lang="{escape_text(tag)}"'


def _write_entry(
    entry: Entry,
    document: Document,
    feed_language: str | None,
    feed_updated: float,
    labels: Sequence[tuple[str, str, str]],
) -> list[str]:
    changed = _find_last_change(entry)
    own = to_valid_tag(entry.language)
    lines = [
        f"<entry{_write_lang_attribute(own if own != feed_language else None)}>",
        write_element("id", to_iri(entry.id, entry.link or f"{document.id}#{entry.title}{entry.published}")),
        write_element("title", entry.title or ""),
        write_element(
            "updated", format_rfc3339(feed_updated if changed is None else changed) or "1970-01-01T00:00:00Z"
        ),
    ]
    if (published := format_rfc3339(entry.published)) is not None:
        lines.append(write_element("published", published))
    lines += [write_element("link", rel="alternate", href=to_uri(entry.link))] if entry.link else []
    for one in entry.enclosures:
        lines += _write_enclosure(one, name_title_element(entry, one))
    lines += [write_element("media:thumbnail", url=url) for url in list_given_images(entry)]
    lines += write_episode(entry.episode)
    lines += [write_element("summary", entry.summary, type="html")] if entry.summary else []
    if entry.content or not is_web_url(entry.link):  # §4.1.2: without content there must be an alternate link
        lines.append(write_element("content", entry.content or entry.summary or "", type="html"))
    lines += _write_authors(list_people(entry))
    lines += [write_element("category", term=name) for name in entry.categories]
    lines += [write_element("category", term=term, scheme=scheme, label=label) for term, scheme, label in labels]
    lines += _write_source(entry.source, feed_updated) if entry.source is not None and entry.source.url else []
    return [*lines, "</entry>"]


def _write_enclosure(one: Enclosure, title_element: str | None) -> list[str]:
    """Write a file as a link, or as Media RSS if only its medium is known: a link needs a full type.

    Sizes other than its length are written in Media RSS too.
    """
    length, sizes = None if one.length is None else str(one.length), describe_sizes(one)
    kind = find_medium(one.type)
    if kind is not None:
        size = length if one.length else None
        return [write_media_content(one, title_element, medium=kind, fileSize=size, **sizes)]
    kind = validate_media_type(one.type)
    link = write_element("link", rel="enclosure", href=to_uri(one.url), type=kind, length=length, title=one.title)
    return [link, write_media_content(one, None, **sizes)] if any(sizes.values()) else [link]


def _write_source(source: Source, updated: float) -> list[str]:
    """Write the source (§4.2.11). Validators require `updated`, for which only our own date is known."""
    return [
        "<source>",
        write_element("id", to_iri(source.url, source.url)),
        write_element("title", source.title or source.url),
        write_element("updated", format_rfc3339(updated) or "1970-01-01T00:00:00Z"),
        write_element("link", rel="self", href=to_uri(source.url)),
        "</source>",
    ]
