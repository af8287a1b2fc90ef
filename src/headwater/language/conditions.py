"""Conditions as values: the atoms of the language, what joins them, and the feeds that they can name.

`And` never directly holds an `And`, nor `Or` an `Or`: the parser joins them, and `conjunction` keeps it so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from headwater.language.said import SyntaxNode
from headwater.language.values import NOWHERE, ComparisonOperator, Field, Instant, LastWindow, Position, RelativeInstant


class FeedAddress(SyntaxNode, frozen=True):
    """A feed by its http(s) address."""

    url: str
    pos: Position = NOWHERE


class FeedName(SyntaxNode, frozen=True):
    """A registered feed or a query feed. Names are compared without regard to case: use `key`."""

    name: str
    pos: Position = NOWHERE

    @property
    def key(self) -> str:
        return self.name.casefold()


class And(SyntaxNode, frozen=True):
    """All of `parts`; with none, TRUE (which no script can write)."""

    parts: tuple[Condition, ...]
    pos: Position = NOWHERE


class Or(SyntaxNode, frozen=True):
    parts: tuple[Condition, ...]
    pos: Position = NOWHERE


class Not(SyntaxNode, frozen=True):
    part: Condition
    pos: Position = NOWHERE


class Scoped(SyntaxNode, frozen=True):
    """$var[part]: only a top-level conjunct of WHERE, restricts the branch or join called `var` and no other."""

    var: str
    part: Condition
    pos: Position = NOWHERE


class Contains(SyntaxNode, frozen=True):
    """text CONTAINS: any of `values` (all of them if `all`); a value is a word or phrase, `*` at its end a prefix.

    `exact` compares letters as they stand, without folding case and accents. `listed` remembers ANY (…)/ALL (…).
    """

    field: Field
    values: tuple[str, ...]
    all: bool = False
    exact: bool = False
    pos: Position = NOWHERE
    listed: bool = False


class Near(SyntaxNode, frozen=True):
    """Both phrases in one field value, at most `distance` word positions apart, in either order."""

    field: Field
    left: str
    distance: int
    right: str
    pos: Position = NOWHERE


class Equals(SyntaxNode, frozen=True):
    """text = / != / IN: the whole value, folded. `negated` is NOT of the whole. `listed` remembers IN (…)."""

    field: Field
    values: tuple[str, ...]
    all: bool = False
    negated: bool = False
    pos: Position = NOWHERE
    listed: bool = False


class Matches(SyntaxNode, frozen=True):
    """text MATCHES /pattern/: RE2, searched in the text as it stands, without markup."""

    field: Field
    pattern: str
    ignore_case: bool = False
    pos: Position = NOWHERE


class Similar(SyntaxNode, frozen=True):
    """text SIMILAR TO "…" AT at: cosine of tf-idf."""

    field: Field
    text: str
    at: float = 0.5
    pos: Position = NOWHERE


class DateIs(SyntaxNode, frozen=True):
    """PUBLISHED or UPDATED compared with an instant."""

    field: Field
    cmp: ComparisonOperator
    when: Instant | RelativeInstant
    pos: Position = NOWHERE


class DateIn(SyntaxNode, frozen=True):
    """PUBLISHED or UPDATED IN LAST span, seen from the arrival of the item. The window is always a span of time."""

    field: Field
    window: LastWindow
    pos: Position = NOWHERE


class SizeIs(SyntaxNode, frozen=True):
    cmp: ComparisonOperator
    number: float
    pos: Position = NOWHERE


class Has(SyntaxNode, frozen=True):
    field: Field
    pos: Position = NOWHERE


class SourceIs(SyntaxNode, frozen=True):
    """SOURCE = / != / IN: the item comes from one of these feeds. `listed` remembers IN (…)."""

    sources: tuple[FeedName | FeedAddress, ...]
    negated: bool = False
    pos: Position = NOWHERE
    listed: bool = False


Atom: TypeAlias = Contains | Near | Equals | Matches | Similar | DateIs | DateIn | SizeIs | Has | SourceIs
Condition: TypeAlias = And | Or | Not | Scoped | Atom

TRUE = And(())


def conjoin_conditions(parts: Iterable[Condition | None]) -> Condition:
    """All of the parts that are there, as one flat predicate.

    >>> conjoin_conditions([None, Has(Field.LINK)])
    Has(field=<Field.LINK: 'LINK'>)
    """
    flat: list[Condition] = []
    for part in parts:
        if part is not None:
            flat.extend(part.parts if isinstance(part, And) else (part,))
    return flat[0] if len(flat) == 1 else And(tuple(flat))
