"""What a script says, as values: statements, queries, sources, predicates and clauses.

Everything is frozen, hashable and compares by meaning: positions, comments and the choice between two spellings
of the same thing take no part in equality, so equal predicates of different queries can share their work.
`And` never directly holds an `And`, nor `Or` an `Or`: the parser joins them, and `conjunction` keeps it so.

    Script ─ statements ─ Create ─ Query ─ branches ─ Branch ─ source: Address | Name | Tag | AllSources | Group
                        │                │                  └ filter: Pred, var
                        │                ├ joins ─ Join ─ Branch, window, fields
                        │                ├ where: Pred
                        │                └ keep, distinct, order, importance, target, deliver, every, settings
                        ├ Drop
                        └ Register
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from dataclasses import field as about
from enum import StrEnum
from typing import NamedTuple, TypeAlias


class Position(NamedTuple):
    """A place in the text; line and column count from 1, columns in characters."""

    line: int
    column: int


NOWHERE = Position(0, 0)


class Field(StrEnum):
    """What a condition can look at. ARRIVAL exists in ORDER BY only."""

    __hash__ = str.__hash__  # Enum's own is a Python function, and fields are the keys of every analysed item

    ITEM = "ITEM"
    TITLE = "TITLE"
    CONTENT = "CONTENT"
    DESCRIPTION = "DESCRIPTION"
    AUTHOR = "AUTHOR"
    CATEGORY = "CATEGORY"
    LINK = "LINK"
    LANGUAGE = "LANGUAGE"
    ENCLOSURE = "ENCLOSURE"
    PUBLISHED = "PUBLISHED"
    UPDATED = "UPDATED"
    SIZE = "SIZE"
    SOURCE = "SOURCE"
    ARRIVAL = "ARRIVAL"

    @property
    def is_text(self) -> bool:
        return self in TEXT_FIELDS

    @property
    def is_date(self) -> bool:
        return self in DATE_FIELDS

    @property
    def sort(self) -> str:
        """What kind of value it holds; only values of one kind can be equal."""
        return "text" if self.is_text else "date" if self.is_date else str(self)


TEXT_FIELDS = frozenset(
    {
        Field.ITEM,
        Field.TITLE,
        Field.CONTENT,
        Field.DESCRIPTION,
        Field.AUTHOR,
        Field.CATEGORY,
        Field.LINK,
        Field.LANGUAGE,
        Field.ENCLOSURE,
    }
)
DATE_FIELDS = frozenset({Field.PUBLISHED, Field.UPDATED})


class Unit(StrEnum):
    SECOND = "SECOND"
    MINUTE = "MINUTE"
    HOUR = "HOUR"
    DAY = "DAY"
    WEEK = "WEEK"
    MONTH = "MONTH"

    @property
    def seconds(self) -> int:
        """A month is thirty days."""
        return _SECONDS[self]


_SECONDS = {
    Unit.SECOND: 1,
    Unit.MINUTE: 60,
    Unit.HOUR: 3_600,
    Unit.DAY: 86_400,
    Unit.WEEK: 604_800,
    Unit.MONTH: 2_592_000,
}


class Cmp(StrEnum):
    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


@dataclass(frozen=True, slots=True)
class Window:
    """LAST n of something: n items when `unit` is None, else a span of time."""

    count: int
    unit: Unit | None = None

    @property
    def seconds(self) -> int | None:
        return None if self.unit is None else self.count * self.unit.seconds


@dataclass(frozen=True, slots=True)
class Instant:
    """A date as written: "2024-03-01" or "2024-03-01T08:00Z"; `epoch` is what it means."""

    text: str = about(compare=False)
    epoch: float


@dataclass(frozen=True, slots=True)
class Ago:
    """NOW, or NOW - n units; evaluated when an item arrives."""

    count: int = 0
    unit: Unit | None = None

    @property
    def seconds(self) -> int:
        return 0 if self.unit is None else self.count * self.unit.seconds


# Predicates ----------------------------------------------------------------------------------------------------


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


# Sources -------------------------------------------------------------------------------------------------------


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
class Span:
    count: int
    unit: Unit

    @property
    def seconds(self) -> int:
        return self.count * self.unit.seconds


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
