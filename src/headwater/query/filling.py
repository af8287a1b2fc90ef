"""A query feed on its own, over items of the past: what its window would hold, without any delivery."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.model import Item
from headwater.query.document import Key
from headwater.query.features import View
from headwater.query.hits import Hit
from headwater.query.index import Index
from headwater.query.layers import Layer
from headwater.query.passing import Branches, through
from headwater.query.similar import Frequencies
from headwater.query.standing import Standing


class Filling:
    def __init__(self, standing: Standing, index: Index, frequencies: Frequencies, name: str) -> None:
        record = standing.record(name)
        query = standing.query(record)
        self.number = standing.number(name)
        self._name = record.name
        self._layer = record.layer or Layer(record.name, query)
        self._conditions = list(standing.conditions(query))
        self._index = index
        self._frequencies = frequencies
        self._emitted: set[Key] = set()

    def take(self, view: View, emitted: Mapping[str, Item]) -> Hit | None:
        """The next item; `emitted` is what the query feeds that the feed reads had made of it."""
        changed: dict[str, View] = {}
        for name, item in emitted.items():
            feature = f"@q{name.casefold()}"
            if item != view.seen.item:
                changed[feature] = self._index.view(view.seen.rewritten(item), view.sources())
            view.features.add(feature)
        parts: dict[int, Branches] = {}
        for part, rule, numbers in self._conditions:
            for at, came in through(rule, view, changed):
                parts.setdefault(part, {}).update(dict.fromkeys(numbers[at], came))
        key = view.seen.key
        update = key in self._emitted
        found = self._layer.emit(parts.pop(0, {}), update, self._frequencies)
        for part, branches in parts.items():
            self._layer.remember(part - 1, branches)
        if found is None:
            return None
        self._emitted.add(key)
        return Hit(self._name, found.seen.item, view.seen.item, found.branches, found.related, update, fresh=False)
