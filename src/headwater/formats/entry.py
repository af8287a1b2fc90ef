"""One `item` or `entry` element → Entry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lxml import etree

from headwater.formats import media, people
from headwater.formats.context import Context
from headwater.formats.draft import Draft, Table, take
from headwater.formats.elements import ELEMENTS, permanent
from headwater.formats.links import is_web, resolve
from headwater.formats.names import USUAL, Names
from headwater.formats.text import TITLE_LIMIT, cut
from headwater.model import Entry
from headwater.quick import quick

_RDF_ABOUT: Final = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}about"


@quick
@dataclass(frozen=True, slots=True)
class Inherited:
    """What an item takes from its feed when it says nothing itself: language, and authors (RFC 4287 §4.2.1)."""

    language: str | None = None
    authors: tuple[str, ...] = ()


_USUAL: Final = Table(USUAL, ELEMENTS)


def table_of(names: Names) -> Table:
    return _USUAL if names is USUAL else Table(names, ELEMENTS)


def read_entry(element: etree._Element, context: Context, inherited: Inherited, table: Table) -> Entry:
    """The item an element describes."""
    draft = Draft()
    take(draft, element, table, context)
    about = element.get(_RDF_ABOUT) if context.rdf else None
    if about:
        draft.offer("id", 5, resolve(about, context.base_of(element)) or about.strip() or None)
    get = draft.values.get
    identity = get("id")
    summary, content = get("summary"), get("content")
    if summary is None and context.wanted.summaries:
        summary = content
    updated = get("updated")
    published = get("published")
    authors = draft.authors or draft.further
    spoken, otherwise = draft.language, inherited.language
    if context.has_lang:
        said = _spoken(draft, element, context)
        spoken, otherwise = (None, None) if said == "" else (said or spoken, otherwise)
    return Entry(
        identity if identity is None or len(identity) < 500 else cut(identity, TITLE_LIMIT),
        get("link") or _link_otherwise(draft, about, context),
        get("title"),
        updated if published is None else published,
        updated,
        people.distinct(authors) if authors else inherited.authors,
        summary,
        content,
        people.distinct(draft.categories) if draft.categories else (),
        media.distinct(draft.enclosures + draft.pictures) if draft.enclosures or draft.pictures else (),
        spoken or otherwise,
        draft.source,
    )


def _link_otherwise(draft: Draft, about: str | None, context: Context) -> str | None:
    """The link of an item without one: its guid, its rdf:about, its player, its first file (a picture is rather the
    cover of another one), its id if that is on the web."""
    if draft.guid is not None and (link := permanent(draft.guid, context)) is not None:
        return link
    if is_web(about):
        return about
    if (page := draft.values.get("player")) is not None:
        return str(page)
    if files := [one for one in draft.enclosures if is_web(one.url)]:
        return min(files, key=lambda one: (one.type or "").startswith("image/")).url
    return resolve(draft.values["id"], None) if draft.guid is None and is_web(draft.values.get("id")) else None


def _spoken(draft: Draft, element: etree._Element, context: Context) -> str | None:
    """The language of the content, or of the summary or title where that is all there is; "" unsets it."""
    if draft.languages is not None:
        shown = next((name for name in ("content", "summary", "title") if name in draft.values), "")
        if (said := draft.languages.get(shown)) is not None:
            return said
    return context.language_of(element)
