"""Reads the feed's own elements: everything of a Document but its items."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lxml import etree

from headwater.formats.parse.context import ReadContext
from headwater.formats.parse.elements import add_category, read_identity, read_people
from headwater.formats.parse.text_constructs import read_address, read_html, read_text, read_title
from headwater.formats.values.dates import parse_date
from headwater.formats.values.languages import normalise_language
from headwater.formats.values.links import is_web_url, resolve_url
from headwater.formats.values.people import drop_duplicates
from headwater.formats.values.text import TITLE_LIMIT, truncate_utf8
from headwater.model import Hints, Person

_RDF_ABOUT = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}about"
_BY_ITUNES, _BY_GOOGLE = 0, 1  # ranks of authors
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


class ChannelDraft:
    """The best candidate for each field of the feed so far. The lowest rank wins."""

    __slots__ = ("authors", "candidates", "categories", "contacts", "further", "hints", "hubs", "writers")

    def __init__(self) -> None:
        self.candidates: dict[str, tuple[int, Any]] = {}
        self.authors: list[Person] = []
        self.further: dict[int, list[Person]] = {}
        self.contacts: list[Person] = []
        self.writers: list[Person] = []
        self.categories: list[str] = []
        self.hubs: list[str] = []
        self.hints: dict[str, Any] = {}

    def offer(self, field: str, rank: int, value: Any) -> None:
        if value is not None:
            held = self.candidates.get(field)
            if held is None or rank < held[0]:
                self.candidates[field] = (rank, value)

    def list_writers(self) -> list[Person]:
        """Return the authors of items that name none: the feed's, but not its contacts."""
        return self.writers or self.further.get(_BY_ITUNES) or self.further.get(_BY_GOOGLE) or []

    def _find_best_further(self) -> list[Person]:
        return self.further[min(self.further)] if self.further else []

    def to_document_fields(self) -> dict[str, Any]:
        """Return the arguments of a Document."""
        held = {field: value for field, (_rank, value) in self.candidates.items()}
        identity = held.get("id")
        return {
            "link": identity
            if is_web_url(identity)
            else None,  # the address of the feed or of its site is better than none
            **held,
            "id": truncate_utf8(identity, TITLE_LIMIT) if identity else None,
            "authors": drop_duplicates([one.label for one in self.authors or self._find_best_further()]),
            "contacts": tuple(dict.fromkeys(self.contacts)),
            "categories": drop_duplicates(self.categories),
            "hub": drop_duplicates(self.hubs),
            "hints": Hints(**self.hints) if self.hints else Hints(),
        }


ChannelHandler = Callable[[ChannelDraft, etree._Element, ReadContext], None]


def read_channel_element(draft: ChannelDraft, element: etree._Element, context: ReadContext) -> None:
    """Add the values of one element of the feed that is not an item."""
    handler = CHANNEL_HANDLERS.get(context.names[element.tag])
    if handler is not None:
        handler(draft, element, context)


def add_rdf_about(draft: ChannelDraft, element: etree._Element, context: ReadContext) -> None:
    """Add the identity of an RSS 1.0 channel."""
    if address := element.get(_RDF_ABOUT):
        draft.offer("id", 3, resolve_url(address, context.find_base(element)) or address.strip() or None)


def title_handler(rank: int) -> ChannelHandler:
    def handle(draft: ChannelDraft, element: etree._Element, context: ReadContext) -> None:
        draft.offer("title", rank, read_title(element, context))

    return handle


def subtitle_handler(rank: int) -> ChannelHandler:
    def handle(draft: ChannelDraft, element: etree._Element, context: ReadContext) -> None:
        draft.offer("subtitle", rank, read_html(element, context))

    return handle


def updated_handler(rank: int) -> ChannelHandler:
    def handle(draft: ChannelDraft, element: etree._Element, context: ReadContext) -> None:
        draft.offer("updated", rank, parse_date(element.text))

    return handle


def language_handler(rank: int) -> ChannelHandler:
    def handle(draft: ChannelDraft, element: etree._Element, context: ReadContext) -> None:
        draft.offer("language", rank, normalise_language(read_text(element)))

    return handle


def add_link(draft: ChannelDraft, element: etree._Element, context: ReadContext) -> None:
    href = element.get("href")
    if href is None:
        draft.offer("link", 0, resolve_url(read_text(element), context.find_base(element)))
        return
    address = resolve_url(href, context.find_base(element))
    if address is None and not href and element.get("rel") == "self":
        address = context.find_base(element)  # an empty reference is to the document itself (RFC 3986 §4.4)
    for relation in (element.get("rel") or "alternate").strip().lower().split():
        add_relation(draft, relation.rpartition("/")[2], address, element.get("type"))


def add_relation(draft: ChannelDraft, relation: str, address: str | None, kind: str | None = None) -> None:
    """Add a link by its relation (RFC 8288), from the document or from a Link header."""
    if address is None:
        return
    if relation == "alternate":
        kind = (kind or "text/html").lower()
        draft.offer("link", 1 if "html" in kind else 4, address)
    elif relation == "hub":
        if address not in draft.hubs and len(draft.hubs) < 20:
            draft.hubs.append(address)
    elif relation == "self":
        draft.offer("self", 0, address)
    elif relation in ("next", "prev-archive"):
        draft.offer("next", 0 if relation == "next" else 1, address)
    elif relation in ("prev", "previous", "next-archive"):
        draft.offer("previous", 0 if relation != "next-archive" else 1, address)
    elif relation in ("via", "related"):
        draft.offer("link", 9, address)


def add_itunes_image(draft: ChannelDraft, element: etree._Element, context: ReadContext) -> None:
    """Add the picture of a podcast as written before itunes:image existed."""
    if (element.get("rel") or "").lower() == "image":
        draft.offer("icon", 3, read_address(element, context))


def identity_handler(rank: int) -> ChannelHandler:
    def handle(draft: ChannelDraft, element: etree._Element, context: ReadContext) -> None:
        draft.offer("id", rank, read_identity(element, context))

    return handle


def add_author(draft: ChannelDraft, element: etree._Element, context: ReadContext) -> None:
    found = read_people(element, context)
    draft.authors += found
    draft.writers += found


def add_editor(draft: ChannelDraft, element: etree._Element, context: ReadContext) -> None:
    found = read_people(element, context)
    draft.authors += found
    draft.contacts += found


def contact_handler(rank: int) -> ChannelHandler:
    """Return a handler for people who answer for the feed, and are named as its authors if nobody else is."""

    def handle(draft: ChannelDraft, element: etree._Element, context: ReadContext) -> None:
        if found := read_people(element, context):
            draft.further.setdefault(rank, []).extend(found)
            draft.contacts += found

    return handle


def secondary_author_handler(rank: int) -> ChannelHandler:
    """Return a handler for elements that name an author if no other does. Only those of the best rank count."""

    def handle(draft: ChannelDraft, element: etree._Element, context: ReadContext) -> None:
        if found := read_people(element, context):
            draft.further.setdefault(rank, []).extend(found)

    return handle


def add_category_element(draft: ChannelDraft, element: etree._Element, context: ReadContext) -> None:
    found = element.get("term") or read_text(element) or element.get("label") or element.get("text")
    add_category(draft.categories, found)
    for child in element:
        if context.names[child.tag].endswith("category"):
            add_category(draft.categories, child.get("text") or read_text(child))


def add_keywords(draft: ChannelDraft, element: etree._Element, context: ReadContext) -> None:
    for word in (read_text(element) or element.get("text") or "").split(","):
        add_category(draft.categories, word)


def icon_handler(rank: int) -> ChannelHandler:
    def handle(draft: ChannelDraft, element: etree._Element, context: ReadContext) -> None:
        draft.offer("icon", rank, read_address(element, context))

    return handle


def add_image(draft: ChannelDraft, element: etree._Element, context: ReadContext) -> None:
    for child in element:
        if context.names[child.tag] == "url":
            draft.offer("icon", 2, resolve_url(read_text(child), context.find_base(child)))
    if len(element) == 0:
        draft.offer("icon", 5, read_address(element, context))


def add_generator(draft: ChannelDraft, element: etree._Element, context: ReadContext) -> None:
    text = read_text(element) or element.get("{http://www.w3.org/1999/02/22-rdf-syntax-ns#}resource")
    draft.offer("generator", 0 if read_text(element) else 1, truncate_utf8(text, 500) if text else None)


def add_ttl(draft: ChannelDraft, element: etree._Element, context: ReadContext) -> None:
    minutes = _parse_number(read_text(element))
    if minutes is not None and minutes > 0:
        draft.hints.setdefault("ttl", min(minutes, 525_600.0) * 60.0)


def add_skip_hours(draft: ChannelDraft, element: etree._Element, context: ReadContext) -> None:
    """Add skipHours from 0 to 23; some feeds write 24 for midnight."""
    hours = {_parse_number(read_text(child)) for child in element}
    draft.hints["skip_hours"] = tuple(sorted({int(hour) % 24 for hour in hours if hour is not None and hour <= 24}))


def add_skip_days(draft: ChannelDraft, element: etree._Element, context: ReadContext) -> None:
    days = {(read_text(child) or "").lower() for child in element}
    draft.hints["skip_days"] = tuple(day.capitalize() for day in _DAYS if day in days)


def add_update_period(draft: ChannelDraft, element: etree._Element, context: ReadContext) -> None:
    text = (read_text(element) or "").lower()
    if text in ("hourly", "daily", "weekly", "monthly", "yearly"):
        draft.hints["update_period"] = text


def add_update_frequency(draft: ChannelDraft, element: etree._Element, context: ReadContext) -> None:
    times = _parse_number(read_text(element))
    if times is not None and 1 <= times <= 1_000_000:
        draft.hints["update_frequency"] = int(times)


def add_update_base(draft: ChannelDraft, element: etree._Element, context: ReadContext) -> None:
    base = parse_date(read_text(element))
    if base is not None:
        draft.hints["update_base"] = base


def _parse_number(text: str | None) -> float | None:
    try:
        number = float(text) if text and len(text) < 20 else None
    except ValueError:
        return None
    return number if number is not None and 0 <= number < 1e12 else None


CHANNEL_HANDLERS: dict[str, ChannelHandler] = {
    "title": title_handler(0),
    "dc:title": title_handler(3),
    "itunes:title": title_handler(4),
    "link": add_link,
    "itunes:link": add_itunes_image,
    "description": subtitle_handler(0),
    "subtitle": subtitle_handler(1),
    "tagline": subtitle_handler(2),
    "dc:description": subtitle_handler(3),
    "summary": subtitle_handler(4),
    "itunes:summary": subtitle_handler(5),
    "itunes:subtitle": subtitle_handler(6),
    "googleplay:description": subtitle_handler(6),
    "abstract": subtitle_handler(4),
    "info": subtitle_handler(8),
    "language": language_handler(0),
    "dc:language": language_handler(1),
    "id": identity_handler(0),
    "guid": identity_handler(1),
    "dc:identifier": identity_handler(4),
    "updated": updated_handler(0),
    "lastbuilddate": updated_handler(1),
    "modified": updated_handler(1),
    "dcterms:modified": updated_handler(2),
    "dcterms:issued": updated_handler(6),
    "dcterms:created": updated_handler(7),
    "dc:date": updated_handler(3),
    "date": updated_handler(3),
    "pubdate": updated_handler(4),
    "published": updated_handler(5),
    "managingeditor": add_editor,
    "author": add_author,
    "dc:creator": add_author,
    "dc:author": add_author,
    "itunes:author": secondary_author_handler(_BY_ITUNES),
    "googleplay:author": secondary_author_handler(_BY_GOOGLE),
    "itunes:owner": contact_handler(2),
    "dc:publisher": contact_handler(3),
    "webmaster": contact_handler(4),
    "category": add_category_element,
    "dc:subject": add_category_element,
    "itunes:category": add_category_element,
    "googleplay:category": add_category_element,
    "media:category": add_category_element,
    "media:keywords": add_keywords,
    "itunes:keywords": add_keywords,
    "keywords": add_keywords,
    "tags": add_keywords,
    "icon": icon_handler(0),
    "logo": icon_handler(1),
    "image": add_image,
    "itunes:image": icon_handler(3),
    "googleplay:image": icon_handler(4),
    "generator": add_generator,
    "admin:generatoragent": add_generator,
    "ttl": add_ttl,
    "skiphours": add_skip_hours,
    "skipdays": add_skip_days,
    "sy:updateperiod": add_update_period,
    "sy:updatefrequency": add_update_frequency,
    "sy:updatebase": add_update_base,
}
