"""Conditions as values: the atoms of the language, what joins them, and the feeds that they can name.

`And` never directly holds an `And`, nor `Or` an `Or`: the parser joins them, and `conjunction` keeps it so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from dataclasses import field as about
from typing import TypeAlias

from headwater.language.values import NOWHERE, Ago, Cmp, Field, Instant, Position, Window


@dataclass(frozen=True, slots=True)
class Address:
    """A feed by its http(s) address."""

    url: str
    pos: Position = about(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Name:
    """A registered feed or a query feed. Names are compared without regard to case: use `key`."""

    name: str
    pos: Position = about(default=NOWHERE, compare=False, repr=False)

    @property
    def key(self) -> str:
        return self.name.casefold()


@dataclass(frozen=True, slots=True)
class And:
    """All of `parts`; with none, TRUE (which no script can write)."""

    parts: tuple[Pred, ...]
    pos: Position = about(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Pred, ...]
    pos: Position = about(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Not:
    part: Pred
    pos: Position = about(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Scoped:
    """$var[part]: only a top-level conjunct of WHERE, restricts the branch or join called `var` and no other."""

    var: str
    part: Pred
    pos: Position = about(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Contains:
    """text CONTAINS: any of `values` (all of them if `all`); a value is a word or phrase, `*` at its end a prefix.

    `exact` compares letters as they stand, without folding case and accents. `listed` remembers ANY (…)/ALL (…).
    """

    field: Field
    values: tuple[str, ...]
    all: bool = False
    exact: bool = False
    pos: Position = about(default=NOWHERE, compare=False, repr=False)
    listed: bool = about(default=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Near:
    """Both phrases in one field value, at most `distance` word positions apart, in either order."""

    field: Field
    left: str
    distance: int
    right: str
    pos: Position = about(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Equals:
    """text = / != / IN: the whole value, folded. `negated` is NOT of the whole. `listed` remembers IN (…)."""

    field: Field
    values: tuple[str, ...]
    all: bool = False
    negated: bool = False
    pos: Position = about(default=NOWHERE, compare=False, repr=False)
    listed: bool = about(default=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Matches:
    """text MATCHES /pattern/: RE2, searched in the text as it stands, without markup."""

    field: Field
    pattern: str
    ignore_case: bool = False
    pos: Position = about(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Similar:
    """text SIMILAR TO "…" AT at: cosine of tf-idf."""

    field: Field
    text: str
    at: float = 0.5
    pos: Position = about(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class DateIs:
    """PUBLISHED or UPDATED compared with an instant."""

    field: Field
    cmp: Cmp
    when: Instant | Ago
    pos: Position = about(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class DateIn:
    """PUBLISHED or UPDATED IN LAST span, seen from the arrival of the item. The window is always a span of time."""

    field: Field
    window: Window
    pos: Position = about(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class SizeIs:
    cmp: Cmp
    number: float
    pos: Position = about(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Has:
    field: Field
    pos: Position = about(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class SourceIs:
    """SOURCE = / != / IN: the item comes from one of these feeds. `listed` remembers IN (…)."""

    sources: tuple[Name | Address, ...]
    negated: bool = False
    pos: Position = about(default=NOWHERE, compare=False, repr=False)
    listed: bool = about(default=False, compare=False, repr=False)


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
