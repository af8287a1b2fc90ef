"""The `channel` or `feed` element → everything a Document says besides its items."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from lxml import etree

from headwater.formats.constructs import address_in, html_of, text_of, title_of
from headwater.formats.context import Context
from headwater.formats.dates import parse_date
from headwater.formats.elements import add_category, identity_of, names_in
from headwater.formats.languages import language
from headwater.formats.links import is_web, resolve
from headwater.formats.people import distinct
from headwater.formats.text import TITLE_LIMIT, cut
from headwater.model import Hints

_RDF_ABOUT: Final = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}about"
_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


class FeedDraft:
    """What has been seen of the feed; candidates are ranked, the lowest rank wins."""

    __slots__ = ("authors", "candidates", "categories", "further", "hints", "hubs")

    def __init__(self) -> None:
        self.candidates: dict[str, tuple[int, Any]] = {}
        self.authors: list[str] = []
        self.further: dict[int, list[str]] = {}
        self.categories: list[str] = []
        self.hubs: list[str] = []
        self.hints: dict[str, Any] = {}

    def offer(self, field: str, rank: int, value: Any) -> None:
        if value is not None:
            held = self.candidates.get(field)
            if held is None or rank < held[0]:
                self.candidates[field] = (rank, value)

    def fields(self) -> dict[str, Any]:
        """What a Document takes."""
        held = {field: value for field, (_rank, value) in self.candidates.items()}
        identity = held.get("id")
        return {
            "link": identity if is_web(identity) else None,  # of the feed, or of its site: better than nothing
            **held,
            "id": cut(identity, TITLE_LIMIT) if identity else None,
            "authors": distinct(self.authors or (self.further[min(self.further)] if self.further else [])),
            "categories": distinct(self.categories),
            "hub": distinct(self.hubs),
            "hints": Hints(**self.hints) if self.hints else Hints(),
        }


Handler = Callable[[FeedDraft, etree._Element, Context], None]


def read_feed_element(draft: FeedDraft, element: etree._Element, context: Context) -> None:
    """Add what an element of the feed says; items are not among them."""
    handler = HANDLERS.get(context.names[element.tag])
    if handler is not None:
        handler(draft, element, context)


def about(draft: FeedDraft, element: etree._Element, context: Context) -> None:
    """RSS 1.0 identifies a channel by rdf:about."""
    if address := element.get(_RDF_ABOUT):
        draft.offer("id", 3, resolve(address, context.base_of(element)) or address.strip() or None)


def title(rank: int) -> Handler:
    def handle(draft: FeedDraft, element: etree._Element, context: Context) -> None:
        draft.offer("title", rank, title_of(element, context))

    return handle


def subtitle(rank: int) -> Handler:
    def handle(draft: FeedDraft, element: etree._Element, context: Context) -> None:
        draft.offer("subtitle", rank, html_of(element, context))

    return handle


def updated(rank: int) -> Handler:
    def handle(draft: FeedDraft, element: etree._Element, context: Context) -> None:
        draft.offer("updated", rank, parse_date(element.text))

    return handle


def spoken(rank: int) -> Handler:
    def handle(draft: FeedDraft, element: etree._Element, context: Context) -> None:
        draft.offer("language", rank, language(text_of(element)))

    return handle


def link(draft: FeedDraft, element: etree._Element, context: Context) -> None:
    href = element.get("href")
    if href is None:
        draft.offer("link", 0, resolve(text_of(element), context.base_of(element)))
        return
    address = resolve(href, context.base_of(element))
    if address is None and not href and element.get("rel") == "self":
        address = context.base_of(element)  # an empty reference is to the document itself (RFC 3986 §4.4)
    for relation in (element.get("rel") or "alternate").strip().lower().split():
        relate(draft, relation.rpartition("/")[2], address, element.get("type"))


def relate(draft: FeedDraft, relation: str, address: str | None, kind: str | None = None) -> None:
    """One link of the feed by its relation (RFC 8288), from the document or from a Link header."""
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


def itunes_link(draft: FeedDraft, element: etree._Element, context: Context) -> None:
    """The picture of a podcast before itunes:image existed."""
    if (element.get("rel") or "").lower() == "image":
        draft.offer("icon", 3, address_in(element, context))


def identity(rank: int) -> Handler:
    def handle(draft: FeedDraft, element: etree._Element, context: Context) -> None:
        draft.offer("id", rank, identity_of(element, context))

    return handle


def author(draft: FeedDraft, element: etree._Element, context: Context) -> None:
    draft.authors += names_in(element, context)


def further_author(rank: int) -> Handler:
    """Who stands for the author where none is named; of several such elements the best is believed alone."""

    def handle(draft: FeedDraft, element: etree._Element, context: Context) -> None:
        if names := names_in(element, context):
            draft.further.setdefault(rank, []).extend(names)

    return handle


def category(draft: FeedDraft, element: etree._Element, context: Context) -> None:
    found = element.get("term") or text_of(element) or element.get("label") or element.get("text")
    add_category(draft.categories, found)
    for child in element:
        if context.names[child.tag].endswith("category"):
            add_category(draft.categories, child.get("text") or text_of(child))


def keywords(draft: FeedDraft, element: etree._Element, context: Context) -> None:
    for word in (text_of(element) or element.get("text") or "").split(","):
        add_category(draft.categories, word)


def icon(rank: int) -> Handler:
    def handle(draft: FeedDraft, element: etree._Element, context: Context) -> None:
        draft.offer("icon", rank, address_in(element, context))

    return handle


def image(draft: FeedDraft, element: etree._Element, context: Context) -> None:
    for child in element:
        if context.names[child.tag] == "url":
            draft.offer("icon", 2, resolve(text_of(child), context.base_of(child)))
    if len(element) == 0:
        draft.offer("icon", 5, address_in(element, context))


def generator(draft: FeedDraft, element: etree._Element, context: Context) -> None:
    text = text_of(element) or element.get("{http://www.w3.org/1999/02/22-rdf-syntax-ns#}resource")
    draft.offer("generator", 0 if text_of(element) else 1, cut(text, 500) if text else None)


def ttl(draft: FeedDraft, element: etree._Element, context: Context) -> None:
    minutes = _number(text_of(element))
    if minutes is not None and minutes > 0:
        draft.hints.setdefault("ttl", min(minutes, 525_600.0) * 60.0)


def skip_hours(draft: FeedDraft, element: etree._Element, context: Context) -> None:
    """0–23, as the specification has it; 24 is midnight in feeds that count from 1."""
    hours = {_number(text_of(child)) for child in element}
    draft.hints["skip_hours"] = tuple(sorted({int(hour) % 24 for hour in hours if hour is not None and hour <= 24}))


def skip_days(draft: FeedDraft, element: etree._Element, context: Context) -> None:
    days = {(text_of(child) or "").lower() for child in element}
    draft.hints["skip_days"] = tuple(day.capitalize() for day in _DAYS if day in days)


def update_period(draft: FeedDraft, element: etree._Element, context: Context) -> None:
    text = (text_of(element) or "").lower()
    if text in ("hourly", "daily", "weekly", "monthly", "yearly"):
        draft.hints["update_period"] = text


def update_frequency(draft: FeedDraft, element: etree._Element, context: Context) -> None:
    times = _number(text_of(element))
    if times is not None and 1 <= times <= 1_000_000:
        draft.hints["update_frequency"] = int(times)


def update_base(draft: FeedDraft, element: etree._Element, context: Context) -> None:
    base = parse_date(text_of(element))
    if base is not None:
        draft.hints["update_base"] = base


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text and len(text) < 20 else None
    except ValueError:
        return None
    return number if number is not None and 0 <= number < 1e12 else None


HANDLERS: Final[dict[str, Handler]] = {
    "title": title(0),
    "dc:title": title(3),
    "itunes:title": title(4),
    "link": link,
    "itunes:link": itunes_link,
    "description": subtitle(0),
    "subtitle": subtitle(1),
    "tagline": subtitle(2),
    "dc:description": subtitle(3),
    "summary": subtitle(4),
    "itunes:summary": subtitle(5),
    "itunes:subtitle": subtitle(6),
    "googleplay:description": subtitle(6),
    "abstract": subtitle(4),
    "info": subtitle(8),
    "language": spoken(0),
    "dc:language": spoken(1),
    "id": identity(0),
    "guid": identity(1),
    "dc:identifier": identity(4),
    "updated": updated(0),
    "lastbuilddate": updated(1),
    "modified": updated(1),
    "dcterms:modified": updated(2),
    "dcterms:issued": updated(6),
    "dcterms:created": updated(7),
    "dc:date": updated(3),
    "date": updated(3),
    "pubdate": updated(4),
    "published": updated(5),
    "managingeditor": author,
    "author": author,
    "dc:creator": author,
    "dc:author": author,
    "itunes:author": further_author(0),
    "googleplay:author": further_author(1),
    "itunes:owner": further_author(2),
    "dc:publisher": further_author(3),
    "webmaster": further_author(4),
    "category": category,
    "dc:subject": category,
    "itunes:category": category,
    "googleplay:category": category,
    "media:category": category,
    "media:keywords": keywords,
    "itunes:keywords": keywords,
    "keywords": keywords,
    "tags": keywords,
    "icon": icon(0),
    "logo": icon(1),
    "image": image,
    "itunes:image": icon(3),
    "googleplay:image": icon(4),
    "generator": generator,
    "admin:generatoragent": generator,
    "ttl": ttl,
    "skiphours": skip_hours,
    "skipdays": skip_days,
    "sy:updateperiod": update_period,
    "sy:updatefrequency": update_frequency,
    "sy:updatebase": update_base,
}
