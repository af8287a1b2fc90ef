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

from enum import StrEnum
from typing import ClassVar, TypeAlias

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
from headwater.language.said import Said
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


class Tag(Said, frozen=True):
    """All registered feeds that carry this tag, now and later."""

    tag: str
    pos: Position = NOWHERE


class AllSources(Said, frozen=True):
    """ALL: every registered source feed, now and later; never a query feed."""

    pos: Position = NOWHERE


class Group(Said, frozen=True):
    """( union )"""

    branches: tuple[Branch, ...]
    pos: Position = NOWHERE


Source: TypeAlias = Address | Name | Tag | AllSources | Group


class Branch(Said, frozen=True):
    """source [filter] AS $var; `var` is kept without its dollar."""

    source: Source
    filter: Pred | None = None
    var: str | None = None
    pos: Position = NOWHERE


class JoinKind(StrEnum):
    INNER = "JOIN"
    LEFT = "LEFT JOIN"
    ANTI = "ANTI JOIN"


class Join(Said, frozen=True):
    """kind branch WITHIN window ON field (= | SIMILAR TO) $var.other [AT at]; `at` is None for equality."""

    kind: JoinKind
    branch: Branch
    within: Window
    field: Field
    other: Field
    at: float | None = None
    pos: Position = NOWHERE


# Clauses -------------------------------------------------------------------------------------------------------


class Distinct(Said, frozen=True):
    """DISTINCT ON field [AT at] [WITHIN window]; `at` makes it near-duplicates; no window is two days."""

    field: Field
    within: Window | None = None
    at: float | None = None
    pos: Position = NOWHERE


class Order(Said, frozen=True):
    field: Field
    descending: bool
    pos: Position = NOWHERE


class Target(Said, frozen=True):
    """What the scheduler should reach for this query; None where nothing was asked."""

    completeness: float | None = None
    freshness: float | None = None
    delay: Span | None = None
    pos: Position = NOWHERE


class DeliverKind(StrEnum):
    RSS = "RSS"
    ATOM = "ATOM"
    JSON = "JSON"
    EMAIL = "EMAIL"
    WEBHOOK = "WEBHOOK"
    NOTIFY = "NOTIFY"


class Deliver(Said, frozen=True):
    kind: DeliverKind
    address: str | None = None
    pos: Position = NOWHERE


class Every(Said, frozen=True):
    """A digest each `span`, at the time of day `at` ("07:30", UTC) where given."""

    span: Span
    at: str | None = None
    pos: Position = NOWHERE


class Setting(Said, frozen=True):
    """SET field = / += template."""

    field: Field
    template: str
    append: bool = False
    pos: Position = NOWHERE


DEFAULT_KEEP = Window(50)
DEFAULT_HORIZON = Window(2, Unit.DAY)
DEFAULT_SIMILARITY = 0.5


class Query(Said, frozen=True):
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
    pos: Position = NOWHERE


# Statements ----------------------------------------------------------------------------------------------------


class _Statement(Said, frozen=True):
    aside: ClassVar[frozenset[str]] = Said.aside | {"text"}


class Create(_Statement, frozen=True):
    """CREATE [OR REPLACE] FEED name AS query; `text` is the statement as it was written."""

    name: Name
    query: Query
    replace: bool = False
    pos: Position = NOWHERE
    text: str = ""
    comments: tuple[str, ...] = ()


class Drop(_Statement, frozen=True):
    name: Name
    cascade: bool = False
    pos: Position = NOWHERE
    text: str = ""
    comments: tuple[str, ...] = ()


class Register(_Statement, frozen=True):
    address: Address
    name: Name
    tags: tuple[str, ...] = ()
    pos: Position = NOWHERE
    text: str = ""
    comments: tuple[str, ...] = ()


Statement: TypeAlias = Create | Drop | Register


class Script(Said, frozen=True):
    statements: tuple[Statement, ...]
    warnings: tuple[object, ...] = ()
    comments: tuple[str, ...] = ()

    @property
    def queries(self) -> tuple[Create, ...]:
        return tuple(statement for statement in self.statements if isinstance(statement, Create))
