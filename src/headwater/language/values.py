"""The small values of which queries are made: places in the text, fields, units, comparisons, windows, instants."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, NamedTuple

from headwater.language.said import SyntaxNode


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
    def value_kind(self) -> str:
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


class TimeUnit(StrEnum):
    SECOND = "SECOND"
    MINUTE = "MINUTE"
    HOUR = "HOUR"
    DAY = "DAY"
    WEEK = "WEEK"
    MONTH = "MONTH"

    @property
    def seconds(self) -> int:
        """A month is thirty days."""
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
    """LAST n of something: n items when `unit` is None, else a span of time."""

    count: int
    unit: TimeUnit | None = None

    @property
    def seconds(self) -> int | None:
        return None if self.unit is None else self.count * self.unit.seconds


class Instant(SyntaxNode, frozen=True):
    """A date as written: "2024-03-01" or "2024-03-01T08:00Z"; `epoch` is what it means."""

    ignored_fields: ClassVar[frozenset[str]] = frozenset({"text"})

    text: str
    epoch: float


class RelativeInstant(SyntaxNode, frozen=True):
    """NOW, or NOW - n units; evaluated when an item arrives."""

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
