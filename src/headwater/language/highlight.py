"""Colours for an editor: which characters of a script are keywords, fields, strings and so on."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.language.ast import Field
from headwater.language.lexer import KEYWORDS, Kind, Token, lex
from headwater.language.messages import Report

_KINDS = {
    Kind.VAR: "variable",
    Kind.STRING: "string",
    Kind.REGEX: "regex",
    Kind.NUMBER: "number",
    Kind.SIGN: "operator",
    Kind.JUNK: "error",
    Kind.COMMENT: "comment",
}
_CONNECTIVES = frozenset({"AND", "OR", "NOT"})
_FIELDS = frozenset(map(str, Field))
KINDS = ("keyword", "connective", "field", "name", *_KINDS.values())


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `start` up to `end` of the text, and what they are: one of `KINDS`."""

    start: int
    end: int
    kind: str


def highlight(text: str) -> list[Span]:
    """The spans of a text, in order and apart; what lies between them is white space or wrong.

    Works on any text, finished or not: what the lexer had to guess at is marked as an error.

    >>> [(span.kind, "DROP FEED a"[span.start : span.end]) for span in highlight("DROP FEED a")]
    [('keyword', 'DROP'), ('keyword', 'FEED'), ('name', 'a')]
    """
    report = Report(text)
    return [_span(token) for token in lex(text, report) if token.kind is not Kind.END]


def _span(token: Token) -> Span:
    return Span(token.offset, token.end, _kind(token))


def _kind(token: Token) -> str:
    if token.kind is Kind.STRING and not (len(token.text) > 1 and token.text[0] in "\"'" and token.text[-1] in "\"'"):
        return "error"  # typographic quotes, or not closed
    if token.kind is not Kind.WORD:
        return "error" if token.kind is Kind.SIGN and token.text != token.value else _KINDS[token.kind]
    if token.value not in KEYWORDS:
        return "name"
    if token.text.upper() != token.value:
        return "error"  # && and its like
    if token.value in _CONNECTIVES:
        return "connective"
    return "field" if token.value in _FIELDS else "keyword"
