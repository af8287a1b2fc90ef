"""A place in the tokens: looking, taking, expecting, and finding the way back after a mistake."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from headwater.language.ast import Field, Position
from headwater.language.lexer import Kind, Token
from headwater.language.messages import Report, did_you_mean

NESTING = 16
CLAUSES = ("KEEP", "DISTINCT", "ORDER", "IMPORTANCE", "TARGET", "DELIVER", "EVERY", "SET")
JOINS = ("JOIN", "LEFT", "ANTI")
STATEMENTS = ("CREATE", "DROP", "REGISTER")
FIELDS = {
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
EXPECTED_FIELD = f"a field ({', '.join(FIELDS)})"
ALL_FIELDS = {**FIELDS, "DESCRIPTION": Field.DESCRIPTION}


class Mistake(Exception):
    """Already reported; whoever knows where to go on catches it. `lost` means: not before the next statement."""

    def __init__(self, lost: bool = False) -> None:
        super().__init__()
        self.lost = lost


class Cursor:
    def __init__(self, tokens: list[Token], report: Report) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self.report = report
        self.token = tokens[0]

    # looking

    def position(self, token: Token | None = None) -> Position:
        return self.report.position((token or self.token).offset)

    def at(self, *keywords: str) -> bool:
        """Whether the next token is one of these keywords."""
        return self.token.value in keywords and self.token.kind is Kind.WORD

    def at_sign(self, *signs: str) -> bool:
        return self.token.kind is Kind.SIGN and self.token.value in signs

    def at_kind(self, kind: Kind) -> bool:
        return self.token.kind is kind

    def after(self, count: int = 1) -> Token:
        return self._tokens[min(self._at + count, len(self._tokens) - 1)]

    @property
    def before(self) -> Token:
        return self._tokens[max(self._at - 1, 0)]

    @property
    def ended(self) -> bool:
        return self.token.kind is Kind.END

    # taking

    def take(self) -> Token:
        token = self.token
        if token.kind is not Kind.END:
            self._at += 1
            self.token = self._tokens[self._at]
        return token

    def take_if(self, *keywords: str) -> Token | None:
        return self.take() if self.token.value in keywords and self.token.kind is Kind.WORD else None

    def take_sign(self, *signs: str) -> Token | None:
        return self.take() if self.token.value in signs and self.token.kind is Kind.SIGN else None

    def expect(self, keyword: str, hint: str | None = None, expected: str | None = None) -> Token:
        if self.at(keyword):
            return self.take()
        raise self.fail(expected or keyword, hint or self.meant([keyword]))

    def expect_sign(self, sign: str, hint: str | None = None) -> Token:
        if self.at_sign(sign):
            return self.take()
        raise self.fail(f"“{sign}”", hint)

    def expect_kind(self, kind: Kind, expected: str, hint: str | None = None) -> Token:
        if self.at_kind(kind):
            return self.take()
        raise self.fail(expected, hint)

    def close(self, sign: str, opening: str) -> None:
        """Take the closing bracket; where it is missing, say so and go on as if it were there."""
        if not self.take_sign(sign):
            self.miss(f"“{sign}”", f"a {opening} is not closed")

    def integer(self, expected: str, hint: str | None = None, least: int = 1) -> int:
        token = self.expect_kind(Kind.NUMBER, expected, hint)
        if "." in token.value or len(token.value) > 9:
            self.wrong(token, f"{token.found} is not a whole number below 1,000,000,000", hint)
            return least
        if int(token.value) < least:
            self.wrong(token, f"the number must be at least {least}", hint)
        return max(int(token.value), least)

    def number(self, least: float, most: float | None, what: str, example: str) -> float:
        """A number between `least` and `most`."""
        token = self.expect_kind(Kind.NUMBER, "a number", f"for example {example}")
        value = float(token.value) if len(token.value) <= 20 else float("inf")
        if value < least or value == float("inf") or (most is not None and value > most):
            between = f"between {least:g} and {most:g}" if most is not None else f"at least {least:g}"
            self.wrong(token, f"{what} must be {between}, found {token.found}", f"for example {example}")
            return least
        return value

    def field(self, known: Collection[str] = tuple(ALL_FIELDS), expected: str = EXPECTED_FIELD) -> Field:
        if self.token.kind is Kind.WORD and self.token.value in known:
            return Field(self.take().value)
        hint = self.meant(known)
        if hint is None and self.at_kind(Kind.STRING):
            hint = "say where to look for it: TITLE CONTAINS …"
        raise self.fail(expected, hint)

    # saying what is wrong

    def meant(self, known: Collection[str], otherwise: str | None = None) -> str | None:
        return did_you_mean(self.token.text, known, otherwise) if self.token.kind is Kind.WORD else otherwise

    def wrong(self, token: Token, text: str, hint: str | None = None) -> None:
        """Report and go on: the form is right, the value is not."""
        self.report.error(self.position(token), text, hint)

    def miss(self, expected: str, hint: str | None = None) -> None:
        """Report what is missing here and go on."""
        self.report.error(self.position(), f"expected {expected}, found {self.token.found}", hint)

    def fail(self, expected: str, hint: str | None = None) -> Mistake:
        """Report what is missing here; the caller raises what comes back."""
        self.miss(expected, hint)
        return Mistake()

    # not getting lost

    @contextmanager
    def nested(self) -> Iterator[None]:
        """One level deeper; more levels than the quota give up the statement."""
        self._depth += 1
        try:
            if self._depth > NESTING:
                self.report.error(
                    self.position(), f"nested deeper than {NESTING} levels", "name the inner part as a feed of its own"
                )
                raise Mistake(lost=True)
            yield
        finally:
            self._depth -= 1

    @property
    def at_statement(self) -> bool:
        return self.at(*STATEMENTS) and self.after().kind is Kind.WORD and self.after().value in ("FEED", "OR")

    def skip(self, *keywords: str, signs: Collection[str] = ()) -> None:
        """Pass over tokens up to one of these outside of brackets opened on the way, or the end of the statement."""
        opened = 0
        while not (self.ended or self.at_sign(";") or self.at_statement):
            if opened == 0 and (self.at(*keywords) or self.at_sign(*signs)):
                return
            if self.at_sign("(", "["):
                opened += 1
            elif self.at_sign(")", "]"):
                opened = max(opened - 1, 0)
            self.take()
