"""Query feeds that do more than filter: they join, drop repetitions, write items anew, or are read by other feeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.language.ast import DEFAULT_DISTINCT_WINDOW, JoinKind, Query
from headwater.query.feeds.look_back_window import LookBackWindow
from headwater.query.feeds.templates import rewrite_item
from headwater.query.hits import Related
from headwater.query.index.features import ItemFeatures
from headwater.query.items.analysed_item import AnalysedItem
from headwater.query.items.similarity import WordFrequencies
from headwater.query.query_document import ItemKey


@dataclass(slots=True, eq=False)
class DerivedFeed:
    """A query feed that is evaluated after the feeds it reads, and what it remembers.

    `level` is 0 where it reads source feeds only. `rewrites`: what it emits may differ from what came in. `readers`
    are the keys of the query feeds that read it.
    """

    name: str
    query: Query
    level: int = 0
    rewrites: bool = False
    readers: set[str] = field(default_factory=set)
    secondaries: list[LookBackWindow] = field(default_factory=list)
    firsts: LookBackWindow | None = None

    def __post_init__(self) -> None:
        self.secondaries = [LookBackWindow(join.within, join.other, join.at) for join in self.query.joins]
        distinct = self.query.distinct
        if distinct is not None:
            self.firsts = LookBackWindow(distinct.within or DEFAULT_DISTINCT_WINDOW, distinct.field, distinct.at)

    @property
    def feature(self) -> str:
        return f"@q{self.name.casefold()}"

    def emit_item(
        self, matched: Mapping[int, ItemFeatures], before: bool, frequencies: WordFrequencies
    ) -> DerivedItem | None:
        """What comes out of an item that came through these sources; None if nothing does.

        An item emitted `before` is neither joined again nor compared with others.
        """
        if not matched:
            return None
        seen = matched[min(matched)].seen
        related: tuple[Related, ...] | None = None
        if not before:
            found = self._find_joined(seen, frequencies)
            if found is None or self._is_repeat(seen, frequencies):
                return None
            related = found if self.secondaries else None
        return DerivedItem(rewrite_item(seen, self.query.settings), frozenset(matched), related)

    def remember_secondary(self, number: int, matched: Mapping[int, ItemFeatures]) -> None:
        """An item came through the secondary side of a join: later ones are joined with it."""
        seen = matched[min(matched)].seen
        self.secondaries[number].add_item(seen.arrived, seen)

    def _find_joined(self, seen: AnalysedItem, frequencies: WordFrequencies) -> tuple[Related, ...] | None:
        """What the joins find, in the order of arrival; None if one of them keeps the item out."""
        related: dict[ItemKey, Related] = {}
        for join, past in zip(self.query.joins, self.secondaries, strict=True):
            alike = past.find_matches(seen, join.field, frequencies.field_weights(join.field))
            found = [entry for entry in alike if entry.related.key != seen.key]  # not an earlier version of itself
            if bool(found) is (join.kind is JoinKind.ANTI) and join.kind is not JoinKind.LEFT:
                return None
            related |= {entry.related.key: entry.related for entry in found}
        return tuple(sorted(related.values(), key=lambda other: other.first_seen))

    def _is_repeat(self, seen: AnalysedItem, frequencies: WordFrequencies) -> bool:
        """Whether DISTINCT keeps the item out; if not, later ones are compared with it."""
        if self.firsts is None:
            return False
        alike = self.firsts.find_matches(seen, self.firsts.field, frequencies.field_weights(self.firsts.field))
        if any(entry.related.key != seen.key for entry in alike):  # one that is matched again after a failure is none
            return True
        self.firsts.add_item(seen.arrived, seen)
        return False


@dataclass(frozen=True, slots=True)
class DerivedItem:
    seen: AnalysedItem
    branches: frozenset[int]
    related: tuple[Related, ...] | None
