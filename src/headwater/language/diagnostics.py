"""Collects error messages with position, hint, and the line with a caret."""

from __future__ import annotations

import difflib
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from headwater.errors import QueryError
from headwater.language.ast import Position

MAX_MESSAGES = 50  # messages per script; more do not help
QUOTED_CHARACTERS = 40  # characters of the script that a message quotes
SHOWN_CHARACTERS = 100  # characters of a long line around the position


@dataclass(frozen=True, slots=True, order=True)
class Message:
    """One message. `note` adds information beyond the hint; `source` is the line of the script."""

    line: int
    column: int
    text: str
    hint: str | None = None
    note: str | None = None
    source: str = ""
    warning: bool = False

    def __str__(self) -> str:
        return f"{self.line}:{self.column}: {'warning: ' if self.warning else ''}{self.text}"

    def render(self) -> str:
        """Return the message with its line, a caret under the position, hint and note.

        >>> print(Message(2, 7, "unknown variable $x", "declare it", source="WHERE $x[HAS LINK]").render())
        2:7: unknown variable $x
          WHERE $x[HAS LINK]
                ^
          hint: declare it
        """
        lines = [str(self)]
        if self.source.strip():
            lines += _draw_caret(self.source, self.column)
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        if self.note:
            lines.append(f"  note: {self.note}")
        return "\n".join(lines)


def _draw_caret(source: str, column: int) -> list[str]:
    start = 0 if column <= SHOWN_CHARACTERS - 20 else column - SHOWN_CHARACTERS // 2
    shown = replace_unprintable(source[start : start + SHOWN_CHARACTERS])
    before, after = ("…" if start else ""), ("…" if len(source) > start + SHOWN_CHARACTERS else "")
    pad = "".join("\t" if c == "\t" else " " * _count_columns(c) for c in before + shown[: column - 1 - start])
    return [f"  {before}{shown.rstrip()}{after}", f"  {pad}^"]


def _count_columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def replace_unprintable(text: str) -> str:
    """Replace control characters, which a terminal would interpret."""
    return "".join(c if c.isprintable() or c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in text)


def quote_input(text: str) -> str:
    """Quote a piece of the script for a message.

    >>> quote_input("x" * 50)
    '“xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…”'
    """
    shown = replace_unprintable(text[:QUOTED_CHARACTERS])
    return f"“{shown if len(text) <= QUOTED_CHARACTERS else shown[:-1] + '…'}”"


def find_nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word with the most similar spelling, if any.

    >>> find_nearest("titel", ["TITLE", "LINK"])
    'TITLE'
    """
    by_fold = {name.casefold(): name for name in known}
    found = difflib.get_close_matches(word[:60].casefold(), by_fold, n=1, cutoff=0.65)
    return by_fold[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str], otherwise: str | None = None) -> str | None:
    found = find_nearest(word, known)
    return f"did you mean {found}?" if found else otherwise


class Diagnostics:
    """Collects the messages about one text. Only the first error at a position is kept; others follow from it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._line_starts = [0]
        at = text.find("\n")
        while at >= 0:
            self._line_starts.append(at + 1)
            at = text.find("\n", at + 1)
        self._errors: dict[tuple[int, int], Message] = {}
        self._warnings: dict[tuple[int, int], Message] = {}

    def position_at(self, offset: int) -> Position:
        if len(self._line_starts) == 1:  # most queries are one line
            return Position(1, offset + 1)
        line = bisect_right(self._line_starts, offset)
        return Position(line, offset - self._line_starts[line - 1] + 1)

    def line_text(self, number: int) -> str:
        """Return the text of a line; lines start at 1."""
        if not 1 <= number <= len(self._line_starts):
            return ""
        start = self._line_starts[number - 1]
        end = self._text.find("\n", start)
        return self._text[start : len(self._text) if end < 0 else end].rstrip("\r")

    def add_error(self, at: Position, text: str, hint: str | None = None, note: str | None = None) -> None:
        if len(self._errors) < MAX_MESSAGES:
            self._errors.setdefault(at, Message(*at, text, hint, note, self.line_text(at.line)))

    def add_warning(self, at: Position, text: str, hint: str | None = None) -> None:
        self._warnings.setdefault(at, Message(*at, text, hint, None, self.line_text(at.line), warning=True))

    @property
    def error_count(self) -> int:
        return len(self._errors)

    @property
    def is_full(self) -> bool:
        """Whether the limit of messages is reached."""
        return len(self._errors) >= MAX_MESSAGES

    @property
    def warnings(self) -> tuple[Message, ...]:
        return tuple(sorted(self._warnings.values()))

    def raise_errors(self) -> None:
        """Raise QueryError with all errors, if there are any."""
        if self._errors:
            messages = tuple(sorted(self._errors.values(), key=lambda message: (message.line, message.column)))
            raise QueryError("\n".join(message.render() for message in messages), messages)
