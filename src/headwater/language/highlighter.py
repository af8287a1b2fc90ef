"""Classifies the characters of a script for an editor: keywords, fields, strings and so on."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from headwater.language.ast import Field, Weekday
from headwater.language.diagnostics import Diagnostics
from headwater.language.parsing.lexer import KEYWORDS, Token, TokenKind, tokenize_script

_TOKEN_SPAN_KINDS = {
    TokenKind.VAR: "variable",
    TokenKind.STRING: "string",
    TokenKind.REGEX: "regex",
    TokenKind.NUMBER: "number",
    TokenKind.SIGN: "operator",
    TokenKind.JUNK: "error",
    TokenKind.COMMENT: "comment",
}
_PHRASES = (
    *(("STORY", "SOURCES"), ("STORY", "ITEMS"), ("STORY", "GROWING")),
    *(("FIRST", "OF", "STORY"), ("EACH", "STORY")),
)
_WEEKDAYS = frozenset(map(str, Weekday))
_CONNECTIVES = frozenset({"AND", "OR", "NOT"})
_FIELDS = frozenset(map(str, Field))
SPAN_KINDS = ("keyword", "connective", "field", "name", *_TOKEN_SPAN_KINDS.values())


@dataclass(frozen=True, slots=True)
class HighlightSpan:
    """The characters from `start` to `end` and their kind, one of `SPAN_KINDS`."""

    start: int
    end: int
    kind: str


def highlight_script(text: str) -> list[HighlightSpan]:
    """Return the spans of a text, in order and without overlap. The gaps are white space or invalid characters.

    This works on any text, complete or not: tokens that the lexer had to guess are marked as errors.

    >>> [(span.kind, "DROP FEED a"[span.start : span.end]) for span in highlight_script("DROP FEED a")]
    [('keyword', 'DROP'), ('keyword', 'FEED'), ('name', 'a')]
    """
    tokens = [token for token in tokenize_script(text, Diagnostics(text)) if token.kind is not TokenKind.END]
    phrases = _find_phrases(tokens)
    return [
        HighlightSpan(token.offset, token.end, "keyword" if token.offset in phrases else _classify_token(token))
        for token in tokens
    ]


def _find_phrases(tokens: list[Token]) -> set[int]:
    """Return the offsets of words that are keywords only in a phrase, and may be names elsewhere."""
    words = [token.text.upper() if token.kind is TokenKind.WORD else "" for token in tokens]
    phrases = {
        tokens[place].offset
        for start in range(len(words))
        for phrase in _PHRASES
        if tuple(words[start : start + len(phrase)]) == phrase
        for place in range(start, start + len(phrase))
    }
    pairs = pairwise(tokens)
    days = {token.offset for token in tokens if token.kind is TokenKind.WORD and token.text.upper() in _WEEKDAYS}
    phrases |= days if "EVERY" in words else set()
    return phrases | {one.offset for one, next in pairs if one.text.upper() == "CHANGED" and next.text == "("}


def _classify_token(token: Token) -> str:
    if token.kind is TokenKind.STRING and not (
        len(token.text) > 1 and token.text[0] in "\"'" and token.text[-1] in "\"'"
    ):
        return "error"  # typographic quotes, or an unclosed string
    if token.kind is not TokenKind.WORD:
        return "error" if token.kind is TokenKind.SIGN and token.text != token.value else _TOKEN_SPAN_KINDS[token.kind]
    if token.value not in KEYWORDS:
        return "name"
    if token.text.upper() != token.value:
        return "error"  # foreign operators such as &&
    if token.value in _CONNECTIVES:
        return "connective"
    return "field" if token.value in _FIELDS else "keyword"
