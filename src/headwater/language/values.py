"""The small values of which queries are made: places in the text, fields, units, comparisons, windows, instants."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, NamedTuple

from headwater.language.said import Said


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


class Window(Said, frozen=True):
    """LAST n of something: n items when `unit` is None, else a span of time."""

    count: int
    unit: Unit | None = None

    @property
    def seconds(self) -> int | None:
        return None if self.unit is None else self.count * self.unit.seconds


class Instant(Said, frozen=True):
    """A date as written: "2024-03-01" or "2024-03-01T08:00Z"; `epoch` is what it means."""

    aside: ClassVar[frozenset[str]] = frozenset({"text"})

    text: str
    epoch: float


class Ago(Said, frozen=True):
    """NOW, or NOW - n units; evaluated when an item arrives."""

    count: int = 0
    unit: Unit | None = None

    @property
    def seconds(self) -> int:
        return 0 if self.unit is None else self.count * self.unit.seconds


class Span(Said, frozen=True):
    count: int
    unit: Unit

    @property
    def seconds(self) -> int:
        return self.count * self.unit.seconds
