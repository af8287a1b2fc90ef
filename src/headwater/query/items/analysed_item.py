"""Holds an item's fields as words, whole values and plain text, computed on demand.

Each form of a field is computed once, so a hundred thousand queries tokenise an item once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property

from headwater.formats.values.links import normalise_url
from headwater.formats.write.hidden_addresses import hide_fetch_address
from headwater.language.ast import Field
from headwater.model import Item
from headwater.query.items.origin import Origin
from headwater.query.items.related_item import Related
from headwater.query.items.tokens import SEPARATOR, fold_value, join_words, join_words_and_symbols, strip_markup

LanguageDetector = Callable[[str], str | None]
"""Maps plain text to a language code ("en"), or to None if it is unclear."""

DETECTION_CHARACTERS = 300  # the part of the text used for detection


class AnalysedItem:
    """An item as conditions see it. `arrived` is the arrival of this version, `previous` the version before it.

    Conditions and templates read what others than the subscribers of its feed may read (`told`); otherwise the query
    of a stranger could find out a secret address letter by letter.
    """

    def __init__(
        self,
        item: Item,
        origin: Origin,
        arrived: float | None = None,
        detect: LanguageDetector | None = None,
        previous: AnalysedItem | None = None,
    ) -> None:
        self.item = item
        self.origin = origin
        self.arrived = item.first_seen if arrived is None else arrived
        self._detect = detect
        self._previous = previous
        self._field_texts: dict[Field, tuple[str, ...]] = {}
        self._joined_words: dict[Field, str] = {}
        self._distinct_words: dict[Field, frozenset[str]] = {}
        self._exact_words: dict[Field, str] = {}
        self._comparable_values: dict[Field, frozenset[str]] = {}
        self._word_bags: dict[Field, tuple[Mapping[str, int], ...]] = {}

    def with_item(self, item: Item) -> AnalysedItem:
        """Return another version of the item with the same origin and arrival."""
        return AnalysedItem(item, self.origin, self.arrived, self._detect, self._previous)

    def has_changed(self, field: Field) -> bool:
        """Return whether the field differs from that of the version before. The first version has not changed."""
        before = self._previous
        return before is not None and _collapse(self.field_texts(field)) != _collapse(before.field_texts(field))

    def changed_share(self, field: Field) -> float:
        """Return the share of the field's words that were added or removed since the version before, in percent.

        It is 0 for equal words in another order, and 100 if no word stayed.
        """
        if self._previous is None:
            return 0.0
        before, after = (Counter(one.joined_words(field).split()) for one in (self._previous, self))
        changed = (before - after).total() + (after - before).total()
        return 100.0 * changed / ((before + after).total() or 1)

    @cached_property
    def told(self) -> Item:
        """The item without the address of its feed, if that may hold a secret."""
        return hide_fetch_address(self.item, self.origin.url, self.origin.link)

    @property
    def key(self) -> tuple[str, str]:
        """The key of the item: its source and its identity there."""
        return self.source, self.item.identity

    @cached_property
    def related(self) -> Related:
        """The item as a link to it needs it."""
        item = self.item
        return Related(self.source, item.identity, item.id, item.title, item.link, item.first_seen)

    @cached_property
    def source(self) -> str:
        return normalise_url(self.origin.url)

    def field_texts(self, field: Field) -> tuple[str, ...]:
        """Return the values of a text field as plain text. Empty values count as missing."""
        found = self._field_texts.get(field)
        if found is None:
            found = self._field_texts[field] = self._read_texts(field)
        return found

    def _read_texts(self, field: Field) -> tuple[str, ...]:
        item = self.told
        values: tuple[str | None, ...]
        match field:
            case Field.ITEM:
                return tuple(text for part in ITEM_FIELDS for text in self.field_texts(part))
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
                return self._find_language()
            case Field.ENCLOSURE:
                return tuple(text for file in item.enclosures for text in (file.url, file.type) if text)
            case _:
                return ()
        return tuple(text for value in values if value and (text := _clean_text(value)))

    def _find_language(self) -> tuple[str, ...]:
        if self.item.language and self.item.language.strip():
            return (self.item.language.strip(),)
        if self._detect is None:
            return ()
        sample = " ".join((*self.field_texts(Field.TITLE), *self.field_texts(Field.CONTENT)))[:DETECTION_CHARACTERS]
        found = self._detect(" ".join(sample.split())) if sample else None
        return (found,) if found else ()

    def joined_words(self, field: Field) -> str:
        """Return the folded words of the field as one string (see `join_words`), with a separator between values."""
        found = self._joined_words.get(field)
        if found is None:
            if field is Field.ITEM:
                parts = [self.joined_words(part) for part in ITEM_FIELDS]
            else:
                parts = [join_words(text) for text in self.field_texts(field)]
            found = self._joined_words[field] = SEPARATOR.join(filter(None, parts))
        return found

    def exact_words(self, field: Field) -> str:
        """Return the words of the field as `joined_words` does, but not folded."""
        found = self._exact_words.get(field)
        if found is None:
            parts = [join_words(text, exact=True) for text in self.field_texts(field)]
            found = self._exact_words[field] = SEPARATOR.join(filter(None, parts))
        return found

    def words_and_symbols(self, field: Field, exact: bool) -> str:
        """Return the words of the field with the symbols that touch them. Few items are asked, so it is not kept."""
        return SEPARATOR.join([join_words_and_symbols(text, exact) for text in self.field_texts(field)])

    def distinct_words(self, field: Field) -> frozenset[str]:
        """Return the folded words of the field, each once."""
        found = self._distinct_words.get(field)
        if found is None:
            found = self._distinct_words[field] = frozenset(self.joined_words(field).split())
        return found

    def comparable_values(self, field: Field) -> frozenset[str]:
        """Return the values as `=` compares them: folded, addresses normalised, languages with all their prefixes."""
        found = self._comparable_values.get(field)
        if found is None:
            found = self._comparable_values[field] = frozenset(self._list_comparable_values(field))
        return found

    def _list_comparable_values(self, field: Field) -> set[str]:
        values = self.field_texts(field)
        if field is Field.LINK:
            return {normalise_url(value) for value in values}
        if field is Field.ENCLOSURE:
            return {normalise_url(value) if "://" in value else fold_value(value) for value in values}
        if field is Field.LANGUAGE:
            return {prefix for value in values for prefix in list_language_prefixes(value)}
        return {fold_value(value) for value in values}

    def word_bags(self, field: Field) -> tuple[Mapping[str, int], ...]:
        """Count the folded words in each value of the field."""
        found = self._word_bags.get(field)
        if found is None:
            counted = (Counter(value.split()) for value in self.joined_words(field).split(SEPARATOR))
            found = self._word_bags[field] = tuple(bag for bag in counted if bag)
        return found

    @cached_property
    def whole_bag(self) -> tuple[Mapping[str, int], ...]:
        """The folded words of ITEM, counted as one text; nothing without words."""
        words = self.joined_words(Field.ITEM).split()
        return (Counter(words),) if words else ()

    @cached_property
    def size(self) -> int:
        """The number of characters of the content without markup; 0 without content."""
        return sum(map(len, self.field_texts(Field.CONTENT)))

    def field_date(self, field: Field) -> float | None:
        """Return PUBLISHED, or UPDATED: the publisher's date or else the arrival of a later version."""
        if field is Field.PUBLISHED:
            return self.item.published
        if self.item.updated is None and self.item.version > 1:
            return self.arrived
        return self.item.updated

    def has_field(self, field: Field) -> bool:
        """Return whether the publisher provides the field. A date set by Headwater does not count."""
        match field:
            case Field.PUBLISHED:
                return self.item.dated
            case Field.UPDATED:
                return self.field_date(field) is not None
            case Field.SIZE:
                return self.size > 0
            case Field.SOURCE | Field.ARRIVAL:
                return True
            case _:
                return bool(self.field_texts(field))


def _collapse(texts: tuple[str, ...]) -> list[str]:
    return [" ".join(text.split()) for text in texts]


def _clean_text(value: str) -> str:
    """Strip markup and collapse the white space between tags."""
    return " ".join(strip_markup(value).split()) if "<" in value else strip_markup(value).strip()


ITEM_FIELDS = (Field.TITLE, Field.CONTENT, Field.CATEGORY, Field.AUTHOR)
"""The fields that ITEM comprises."""


def list_language_prefixes(tag: str) -> list[str]:
    """List a language tag and everything it begins with, in lower case.

    >>> list_language_prefixes("zh_Hant-TW")
    ['zh', 'zh-hant', 'zh-hant-tw']
    """
    subtags = fold_value(tag).replace("_", "-").split("-")
    return ["-".join(subtags[:count]) for count in range(1, len(subtags) + 1)]


def to_comparable(field: Field, value: str) -> str:
    """Convert a value of a query to the form of `AnalysedItem.comparable_values`."""
    if field is Field.LINK or (field is Field.ENCLOSURE and "://" in value):
        return normalise_url(value)
    if field is Field.LANGUAGE:
        return fold_value(value).replace("_", "-")
    return fold_value(value)
