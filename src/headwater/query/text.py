"""An item analysed once for all queries: its fields as words, as whole values, as plain text.

Each form of each field is made when first asked for and kept, so that a hundred thousand queries cost one tokenising.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from headwater.formats.urls import normalise
from headwater.language.ast import Field
from headwater.model import Item
from headwater.query.words import SEPARATOR, fold, join, strip, whole

Detect = Callable[[str], str | None]
"""Plain text to a language code ("en"), or None where it cannot be told."""

DETECTED_CHARACTERS = 300  # as much of the text as detection looks at


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an item comes from: the source feed's name in queries (where it has one), address and tags.

    `registered` is False for a feed that is only there because a query gives its address; ALL does not read it.
    """

    name: str | None
    url: str
    tags: tuple[str, ...] = ()
    registered: bool = True
    aliases: tuple[str, ...] = ()

    def called(self, name: str) -> bool:
        """Whether queries know it by this name."""
        key = name.casefold()
        return any(key == known.casefold() for known in (self.name, *self.aliases) if known is not None)

    def tagged(self, tag: str) -> bool:
        key = tag.casefold()
        return any(key == known.casefold() for known in self.tags)

    @property
    def label(self) -> str:
        """What a reader is shown as {source}."""
        return self.name or self.url


class Analysed:
    """An item as predicates see it. `arrived` is when this version of it came to us."""

    def __init__(self, item: Item, origin: Origin, arrived: float | None = None, detect: Detect | None = None) -> None:
        self.item = item
        self.origin = origin
        self.arrived = item.first_seen if arrived is None else arrived
        self._detect = detect
        self._texts: dict[Field, tuple[str, ...]] = {}
        self._joined: dict[Field, str] = {}
        self._exact: dict[Field, str] = {}
        self._wholes: dict[Field, frozenset[str]] = {}
        self._bags: dict[Field, tuple[Mapping[str, int], ...]] = {}

    def rewritten(self, item: Item) -> Analysed:
        """Another version of the item, at the same moment from the same source."""
        return Analysed(item, self.origin, self.arrived, self._detect)

    @property
    def key(self) -> tuple[str, str]:
        """The item's identity: its source and what tells it apart there."""
        return self.source, self.item.identity

    @cached_property
    def source(self) -> str:
        return normalise(self.origin.url)

    def texts(self, field: Field) -> tuple[str, ...]:
        """The values of a text field as a reader sees them, without markup; empty values are missing values."""
        found = self._texts.get(field)
        if found is None:
            found = self._texts[field] = self._read(field)
        return found

    def _read(self, field: Field) -> tuple[str, ...]:
        item = self.item
        values: tuple[str | None, ...]
        match field:
            case Field.ITEM:
                return tuple(text for part in ITEM_FIELDS for text in self.texts(part))
            case Field.TITLE:
                values = (item.title,)
            case Field.CONTENT:
                values = (item.content or item.summary,)
            case Field.DESCRIPTION:
                values = (item.summary or item.content,)
            case Field.AUTHOR:
                values = item.authors
            case Field.CATEGORY:
                values = item.categories
            case Field.LINK:
                return (item.link.strip(),) if item.link and item.link.strip() else ()
            case Field.LANGUAGE:
                return self._language()
            case Field.ENCLOSURE:
                return tuple(text for file in item.enclosures for text in (file.url, file.type) if text)
            case _:
                return ()
        return tuple(text for value in values if value and (text := _plain(value)))

    def _language(self) -> tuple[str, ...]:
        if self.item.language and self.item.language.strip():
            return (self.item.language.strip(),)
        if self._detect is None:
            return ()
        sample = " ".join((*self.texts(Field.TITLE), *self.texts(Field.CONTENT)))[:DETECTED_CHARACTERS]
        found = self._detect(" ".join(sample.split())) if sample else None
        return (found,) if found else ()

    def joined(self, field: Field) -> str:
        """The folded words of the field in one string (see `words.join`), its values held apart."""
        found = self._joined.get(field)
        if found is None:
            if field is Field.ITEM:
                parts = [self.joined(part) for part in ITEM_FIELDS]
            else:
                parts = [join(fold(text)) for text in self.texts(field)]
            found = self._joined[field] = SEPARATOR.join(filter(None, parts))
        return found

    def exact(self, field: Field) -> str:
        """As `joined`, with every letter as it stands."""
        found = self._exact.get(field)
        if found is None:
            found = self._exact[field] = SEPARATOR.join(filter(None, map(join, self.texts(field))))
        return found

    def terms(self, field: Field) -> set[str]:
        """The different folded words of the field."""
        return set(self.joined(field).split())

    def wholes(self, field: Field) -> frozenset[str]:
        """The values as `=` compares them: folded; addresses normalised; a language with all its prefixes."""
        found = self._wholes.get(field)
        if found is None:
            found = self._wholes[field] = frozenset(self._whole(field))
        return found

    def _whole(self, field: Field) -> set[str]:
        values = self.texts(field)
        if field is Field.LINK:
            return {normalise(value) for value in values}
        if field is Field.ENCLOSURE:
            return {normalise(value) if "://" in value else whole(value) for value in values}
        if field is Field.LANGUAGE:
            return {prefix for value in values for prefix in language_prefixes(value)}
        return {whole(value) for value in values}

    def bags(self, field: Field) -> tuple[Mapping[str, int], ...]:
        """How often each folded word stands in each value of the field."""
        found = self._bags.get(field)
        if found is None:
            counted = (Counter(value.split()) for value in self.joined(field).split(SEPARATOR))
            found = self._bags[field] = tuple(bag for bag in counted if bag)
        return found

    @property
    def size(self) -> int:
        """Characters of the content a reader sees; 0 without content."""
        return sum(map(len, self.texts(Field.CONTENT)))

    def date(self, field: Field) -> float | None:
        """PUBLISHED is always there; UPDATED is the publisher's word, else the arrival of a later version."""
        if field is Field.PUBLISHED:
            return self.item.published
        if self.item.updated is None and self.item.version > 1:
            return self.arrived
        return self.item.updated

    def has(self, field: Field) -> bool:
        """Whether the publisher gave the field. A date we had to fill in ourselves is not there."""
        match field:
            case Field.PUBLISHED:
                return self.item.dated
            case Field.UPDATED:
                return self.date(field) is not None
            case Field.SIZE:
                return self.size > 0
            case Field.SOURCE | Field.ARRIVAL:
                return True
            case _:
                return bool(self.texts(field))


def _plain(value: str) -> str:
    """The value as a reader sees it. White space between tags is no space of the text."""
    return " ".join(strip(value).split()) if "<" in value else strip(value).strip()


ITEM_FIELDS = (Field.TITLE, Field.CONTENT, Field.CATEGORY, Field.AUTHOR)
"""What ITEM stands for."""


def language_prefixes(tag: str) -> list[str]:
    """
    >>> language_prefixes("zh_Hant-TW")
    ['zh', 'zh-hant', 'zh-hant-tw']
    """
    subtags = whole(tag).replace("_", "-").split("-")
    return ["-".join(subtags[:count]) for count in range(1, len(subtags) + 1)]


def compared(field: Field, value: str) -> str:
    """The value of a query in the form in which `Analysed.wholes` holds those of items."""
    if field is Field.LINK or (field is Field.ENCLOSURE and "://" in value):
        return normalise(value)
    if field is Field.LANGUAGE:
        return whole(value).replace("_", "-")
    return whole(value)
