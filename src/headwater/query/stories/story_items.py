"""Defines an item as it is grouped, its placement in a story, and its story as conditions see it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

ItemId = int | str


@dataclass(frozen=True, slots=True)
class StoryItem:
    """An item as stories see it; `publisher` is the source unless an aggregator names another.

    A `late` item was published long before it arrived: it may join a story, but it begins none.
    """

    id: ItemId
    source: str
    publisher: str
    title: str | None
    arrived: float
    link: str | None = None
    late: bool = False


@dataclass(frozen=True, slots=True)
class Placement:
    """The story of an item and why: the item it `joined`, the score, and the shared words, heaviest first.

    An item that begins a story has none of these. If it resembles a story that has ended, it `continues` that one. Only
    a late item that resembles nothing has no story. `stems` are the compared stems of the title, sorted.
    """

    story: ItemId | None
    joined: ItemId | None = None
    score: float | None = None
    shared: tuple[str, ...] = ()
    continues: ItemId | None = None
    stems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ItemStory:
    """The story of an item as conditions see it.

    `words` are the compared stems of its title: two publishers with equal words count as one source. A `late` item was
    published two days before it arrived.
    """

    story: ItemId
    publisher: str
    words: str
    late: bool = False


def join_stems(stems: Iterable[str]) -> str:
    """Return the one form of equal words."""
    return " ".join(sorted(set(stems)))
