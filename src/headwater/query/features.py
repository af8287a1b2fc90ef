"""What an item is looked up by: one short string for every fact that an index key can state.

    iceland                 the word stands in TITLE, CONTENT, CATEGORY or AUTHOR, which is what ITEM means
    t:iceland               the folded word stands in the title
    t!Iceland               the word stands there, letter for letter
    g=world news            a category is, as a whole, this
    t*volc t^Volc           a word of the title starts with this, folded or letter for letter
    t~(?i)cve-\\d+          the title matches this pattern
    @all @uhttp://… @nblog @tscience @q17    where the item comes from; @q is the query feed of that number

A word never holds any of the marks, so that no two facts share a string.
"""

from __future__ import annotations

from dataclasses import dataclass
from sys import intern

from headwater.formats.urls import normalise
from headwater.language.ast import Address, AllSources, Field, Name, Tag
from headwater.query.text import Analysed, Origin

EVERYTHING = "@all"
CODES = {
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
FIELDS = {code: field for field, code in CODES.items()}
PLAIN = "i:"  # words of ITEM, the commonest, go without their head


def word(field: Field, text: str, exact: bool = False) -> str:
    if field is Field.ITEM and not exact:
        return text
    return f"{CODES[field]}{'!' if exact else ':'}{text}"


def whole(field: Field, value: str) -> str:
    return f"{CODES[field]}={value}"


def source(of: Address | Name | Tag | AllSources) -> str:
    match of:
        case AllSources():
            return EVERYTHING
        case Address(url):
            return intern(f"@u{normalise(url)}")
        case Name():
            return intern(f"@n{of.key}")
        case Tag(tag):
            return intern(f"@t{tag.casefold()}")


def channel(feature: str) -> str:
    """The first two characters tell how an item comes to have the feature."""
    return feature[:2] if len(feature) > 1 and feature[1] in ":!=*^~" else PLAIN


@dataclass(frozen=True, slots=True)
class Place:
    """An origin with its features, which are the same for all its items."""

    origin: Origin
    features: tuple[str, ...]


def place(origin: Origin) -> Place:
    found = [f"@u{normalise(origin.url)}"]
    found += (f"@n{name.casefold()}" for name in (origin.name, *origin.aliases) if name is not None)
    found += (f"@t{tag.casefold()}" for tag in origin.tags)
    if origin.registered:
        found.append(EVERYTHING)
    return Place(origin, tuple(dict.fromkeys(found)))


class View:
    """An analysed item and its features."""

    __slots__ = ("features", "seen")

    def __init__(self, seen: Analysed, features: set[str]) -> None:
        self.seen = seen
        self.features = features

    def sources(self) -> list[str]:
        """The features that say from which source feed the item comes."""
        return [feature for feature in self.features if feature[0] == "@" and feature[1] != "q"]


class Channels:
    """The kinds of facts that some query asks for; only these are made of an item. Once asked for, always made."""

    def __init__(self) -> None:
        self._active: set[str] = set()
        self._words: list[tuple[str, Field]] = []
        self._exact: list[tuple[str, Field]] = []
        self._wholes: list[tuple[str, Field]] = []

    def open(self, feature: str) -> None:
        head = channel(feature)
        if head in self._active or feature[0] == "@":
            return
        self._active.add(head)
        field = FIELDS[head[0]]
        kinds = {":": self._words, "!": self._exact, "=": self._wholes}
        kinds.get(head[1], []).append((head, field))

    def features(self, seen: Analysed) -> set[str]:
        found = set(seen.joined(Field.ITEM).split()) if PLAIN in self._active else set()
        for head, field in self._words:
            if head is not PLAIN:
                found.update([head + text for text in seen.joined(field).split()])
        for head, field in self._exact:
            found.update([head + text for text in seen.exact(field).split()])
        for head, field in self._wholes:
            found.update([head + value for value in seen.wholes(field)])
        return found
