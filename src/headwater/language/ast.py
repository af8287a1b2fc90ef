"""What a script says, as values: statements, queries, sources, predicates and clauses.

Everything is frozen, hashable and compares by meaning: positions, comments and the choice between two spellings
of the same thing take no part in equality, so equal predicates of different queries can share their work.
Everything is imported from here; conditions are made in `conditions`, the values in them in `values`.

    Script ─ statements ─ Create ─ Query ─ branches ─ Branch ─ source: Address | Name | Tag | AllSources | Group
                        │                │                  └ filter: Pred, var
                        │                ├ joins ─ Join ─ Branch, window, fields
                        │                ├ where: Pred
                        │                └ keep, distinct, order, importance, target, deliver, every, settings
                        ├ Drop
                        └ Register
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as about
from enum import StrEnum
from typing import TypeAlias

from headwater.language.conditions import (
    TRUE,
    Address,
    And,
    Atom,
    Contains,
    DateIn,
    DateIs,
    Equals,
    Has,
    Matches,
    Name,
    Near,
    Not,
    Or,
    Pred,
    Scoped,
    Similar,
    SizeIs,
    SourceIs,
    conjunction,
)
from headwater.language.values import (
    DATE_FIELDS,
    NOWHERE,
    TEXT_FIELDS,
    Ago,
    Cmp,
    Field,
    Instant,
    Position,
    Span,
    Unit,
    Window,
)

__all__ = [
    "DATE_FIELDS",
    "DEFAULT_HORIZON",
    "DEFAULT_KEEP",
    "DEFAULT_SIMILARITY",
    "NOWHERE",
    "TEXT_FIELDS",
    "TRUE",
    "Address",
    "Ago",
    "AllSources",
    "And",
    "Atom",
    "Branch",
    "Cmp",
    "Contains",
    "Create",
    "DateIn",
    "DateIs",
    "Deliver",
    "DeliverKind",
    "Distinct",
    "Drop",
    "Equals",
    "Every",
    "Field",
    "Group",
    "Has",
    "Instant",
    "Join",
    "JoinKind",
    "Matches",
    "Name",
    "Near",
    "Not",
    "Or",
    "Order",
    "Position",
    "Pred",
    "Query",
    "Register",
    "Scoped",
    "Script",
    "Setting",
    "Similar",
    "SizeIs",
    "Source",
    "SourceIs",
    "Span",
    "Statement",
    "Tag",
    "Target",
    "Unit",
    "Window",
    "conjunction",
]


@dataclass(frozen=True, slots=True)
class Tag:
    """All registered feeds that carry this tag, now and later."""

    tag: str
    pos: Position = about(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class AllSources:
    """ALL: every registered source feed, now and later; never a query feed."""

    pos: Position = about(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Group:
    """( union )"""

    branches: tuple[Branch, ...]
    pos: Position = about(default=NOWHERE, compare=False, repr=False)


Source: TypeAlias = Address | Name | Tag | AllSources | Group


@dataclass(frozen=True, slots=True)
class Branch:
    """source [filter] AS $var; `var` is kept without its dollar."""

    source: Source
    filter: Pred | None = None
    var: str | None = None
    pos: Position = about(default=NOWHERE, compare=False, repr=False)


class JoinKind(StrEnum):
    INNER = "JOIN"
    LEFT = "LEFT JOIN"
    ANTI = "ANTI JOIN"


@dataclass(frozen=True, slots=True)
class Join:
    """kind branch WITHIN window ON field (= | SIMILAR TO) $var.other [AT at]; `at` is None for equality."""

    kind: JoinKind
    branch: Branch
    within: Window
    field: Field
    other: Field
    at: float | None = None
    pos: Position = about(default=NOWHERE, compare=False, repr=False)


# Clauses -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Distinct:
    """DISTINCT ON field [AT at] [WITHIN window]; `at` makes it near-duplicates; no window is two days."""

    field: Field
    within: Window | None = None
    at: float | None = None
    pos: Position = about(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Order:
    field: Field
    descending: bool
    pos: Position = about(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Target:
    """What the scheduler should reach for this query; None where nothing was asked."""

    completeness: float | None = None
    freshness: float | None = None
    delay: Span | None = None
    pos: Position = about(default=NOWHERE, compare=False, repr=False)


class DeliverKind(StrEnum):
    RSS = "RSS"
    ATOM = "ATOM"
    JSON = "JSON"
    EMAIL = "EMAIL"
    WEBHOOK = "WEBHOOK"
    NOTIFY = "NOTIFY"


@dataclass(frozen=True, slots=True)
class Deliver:
    kind: DeliverKind
    address: str | None = None
    pos: Position = about(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Every:
    """A digest each `span`, at the time of day `at` ("07:30", UTC) where given."""

    span: Span
    at: str | None = None
    pos: Position = about(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Setting:
    """SET field = / += template."""

    field: Field
    template: str
    append: bool = False
    pos: Position = about(default=NOWHERE, compare=False, repr=False)


DEFAULT_KEEP = Window(50)
DEFAULT_HORIZON = Window(2, Unit.DAY)
DEFAULT_SIMILARITY = 0.5


@dataclass(frozen=True, slots=True)
class Query:
    branches: tuple[Branch, ...]
    joins: tuple[Join, ...] = ()
    where: Pred | None = None
    keep: Window | None = None
    distinct: Distinct | None = None
    order: Order | None = None
    importance: float | None = None
    target: Target | None = None
    deliver: Deliver | None = None
    every: Every | None = None
    settings: tuple[Setting, ...] = ()
    pos: Position = about(default=NOWHERE, compare=False, repr=False)


# Statements ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Create:
    """CREATE [OR REPLACE] FEED name AS query; `text` is the statement as it was written."""

    name: Name
    query: Query
    replace: bool = False
    pos: Position = about(default=NOWHERE, compare=False, repr=False)
    text: str = about(default="", compare=False, repr=False)
    comments: tuple[str, ...] = about(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Drop:
    name: Name
    cascade: bool = False
    pos: Position = about(default=NOWHERE, compare=False, repr=False)
    text: str = about(default="", compare=False, repr=False)
    comments: tuple[str, ...] = about(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Register:
    address: Address
    name: Name
    tags: tuple[str, ...] = ()
    pos: Position = about(default=NOWHERE, compare=False, repr=False)
    text: str = about(default="", compare=False, repr=False)
    comments: tuple[str, ...] = about(default=(), compare=False, repr=False)


Statement: TypeAlias = Create | Drop | Register


@dataclass(frozen=True, slots=True)
class Script:
    statements: tuple[Statement, ...]
    warnings: tuple[object, ...] = about(default=(), compare=False)
    comments: tuple[str, ...] = about(default=(), compare=False, repr=False)

    @property
    def queries(self) -> tuple[Create, ...]:
        return tuple(statement for statement in self.statements if isinstance(statement, Create))
