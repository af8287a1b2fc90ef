"""Turns an item into the features that it is looked up by: one short string per fact.

    iceland                 the word occurs in TITLE, CONTENT, CATEGORY or AUTHOR (which is ITEM)
    t:iceland               the folded word occurs in the title
    t!Iceland               the exact word occurs in the title
    g=world news            a category has this value
    t*volc t^Volc           a word of the title starts with this, folded or exact
    t~(?i)cve-\\d+          the title matches this pattern
    @all @uhttp://… @nblog @tscience @q17    the source of the item; @q names a query feed

Words never contain the marks, so no two facts share a string.
"""

from __future__ import annotations

from dataclasses import dataclass
from sys import intern
from typing import Protocol

from headwater.formats.values.links import normalise_url
from headwater.language.ast import AllSources, FeedAddress, FeedName, Field, TaggedSources
from headwater.query.items.analysed_item import AnalysedItem
from headwater.query.items.origin import Origin
from headwater.query.stories.story_views import StoryFacts, StoryView

ALL_SOURCES = "@all"
FIELD_CODES = {
    Field.ITEM: "i",
    Field.TITLE: "t",
    Field.CONTENT: "c",
    Field.DESCRIPTION: "d",
    Field.AUTHOR: "a",
    Field.CATEGORY: "g",
    Field.LINK: "l",
    Field.LANGUAGE: "n",
    Field.ENCLOSURE: "e",
}
FIELDS_BY_CODE = {code: field for field, code in FIELD_CODES.items()}
ITEM_WORDS = "i:"  # words of ITEM are the most common features and have no prefix


def word_feature(field: Field, text: str, exact: bool = False) -> str:
    if field is Field.ITEM and not exact:
        return text
    return f"{FIELD_CODES[field]}{'!' if exact else ':'}{text}"


def value_feature(field: Field, value: str) -> str:
    return f"{FIELD_CODES[field]}={value}"


def source_feature(of: FeedAddress | FeedName | TaggedSources | AllSources) -> str:
    match of:
        case AllSources():
            return ALL_SOURCES
        case FeedAddress(url):
            return intern(f"@u{normalise_url(url)}")
        case FeedName():
            return intern(f"@n{of.key}")
        case TaggedSources(tag):
            return intern(f"@t{tag.casefold()}")


def find_channel(feature: str) -> str:
    """Return the channel of a feature: its first two characters, which name the field and the kind of fact."""
    return feature[:2] if len(feature) > 1 and feature[1] in ":!=*^~" else ITEM_WORDS


@dataclass(frozen=True, slots=True)
class OriginFeatures:
    """An origin with its features, which all its items share."""

    origin: Origin
    features: tuple[str, ...]


def make_origin_features(origin: Origin) -> OriginFeatures:
    found = [f"@u{normalise_url(origin.url)}"]
    found += (f"@n{name.casefold()}" for name in (origin.name, *origin.aliases) if name is not None)
    found += (f"@t{tag.casefold()}" for tag in origin.tags)
    if origin.registered:
        found.append(ALL_SOURCES)
    return OriginFeatures(origin, tuple(dict.fromkeys(found)))


class StoryLookup(Protocol):
    """Finds the story of an item, as a view counts it."""

    def find_facts(self, view: StoryView) -> StoryFacts | None: ...


class ItemFeatures:
    """An analysed item and its features; `stories` finds its story, if a query asks for stories."""

    __slots__ = ("analysed", "features", "stories")

    def __init__(self, analysed: AnalysedItem, features: set[str]) -> None:
        self.analysed = analysed
        self.features = features
        self.stories: StoryLookup | None = None

    def source_features(self) -> list[str]:
        """Return the features that name the source feed of the item."""
        return [feature for feature in self.features if feature[0] == "@" and feature[1] != "q"]


class FeatureChannels:
    """The kinds of features that queries use. Only these are extracted; an opened channel stays open."""

    def __init__(self) -> None:
        self._open_channels: set[str] = set()
        self._words: list[tuple[str, Field]] = []
        self._exact: list[tuple[str, Field]] = []
        self._wholes: list[tuple[str, Field]] = []

    def open_channel(self, feature: str) -> None:
        head = find_channel(feature)
        if head in self._open_channels or feature[0] == "@":
            return
        self._open_channels.add(head)
        field = FIELDS_BY_CODE[head[0]]
        kinds = {":": self._words, "!": self._exact, "=": self._wholes}
        kinds.get(head[1], []).append((head, field))

    def extract_features(self, analysed: AnalysedItem) -> set[str]:
        found = set(analysed.distinct_words(Field.ITEM)) if ITEM_WORDS in self._open_channels else set()
        for head, field in self._words:
            if head is not ITEM_WORDS:
                found.update([head + text for text in analysed.distinct_words(field)])
        for head, field in self._exact:
            found.update([head + text for text in analysed.exact_words(field).split()])
        for head, field in self._wholes:
            found.update([head + value for value in analysed.comparable_values(field)])
        return found
