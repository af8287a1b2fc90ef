"""Splits text into tokens. Reports invalid input and replaces it by the probable meaning, so that parsing continues."""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

from headwater.language.diagnostics import Diagnostics, quote_input, replace_unprintable

MAX_STATEMENT_BYTES = 64 * 1024

KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        """CREATE OR REPLACE FEED AS DROP RESTRICT CASCADE REGISTER TAGS RETURN FROM WHERE TAG ALL AND NOT CONTAINS
        EXACT ANY NEAR IN MATCHES SIMILAR TO AT NOW HAS ITEM TITLE CONTENT DESCRIPTION AUTHOR CATEGORY LINK LANGUAGE
        ENCLOSURE PUBLISHED UPDATED SIZE SOURCE LAST ITEMS SECOND SECONDS MINUTE MINUTES HOUR HOURS DAY DAYS WEEK
        WEEKS MONTH MONTHS LEFT ANTI JOIN WITHIN ON KEEP DISTINCT ORDER BY ASC DESC IMPORTANCE TARGET COMPLETENESS
        FRESHNESS DELAY DELIVER RSS ATOM JSON EMAIL WEBHOOK NOTIFY EVERY SET""",
    )
)


class TokenKind(Enum):
    WORD = "word"  # a name or a keyword
    VAR = "variable"
    STRING = "string"
    REGEX = "regular expression"
    NUMBER = "number"
    SIGN = "sign"
    JUNK = "junk"  # a run of characters without a meaning here
    COMMENT = "comment"
    END = "end"


class Token(NamedTuple):
    """A token: `text` as written, `value` without quotes, without $, or as keyword in capitals."""

    kind: TokenKind
    text: str
    value: str
    offset: int

    @property
    def end(self) -> int:
        return self.offset + len(self.text)

    @property
    def keyword(self) -> str | None:
        return self.value if self.kind is TokenKind.WORD and self.value in KEYWORDS else None

    @property
    def quoted_text(self) -> str:
        """The token as a message quotes it."""
        if self.kind is TokenKind.END:
            return "the end of the text"
        return quote_input(self.text)


_SPACE = re.compile(r"\s*")
_TOKEN = re.compile(
    r"""
      (?P<comment>--[^\n]*)
    | (?P<address>[a-zA-Z][a-zA-Z0-9+.\-]*://[^\s"'|;,)\]]*)
    | (?P<word>[^\W\d_](?:\w|-(?=[^\W\d_]))*)
    | (?P<var>\$[^\W\d_]\w*)
    | (?P<string>"(?:[^"\\\n]|\\[^\n])*" | '(?:[^'\\\n]|\\[^\n])*')
    | (?P<open>["'])
    | (?P<number>[0-9]+(?:\.[0-9]+)?)
    | (?P<wrong>&&|\|\||===?|!==|<>|=<|=>|=~|&|!(?!=)|[≠≤≥∧∨¬])
    | (?P<sign>!=|<=|>=|\+=|[()\[\]|,;=<>\-.%])
    | (?P<regex>/(?:[^/\\\n]|\\[^\n])*/i?)
    | (?P<other>.)
    """,
    re.VERBOSE,
)
# Words and strings without escapes, which are most of any script; read as `_TOKEN` reads them, at half the cost.
_PLAIN_TOKEN = re.compile(r"""(?:([a-zA-Z]\w*)(?=[\s;)\]])|("[^"\\\n]*"))\s*""")
_JUNK = re.compile(r"""[^\s;,()\[\]"'|]+""")

# Operators of other languages: the hint, and the operator to continue with.
_FOREIGN_OPERATORS = {
    "&&": ("write AND", "AND"),
    "&": ("write AND", "AND"),
    "∧": ("write AND", "AND"),
    "||": ("write OR between conditions and | between sources", "OR"),
    "∨": ("write OR", "OR"),
    "!": ("write NOT", "NOT"),
    "¬": ("write NOT", "NOT"),
    "==": ("write =", "="),
    "===": ("write =", "="),
    "!==": ("write !=", "!="),
    "<>": ("write !=", "!="),
    "≠": ("write !=", "!="),
    "=<": ("write <=", "<="),
    "≤": ("write <=", "<="),
    "=>": ("write >=", ">="),
    "≥": ("write >=", ">="),
    "=~": ("write MATCHES /…/", "MATCHES"),
}
_QUOTES = {"“": "”", "”": "”", "„": "“", "«": "»", "‘": "’", "’": "’", "‹": "›", "`": "`"}
_CHARACTER_HINTS = {
    "#": "a comment begins with --",
    "@": 'an address stands in double quotes: EMAIL "me@example.org"',
    "$": "a variable is a $ followed by a letter: $news",
    "*": 'a * stands at the end of a searched word: "volcan*"',
    ":": 'addresses and times stand in double quotes; a field is searched with CONTAINS: TITLE CONTAINS "ash"',
    "~": 'similar texts are found by TITLE SIMILAR TO "…", patterns by TITLE MATCHES /…/',
    "+": "there is no arithmetic; NOW - 3 DAYS is three days ago",
    **dict.fromkeys("{}", 'placeholders stand in quotes (SET TITLE = "{title}"), conditions on a source in [ ]'),
    "_": "a name begins with a letter",
}
_WORD, _STRING = TokenKind.WORD, TokenKind.STRING
_ESCAPES = {'"': '"', "'": "'", "\\": "\\", "n": "\n", "t": "\t"}


def tokenize_script(text: str, diagnostics: Diagnostics) -> list[Token]:
    """Return the tokens of the text, including comments, with END at the end. Skip statements over the size limit."""
    tokens: list[Token] = []
    start = first = 0  # start of the statement, in the text and among the tokens
    plain, size = _PLAIN_TOKEN.match, len(text)
    at = _SPACE.match(text).end()  # type: ignore[union-attr]  # the pattern matches the empty string
    while at < size:
        if len(tokens) == first:  # space and comments before a statement do not count
            start = at
        ended = False
        found = plain(text, at)
        if found is not None:
            word, string = found.groups()
            if word is not None:
                upper = word.upper()
                tokens.append(Token(_WORD, word, upper if upper in KEYWORDS else word, at))
            else:
                tokens.append(Token(_STRING, string, string[1:-1], at))
            at = found.end()
        else:
            ended = text[at] == ";"
            at = _append_token(text, at, tokens, diagnostics)
            if len(tokens) == first + 1 and tokens[-1].kind is TokenKind.COMMENT:
                start, first = at, len(tokens)
        if ended or at == size or at - start > MAX_STATEMENT_BYTES:
            if (
                at - start > MAX_STATEMENT_BYTES // 4
                and len(text[start:at].encode(errors="replace")) > MAX_STATEMENT_BYTES
            ):
                at = _skip_statement(text, start, at, diagnostics)
                del tokens[first:]
            start, first = at, len(tokens)
    tokens.append(Token(TokenKind.END, "", "", tokens[-1].end if tokens else 0))
    return tokens


def _append_token(text: str, at: int, tokens: list[Token], diagnostics: Diagnostics) -> int:
    """Append the token that starts here, if it is valid, and return the position after it."""
    found = _TOKEN.match(text, at)
    if found is None or found.lastgroup is None:  # impossible: the last alternative matches anything
        return len(text)
    token = _make_token(found.lastgroup, found[0], text, at, tokens[-1] if tokens else None, diagnostics)
    at = found.end()
    if token is not None:
        tokens.append(token)
        at = token.end
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]


def _skip_statement(text: str, start: int, at: int, diagnostics: Diagnostics) -> int:
    diagnostics.add_error(
        diagnostics.position_at(start + len(text[start:at]) - len(text[start:at].lstrip())),
        f"this statement is longer than {MAX_STATEMENT_BYTES // 1024} KiB",
        "split it: a query feed can be the source of another",
    )
    end = at if text[start:at].rstrip().endswith(";") else text.find(";", at)
    return len(text) if end < 0 else end


def _make_token(
    kind: str, raw: str, text: str, at: int, before: Token | None, diagnostics: Diagnostics
) -> Token | None:
    if kind == "word":  # first, because it is the most frequent
        upper = raw.upper()
        return Token(_WORD, raw, upper if upper in KEYWORDS else raw, at)
    match kind:
        case "sign":
            # ../../etc/passwd should give one error, not twelve; the dot of $g.LINK follows a variable
            attached = before is not None and before.kind is TokenKind.VAR and before.end == at
            if raw == "." and not attached:
                return _make_junk(text, at)
            return Token(TokenKind.SIGN, raw, raw, at)
        case "string":
            return Token(TokenKind.STRING, raw, _unescape_string(raw, at, diagnostics), at)
        case "number":
            return Token(TokenKind.NUMBER, raw, raw, at)
        case "var":
            return Token(TokenKind.VAR, raw, raw[1:], at)
        case "comment":
            return Token(TokenKind.COMMENT, raw, raw[2:].strip(), at)
        case "regex":
            return Token(TokenKind.REGEX, raw, raw, at)
        case "address":
            return Token(TokenKind.JUNK, raw, raw, at)
        case "open":
            return _make_open_string(raw, text, at, diagnostics)
        case "wrong":
            hint, meant = _FOREIGN_OPERATORS[raw]
            diagnostics.add_error(diagnostics.position_at(at), f"unknown operator '{raw}'", hint)
            return Token(TokenKind.WORD if meant.isalpha() else TokenKind.SIGN, raw, meant, at)
        case _:
            return _make_other(raw, text, at, diagnostics)


def _make_junk(text: str, at: int) -> Token:
    found = _JUNK.match(text, at)
    run = found[0] if found else text[at]
    return Token(TokenKind.JUNK, run, run, at)


def _make_open_string(quote: str, text: str, at: int, diagnostics: Diagnostics) -> Token:
    end = text.find("\n", at)
    raw = text[at : len(text) if end < 0 else end].rstrip()
    diagnostics.add_error(
        diagnostics.position_at(at), "string is not closed before the end of the line", f"add a closing {quote}"
    )
    return Token(TokenKind.STRING, raw, raw[1:].rstrip(";") or " ", at)


def _make_other(character: str, text: str, at: int, diagnostics: Diagnostics) -> Token | None:
    if character == "/":
        return _make_junk(text, at)
    shown = replace_unprintable(character)
    if character in _QUOTES:
        diagnostics.add_error(diagnostics.position_at(at), f"unexpected character '{shown}'", 'use straight quotes "…"')
        end = min(e for e in (text.find("\n", at), len(text)) if e >= 0)
        closing = min((e for c in {_QUOTES[character], '"'} if (e := text.find(c, at + 1, end)) >= 0), default=end - 1)
        raw = text[at : closing + 1]
        return Token(TokenKind.STRING, raw, raw[1:-1] or "x", at)
    name = f" (U+{ord(character):04X})" if shown != character else ""
    diagnostics.add_error(
        diagnostics.position_at(at), f"unexpected character '{shown}'{name}", _hint_character(character)
    )
    return None


def _hint_character(character: str) -> str:
    otherwise = 'texts stand in double quotes: "…"' if character.isprintable() else "delete it: it cannot be seen"
    return _CHARACTER_HINTS.get(character, otherwise)


def _unescape_string(raw: str, at: int, diagnostics: Diagnostics) -> str:
    body = raw[1:-1]
    if "\\" not in body:
        return body

    def replace_escape(match: re.Match[str]) -> str:
        if (known := _ESCAPES.get(match[1])) is not None:
            return known
        diagnostics.add_error(
            diagnostics.position_at(at + 1 + match.start()),
            f"unknown escape \\{replace_unprintable(match[1])} in a string",
            'a backslash is written \\\\; known are \\" \\\\ \\n \\t',
        )
        return match[1]

    return re.sub(r"\\(.)", replace_escape, body)
