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
    And,
    Atom,
    Condition,
    Contains,
    DateIn,
    DateIs,
    Equals,
    FeedAddress,
    FeedName,
    Has,
    Matches,
    Near,
    Not,
    Or,
    Scoped,
    Similar,
    SizeIs,
    SourceIs,
    conjoin_conditions,
)
from headwater.language.said import SyntaxNode
from headwater.language.values import (
    DATE_FIELDS,
    NOWHERE,
    TEXT_FIELDS,
    ComparisonOperator,
    Duration,
    Field,
    Instant,
    LastWindow,
    Position,
    RelativeInstant,
    TimeUnit,
)

__all__ = [
    "DATE_FIELDS",
    "DEFAULT_DISTINCT_WINDOW",
    "DEFAULT_KEEP_WINDOW",
    "DEFAULT_SIMILARITY",
    "NOWHERE",
    "TEXT_FIELDS",
    "TRUE",
    "AllSources",
    "And",
    "Assignment",
    "Atom",
    "Branch",
    "ComparisonOperator",
    "Condition",
    "Contains",
    "CreateFeed",
    "DateIn",
    "DateIs",
    "DeliverClause",
    "DeliveryFormat",
    "DistinctClause",
    "DropFeed",
    "Duration",
    "Equals",
    "EveryClause",
    "FeedAddress",
    "FeedName",
    "Field",
    "Has",
    "Instant",
    "Join",
    "JoinKind",
    "LastWindow",
    "Matches",
    "Near",
    "Not",
    "Or",
    "OrderClause",
    "Position",
    "Query",
    "RegisterFeed",
    "RelativeInstant",
    "Scoped",
    "Script",
    "Similar",
    "SizeIs",
    "Source",
    "SourceGroup",
    "SourceIs",
    "Statement",
    "TaggedSources",
    "TargetClause",
    "TimeUnit",
    "conjoin_conditions",
]


class TaggedSources(SyntaxNode, frozen=True):
    """All registered feeds that carry this tag, now and later."""

    tag: str
    pos: Position = NOWHERE


class AllSources(SyntaxNode, frozen=True):
    """ALL: every registered source feed, now and later; never a query feed."""

    pos: Position = NOWHERE


class SourceGroup(SyntaxNode, frozen=True):
    """( union )"""

    branches: tuple[Branch, ...]
    pos: Position = NOWHERE


Source: TypeAlias = FeedAddress | FeedName | TaggedSources | AllSources | SourceGroup


class Branch(SyntaxNode, frozen=True):
    """source [filter] AS $var; `var` is kept without its dollar."""

    source: Source
    filter: Condition | None = None
    var: str | None = None
    pos: Position = NOWHERE


class JoinKind(StrEnum):
    INNER = "JOIN"
    LEFT = "LEFT JOIN"
    ANTI = "ANTI JOIN"


class Join(SyntaxNode, frozen=True):
    """kind branch WITHIN window ON field (= | SIMILAR TO) $var.other [AT at]; `at` is None for equality."""

    kind: JoinKind
    branch: Branch
    within: LastWindow
    field: Field
    other: Field
    at: float | None = None
    pos: Position = NOWHERE


# Clauses -------------------------------------------------------------------------------------------------------


class DistinctClause(SyntaxNode, frozen=True):
    """DISTINCT ON field [AT at] [WITHIN window]; `at` makes it near-duplicates; no window is two days."""

    field: Field
    within: LastWindow | None = None
    at: float | None = None
    pos: Position = NOWHERE


class OrderClause(SyntaxNode, frozen=True):
    field: Field
    descending: bool
    pos: Position = NOWHERE


class TargetClause(SyntaxNode, frozen=True):
    """What the scheduler should reach for this query; None where nothing was asked."""

    completeness: float | None = None
    freshness: float | None = None
    delay: Duration | None = None
    pos: Position = NOWHERE


class DeliveryFormat(StrEnum):
    RSS = "RSS"
    ATOM = "ATOM"
    JSON = "JSON"
    EMAIL = "EMAIL"
    WEBHOOK = "WEBHOOK"
    NOTIFY = "NOTIFY"


class DeliverClause(SyntaxNode, frozen=True):
    kind: DeliveryFormat
    address: str | None = None
    pos: Position = NOWHERE


class EveryClause(SyntaxNode, frozen=True):
    """A digest each `span`, at the time of day `at` ("07:30", UTC) where given."""

    span: Duration
    at: str | None = None
    pos: Position = NOWHERE


class Assignment(SyntaxNode, frozen=True):
    """SET field = / += template."""

    field: Field
    template: str
    append: bool = False
    pos: Position = NOWHERE


DEFAULT_KEEP_WINDOW = LastWindow(50)
DEFAULT_DISTINCT_WINDOW = LastWindow(2, TimeUnit.DAY)
DEFAULT_SIMILARITY = 0.5


class Query(SyntaxNode, frozen=True):
    branches: tuple[Branch, ...]
    joins: tuple[Join, ...] = ()
    where: Condition | None = None
    keep: LastWindow | None = None
    distinct: DistinctClause | None = None
    order: OrderClause | None = None
    importance: float | None = None
    target: TargetClause | None = None
    deliver: DeliverClause | None = None
    every: EveryClause | None = None
    settings: tuple[Assignment, ...] = ()
    pos: Position = NOWHERE


# Statements ----------------------------------------------------------------------------------------------------


class _Statement(SyntaxNode, frozen=True):
    ignored_fields: ClassVar[frozenset[str]] = SyntaxNode.ignored_fields | {"text"}


class CreateFeed(_Statement, frozen=True):
    """CREATE [OR REPLACE] FEED name AS query; `text` is the statement as it was written."""

    name: FeedName
    query: Query
    replace: bool = False
    pos: Position = NOWHERE
    text: str = ""
    comments: tuple[str, ...] = ()


class DropFeed(_Statement, frozen=True):
    name: FeedName
    cascade: bool = False
    pos: Position = NOWHERE
    text: str = ""
    comments: tuple[str, ...] = ()


class RegisterFeed(_Statement, frozen=True):
    address: FeedAddress
    name: FeedName
    tags: tuple[str, ...] = ()
    pos: Position = NOWHERE
    text: str = ""
    comments: tuple[str, ...] = ()


Statement: TypeAlias = CreateFeed | DropFeed | RegisterFeed


class Script(SyntaxNode, frozen=True):
    statements: tuple[Statement, ...]
    warnings: tuple[object, ...] = ()
    comments: tuple[str, ...] = ()

    @property
    def queries(self) -> tuple[CreateFeed, ...]:
        return tuple(statement for statement in self.statements if isinstance(statement, CreateFeed))
