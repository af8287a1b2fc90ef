"""One `item` or `entry` element → Entry: a table of elements, each with what it contributes.

Where several elements can give the same field, the better source wins whatever their order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

from lxml import etree

from headwater.formats import media, people
from headwater.formats.constructs import address_in, html_of, text_of, title_of
from headwater.formats.context import XML_LANG, Context, language
from headwater.formats.dates import parse_date
from headwater.formats.links import is_web, resolve
from headwater.formats.names import Names
from headwater.formats.text import TITLE_LIMIT, cut, one_line
from headwater.model import Enclosure, Entry, Source

_RDF_ABOUT = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}about"
_MOST_CATEGORIES = 1_000
(
    _ID, _LINK, _TITLE, _PUBLISHED, _UPDATED, _AUTHORS, _SUMMARY, _CONTENT, _CATEGORIES, _ENCLOSURES, _LANGUAGE,
    _SOURCE,
) = (Entry.__dict__[field.name].__set__ for field in fields(Entry))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Inherited:
    """What an item takes from its feed when it says nothing itself: language, and authors (RFC 4287 §4.2.1)."""

    language: str | None = None
    authors: tuple[str, ...] = ()


class Draft:
    """What has been seen of an item so far: the best value of each field, and how good it is (0 is best)."""

    __slots__ = (
        "authors", "categories", "enclosures", "further", "guid", "language", "languages", "pictures", "ranks",
        "source", "values",
    )  # fmt: skip

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.ranks: dict[str, int] = {}
        self.authors: list[str] = []
        self.further: list[str] = []
        self.categories: list[str] = []
        self.enclosures: list[Enclosure] = []
        self.pictures: list[Enclosure] = []
        self.language: str | None = None
        self.languages: dict[str, str] | None = None
        self.guid: etree._Element | None = None
        self.source: Source | None = None

    def offer(self, field: str, rank: int, value: str | float | None) -> None:
        if value is not None and rank < self.ranks.get(field, 99):
            self.ranks[field] = rank
            self.values[field] = value


Handler = Callable[[Draft, etree._Element, Context], None]


class Handlers(dict[object, Handler | None]):
    """Raw tag → what its element contributes to an item, worked out once for each tag of a document."""

    def __init__(self, names: Names) -> None:
        super().__init__()
        self._names = names

    def __missing__(self, tag: str) -> Handler | None:
        self[tag] = found = HANDLERS.get(self._names[tag])
        return found


def read_entry(element: etree._Element, context: Context, inherited: Inherited, handlers: Handlers) -> Entry:
    """The item an element describes."""
    draft = Draft()
    for child in element:
        handler = handlers[child.tag]
        if handler is not None:
            handler(draft, child, context)
    about = element.get(_RDF_ABOUT) if context.rdf else None
    if about:
        draft.offer("id", 5, resolve(about, context.base_of(element)) or about.strip() or None)
    get = draft.values.get
    identity = get("id")
    updated = get("updated")
    published = get("published")
    authors = draft.authors or draft.further
    spoken, otherwise = draft.language, inherited.language
    if context.has_lang:
        said = _spoken(draft, element, context)
        spoken, otherwise = (None, None) if said == "" else (said or spoken, otherwise)
    return _entry(
        identity if identity is None or len(identity) < 500 else cut(identity, TITLE_LIMIT),
        get("link") or _link_otherwise(draft, about, context),
        get("title"),
        updated if published is None else published,
        updated,
        people.distinct(authors) if authors else inherited.authors,
        get("summary"),
        get("content"),
        people.distinct(draft.categories) if draft.categories else (),
        media.distinct(draft.enclosures + draft.pictures) if draft.enclosures or draft.pictures else (),
        spoken or otherwise,
        draft.source,
    )


def _entry(
    identity: str | None,
    link: str | None,
    title: str | None,
    published: float | None,
    updated: float | None,
    authors: tuple[str, ...],
    summary: str | None,
    content: str | None,
    categories: tuple[str, ...],
    enclosures: tuple[Enclosure, ...],
    language: str | None,
    source: Source | None,
) -> Entry:
    """An Entry, past the `__init__` of frozen dataclasses, which takes three times as long."""
    entry = object.__new__(Entry)
    _ID(entry, identity)
    _LINK(entry, link)
    _TITLE(entry, title)
    _PUBLISHED(entry, published)
    _UPDATED(entry, updated)
    _AUTHORS(entry, authors)
    _SUMMARY(entry, summary)
    _CONTENT(entry, content)
    _CATEGORIES(entry, categories)
    _ENCLOSURES(entry, enclosures)
    _LANGUAGE(entry, language)
    _SOURCE(entry, source)
    return entry


def _link_otherwise(draft: Draft, about: str | None, context: Context) -> str | None:
    """The link of an item without one: its guid, its rdf:about, its first file."""
    if draft.guid is not None and (permanent := _permanent(draft.guid, context)) is not None:
        return permanent
    if is_web(about):
        return about
    return draft.enclosures[0].url if draft.enclosures and is_web(draft.enclosures[0].url) else None


def _spoken(draft: Draft, element: etree._Element, context: Context) -> str | None:
    """The language of the content, else of the summary, else of the title, else of the item; "" unsets it."""
    if draft.languages is not None:
        for name in ("content", "summary", "title"):
            if (said := draft.languages.get(name)) is not None:
                return said
    return context.language_of(element)


def nested(draft: Draft, element: etree._Element, context: Context) -> None:
    """An item inside an item: somebody forgot to close the outer one. It is read after it."""
    context.nested.append(element)


def title(rank: int) -> Handler:
    def handle(draft: Draft, element: etree._Element, context: Context) -> None:
        draft.offer("title", rank, title_of(element, context))
        if context.has_lang:
            note_language(draft, "title", element)

    return handle


def date(field: str, rank: int) -> Handler:
    def handle(draft: Draft, element: etree._Element, context: Context) -> None:
        when = parse_date(element.text)
        if when is not None and rank <= draft.ranks.get(field, 99):  # said twice: the last holds
            draft.ranks[field] = rank
            draft.values[field] = when

    return handle


def dublin_date(draft: Draft, element: etree._Element, context: Context) -> None:
    """dc:date is the date of publication or of the last change; which, it does not say."""
    when = parse_date(element.text)
    draft.offer("published", 5, when)
    draft.offer("updated", 5, when)


def html(field: str, rank: int) -> Handler:
    def handle(draft: Draft, element: etree._Element, context: Context) -> None:
        if rank < draft.ranks.get(field, 99):
            draft.offer(field, rank, html_of(element, context))
            if context.has_lang:
                note_language(draft, field, element)

    return handle


def note_language(draft: Draft, field: str, element: etree._Element) -> None:
    """The xml:lang of an element itself, or of the one `div` in it."""
    said = element.get(XML_LANG)
    if said is None and len(element) == 1:
        said = element[0].get(XML_LANG)
    if said is not None:
        draft.languages = {**(draft.languages or {}), field: language(said) or ""}


def description(draft: Draft, element: etree._Element, context: Context) -> None:
    value = html_of(element, context)
    if draft.ranks.get("summary") == 0 and value != draft.values["summary"]:
        draft.offer("content", 6, value)  # the second description of an item is the long one
    else:
        draft.offer("summary", 0, value)
        if context.has_lang:
            note_language(draft, "summary", element)


def content(draft: Draft, element: etree._Element, context: Context) -> None:
    """Atom's content: here, or elsewhere (`src`) and then something to fetch."""
    kind = element.get("type")
    if kind == "html" and not context.has_lang and len(element) == 0 and draft.ranks.get("content", 99) > 1:
        text = element.text  # by far the most are this, so without asking further
        if text is not None:
            base = context.base_of(element) if context.has_base else context.base
            draft.offer("content", 1, context.cleaner.html(text.strip(), base))
        return
    if element.get("url") and context.names[element.tag] == "content":
        media_content(draft, element, context)
        return
    if source := element.get("src"):
        draft.offer("link", 7, resolve(source, context.base_of(element)))
    rank = 1 if (kind or "").lower() in ("html", "xhtml", "text/html", "application/xhtml+xml") else 2
    if rank < draft.ranks.get("content", 99):
        draft.offer("content", rank, html_of(element, context))
        if context.has_lang:
            note_language(draft, "content", element)


def link(draft: Draft, element: etree._Element, context: Context) -> None:
    base = context.base_of(element) if context.has_base else context.base
    text = element.text
    if text is not None and (text := text.strip()):
        draft.offer("link", 0, resolve(text, base))
        return
    address = element.get("href")
    if address is None:
        return
    relation = element.get("rel") or "alternate"
    if relation == "alternate":
        kind = element.get("type")
        draft.offer("link", 1 if kind is None or "html" in kind.lower() else 2, resolve(address, base))
        return
    relation = relation.strip().lower().removeprefix("http://www.iana.org/assignments/relation/")
    if relation == "enclosure":
        if found := media.enclosure(element, context):
            draft.enclosures.append(found)
    elif relation == "alternate":
        draft.offer("link", 2, resolve(address, base))
    elif relation in ("self", "via", "related"):
        draft.offer("link", 8 if relation == "self" else 9, resolve(address, base))


def guid(draft: Draft, element: etree._Element, context: Context) -> None:
    draft.guid = element
    draft.offer("id", 0, identity_of(element, context))


def _permanent(element: etree._Element, context: Context) -> str | None:
    """The address a guid is, unless it says that it is none (RSS 2.0, isPermaLink)."""
    said = {str(key).lower(): str(value) for key, value in element.items()}.get("ispermalink", "true")
    text = text_of(element)
    if text is None or said.strip().lower() == "false":
        return None
    base = context.base_of(element)
    if is_web(text) or (base and " " not in text and ":" not in text and "/" in text):
        return resolve(text, base)
    return None


def identity(rank: int) -> Handler:
    def handle(draft: Draft, element: etree._Element, context: Context) -> None:
        draft.offer("id", rank, identity_of(element, context))

    return handle


def identity_of(element: etree._Element, context: Context) -> str | None:
    """Identities are kept as they are (RFC 4287 §4.2.6.1), but for paths, which mean nothing alone."""
    text = text_of(element)
    if text and text[0] in "/.":
        return resolve(text, context.base_of(element)) or text
    return text


def author(draft: Draft, element: etree._Element, context: Context) -> None:
    draft.authors += names_in(element, context)


def further_author(draft: Draft, element: etree._Element, context: Context) -> None:
    draft.further += names_in(element, context)


def names_in(element: etree._Element, context: Context) -> list[str]:
    """The person an element names: by its text, or by name, email and address in elements of their own."""
    if len(element) == 0:
        name = people.person(element.text)
        return [name] if name else []
    said: dict[str, str] = {}
    for child in element.iter(etree.Element):
        key = context.names[child.tag].rpartition(":")[2]
        if child is not element and key in ("name", "email", "uri", "url", "homepage") and (text := text_of(child)):
            said.setdefault("uri" if key in ("url", "homepage") else key, text)
    name = people.person(said.get("name") or said.get("email")) or said.get("uri")
    if name is None and not said:
        name = people.person(text_of(element))
    return [name] if name else []


def source(draft: Draft, element: etree._Element, context: Context) -> None:
    """Where an aggregated entry came from; its authors are the entry's when that names none (RFC 4287 §4.2.1).

    RSS has the address in `url` and the title as text; Atom a self link, or the id where that is an address.
    """
    address, title = resolve(element.get("url"), context.base_of(element)), element.text
    for child in element:
        name = context.names[child.tag]
        if name == "author":
            draft.further += names_in(child, context)
        elif name == "title":
            title = title_of(child, context)
        elif name == "link" and child.get("rel") == "self":
            address = resolve(child.get("href"), context.base_of(child))
        elif name == "id" and address is None:
            address = text_of(child)
    if address is not None and is_web(address) and draft.source is None:
        draft.source = Source(cut(address, TITLE_LIMIT), one_line(title) if title else None)


def category(draft: Draft, element: etree._Element, context: Context) -> None:
    text = element.text if not context.atom else None
    if text is None or not (text := text.strip()):
        text = element.get("term") or text_of(element) or element.get("label") or element.get("text")
    add_category(draft.categories, text)
    if len(element):  # itunes:category holds its sub-categories
        for child in element:
            add_category(draft.categories, child.get("text"))


def keywords(draft: Draft, element: etree._Element, context: Context) -> None:
    for word in (text_of(element) or "").split(","):
        add_category(draft.categories, word)


def add_category(categories: list[str], text: str | None) -> None:
    if text and len(categories) < _MOST_CATEGORIES and (text := one_line(text, 500)):
        categories.append(text)


def enclosure(draft: Draft, element: etree._Element, context: Context) -> None:
    if found := media.enclosure(element, context, None if element.get("url") else text_of(element)):
        draft.enclosures.append(found)


def media_content(draft: Draft, element: etree._Element, context: Context) -> None:
    if found := media.enclosure(element, context):
        draft.enclosures.append(found)
    media_group(draft, element, context)


def media_group(draft: Draft, element: etree._Element, context: Context) -> None:
    for child in element:
        handler = _MEDIA.get(context.names[child.tag])
        if handler is not None:
            handler(draft, child, context)


def picture(draft: Draft, element: etree._Element, context: Context) -> None:
    found = media.enclosure(element, context)
    if found:
        draft.pictures.append(found if found.type else Enclosure(found.url, "image/*", found.length))


def alternate_enclosure(draft: Draft, element: etree._Element, context: Context) -> None:
    """podcast:alternateEnclosure has its type; the addresses are in podcast:source elements."""
    for child in element:
        url = resolve(child.get("uri"), context.base_of(child))
        if url:
            draft.enclosures.append(Enclosure(url, element.get("type"), media.whole(element.get("length"))))


def original_enclosure(draft: Draft, element: etree._Element, context: Context) -> None:
    """Where the file is that FeedBurner counts the visitors of."""
    address = address_in(element, context)
    if address and draft.enclosures:
        draft.enclosures[-1] = replace(draft.enclosures[-1], url=address)


def original_link(draft: Draft, element: etree._Element, context: Context) -> None:
    draft.offer("link", 3, address_in(element, context))


def spoken(draft: Draft, element: etree._Element, context: Context) -> None:
    draft.language = language(text_of(element)) or draft.language


_MEDIA: dict[str, Handler] = {
    "media:content": media_content,
    "media:thumbnail": picture,
    "media:peerlink": enclosure,
    "media:title": title(8),
    "media:description": html("summary", 8),
    "media:group": media_group,
}

# Element → what it gives. Ranks: lower wins.
HANDLERS: dict[str, Handler] = {
    "item": nested,
    "entry": nested,
    "title": title(0),
    "dc:title": title(3),
    "itunes:title": title(4),
    "link": link,
    "url": link,
    "feedburner:origlink": original_link,
    "feedburner:origenclosurelink": original_enclosure,
    "guid": guid,
    "id": identity(1),
    "dc:identifier": identity(6),
    "pubdate": date("published", 0),
    "published": date("published", 1),
    "issued": date("published", 2),
    "dcterms:issued": date("published", 3),
    "dcterms:available": date("published", 6),
    "created": date("published", 7),
    "dcterms:created": date("published", 7),
    "prism:publicationdate": date("published", 6),
    "date": dublin_date,
    "dc:date": dublin_date,
    "updated": date("updated", 0),
    "modified": date("updated", 1),
    "dcterms:modified": date("updated", 2),
    "lastbuilddate": date("updated", 4),
    "description": description,
    "summary": html("summary", 1),
    "abstract": html("summary", 2),
    "dc:description": html("summary", 3),
    "itunes:summary": html("summary", 5),
    "googleplay:description": html("summary", 6),
    "itunes:subtitle": html("summary", 7),
    "content:encoded": html("content", 0),
    "content": content,
    "xhtml:body": html("content", 3),
    "body": html("content", 4),
    "xhtml:div": html("content", 4),
    "fullitem": html("content", 5),
    "encoded": html("content", 5),
    "author": author,
    "dc:creator": author,
    "dc:author": author,
    "creator": author,
    "itunes:author": further_author,
    "googleplay:author": further_author,
    "dc:publisher": further_author,
    "source": source,
    "category": category,
    "dc:subject": category,
    "itunes:category": category,
    "media:category": category,
    "keywords": keywords,
    "itunes:keywords": keywords,
    "media:keywords": keywords,
    "enclosure": enclosure,
    "podcast:alternateenclosure": alternate_enclosure,
    "dc:language": spoken,
    "language": spoken,
    **_MEDIA,
}
