"""Holds an item while its elements are read, and the table of handlers by element."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lxml import etree

from headwater.formats.memo import Memo
from headwater.formats.parse.context import XML_LANG, ReadContext
from headwater.formats.parse.element_names import MAX_TAGS, ElementNames
from headwater.formats.values.languages import normalise_language
from headwater.model import Chapter, Enclosure, Person, Source

_FIELDS_WITH_LANGUAGE = frozenset({"title", "summary", "content"})  # fields that may have their own language


class EntryDraft:
    """The best value of each field so far, and its rank (0 is best)."""

    __slots__ = (
        "authors", "categories", "chapters", "enclosures", "further", "guid", "inline_chapters", "language",
        "languages", "pictures", "ranks", "source", "transcripts", "values",
    )  # fmt: skip

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.ranks: dict[str, int] = {}
        self.authors: list[Person] = []
        self.further: list[Person] = []
        self.categories: list[str] = []
        self.enclosures: list[Enclosure] = []
        self.pictures: list[Enclosure] = []
        self.chapters: Enclosure | None = None
        self.transcripts: list[Enclosure] | None = None
        self.inline_chapters: tuple[Chapter, ...] = ()
        self.language: str | None = None
        self.languages: dict[str, str] | None = None
        self.guid: etree._Element | None = None
        self.source: Source | None = None

    def offer(self, field: str, rank: int, value: str | float | None) -> None:
        if value is not None and rank < self.ranks.get(field, 99):
            self.ranks[field] = rank
            self.values[field] = value

    def note_language(self, field: str, element: etree._Element) -> None:
        """Note the xml:lang of an element, or of the `div` that is its only child."""
        tag = element.get(XML_LANG)
        if tag is None and len(element) == 1:
            tag = element[0].get(XML_LANG)
        if tag is not None:
            self.languages = {**(self.languages or {}), field: normalise_language(tag) or ""}


EntryHandler = Callable[[EntryDraft, etree._Element, ReadContext], None]
"""Adds the values of an element to the draft of its item."""

ElementReader = Callable[[etree._Element, ReadContext], str | float | None]
"""Reads the value of a field from an element."""


def field_handler(name: str, rank: int, value: ElementReader, *, last: bool = False) -> EntryHandler:
    """Return a handler for elements that set one field. Of equal ranks the first element wins, or the `last`."""
    beats = rank - 0.5 if last else rank  # ranks above this
    may_speak = name in _FIELDS_WITH_LANGUAGE

    def handle(draft: EntryDraft, element: etree._Element, context: ReadContext) -> None:
        if beats < draft.ranks.get(name, 99):
            found = value(element, context)
            if found is not None:
                draft.ranks[name] = rank
                draft.values[name] = found
            if may_speak and context.has_lang:
                draft.note_language(name, element)

    return handle


class HandlerTable(Memo[object, EntryHandler | None]):
    """Maps raw tags to the handlers of their elements."""

    def __init__(self, names: ElementNames, handlers: Mapping[str, EntryHandler]) -> None:
        super().__init__(lambda tag: handlers.get(names[tag]), max_size=MAX_TAGS)


def apply_handlers(draft: EntryDraft, parent: etree._Element, table: HandlerTable, context: ReadContext) -> None:
    """Add the values of all children of an element to the draft."""
    for element in parent:
        handler = table[element.tag]
        if handler is not None:
            handler(draft, element, context)
