"""Items → the documents we publish: RSS, Atom, JSON Feed, a page for people, lists of feeds. Pure.

An item keeps its identity when it is published again, made unique in the world where it was not, so that whoever reads
it on two ways (this feed and its source, two nodes that read each other) sees that it is one item.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

from headwater import __version__
from headwater.formats.opml import Outline
from headwater.formats.write import CONTENT_TYPES, write_atom, write_json, write_opml, write_rss
from headwater.formats.write.atom import iri
from headwater.model import Document, Entry, Feed, Item, Source
from headwater.publish.page import write_page

PAGE = 100  # items of an archive page
TYPES = CONTENT_TYPES | {"html": "text/html; charset=utf-8"}
_WRITERS = {"rss": write_rss, "atom": write_atom, "json": write_json, "html": write_page}
_GLOBAL = ("http://", "https://", "tag:", "urn:")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a document is: `base` is the server's address, `path` the channel's, `page` an archive page or None."""

    base: str
    path: str
    format: str
    page: int | None = None

    @property
    def url(self) -> str:
        return self.of(self.page)

    def of(self, page: int | None) -> str:
        address = f"{self.base}{quote(self.path)}.{self.format}"
        return address if page is None else f"{address}?page={page}"


def entry(item: Item, feed: Feed | None) -> Entry:
    """The item as we publish it, with the feed it came from."""
    return Entry(
        id=identity(item, feed),
        link=item.link,
        title=item.title,
        published=item.published,
        updated=item.updated,
        authors=item.authors,
        summary=item.summary,
        content=item.content,
        categories=item.categories,
        enclosures=item.enclosures,
        language=item.language,
        source=None if feed is None else Source(feed.url, feed.title),
    )


def identity(item: Item, feed: Feed | None) -> str:
    """An address or name that is unique in the world stays; “123” becomes a name made of the feed's address and it.

    A guid that was not to be trusted is stored as the item's link, with a mark that nobody else knows.
    """
    known = item.identity.removeprefix("link:")
    if known.startswith(_GLOBAL):
        return iri(known, known)  # Atom takes no spaces, and the formats must agree
    return f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{feed.url if feed else item.feed_id}#{known}')}"


def entries(items: Iterable[Item], feeds: Mapping[int, Feed]) -> tuple[Entry, ...]:
    """Each item once: the first of those with one identity, which came on several ways."""
    found: dict[str, Entry] = {}
    for item in items:
        made = entry(item, feeds.get(item.feed_id))
        found.setdefault(made.id or "", made)
    return tuple(found.values())


def changed(items: Iterable[Item], now: float) -> float:
    """When what is shown changed last, as far as the items tell; publishers' dates of the future say nothing."""
    times = (when for item in items for when in (item.first_seen, item.updated) if when is not None and when <= now)
    return max(times, default=0.0)


def compose(
    place: Place, title: str, shown: Sequence[Entry], updated: float, *, archives: int, hub: tuple[str, ...] = ()
) -> Document:
    """The document at a place; `archives` full pages lie behind the feed, page 1 the oldest."""
    current = place.page is None
    number = archives + 1 if place.page is None else place.page
    return Document(
        place.format,
        title=title if current else f"{title}, page {number}",
        link=replace(place, format="html", page=None).url,
        id=f"{place.base}{quote(place.path)}",  # of all formats and pages: they are one feed (RFC 5005 §2)
        self=place.url,
        hub=hub,
        updated=updated,
        generator=f"Headwater {__version__}",
        next=place.of(number - 1) if number > 1 else None,
        previous=place.of(number + 1) if number < archives else None,
        current=None if current else place.of(None),
        archived=True,
        items=tuple(shown),
    )


def render(document: Document) -> bytes:
    """The bytes of a composed document."""
    return _WRITERS[document.format](document)


def render_list(feeds: Iterable[Feed], title: str) -> bytes:
    """A subscription list."""
    return write_opml([Outline(feed.url, feed.title, feed.link, feed.tags) for feed in feeds], title)
