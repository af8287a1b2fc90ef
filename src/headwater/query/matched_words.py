"""Marks the words that a query searches, for previews and for "why am I seeing this?".

Words under NOT do not count. Patterns and similarity have no words of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from headwater.language.ast import And, Condition, Contains, Equals, Near, Not, Or, Query, Scoped
from headwater.language.normal_form import list_sources
from headwater.query.items.tokens import find_word_spans, fold_text, split_words


class TextPiece(NamedTuple):
    """A piece of a text, and whether it matches a searched word."""

    text: str
    found: bool


class SearchedWords(NamedTuple):
    """Consecutive words; `prefix` says that the last one is the start of a word."""

    words: tuple[str, ...]
    prefix: bool


def list_searched_words(query: Query) -> tuple[SearchedWords, ...]:
    """List the words that the conditions of a query search, without duplicates.

    >>> from headwater.language import parse
    >>> text = 'CREATE FEED a AS RETURN ALL WHERE TITLE CONTAINS "Ash cloud" OR "volcan*" AND NOT ITEM CONTAINS "art"'
    >>> [(" ".join(needle.words), needle.prefix) for needle in list_searched_words(parse(text).queries[0].query)]
    [('ash cloud', False), ('volcan', True)]
    """
    found: dict[SearchedWords, None] = {}
    for query_source in list_sources(query):
        for text in _list_searched_texts(query_source.condition):
            cut = tuple(split_words(text))
            if cut:
                found[SearchedWords(cut, text.rstrip().endswith("*"))] = None
    return tuple(found)


def _list_searched_texts(condition: Condition) -> Iterator[str]:
    match condition:
        case And(parts=parts) | Or(parts=parts):
            for part in parts:
                yield from _list_searched_texts(part)
        case Scoped(part=part):
            yield from _list_searched_texts(part)
        case Contains(values=values):
            yield from values
        case Equals(values=values, negated=False):
            yield from values
        case Near(left=left, right=right):
            yield left
            yield right
        case Not():
            return
        case _:
            return


def mark_words(text: str, wanted: Iterable[SearchedWords]) -> tuple[TextPiece, ...]:
    """Split plain text into pieces and mark the searched words.

    >>> wanted = SearchedWords(("ash", "cloud"), False)
    >>> [piece.text for piece in mark_words("Ash Cloud over Etna", [wanted]) if piece.found]
    ['Ash Cloud']
    """
    places = find_word_spans(text)
    folded = [fold_text(text[start:end]) for start, end in places]
    spans = sorted(span for needle in wanted for span in _find_spans(folded, places, needle))
    pieces, at = [], 0
    for start, end in spans:
        if start < at:
            continue
        if start > at:
            pieces.append(TextPiece(text[at:start], False))
        pieces.append(TextPiece(text[start:end], True))
        at = end
    if at < len(text):
        pieces.append(TextPiece(text[at:], False))
    return tuple(pieces)


def find_present_words(texts: Iterable[str], wanted: Iterable[SearchedWords]) -> tuple[str, ...]:
    """Return the searched words that occur in one of the texts, as they were written."""
    cut = [split_words(text) for text in texts]
    found = []
    for needle in wanted:
        places = [(0, 0)] * max(map(len, cut), default=0)
        if any(_find_spans(one, places, needle) for one in cut):
            found.append(" ".join(needle.words) + ("*" if needle.prefix else ""))
    return tuple(found)


def _find_spans(
    folded: Sequence[str], places: Sequence[tuple[int, int]], needle: SearchedWords
) -> list[tuple[int, int]]:
    wanted, many = needle.words, len(needle.words)
    found = []
    for start in range(len(folded) - many + 1):
        last = folded[start + many - 1]
        fits = last.startswith(wanted[-1]) if needle.prefix else last == wanted[-1]
        if fits and all(folded[start + k] == wanted[k] for k in range(many - 1)):
            found.append((places[start][0], places[start + many - 1][1]))
    return found
