"""Walks over tokens: looks ahead, takes, expects, reports errors and recovers from them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from headwater.language.ast import Field, Position
from headwater.language.diagnostics import Diagnostics, did_you_mean
from headwater.language.parsing.lexer import Token, TokenKind

MAX_NESTING = 16
CLAUSE_KEYWORDS = ("KEEP", "DISTINCT", "ORDER", "IMPORTANCE", "TARGET", "DELIVER", "EVERY", "SET")
JOIN_KEYWORDS = ("JOIN", "LEFT", "ANTI")
STATEMENT_KEYWORDS = ("CREATE", "DROP", "REGISTER")
COMMON_FIELDS = {
    str(field): field
    for field in (
        Field.ITEM,
        Field.TITLE,
        Field.CONTENT,
        Field.AUTHOR,
        Field.CATEGORY,
        Field.LINK,
        Field.LANGUAGE,
        Field.PUBLISHED,
        Field.UPDATED,
        Field.SOURCE,
        Field.SIZE,
        Field.ENCLOSURE,
    )
}
FIELD_EXAMPLE = 'TITLE CONTAINS "volcano"'
EXPECTED_FIELD = f"a field ({', '.join(COMMON_FIELDS)})"
ALL_FIELDS = {**COMMON_FIELDS, "DESCRIPTION": Field.DESCRIPTION}
CONDITION_WORDS = ("STORY", "FIRST", "CHANGED")  # they begin a condition, as a field does


_FIELD_NAMES = tuple(ALL_FIELDS)


class ParseError(Exception):
    """A reported error. The parser catches it where it can continue; if `lost`, at the next statement only."""

    def __init__(self, lost: bool = False) -> None:
        super().__init__()
        self.lost = lost


_OTHER_FIELD_NAMES = {
    **dict.fromkeys(("DATE", "TIME", "PUBDATE", "CREATED"), "did you mean PUBLISHED?"),
    **dict.fromkeys(("LENGTH", "WORDS", "CHARACTERS", "LEN"), "did you mean SIZE?"),
    **dict.fromkeys(("TEXT", "BODY"), "did you mean CONTENT?"),
    **dict.fromkeys(("SUMMARY", "ABSTRACT", "TEASER"), "did you mean DESCRIPTION?"),
    **dict.fromkeys(("HEADLINE", "SUBJECT"), "did you mean TITLE?"),
    **dict.fromkeys(("FEED", "SITE", "PUBLISHER"), "did you mean SOURCE?"),
    "CREATOR": "did you mean AUTHOR?",
    **dict.fromkeys(("URL", "URI", "ADDRESS"), "did you mean LINK?"),
    **dict.fromkeys(
        ("TAG", "FOLDER"), 'a tag is a source: RETURN TAG "news" WHERE …; categories are those of the item'
    ),
}


class Cursor:
    """The current token of a script, with the operations of a recursive descent parser."""

    def __init__(self, tokens: list[Token], diagnostics: Diagnostics) -> None:
        self._tokens = tokens
        self._index = 0
        self._depth = 0
        self.diagnostics = diagnostics
        self.token = tokens[0]

    # looking ahead

    def position(self, token: Token | None = None) -> Position:
        return self.diagnostics.position_at((token or self.token).offset)

    def at_keyword(self, *keywords: str) -> bool:
        """Return whether the current token is one of these keywords."""
        return self.token.value in keywords and self.token.kind is TokenKind.WORD

    def at_sign(self, *signs: str) -> bool:
        return self.token.kind is TokenKind.SIGN and self.token.value in signs

    def at_kind(self, kind: TokenKind) -> bool:
        return self.token.kind is kind

    def peek(self, count: int = 1) -> Token:
        return self._tokens[min(self._index + count, len(self._tokens) - 1)]

    @property
    def previous(self) -> Token:
        return self._tokens[max(self._index - 1, 0)]

    @property
    def at_end(self) -> bool:
        return self.token.kind is TokenKind.END

    def at_word(self, *words: str) -> bool:
        """Return whether the current token is one of these words, which are not reserved: they may be names too."""
        return self.token.kind is TokenKind.WORD and self.token.text.upper() in words

    # taking

    def take(self) -> Token:
        token = self.token
        if token.kind is not TokenKind.END:
            self._index += 1
            self.token = self._tokens[self._index]
        return token

    def take_keyword(self, *keywords: str) -> Token | None:
        return self.take() if self.token.value in keywords and self.token.kind is TokenKind.WORD else None

    def take_word(self, *words: str) -> Token | None:
        return self.take() if self.at_word(*words) else None

    def expect_word(self, word: str, hint: str) -> Token:
        if self.at_word(word):
            return self.take()
        raise self.missing_error(word, self.suggest_keyword([word], hint))

    def take_sign(self, *signs: str) -> Token | None:
        return self.take() if self.token.value in signs and self.token.kind is TokenKind.SIGN else None

    def expect_keyword(self, keyword: str, hint: str | None = None, expected: str | None = None) -> Token:
        if self.at_keyword(keyword):
            return self.take()
        raise self.missing_error(expected or keyword, hint or self.suggest_keyword([keyword]))

    def expect_sign(self, sign: str, hint: str | None = None) -> Token:
        if self.at_sign(sign):
            return self.take()
        raise self.missing_error(f"“{sign}”", hint)

    def expect_kind(self, kind: TokenKind, expected: str, hint: str | None = None) -> Token:
        if self.at_kind(kind):
            return self.take()
        raise self.missing_error(expected, hint)

    def expect_closing(self, sign: str, opening: str) -> None:
        """Take the closing bracket. If it is missing, report that and continue."""
        if not self.take_sign(sign):
            self.report_missing(f"“{sign}”", f"a {opening} is not closed")

    def parse_integer(self, expected: str, hint: str | None = None, least: int = 1) -> int:
        token = self.expect_kind(TokenKind.NUMBER, expected, hint)
        if "." in token.value or len(token.value) > 9:
            self.report_error(token, f"{token.quoted_text} is not a whole number below 1,000,000,000", hint)
            return least
        if int(token.value) < least:
            self.report_error(token, f"the number must be at least {least}", hint)
        return max(int(token.value), least)

    def parse_number(self, least: float, most: float | None, what: str, example: str) -> float:
        """Parse a number between `least` and `most`."""
        token = self.expect_kind(TokenKind.NUMBER, "a number", f"for example {example}")
        value = float(token.value) if len(token.value) <= 20 else float("inf")
        if value < least or value == float("inf") or (most is not None and value > most):
            between = f"between {least:g} and {most:g}" if most is not None else f"at least {least:g}"
            self.report_error(token, f"{what} must be {between}, found {token.quoted_text}", f"for example {example}")
            return least
        return value

    def parse_field(
        self,
        known: Collection[str] = _FIELD_NAMES,
        expected: str = EXPECTED_FIELD,
        example: str = FIELD_EXAMPLE,
    ) -> Field:
        if self.token.kind is TokenKind.WORD and self.token.value in known:
            return Field(self.take().value)
        raise self.missing_error(expected, self._hint_field(known, example))

    def _hint_field(self, known: Collection[str], example: str) -> str | None:
        if self.at_kind(TokenKind.STRING) and self.token.value.upper() in known:
            return "a field is written without quotes"
        if self.at_kind(TokenKind.STRING):
            return "say where to look for it: TITLE CONTAINS …"
        if self.at_kind(TokenKind.WORD) and (hint := _OTHER_FIELD_NAMES.get(self.token.text.upper())):
            return hint
        if self.at_kind(TokenKind.WORD) and self.peek().value == "[":
            return f"a variable begins with $: ${self.token.text[:40]}[…]"
        if self.at_keyword("AND", "OR"):
            return "one of the two words AND and OR is too many"
        if self.at_keyword("CONTAINS", "MATCHES", "SIMILAR"):
            return 'the field is repeated: TITLE CONTAINS "a" OR TITLE CONTAINS "b"'
        hint = self.suggest_keyword((*known, *CONDITION_WORDS) if known is _FIELD_NAMES else known)
        if hint is None and self.at_kind(TokenKind.WORD) and not self.token.keyword and example == FIELD_EXAMPLE:
            hint = f'search words in a field: ITEM CONTAINS "{self.token.text[:40]}"'
        return hint or (f"for example {example}" if known is _FIELD_NAMES or example != FIELD_EXAMPLE else None)

    # reporting errors

    def suggest_keyword(self, known: Collection[str], otherwise: str | None = None) -> str | None:
        return did_you_mean(self.token.text, known, otherwise) if self.token.kind is TokenKind.WORD else otherwise

    def report_error(self, token: Token, text: str, hint: str | None = None) -> None:
        """Report an invalid value at a token, and continue."""
        self.diagnostics.add_error(self.position(token), text, hint)

    def report_missing(self, expected: str, hint: str | None = None) -> None:
        """Report the expected input at the current token, and continue."""
        self.diagnostics.add_error(self.position(), f"expected {expected}, found {self.token.quoted_text}", hint)

    def missing_error(self, expected: str, hint: str | None = None) -> ParseError:
        """Report the expected input at the current token, and return the error for the caller to raise."""
        self.report_missing(expected, hint)
        return ParseError()

    # recovering

    @contextmanager
    def nested_level(self) -> Iterator[None]:
        """Count a level of nesting. Too many levels abandon the statement."""
        self._depth += 1
        try:
            if self._depth > MAX_NESTING:
                self.diagnostics.add_error(
                    self.position(),
                    f"nested deeper than {MAX_NESTING} levels",
                    "name the inner part as a feed of its own",
                )
                raise ParseError(lost=True)
            yield
        finally:
            self._depth -= 1

    @property
    def at_statement(self) -> bool:
        return (
            self.at_keyword(*STATEMENT_KEYWORDS)
            and self.peek().kind is TokenKind.WORD
            and self.peek().value in ("FEED", "OR")
        )

    def skip_to(self, *keywords: str, signs: Collection[str] = ()) -> None:
        """Skip to one of these tokens outside of nested brackets, or to the end of the statement."""
        opened = 0
        while not (self.at_end or self.at_sign(";") or self.at_statement):
            if opened == 0 and (self.at_keyword(*keywords) or self.at_sign(*signs)):
                return
            if self.at_sign("(", "["):
                opened += 1
            elif self.at_sign(")", "]"):
                opened = max(opened - 1, 0)
            self.take()
