"""An item while its element is read: the best value of each field so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lxml import etree

from headwater.formats.context import Context
from headwater.model import Enclosure, Source


class Draft:
    """What has been seen of an item so far: the best value of each field, and how good it is (0 is best)."""

    __slots__ = (
        "authors", "categories", "enclosures", "further", "guid", "language", "languages", "pictures", "ranks",
        "source", "values",
    )  # fmt: skip

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.ranks: dict[str, int] = {}
        self.authors: list[str] = []
        self.further: list[str] = []
        self.categories: list[str] = []
        self.enclosures: list[Enclosure] = []
        self.pictures: list[Enclosure] = []
        self.language: str | None = None
        self.languages: dict[str, str] | None = None
        self.guid: etree._Element | None = None
        self.source: Source | None = None

    def offer(self, field: str, rank: int, value: str | float | None) -> None:
        if value is not None and rank < self.ranks.get(field, 99):
            self.ranks[field] = rank
            self.values[field] = value


Handler = Callable[[Draft, etree._Element, Context], None]
"""Adds what an element says to the draft of its item."""
