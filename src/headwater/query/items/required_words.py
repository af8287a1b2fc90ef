"""Holds the words that an item must have to match: what a full-text index can look up.

These values stand apart from `index.narrowing`, which finds them in a query: the store reads them without the language.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Words:
    """Consecutive words that an item, or its title, must have; of the last only the start if `prefix`."""

    words: tuple[str, ...]
    prefix: bool = False
    title: bool = False


@dataclass(frozen=True, slots=True)
class AllWords:
    """An item must have each of the parts."""

    parts: tuple[Narrowing, ...]


@dataclass(frozen=True, slots=True)
class AnyWords:
    """An item must have at least one of the parts."""

    parts: tuple[Narrowing, ...]


Narrowing: TypeAlias = Words | AllWords | AnyWords
