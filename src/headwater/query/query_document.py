"""Selects and orders the items that a query feed shows (KEEP, ORDER BY).

The order is total (PUBLISHED, then arrival, both newest first, then id), so equal windows give equal documents.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headwater.language.ast import DEFAULT_KEEP_WINDOW, Field, Query
from headwater.query.items.analysed_item import AnalysedItem
from headwater.query.items.related_item import Related
from headwater.query.items.tokens import fold_value

ItemKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Emission:
    """An item as a query feed publishes it.

    `analysed` is the item after SET, `original` the same version from its source. `branches` are the numbers of the
    matched sources, `related` the items found by joins (None without joins). `arrived` and `sequence` belong to
    its first emission. `fresh` says that it should be delivered: it is neither back-filled nor delivered before. An
    `update` changes an item in place and is never fresh.
    """

    analysed: AnalysedItem
    branches: frozenset[int]
    related: tuple[AnalysedItem | Related, ...] | None
    arrived: float
    sequence: int
    fresh: bool = True
    update: bool = False

    original: AnalysedItem | None = None

    @property
    def key(self) -> ItemKey:
        return self.analysed.key

    @property
    def is_retitled(self) -> bool:
        """Return whether SET, here or in a feed below, has changed the title."""
        return self.original is not None and self.original.item.title != self.analysed.item.title


def select_items(query: Query, emitted: Iterable[Emission], now: float) -> list[Emission]:
    """Return the items of the feed's document at `now`, in order."""
    by_arrival = query.order is not None and query.order.field is Field.ARRIVAL
    window = _apply_keep(query, list(emitted), now, by_arrival)
    if query.order is None or by_arrival:
        return window[::-1] if query.order is not None and not query.order.descending else window
    field, descending = query.order.field, query.order.descending
    sortable = [(value, emission) for emission in window if (value := _sort_key(emission.analysed, field)) is not None]
    sortable.sort(key=lambda pair: pair[0], reverse=descending)  # stable both ways: equal values stay newest first
    missing = [emission for emission in window if _sort_key(emission.analysed, field) is None]
    return [emission for _, emission in sortable] + missing


def _apply_keep(query: Query, emitted: list[Emission], now: float, by_arrival: bool) -> list[Emission]:
    """Apply KEEP, newest first. A feed ordered by arrival keeps the latest arrivals, so nothing is ever inserted."""
    emitted.sort(key=_arrival_order if by_arrival else _publication_order)
    keep = query.keep or DEFAULT_KEEP_WINDOW
    if keep.seconds is None:
        return emitted[: keep.count]
    since = now - keep.seconds
    return [e for e in emitted if (e.arrived if by_arrival else e.analysed.item.published) >= since]


def _publication_order(emission: Emission) -> tuple[float, float, int, ItemKey]:
    return -emission.analysed.item.published, -emission.arrived, emission.analysed.item.id or 0, emission.key


def _arrival_order(emission: Emission) -> tuple[float, int, int, ItemKey]:
    return -emission.arrived, -emission.sequence, emission.analysed.item.id or 0, emission.key


def _sort_key(analysed: AnalysedItem, field: Field) -> tuple[float, str] | None:
    """Return a comparable form of numbers and folded texts; None for a missing value, which comes last."""
    if field.is_date:
        date = analysed.field_date(field)
        return None if date is None else (date, "")
    if field is Field.SIZE:
        return analysed.size, ""
    if field is Field.SOURCE:
        return 0.0, fold_value(analysed.origin.label)
    texts = analysed.field_texts(field)
    return (0.0, fold_value(texts[0])) if texts else None
