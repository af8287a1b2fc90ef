"""An item while its elements are read: the best value of each field so far, and the table of what is looked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lxml import etree

from headwater.formats.memo import Memo
from headwater.formats.parse.context import XML_LANG, ReadContext
from headwater.formats.parse.element_names import MAX_TAGS, ElementNames
from headwater.formats.values.languages import normalise_language
from headwater.model import Enclosure, Source

_FIELDS_WITH_LANGUAGE = frozenset({"title", "summary", "content"})  # fields that may be in a language of their own


class EntryDraft:
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

    def note_language(self, field: str, element: etree._Element) -> None:
        """The xml:lang of an element itself, or of the one `div` in it."""
        said = element.get(XML_LANG)
        if said is None and len(element) == 1:
            said = element[0].get(XML_LANG)
        if said is not None:
            self.languages = {**(self.languages or {}), field: normalise_language(said) or ""}


EntryHandler = Callable[[EntryDraft, etree._Element, ReadContext], None]
"""Adds what an element says to the draft of its item."""

ElementReader = Callable[[etree._Element, ReadContext], str | float | None]
"""What an element says, where that is the value of a field."""


def field_handler(name: str, rank: int, value: ElementReader, *, last: bool = False) -> EntryHandler:
    """An element that gives one field; of equal ones the first holds, or the `last`."""
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
    """Raw tag → what its element says, by its short name."""

    def __init__(self, names: ElementNames, says: Mapping[str, EntryHandler]) -> None:
        super().__init__(lambda tag: says.get(names[tag]), max_size=MAX_TAGS)


def apply_handlers(draft: EntryDraft, parent: etree._Element, table: HandlerTable, context: ReadContext) -> None:
    """Add what the elements within another say."""
    for element in parent:
        handler = table[element.tag]
        if handler is not None:
            handler(draft, element, context)
