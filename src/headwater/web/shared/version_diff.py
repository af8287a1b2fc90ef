"""Compares the versions of an item word by word, for its page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from headwater.model import Item
from headwater.query.items.tokens import strip_markup
from headwater.store.content.items import EarlierVersion

MAX_CHANGES = 5  # the latest changes that are shown
MAX_WORDS = 1_000  # of a text that are compared
SHOWN_AROUND = 8  # equal words that are shown before and after a change


@dataclass(frozen=True, slots=True)
class DiffPart:
    """Words that stayed (`kind` same), were removed (old) or were added (new); gap stands for left-out words."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class VersionChange:
    """The change of an item at a time: the differences of its title and of its text, empty if it has none."""

    at: float
    title: tuple[DiffPart, ...]
    text: tuple[DiffPart, ...]


def list_changes(item: Item, earlier: Sequence[EarlierVersion]) -> tuple[VersionChange, ...]:
    """Return the latest changes of an item, newest first. Versions that look the same are left out."""
    versions = [*(version.item for version in earlier), item]
    found = []
    for version, before, after in zip(earlier, versions, versions[1:], strict=False):
        title = diff_words(before.title or "", after.title or "")
        text = diff_words(_plain_text(before), _plain_text(after))
        if title or text:
            found.append(VersionChange(version.until, title, text))
    return tuple(found[::-1][:MAX_CHANGES])


def _plain_text(item: Item) -> str:
    return strip_markup(item.content or item.summary or "")


def diff_words(before: str, after: str) -> tuple[DiffPart, ...]:
    """Compare two texts word by word. Return nothing for equal ones.

    >>> [(part.kind, part.text) for part in diff_words("Ten people die", "Twelve people die")]
    [('old', 'Ten'), ('new', 'Twelve'), ('same', 'people die')]
    """
    old, new = before.split()[:MAX_WORDS], after.split()[:MAX_WORDS]
    if old == new:
        return ()
    parts: list[DiffPart] = []
    for kind, start, end, new_start, new_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            parts += _shorten(old[start:end], first=not start, last=end == len(old))
            continue
        if end > start:
            parts.append(DiffPart("old", " ".join(old[start:end])))
        if new_end > new_start:
            parts.append(DiffPart("new", " ".join(new[new_start:new_end])))
    return tuple(parts)


def _shorten(words: list[str], *, first: bool, last: bool) -> list[DiffPart]:
    """Return equal words, of which only those beside a change are shown."""
    head = [] if first else words[:SHOWN_AROUND]
    tail = [] if last else words[-SHOWN_AROUND:]
    if len(words) <= 2 * SHOWN_AROUND + 4:
        return [DiffPart("same", " ".join(words))]
    found = [DiffPart("same", " ".join(head)), DiffPart("gap", "…"), DiffPart("same", " ".join(tail))]
    return [part for part in found if part.text]
