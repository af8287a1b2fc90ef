"""Defines the syntax tree of a script: statements, queries, sources, conditions, clauses and values.

All nodes are frozen, hashable and compare by meaning: positions, comments and equivalent spellings do not count, so
equal conditions of different queries can share their work.

    Script ─ statements ─ CreateFeed ─ Query ─ branches ─ Branch ─ source: FeedAddress | FeedName | TaggedSources
                        │                    │                   │         | AllSources | SourceGroup
                        │                    │                   └ filter: Condition, var
                        │                    ├ joins ─ Join ─ Branch, window, fields
                        │                    ├ where: Condition
                        │                    └ keep, distinct, order, importance, target, deliveries, every, settings
                        ├ DropFeed
                        └ RegisterFeed

`And` never contains an `And` directly, nor `Or` an `Or`: the parser and `conjoin_conditions` flatten them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import cache
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple, TypeAlias

import msgspec


class SyntaxNode(msgspec.Struct, frozen=True, array_like=True, tag=True, eq=False, omit_defaults=True):
    """Base class of all nodes. `ignored_fields` do not count in comparisons: positions and spellings.

    Nodes are structs of msgspec and not dataclasses, because msgspec unpacks the binary form at the speed of C.
    """

    ignored_fields: ClassVar[frozenset[str]] = frozenset({"pos", "listed", "comments", "warnings"})

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        get_meaning = _meaning_getter(type(self))
        return get_meaning(self) == get_meaning(other)

    def __hash__(self) -> int:
        return hash(_meaning_getter(type(self))(self))

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in _meaningful_fields(type(self)))
        return f"{type(self).__name__}({', '.join(shown)})"


def _meaningful_fields(kind: type[SyntaxNode]) -> tuple[str, ...]:
    return tuple(name for name in kind.__struct_fields__ if name not in kind.ignored_fields)


@cache
def _meaning_getter(kind: type[SyntaxNode]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that gets the compared values of a node. They include the class, so that hashes differ."""
    return attrgetter("__class__", *_meaningful_fields(kind))


class Position(NamedTuple):
    """A position in the text. Lines and columns start at 1; columns count characters."""

    line: int
    column: int


NOWHERE = Position(0, 0)


class Field(StrEnum):
    """A field of an item. ARRIVAL exists in ORDER BY only."""

    __hash__ = str.__hash__  # Enum's hash is a Python function, and fields are the keys of every analysed item

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
    def value_kind(self) -> str:
        """The kind of its values; only values of one kind can be equal."""
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


class TimeUnit(StrEnum):
    SECOND = "SECOND"
    MINUTE = "MINUTE"
    HOUR = "HOUR"
    DAY = "DAY"
    WEEK = "WEEK"
    MONTH = "MONTH"

    @property
    def seconds(self) -> int:
        """The length of the unit; a month has thirty days."""
        return _UNIT_SECONDS[self]


_UNIT_SECONDS = {
    TimeUnit.SECOND: 1,
    TimeUnit.MINUTE: 60,
    TimeUnit.HOUR: 3_600,
    TimeUnit.DAY: 86_400,
    TimeUnit.WEEK: 604_800,
    TimeUnit.MONTH: 2_592_000,
}


class ComparisonOperator(StrEnum):
    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


class LastWindow(SyntaxNode, frozen=True):
    """LAST n: n items if `unit` is None, otherwise a duration."""

    count: int
    unit: TimeUnit | None = None

    @property
    def seconds(self) -> int | None:
        return None if self.unit is None else self.count * self.unit.seconds


class Instant(SyntaxNode, frozen=True):
    """A date as written, "2024-03-01" or "2024-03-01T08:00Z", and its epoch seconds."""

    ignored_fields: ClassVar[frozenset[str]] = frozenset({"text"})

    text: str
    epoch: float


class RelativeInstant(SyntaxNode, frozen=True):
    """NOW, or NOW - n units, evaluated when an item arrives."""

    count: int = 0
    unit: TimeUnit | None = None

    @property
    def seconds(self) -> int:
        return 0 if self.unit is None else self.count * self.unit.seconds


class Duration(SyntaxNode, frozen=True):
    count: int
    unit: TimeUnit

    @property
    def seconds(self) -> int:
        return self.count * self.unit.seconds


class FeedAddress(SyntaxNode, frozen=True):
    """A feed named by its http(s) address. FEED "title" has no address until `parse` finds it in a catalogue."""

    url: str
    pos: Position = NOWHERE
    title: str = ""


class FeedName(SyntaxNode, frozen=True):
    """The name of a registered feed or query feed. Compare names by `key`, which ignores case."""

    name: str
    pos: Position = NOWHERE

    @property
    def key(self) -> str:
        return self.name.casefold()


class And(SyntaxNode, frozen=True):
    """All of `parts`. Without parts it is TRUE, which no script can write."""

    parts: tuple[Condition, ...]
    pos: Position = NOWHERE


class Or(SyntaxNode, frozen=True):
    parts: tuple[Condition, ...]
    pos: Position = NOWHERE


class Not(SyntaxNode, frozen=True):
    part: Condition
    pos: Position = NOWHERE


class Scoped(SyntaxNode, frozen=True):
    """$var[part]: a top-level part of WHERE that applies to the branch or join named `var` only."""

    var: str
    part: Condition
    pos: Position = NOWHERE


class Contains(SyntaxNode, frozen=True):
    """Text CONTAINS any of `values`, or all of them if `all`. A value is a word or phrase; `*` at its end is a prefix.

    `exact` compares without folding case and accents. `listed` records the spelling ANY (…) or ALL (…).
    """

    field: Field
    values: tuple[str, ...]
    all: bool = False
    exact: bool = False
    pos: Position = NOWHERE
    listed: bool = False


class Near(SyntaxNode, frozen=True):
    """Both phrases occur in one value of the field, at most `distance` words apart, in either order."""

    field: Field
    left: str
    distance: int
    right: str
    pos: Position = NOWHERE


class Equals(SyntaxNode, frozen=True):
    """Text =, != or IN: compares whole folded values. `negated` negates the comparison. `listed` records IN (…)."""

    field: Field
    values: tuple[str, ...]
    all: bool = False
    negated: bool = False
    pos: Position = NOWHERE
    listed: bool = False


class Matches(SyntaxNode, frozen=True):
    """Text MATCHES /pattern/: RE2 searches the original text without markup."""

    field: Field
    pattern: str
    ignore_case: bool = False
    pos: Position = NOWHERE


class Similar(SyntaxNode, frozen=True):
    """Text SIMILAR TO "…" AT at: the cosine of tf-idf is at least `at`."""

    field: Field
    text: str
    at: float = 0.5
    pos: Position = NOWHERE


class DateIs(SyntaxNode, frozen=True):
    """Compares PUBLISHED or UPDATED with an instant."""

    field: Field
    cmp: ComparisonOperator
    when: Instant | RelativeInstant
    pos: Position = NOWHERE


class DateIn(SyntaxNode, frozen=True):
    """PUBLISHED or UPDATED IN LAST duration, relative to the arrival of the item."""

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
    """SOURCE =, != or IN: the item comes from one of these feeds. `listed` records IN (…)."""

    sources: tuple[FeedName | FeedAddress, ...]
    negated: bool = False
    pos: Position = NOWHERE
    listed: bool = False


class Changed(SyntaxNode, frozen=True):
    """CHANGED(field) [BY cmp percent %]: this version differs from the one before, or so much of its words do."""

    field: Field
    cmp: ComparisonOperator | None = None
    percent: float = 0.0
    pos: Position = NOWHERE


class StoryMeasure(StrEnum):
    SOURCES = "SOURCES"
    ITEMS = "ITEMS"


class StoryCount(SyntaxNode, frozen=True):
    """STORY SOURCES or ITEMS compared with a number: all of the item's story, or those that came `within` a time."""

    measure: StoryMeasure
    cmp: ComparisonOperator
    number: int
    within: LastWindow | None = None
    pos: Position = NOWHERE


class FirstOfStory(SyntaxNode, frozen=True):
    """FIRST OF STORY: the item began its story."""

    pos: Position = NOWHERE


class StoryGrowing(SyntaxNode, frozen=True):
    """STORY GROWING BY number WITHIN window: so many new publishers in the time, and more than in the time before."""

    number: int = 5
    within: LastWindow = LastWindow(6, TimeUnit.HOUR)
    pos: Position = NOWHERE


StoryAtom: TypeAlias = StoryCount | FirstOfStory | StoryGrowing
TextAtom: TypeAlias = Contains | Near | Equals | Matches | Similar
Atom: TypeAlias = TextAtom | DateIs | DateIn | SizeIs | Has | SourceIs | Changed | StoryAtom
Condition: TypeAlias = And | Or | Not | Scoped | Atom

TRUE = And(())


def conjoin_conditions(parts: Iterable[Condition | None]) -> Condition:
    """Join the given conditions with AND, without nesting; None is skipped.

    >>> conjoin_conditions([None, Has(Field.LINK)])
    Has(field=<Field.LINK: 'LINK'>)
    """
    flat: list[Condition] = []
    for part in parts:
        if part is not None:
            flat.extend(part.parts if isinstance(part, And) else (part,))
    return flat[0] if len(flat) == 1 else And(tuple(flat))


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
    "Changed",
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
    "FirstOfStory",
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
    "StoryAtom",
    "StoryCount",
    "StoryGrowing",
    "StoryMeasure",
    "TaggedSources",
    "TargetClause",
    "TimeUnit",
    "Weekday",
    "conjoin_conditions",
]


class TaggedSources(SyntaxNode, frozen=True):
    """All registered feeds with this tag, including later ones."""

    tag: str
    pos: Position = NOWHERE


class AllSources(SyntaxNode, frozen=True):
    """ALL: every registered source feed, including later ones, but no query feeds."""

    pos: Position = NOWHERE


class SourceGroup(SyntaxNode, frozen=True):
    """Sources in parentheses."""

    branches: tuple[Branch, ...]
    pos: Position = NOWHERE


Source: TypeAlias = FeedAddress | FeedName | TaggedSources | AllSources | SourceGroup


class Branch(SyntaxNode, frozen=True):
    """source [filter] AS $var; `var` is stored without the dollar sign."""

    source: Source
    filter: Condition | None = None
    var: str | None = None
    pos: Position = NOWHERE


class JoinKind(StrEnum):
    INNER = "JOIN"
    LEFT = "LEFT JOIN"
    ANTI = "ANTI JOIN"


class Join(SyntaxNode, frozen=True):
    """kind branch WITHIN window ON field (= | SIMILAR TO) $var.other [AT at]; equality has no `at`."""

    kind: JoinKind
    branch: Branch
    within: LastWindow
    field: Field
    other: Field
    at: float | None = None
    pos: Position = NOWHERE


# Clauses -------------------------------------------------------------------------------------------------------


class DistinctClause(SyntaxNode, frozen=True):
    """DISTINCT ON field [AT at] [WITHIN window]. `at` compares by similarity; the default window is two days."""

    field: Field
    within: LastWindow | None = None
    at: float | None = None
    pos: Position = NOWHERE


class OrderClause(SyntaxNode, frozen=True):
    field: Field
    descending: bool
    pos: Position = NOWHERE


class TargetClause(SyntaxNode, frozen=True):
    """The quality that the scheduler aims for; None means no target."""

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


class Weekday(StrEnum):
    """A day of the week, Monday first as in `datetime.weekday`."""

    MONDAY = "MONDAY"
    TUESDAY = "TUESDAY"
    WEDNESDAY = "WEDNESDAY"
    THURSDAY = "THURSDAY"
    FRIDAY = "FRIDAY"
    SATURDAY = "SATURDAY"
    SUNDAY = "SUNDAY"


class EveryClause(SyntaxNode, frozen=True):
    """EVERY span or weekdays [AT at]: sends digests, optionally at a time of day ("07:30", in the author's zone)."""

    span: Duration
    at: str | None = None
    weekdays: tuple[Weekday, ...] = ()
    pos: Position = NOWHERE


class DeliverClause(SyntaxNode, frozen=True):
    """DELIVER TO kind address [EVERY …]; without `every`, that of the query applies."""

    kind: DeliveryFormat
    address: str | None = None
    every: EveryClause | None = None
    pos: Position = NOWHERE


class Assignment(SyntaxNode, frozen=True):
    """SET field = or += template."""

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
    deliveries: tuple[DeliverClause, ...] = ()
    every: EveryClause | None = None
    settings: tuple[Assignment, ...] = ()
    each_story: bool = False
    pos: Position = NOWHERE


# Statements ----------------------------------------------------------------------------------------------------


class _Statement(SyntaxNode, frozen=True):
    ignored_fields: ClassVar[frozenset[str]] = SyntaxNode.ignored_fields | {"text"}


class CreateFeed(_Statement, frozen=True):
    """CREATE [OR REPLACE] FEED name AS query; `text` is the statement as written."""

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
