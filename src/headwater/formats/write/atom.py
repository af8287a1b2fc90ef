"""Document → Atom 1.0 (RFC 4287)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headwater.formats.languages import spoken
from headwater.formats.links import is_web
from headwater.formats.write.addresses import iri, uri
from headwater.formats.write.markup import ARCHIVE, DECLARATION, element, escaped, media_type, medium, pages, rfc3339
from headwater.model import Document, Enclosure, Entry, Source

_MEDIA = ' xmlns:media="http://search.yahoo.com/mrss/"'


def write_atom(
    document: Document,
    *,
    self_url: str | None = None,
    hub: Sequence[str] | None = None,
    next_url: str | None = None,
    labels: Mapping[str, Sequence[tuple[str, str, str]]] | None = None,
) -> bytes:
    """The document as Atom 1.0. `labels` are more categories of entries, by id: (term, scheme, label)."""
    self_url = self_url or document.self
    updated = document.updated
    if updated is None:
        updated = max((when for entry in document.items if (when := _changed(entry)) is not None), default=0.0)
    said = spoken(document.language)
    lines = [
        f'<feed xmlns="http://www.w3.org/2005/Atom"{_MEDIA if _has_media(document) else ""}{_lang(said)}>',
        element("id", iri(document.id, self_url or document.link or document.title or "")),
        element("title", document.title or document.link or "Untitled"),
        element("updated", rfc3339(updated) or "1970-01-01T00:00:00Z"),
    ]
    lines += [element("subtitle", document.subtitle, type="html")] if document.subtitle else []
    lines += [element("link", rel="alternate", href=uri(document.link), type="text/html")] if document.link else []
    lines += [element("link", rel="self", href=uri(self_url), type="application/atom+xml")] if self_url else []
    lines += [element("link", rel="hub", href=uri(address)) for address in (document.hub if hub is None else hub)]
    lines += [element("link", rel=relation, href=uri(address)) for relation, address in pages(document, next_url)]
    lines += [ARCHIVE] if document.current else []
    lines += [element("icon", uri(document.icon))] if document.icon else []
    lines += [element("generator", document.generator)] if document.generator else []
    lines += _people(document.authors)
    lines += [element("category", term=name) for name in document.categories]
    # RFC 4287 §4.1.1: an author in the feed, or one in every entry.
    if not document.authors and not all(entry.authors for entry in document.items):
        lines += _people((document.title or "Unknown",))
    more = labels or {}
    lines += [
        line
        for entry in document.items
        for line in _entry(entry, document, said, updated, more.get(entry.id or "", ()))
    ]
    return (DECLARATION + "\n".join([*lines, "</feed>", ""])).encode()


def _has_media(document: Document) -> bool:
    return any(medium(one.type) for entry in document.items for one in entry.enclosures)


def _changed(entry: Entry) -> float | None:
    return entry.published if entry.updated is None else entry.updated


def _people(names: Sequence[str]) -> list[str]:
    return [f"<author>{element('name', name)}</author>" for name in names]


def _lang(tag: str | None) -> str:
    return "" if tag is None else f' xml:lang="{escaped(tag)}"'


def _entry(
    entry: Entry, document: Document, said: str | None, feed_updated: float, labels: Sequence[tuple[str, str, str]]
) -> list[str]:
    changed = _changed(entry)
    own = spoken(entry.language)
    lines = [
        f"<entry{_lang(own if own != said else None)}>",
        element("id", iri(entry.id, entry.link or f"{document.id}#{entry.title}{entry.published}")),
        element("title", entry.title or ""),
        element("updated", rfc3339(feed_updated if changed is None else changed) or "1970-01-01T00:00:00Z"),
    ]
    if (published := rfc3339(entry.published)) is not None:
        lines.append(element("published", published))
    lines += [element("link", rel="alternate", href=uri(entry.link))] if entry.link else []
    lines += [_enclosure(one) for one in entry.enclosures]
    lines += [element("summary", entry.summary, type="html")] if entry.summary else []
    if entry.content or not is_web(entry.link):  # §4.1.2: without content there must be an alternate link
        lines.append(element("content", entry.content or entry.summary or "", type="html"))
    lines += _people(entry.authors)
    lines += [element("category", term=name) for name in entry.categories]
    lines += [element("category", term=term, scheme=scheme, label=label) for term, scheme, label in labels]
    lines += _source(entry.source, feed_updated) if entry.source is not None else []
    return [*lines, "</entry>"]


def _enclosure(one: Enclosure) -> str:
    """A picture of some unknown type is said by Media RSS: a link's type names one type or nothing."""
    length = None if one.length is None else str(one.length)
    if kind := medium(one.type):
        return element("media:content", url=uri(one.url), medium=kind, fileSize=length if one.length else None)
    return element("link", rel="enclosure", href=uri(one.url), type=media_type(one.type), length=length)


def _source(source: Source, updated: float) -> list[str]:
    """§4.2.11; the validator wants id, title and updated there, and of the last we know only ours."""
    return [
        "<source>",
        element("id", iri(source.url, source.url)),
        element("title", source.title or source.url),
        element("updated", rfc3339(updated) or "1970-01-01T00:00:00Z"),
        element("link", rel="self", href=uri(source.url)),
        "</source>",
    ]
