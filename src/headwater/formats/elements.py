"""The elements of items: a table of them all, each with what it contributes to an item.

Where several elements can give the same field, the better source wins whatever their order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lxml import etree

from headwater.formats import media, people
from headwater.formats.constructs import address_in, html_of, text_of, title_of
from headwater.formats.context import Context
from headwater.formats.dates import parse_date
from headwater.formats.draft import Draft, Handler, Table, field, take
from headwater.formats.languages import language
from headwater.formats.links import is_web, resolve
from headwater.formats.names import USUAL
from headwater.formats.text import TITLE_LIMIT, USUAL_LINES, cut, one_line
from headwater.model import Enclosure, Source

_MOST_CATEGORIES: Final = 1_000
_FOAF_NAME: Final = "{http://xmlns.com/foaf/0.1/}name"


def nested(draft: Draft, element: etree._Element, context: Context) -> None:
    """An item inside an item: somebody forgot to close the outer one. It is read after it."""
    context.nested.append(element)


def date_of(element: etree._Element, context: Context) -> float | None:
    return parse_date(element.text)


def dublin_date(draft: Draft, element: etree._Element, context: Context) -> None:
    """dc:date is the date of publication or of the last change; which, it does not say."""
    when = parse_date(element.text)
    draft.offer("published", 5, when)
    draft.offer("updated", 5, when)


def summary(draft: Draft, element: etree._Element, context: Context) -> None:
    """Atom's summary. RSS has none of that name, so beside a description the later of the two is the long one."""
    if not context.atom:
        description(draft, element, context)
    elif draft.ranks.get("summary", 99) > 1:
        draft.offer("summary", 1, html_of(element, context))
        if context.has_lang:
            draft.note_language("summary", element)


def description(draft: Draft, element: etree._Element, context: Context) -> None:
    value = html_of(element, context)
    if draft.ranks.get("summary") == 0 and value != draft.values["summary"]:
        draft.offer("content", 6, value)  # the second description of an item is the long one
    else:
        draft.offer("summary", 0, value)
        if context.has_lang:
            draft.note_language("summary", element)


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
    if kind is not None and kind.lower().startswith("multipart/"):  # Atom .3: the same in several forms
        for child in element:
            if context.names[child.tag] == "content":
                content(draft, child, context)
        return
    if source := element.get("src"):
        draft.offer("link", 7, resolve(source, context.base_of(element)))
    rank = 1 if (kind or "").lower() in ("html", "xhtml", "text/html", "application/xhtml+xml") else 2
    if rank < draft.ranks.get("content", 99):
        draft.offer("content", rank, html_of(element, context))
        if context.has_lang:
            draft.note_language("content", element)


def link(draft: Draft, element: etree._Element, context: Context) -> None:
    base = context.base_of(element) if context.has_base else context.base
    text = element.text
    if text is not None and (text := text.strip()):
        draft.offer("link", 0, resolve(text, base))
        return
    address = element.get("href")
    if address is None:
        return
    if len(element):  # the pictures of what it leads to, as a large broadcaster has them
        media_group(draft, element, context)
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


def permanent(element: etree._Element, context: Context) -> str | None:
    """The address a guid is, unless it says that it is none (RSS 2.0, isPermaLink)."""
    said = {str(key).lower(): str(value) for key, value in element.items()}.get("ispermalink", "true")
    text = text_of(element)
    if text is None or said.strip().lower() == "false":
        return None
    base = context.base_of(element)
    if is_web(text) or (base and " " not in text and ":" not in text and "/" in text):
        return resolve(text, base)
    return None


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


def names_in(element: etree._Element, context: Context) -> tuple[str, ...]:
    """Whom an element names: by its text, or by name, email and address in elements of their own."""
    if len(element) == 0:
        return people.named(element.text)
    names = context.names
    only = element[0]
    if len(element) == 1 and names[only.tag] == "name" and len(only) == 0:  # as Atom has it, and nearly everybody
        found = people.named(only.text)
        if found:
            return found
    said: dict[str, str] = {}
    for child in element.iter(etree.Element):
        key = names[child.tag].rpartition(":")[2]
        if child is not element and key in ("name", "email", "uri", "url", "homepage") and (text := text_of(child)):
            said.setdefault("uri" if key in ("url", "homepage") else key, text)
        elif key == "person" and (text := child.get(_FOAF_NAME)):
            said.setdefault("name", text)
    found = people.named(said.get("name") or said.get("email"))
    if found or not said:
        return found or people.named(text_of(element))
    return (said["uri"],) if "uri" in said else ()


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
    for word in (text_of(element) or element.get("text") or "").split(","):
        add_category(draft.categories, word)


def categories(draft: Draft, element: etree._Element, context: Context) -> None:
    """Several in an element around them, which no specification knows but a large publisher's items have."""
    for child in element.iterchildren("{*}category"):
        category(draft, child, context)


def add_category(categories: list[str], text: str | None) -> None:
    if text and len(categories) < _MOST_CATEGORIES and (text := USUAL_LINES[text]):
        categories.append(text)


def enclosure(draft: Draft, element: etree._Element, context: Context) -> None:
    if found := media.enclosure(element, context, None if element.get("url") else text_of(element)):
        draft.enclosures.append(found)


def media_content(draft: Draft, element: etree._Element, context: Context) -> None:
    if found := media.enclosure(element, context):
        draft.enclosures.append(found)
    media_group(draft, element, context)


def media_group(draft: Draft, element: etree._Element, context: Context) -> None:
    take(draft, element, _USUAL_MEDIA if context.names is USUAL else Table(context.names, _MEDIA), context)


def picture(draft: Draft, element: etree._Element, context: Context) -> None:
    found = media.enclosure(element, context, None if element.get("url") else text_of(element))
    if found:
        draft.pictures.append(found if found.type else Enclosure(found.url, "image/*", found.length))


def page_of(element: etree._Element, context: Context) -> str | None:
    """The page on which a film or a piece can be played: where there is no other, the item's."""
    return resolve(element.get("url"), context.base_of(element))


def own_picture(draft: Draft, element: etree._Element, context: Context) -> None:
    """The picture of one episode or one post: an address, or RSS's `image` with the address in an element."""
    address = next((child for child in element if context.names[child.tag] == "url"), element)
    if url := address_in(address, context):
        draft.pictures.append(Enclosure(url, "image/*", None))


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


def spoken(draft: Draft, element: etree._Element, context: Context) -> None:
    draft.language = language(text_of(element)) or draft.language


_MEDIA: Final[dict[str, Handler]] = {
    "media:content": media_content,
    "media:thumbnail": picture,
    "media:peerlink": enclosure,
    "media:title": field("title", 8, title_of),
    "media:description": field("summary", 8, html_of),
    "media:player": field("player", 0, page_of),
    "media:category": category,
    "media:keywords": keywords,
    "media:group": media_group,
}
_USUAL_MEDIA: Final = Table(USUAL, _MEDIA)

# Element → what it gives. Ranks: lower wins.
ELEMENTS: Final[dict[str, Handler]] = {
    "item": nested,
    "entry": nested,
    "title": field("title", 0, title_of),
    "dc:title": field("title", 3, title_of),
    "itunes:title": field("title", 4, title_of),
    "link": link,
    "url": link,
    "feedburner:origlink": field("link", 3, address_in),
    "feedburner:origenclosurelink": original_enclosure,
    "guid": guid,
    "id": field("id", 1, identity_of),
    "dc:identifier": field("id", 6, identity_of),
    "pubdate": field("published", 0, date_of, last=True),
    "published": field("published", 1, date_of, last=True),
    "issued": field("published", 2, date_of, last=True),
    "dcterms:issued": field("published", 3, date_of, last=True),
    "dcterms:available": field("published", 6, date_of, last=True),
    "created": field("published", 7, date_of, last=True),
    "dcterms:created": field("published", 7, date_of, last=True),
    "prism:publicationdate": field("published", 6, date_of, last=True),
    "date": dublin_date,
    "dc:date": dublin_date,
    "updated": field("updated", 0, date_of, last=True),
    "modified": field("updated", 1, date_of, last=True),
    "dcterms:modified": field("updated", 2, date_of, last=True),
    "lastbuilddate": field("updated", 4, date_of, last=True),
    "description": description,
    "summary": summary,
    "abstract": field("summary", 2, html_of),
    "dc:description": field("summary", 3, html_of),
    "itunes:summary": field("summary", 5, html_of),
    "googleplay:description": field("summary", 6, html_of),
    "itunes:subtitle": field("summary", 7, html_of),
    "content:encoded": field("content", 0, html_of),
    "content": content,
    "xhtml:body": field("content", 3, html_of),
    "body": field("content", 4, html_of),
    "xhtml:div": field("content", 4, html_of),
    "fullitem": field("content", 5, html_of),
    "encoded": field("content", 5, html_of),
    "author": author,
    "dc:creator": author,
    "dc:author": author,
    "creator": author,
    "itunes:author": further_author,
    "googleplay:author": further_author,
    "dc:publisher": further_author,
    "source": source,
    "category": category,
    "categories": categories,
    "dc:subject": category,
    "itunes:category": category,
    "keywords": keywords,
    "tags": keywords,
    "itunes:keywords": keywords,
    "enclosure": enclosure,
    "podcast:alternateenclosure": alternate_enclosure,
    "image": own_picture,
    "itunes:image": own_picture,
    "googleplay:image": own_picture,
    "dc:language": spoken,
    "language": spoken,
    **_MEDIA,
}
