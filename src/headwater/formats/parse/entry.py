"""Reads one item: collects the candidates for each field and keeps the best."""

from __future__ import annotations

import msgspec
from lxml import etree

from headwater.formats.parse.context import ReadContext
from headwater.formats.parse.element_names import STANDARD_NAMES, ElementNames
from headwater.formats.parse.elements import ELEMENTS, find_permalink
from headwater.formats.parse.entry_draft import EntryDraft, HandlerTable, apply_handlers
from headwater.formats.values import enclosures, people
from headwater.formats.values.html import find_first_picture
from headwater.formats.values.links import is_web_url, resolve_url
from headwater.formats.values.text import TITLE_LIMIT, truncate_utf8
from headwater.model import Entry, Episode, Person

_RDF_ABOUT = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}about"


class FeedDefaults(msgspec.Struct, frozen=True):
    """Language and authors of the feed, for items without their own (RFC 4287 §4.2.1)."""

    language: str | None = None
    authors: tuple[Person, ...] = ()


_EPISODE_FIELDS = frozenset({"duration", "episode", "season", "kind"})
_STANDARD_TABLE = HandlerTable(STANDARD_NAMES, ELEMENTS)


def get_handler_table(names: ElementNames) -> HandlerTable:
    return _STANDARD_TABLE if names is STANDARD_NAMES else HandlerTable(names, ELEMENTS)


def read_entry(element: etree._Element, context: ReadContext, inherited: FeedDefaults, table: HandlerTable) -> Entry:
    """Read the item of an element."""
    draft = EntryDraft()
    apply_handlers(draft, element, table, context)
    about = element.get(_RDF_ABOUT) if context.rdf else None
    if about:
        draft.offer("id", 5, resolve_url(about, context.find_base(element)) or about.strip() or None)
    get = draft.values.get
    identity = get("id")
    summary, content = get("summary"), get("content")
    if summary is None and context.options.summaries:
        summary = content
    updated = get("updated")
    published = get("published")
    authors, persons = people.summarise_people(draft.authors or draft.further or inherited.authors)
    files = enclosures.merge_enclosures(draft.enclosures + draft.pictures) if draft.enclosures or draft.pictures else ()
    picture = draft.pictures[0].url if draft.pictures else enclosures.find_picture(files)
    if picture is None and (picture := find_first_picture(content or summary)) is not None:
        files = enclosures.type_picture(files, picture)
    spoken, otherwise = draft.language, inherited.language
    if context.has_lang:
        own_language = _find_entry_language(draft, element, context)
        spoken, otherwise = (None, None) if own_language == "" else (own_language or spoken, otherwise)
    return Entry(
        identity if identity is None or len(identity) < 500 else truncate_utf8(identity, TITLE_LIMIT),
        get("link") or _find_fallback_link(draft, about, context),
        get("title"),
        updated if published is None else published,
        updated,
        authors,
        summary,
        content,
        people.drop_duplicates(draft.categories) if draft.categories else (),
        files,
        spoken or otherwise,
        draft.source,
        picture,
        persons,
        _read_episode(draft),
    )


def _read_episode(draft: EntryDraft) -> Episode | None:
    given = draft.chapters or draft.transcripts or draft.inline_chapters
    if not given and _EPISODE_FIELDS.isdisjoint(draft.values):
        return None
    get = draft.values.get
    return Episode(
        get("duration"),
        get("episode"),
        get("season"),
        get("kind"),
        draft.chapters,
        tuple(draft.transcripts or ()),
        draft.inline_chapters,
    )


def _find_fallback_link(draft: EntryDraft, about: str | None, context: ReadContext) -> str | None:
    """Return a link for an item without one: its guid, rdf:about, player, first file that is not a picture, or id."""
    if draft.guid is not None and (link := find_permalink(draft.guid, context)) is not None:
        return link
    if is_web_url(about):
        return about
    if (page := draft.values.get("player")) is not None:
        return str(page)
    if files := [one for one in draft.enclosures if is_web_url(one.url)]:
        return min(files, key=lambda one: (one.type or "").startswith("image/")).url
    return resolve_url(draft.values["id"], None) if draft.guid is None and is_web_url(draft.values.get("id")) else None


def _find_entry_language(draft: EntryDraft, element: etree._Element, context: ReadContext) -> str | None:
    """Return the language of the content, else of the summary, else of the title; "" unsets it."""
    if draft.languages is not None:
        shown = next((name for name in ("content", "summary", "title") if name in draft.values), "")
        if (own_language := draft.languages.get(shown)) is not None:
            return own_language
    return context.find_language(element)
