"""Conditions as values: the atoms of the language, what joins them, and the feeds that they can name.

`And` never directly holds an `And`, nor `Or` an `Or`: the parser joins them, and `conjunction` keeps it so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from headwater.language.said import Said
from headwater.language.values import NOWHERE, Ago, Cmp, Field, Instant, Position, Window


class Address(Said, frozen=True):
    """A feed by its http(s) address."""

    url: str
    pos: Position = NOWHERE


class Name(Said, frozen=True):
    """A registered feed or a query feed. Names are compared without regard to case: use `key`."""

    name: str
    pos: Position = NOWHERE

    @property
    def key(self) -> str:
        return self.name.casefold()


class And(Said, frozen=True):
    """All of `parts`; with none, TRUE (which no script can write)."""

    parts: tuple[Pred, ...]
    pos: Position = NOWHERE


class Or(Said, frozen=True):
    parts: tuple[Pred, ...]
    pos: Position = NOWHERE


class Not(Said, frozen=True):
    part: Pred
    pos: Position = NOWHERE


class Scoped(Said, frozen=True):
    """$var[part]: only a top-level conjunct of WHERE, restricts the branch or join called `var` and no other."""

    var: str
    part: Pred
    pos: Position = NOWHERE


class Contains(Said, frozen=True):
    """text CONTAINS: any of `values` (all of them if `all`); a value is a word or phrase, `*` at its end a prefix.

    `exact` compares letters as they stand, without folding case and accents. `listed` remembers ANY (…)/ALL (…).
    """

    field: Field
    values: tuple[str, ...]
    all: bool = False
    exact: bool = False
    pos: Position = NOWHERE
    listed: bool = False


class Near(Said, frozen=True):
    """Both phrases in one field value, at most `distance` word positions apart, in either order."""

    field: Field
    left: str
    distance: int
    right: str
    pos: Position = NOWHERE


class Equals(Said, frozen=True):
    """text = / != / IN: the whole value, folded. `negated` is NOT of the whole. `listed` remembers IN (…)."""

    field: Field
    values: tuple[str, ...]
    all: bool = False
    negated: bool = False
    pos: Position = NOWHERE
    listed: bool = False


class Matches(Said, frozen=True):
    """text MATCHES /pattern/: RE2, searched in the text as it stands, without markup."""

    field: Field
    pattern: str
    ignore_case: bool = False
    pos: Position = NOWHERE


class Similar(Said, frozen=True):
    """text SIMILAR TO "…" AT at: cosine of tf-idf."""

    field: Field
    text: str
    at: float = 0.5
    pos: Position = NOWHERE


class DateIs(Said, frozen=True):
    """PUBLISHED or UPDATED compared with an instant."""

    field: Field
    cmp: Cmp
    when: Instant | Ago
    pos: Position = NOWHERE


class DateIn(Said, frozen=True):
    """PUBLISHED or UPDATED IN LAST span, seen from the arrival of the item. The window is always a span of time."""

    field: Field
    window: Window
    pos: Position = NOWHERE


class SizeIs(Said, frozen=True):
    cmp: Cmp
    number: float
    pos: Position = NOWHERE


class Has(Said, frozen=True):
    field: Field
    pos: Position = NOWHERE


class SourceIs(Said, frozen=True):
    """SOURCE = / != / IN: the item comes from one of these feeds. `listed` remembers IN (…)."""

    sources: tuple[Name | Address, ...]
    negated: bool = False
    pos: Position = NOWHERE
    listed: bool = False


Atom: TypeAlias = Contains | Near | Equals | Matches | Similar | DateIs | DateIn | SizeIs | Has | SourceIs
Pred: TypeAlias = And | Or | Not | Scoped | Atom

TRUE = And(())


def conjunction(parts: Iterable[Pred | None]) -> Pred:
    """All of the parts that are there, as one flat predicate.

    >>> conjunction([None, Has(Field.LINK)])
    Has(field=<Field.LINK: 'LINK'>)
    """
    flat: list[Pred] = []
    for part in parts:
        if part is not None:
            flat.extend(part.parts if isinstance(part, And) else (part,))
    return flat[0] if len(flat) == 1 else And(tuple(flat))
