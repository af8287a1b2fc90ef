"""Tables the elements of items and the fields that each contributes.

If several elements give the same field, the one of the lower rank wins, whatever their order.
"""

from __future__ import annotations

from itertools import islice

from lxml import etree
from msgspec.structs import replace

from headwater.formats.parse.context import ReadContext
from headwater.formats.parse.element_names import STANDARD_NAMES
from headwater.formats.parse.entry_draft import EntryDraft, EntryHandler, HandlerTable, apply_handlers, field_handler
from headwater.formats.parse.text_constructs import read_address, read_html, read_text, read_title
from headwater.formats.values import enclosures, people
from headwater.formats.values.dates import parse_date
from headwater.formats.values.languages import normalise_language
from headwater.formats.values.links import is_web_url, resolve_url
from headwater.formats.values.text import SHORT_LINES, TITLE_LIMIT, to_one_line, truncate_utf8
from headwater.model import Chapter, Enclosure, Person, Source

_MAX_CATEGORIES = 1_000
_MEDIA_TYPES = ("image/", "audio/", "video/")
_TYPE_OF_MEDIUM = {"image": "image/*", "video": "video/*", "audio": "audio/*"}
_FOAF_NAME = "{http://xmlns.com/foaf/0.1/}name"


def postpone_nested_item(draft: EntryDraft, element: etree._Element, context: ReadContext) -> None:
    """Postpone an item inside an item, whose end tag is missing, until the outer one is read."""
    context.nested.append(element)


def read_date(element: etree._Element, context: ReadContext) -> float | None:
    return parse_date(element.text)


def add_dublin_date(draft: EntryDraft, element: etree._Element, context: ReadContext) -> None:
    """Take dc:date for both dates: it does not say whether it is that of publication or of the last change."""
    when = parse_date(element.text)
    draft.offer("published", 5, when)
    draft.offer("updated", 5, when)


def add_summary(draft: EntryDraft, element: etree._Element, context: ReadContext) -> None:
    """Add Atom's summary. In RSS, where no such element exists, it counts as a description."""
    if not context.atom:
        add_description(draft, element, context)
    elif draft.ranks.get("summary", 99) > 1:
        draft.offer("summary", 1, read_html(element, context))
        if context.has_lang:
            draft.note_language("summary", element)


def add_description(draft: EntryDraft, element: etree._Element, context: ReadContext) -> None:
    value = read_html(element, context)
    if draft.ranks.get("summary") == 0 and value != draft.values["summary"]:
        draft.offer("content", 6, value)  # the second description is the long one
    else:
        draft.offer("summary", 0, value)
        if context.has_lang:
            draft.note_language("summary", element)


def add_content(draft: EntryDraft, element: etree._Element, context: ReadContext) -> None:
    """Add Atom's content. Content elsewhere (`src`) becomes the link."""
    kind = element.get("type")
    if kind == "html" and not context.has_lang and len(element) == 0 and draft.ranks.get("content", 99) > 1:
        text = element.text  # by far the most common case
        if text is not None:
            base = context.find_base(element) if context.has_base else context.base
            draft.offer("content", 1, context.options.html.read_html(text.strip(), base))
        return
    if element.get("url") and context.names[element.tag] == "content":
        add_media_content(draft, element, context)
        return
    if kind is not None and kind.lower().startswith("multipart/"):  # Atom .3: several forms of the same content
        for child in element:
            if context.names[child.tag] == "content":
                add_content(draft, child, context)
        return
    if source := element.get("src"):
        draft.offer("link", 7, resolve_url(source, context.find_base(element)))
        if (kind or "").lower().startswith(_MEDIA_TYPES) and (found := read_enclosure(element, context)):
            draft.enclosures.append(found)
    rank = 1 if (kind or "").lower() in ("html", "xhtml", "text/html", "application/xhtml+xml") else 2
    if rank < draft.ranks.get("content", 99):
        draft.offer("content", rank, read_html(element, context))
        if context.has_lang:
            draft.note_language("content", element)


def add_link(draft: EntryDraft, element: etree._Element, context: ReadContext) -> None:
    base = context.find_base(element) if context.has_base else context.base
    address = element.get("href")
    text = element.text
    if text is not None and (text := text.strip()) and (address is None or _is_alternate(element)):
        draft.offer("link", 0, resolve_url(text, base))
        return
    if address is None:
        return
    if len(element):  # with pictures inside, as a large broadcaster writes it
        add_media_group(draft, element, context)
    relation = element.get("rel") or "alternate"
    if relation == "alternate":
        kind = element.get("type")
        draft.offer("link", 1 if kind is None or "html" in kind.lower() else 2, resolve_url(address, base))
        return
    relations = relation.lower().replace("http://www.iana.org/assignments/relation/", "").split()
    if "enclosure" in relations and (found := read_enclosure(element, context)):
        draft.enclosures.append(found)
    if "alternate" in relations:
        draft.offer("link", 2, resolve_url(address, base))
    elif "self" in relations:
        draft.offer("link", 8, resolve_url(address, base))
    elif "via" in relations or "related" in relations:
        draft.offer("link", 9, resolve_url(address, base))


def _is_alternate(element: etree._Element) -> bool:
    return "alternate" in (element.get("rel") or "alternate").lower()


def add_guid(draft: EntryDraft, element: etree._Element, context: ReadContext) -> None:
    draft.guid = element
    draft.offer("id", 0, read_identity(element, context))


def find_permalink(element: etree._Element, context: ReadContext) -> str | None:
    """Return the guid if it is a link: isPermaLink is not false and it looks like an address (RSS 2.0)."""
    is_permalink = {str(key).lower(): str(value) for key, value in element.items()}.get("ispermalink", "true")
    text = read_text(element)
    if text is None or is_permalink.strip().lower() == "false":
        return None
    base = context.find_base(element)
    if is_web_url(text) or (base and " " not in text and ":" not in text and "/" in text):
        return resolve_url(text, base)
    return None


def read_identity(element: etree._Element, context: ReadContext) -> str | None:
    """Return the identity as written (RFC 4287 §4.2.6.1). Only paths are resolved: alone, they mean nothing."""
    text = read_text(element)
    if text and text[0] in "/.":
        return resolve_url(text, context.find_base(element)) or text
    return text


def add_author(draft: EntryDraft, element: etree._Element, context: ReadContext) -> None:
    draft.authors += read_people(element, context)


def add_secondary_author(draft: EntryDraft, element: etree._Element, context: ReadContext) -> None:
    draft.further += read_people(element, context)


def read_people(element: etree._Element, context: ReadContext) -> tuple[Person, ...]:
    """Return the people in an element: in its text, or in elements for name, email and address."""
    if len(element) == 0:
        return people.extract_people(element.text)
    names = context.names
    only = element[0]
    if len(element) == 1 and names[only.tag] == "name" and len(only) == 0:  # the usual form of Atom
        found = people.extract_people(only.text)
        if found:
            return found
    parts: dict[str, str] = {}
    for child in element.iter(etree.Element):
        key = names[child.tag].rpartition(":")[2]
        if child is not element and key in ("name", "email", "uri", "url", "homepage") and (text := read_text(child)):
            parts.setdefault("uri" if key in ("url", "homepage") else key, text)
        elif key == "person" and (text := child.get(_FOAF_NAME)):
            parts.setdefault("name", text)
    found = people.extract_people(parts.get("name") or parts.get("email"))
    if not parts:
        return people.extract_people(read_text(element))
    email, page = people.find_address(parts.get("email", "")), resolve_url(parts.get("uri"), context.find_base(element))
    if len(found) == 1:
        return (Person(found[0].name, email or found[0].email, page),)
    return found or ((Person(url=page),) if page else ())


def add_source(draft: EntryDraft, element: etree._Element, context: ReadContext) -> None:
    """Add the feed that an entry was republished from. Its authors stand in for missing ones (RFC 4287 §4.2.1).

    RSS has the address in `url` and the title as text; Atom has a self link, an id that is an address, or another link.
    """
    page: str | None = None
    address, title = resolve_url(element.get("url"), context.find_base(element)), element.text
    for child in element:
        name = context.names[child.tag]
        if name == "author":
            draft.further += read_people(child, context)
        elif name == "title":
            title = read_title(child, context)
        elif name == "link" and child.get("rel") == "self":
            address = resolve_url(child.get("href"), context.find_base(child))
        elif name == "link" and page is None:
            page = resolve_url(child.get("href"), context.find_base(child))
        elif name == "id" and address is None:
            address = read_text(child)
    address = next((one for one in (address, page) if one is not None and is_web_url(one)), "")
    title = to_one_line(title) if title else None
    if (address or title) and draft.source is None:
        draft.source = Source(truncate_utf8(address, TITLE_LIMIT), title)


def add_category_element(draft: EntryDraft, element: etree._Element, context: ReadContext) -> None:
    text = element.text if not context.atom else None
    if text is None or not (text := text.strip()):
        text = element.get("term") or read_text(element) or element.get("label") or element.get("text")
    add_category(draft.categories, text)
    if len(element):  # itunes:category contains its sub-categories
        for child in element:
            add_category(draft.categories, child.get("text"))


def add_keywords(draft: EntryDraft, element: etree._Element, context: ReadContext) -> None:
    for word in (read_text(element) or element.get("text") or "").split(","):
        add_category(draft.categories, word)


def add_categories(draft: EntryDraft, element: etree._Element, context: ReadContext) -> None:
    """Add the categories inside a `categories` element, which a large publisher writes against the specification."""
    for child in element.iterchildren("{*}category"):
        add_category_element(draft, child, context)


def add_category(categories: list[str], text: str | None) -> None:
    if text and len(categories) < _MAX_CATEGORIES and (text := SHORT_LINES[text]):
        categories.append(text)


def read_enclosure(element: etree._Element, context: ReadContext, text: str | None = None) -> Enclosure | None:
    """Read the file that an element names by url (or `text`, or href), type and length (or fileSize)."""
    get = element.get
    url = resolve_url(get("url") or text or get("href") or get("src"), context.find_base(element))
    if url is None:
        return None
    kind = get("type")
    if not kind and (medium := get("medium")):
        kind = _TYPE_OF_MEDIUM.get(medium.strip().lower())
    return Enclosure(
        url,
        (kind.strip().lower() or None) if kind else None,
        enclosures.parse_size(get("length") or get("fileSize")),
        enclosures.parse_pixels(get("width")),
        enclosures.parse_pixels(get("height")),
        enclosures.parse_duration(get("duration")),
        to_one_line(title) if (title := get("title")) else None,
    )


def add_enclosure(draft: EntryDraft, element: etree._Element, context: ReadContext) -> None:
    if found := read_enclosure(element, context, read_text(element)):
        draft.enclosures.append(found)


def add_media_content(draft: EntryDraft, element: etree._Element, context: ReadContext) -> None:
    found = read_enclosure(element, context)
    if len(element):
        is_picture = found is not None and (found.type or "").startswith("image/")
        title = _find_title(element, "media:title", context)
        if title is None and is_picture:
            title = _find_title(element, "media:description", context)  # what the picture shows
        found = replace(found, title=title) if found and title else found
    if found:
        draft.enclosures.append(found)
    if len(element):
        add_media_group(draft, element, context)


def _find_title(element: etree._Element, name: str, context: ReadContext) -> str | None:
    return next((read_title(child, context) for child in element if context.names[child.tag] == name), None)


def add_media_group(draft: EntryDraft, element: etree._Element, context: ReadContext) -> None:
    apply_handlers(
        draft,
        element,
        _STANDARD_MEDIA_TABLE if context.names is STANDARD_NAMES else HandlerTable(context.names, _MEDIA_ELEMENTS),
        context,
    )


def add_picture(draft: EntryDraft, element: etree._Element, context: ReadContext) -> None:
    if found := read_enclosure(element, context, read_text(element)):
        draft.pictures.append(found if found.type else replace(found, type="image/*"))


def read_player_page(element: etree._Element, context: ReadContext) -> str | None:
    """Return the page of a media player, the link of an item without any other."""
    return resolve_url(element.get("url"), context.find_base(element))


def add_item_picture(draft: EntryDraft, element: etree._Element, context: ReadContext) -> None:
    """Add the picture of an item: an address, or RSS's `image` with a `url` element."""
    address = next((child for child in element if context.names[child.tag] == "url"), element)
    if url := read_address(address, context):
        draft.pictures.append(Enclosure(url, "image/*", None))


def add_alternate_enclosure(draft: EntryDraft, element: etree._Element, context: ReadContext) -> None:
    """Add the files of podcast:alternateEnclosure: it has the type, its podcast:source elements the addresses."""
    for child in element:
        url = resolve_url(child.get("uri"), context.find_base(child))
        if url:
            draft.enclosures.append(Enclosure(url, element.get("type"), enclosures.parse_size(element.get("length"))))


def add_transcript(draft: EntryDraft, element: etree._Element, context: ReadContext) -> None:
    if found := read_enclosure(element, context):
        found = replace(found, language=normalise_language(element.get("language")))
        draft.transcripts = [*(draft.transcripts or ())[:19], found]


def add_chapters(draft: EntryDraft, element: etree._Element, context: ReadContext) -> None:
    draft.chapters = draft.chapters or read_enclosure(element, context)


def add_inline_chapters(draft: EntryDraft, element: etree._Element, context: ReadContext) -> None:
    """Add the chapters of Podlove Simple Chapters."""
    base = context.find_base(element)
    draft.inline_chapters = draft.inline_chapters or tuple(
        Chapter(start, title, resolve_url(child.get("href"), base), resolve_url(child.get("image"), base))
        for child in islice(element, enclosures.MAX_CHAPTERS)
        if (start := enclosures.parse_offset(child.get("start"))) is not None
        and (title := to_one_line(child.get("title") or "")) is not None
    )


def read_duration(element: etree._Element, context: ReadContext) -> float | None:
    return enclosures.parse_duration(element.text)


def read_number(element: etree._Element, context: ReadContext) -> float | None:
    return enclosures.parse_number(element.text)


def read_episode_kind(element: etree._Element, context: ReadContext) -> str | None:
    kind = (read_text(element) or "").lower()
    return kind if kind in ("full", "trailer", "bonus") else None


def replace_by_original_enclosure(draft: EntryDraft, element: etree._Element, context: ReadContext) -> None:
    """Replace the address by which FeedBurner counts downloads with the original one."""
    address = read_address(element, context)
    if address and draft.enclosures:
        draft.enclosures[-1] = replace(draft.enclosures[-1], url=address)


def set_language(draft: EntryDraft, element: etree._Element, context: ReadContext) -> None:
    draft.language = normalise_language(read_text(element)) or draft.language


_MEDIA_ELEMENTS: dict[str, EntryHandler] = {
    "media:content": add_media_content,
    "media:thumbnail": add_picture,
    "media:peerlink": add_enclosure,
    "media:title": field_handler("title", 8, read_title),
    "media:description": field_handler("summary", 8, read_html),
    "media:player": field_handler("player", 0, read_player_page),
    "media:category": add_category_element,
    "media:keywords": add_keywords,
    "media:group": add_media_group,
}
_STANDARD_MEDIA_TABLE = HandlerTable(STANDARD_NAMES, _MEDIA_ELEMENTS)

# The lower rank wins.
ELEMENTS: dict[str, EntryHandler] = {
    "item": postpone_nested_item,
    "entry": postpone_nested_item,
    "title": field_handler("title", 0, read_title),
    "dc:title": field_handler("title", 3, read_title),
    "itunes:title": field_handler("title", 4, read_title),
    "link": add_link,
    "url": add_link,
    "feedburner:origlink": field_handler("link", 3, read_address),
    "feedburner:origenclosurelink": replace_by_original_enclosure,
    "guid": add_guid,
    "id": field_handler("id", 1, read_identity),
    "dc:identifier": field_handler("id", 6, read_identity),
    "pubdate": field_handler("published", 0, read_date, last=True),
    "published": field_handler("published", 1, read_date, last=True),
    "issued": field_handler("published", 2, read_date, last=True),
    "dcterms:issued": field_handler("published", 3, read_date, last=True),
    "dcterms:available": field_handler("published", 6, read_date, last=True),
    "created": field_handler("published", 7, read_date, last=True),
    "dcterms:created": field_handler("published", 7, read_date, last=True),
    "prism:publicationdate": field_handler("published", 6, read_date, last=True),
    "date": add_dublin_date,
    "dc:date": add_dublin_date,
    "updated": field_handler("updated", 0, read_date, last=True),
    "modified": field_handler("updated", 1, read_date, last=True),
    "dcterms:modified": field_handler("updated", 2, read_date, last=True),
    "lastbuilddate": field_handler("updated", 4, read_date, last=True),
    "description": add_description,
    "summary": add_summary,
    "abstract": field_handler("summary", 2, read_html),
    "dc:description": field_handler("summary", 3, read_html),
    "itunes:summary": field_handler("summary", 5, read_html),
    "googleplay:description": field_handler("summary", 6, read_html),
    "itunes:subtitle": field_handler("summary", 7, read_html),
    "content:encoded": field_handler("content", 0, read_html),
    "content": add_content,
    "xhtml:body": field_handler("content", 3, read_html),
    "body": field_handler("content", 4, read_html),
    "xhtml:div": field_handler("content", 4, read_html),
    "fullitem": field_handler("content", 5, read_html),
    "encoded": field_handler("content", 5, read_html),
    "author": add_author,
    "dc:creator": add_author,
    "dc:author": add_author,
    "creator": add_author,
    "itunes:author": add_secondary_author,
    "googleplay:author": add_secondary_author,
    "dc:publisher": add_secondary_author,
    "source": add_source,
    "category": add_category_element,
    "categories": add_categories,
    "dc:subject": add_category_element,
    "itunes:category": add_category_element,
    "keywords": add_keywords,
    "tags": add_keywords,
    "itunes:keywords": add_keywords,
    "enclosure": add_enclosure,
    "podcast:alternateenclosure": add_alternate_enclosure,
    "podcast:transcript": add_transcript,
    "podcast:chapters": add_chapters,
    "psc:chapters": add_inline_chapters,
    "podcast:episode": field_handler("episode", 1, read_number),
    "podcast:season": field_handler("season", 1, read_number),
    "itunes:episode": field_handler("episode", 0, read_number),
    "itunes:season": field_handler("season", 0, read_number),
    "itunes:duration": field_handler("duration", 0, read_duration),
    "itunes:episodetype": field_handler("kind", 0, read_episode_kind),
    "image": add_item_picture,
    "itunes:image": add_item_picture,
    "googleplay:image": add_item_picture,
    "dc:language": set_language,
    "language": set_language,
    **_MEDIA_ELEMENTS,
}
