"""One item on its way through the rules it could meet, level by level: query feeds after those they read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headwater.query.features import View
from headwater.query.hits import Failure, Hit
from headwater.query.index import Index
from headwater.query.layers import Layer
from headwater.query.nodes import holds
from headwater.query.recent import Before
from headwater.query.rules import Rule
from headwater.query.similar import Frequencies
from headwater.query.standing import PART, PARTS, Standing

Branches = dict[int, View]
"""The sources of a query through which the item came, each with the item as it came through."""


class Passing:
    """What grows as it goes on: `plain`, the queries it comes out of unchanged through their only source; `hits` and
    `numbers`, of all others; `failures`, those that could not be tried."""

    def __init__(
        self, view: View, standing: Standing, index: Index, frequencies: Frequencies, before: Before, stamp: int
    ) -> None:
        self.plain: list[int] = []
        self.hits: list[Hit] = []
        self.numbers: list[int] = []
        self.failures: list[Failure] = []
        self._view = view
        self._standing = standing
        self._index = index
        self._frequencies = frequencies
        self._before = before
        self._stamp = stamp
        self._changed: dict[str, View] = {}  # by feature, what query feeds that rewrite have made of the item
        self._matched: dict[int, dict[int, Branches]] = {}  # query → its part → branches
        self._waiting: dict[int, list[Rule]] = {}
        self._ready: dict[int, list[tuple[int, Layer]]] = {}

    def go(self, rules: Iterable[Rule]) -> None:
        stamp = self._stamp
        for rule in rules:
            if rule.level:
                self._waiting.setdefault(rule.level, []).append(rule)
            elif rule.stamp != stamp:
                rule.stamp = stamp
                self._try(rule)
        while self._waiting or self._ready:
            level = (
                min(*self._waiting, *self._ready)
                if self._waiting and self._ready
                else min(self._waiting or self._ready)
            )
            for rule in self._waiting.pop(level, ()):
                if rule.stamp != self._stamp:
                    rule.stamp = self._stamp
                    self._try(rule)
            for number, layer in self._ready.pop(level, ()):
                try:
                    self._emit(number, layer)
                except Exception as error:  # as in `_try`
                    self._fail((number,), error)
        for number, parts in self._matched.items():
            self._plain(number, parts[0])

    def _wait(self, rules: Iterable[Rule]) -> None:
        for rule in rules:
            self._waiting.setdefault(rule.level, []).append(rule)

    def _try(self, rule: Rule) -> None:
        try:
            came = list(through(rule, self._view, self._changed))
        except Exception as error:  # a defect of one condition must not keep the item from all others
            self._fail({*rule.plain, *(owner >> PARTS for owner in rule.owners)}, error)
            return
        if not came:
            return
        self.plain += rule.plain
        for owner, numbers in zip(rule.owners, rule.numbers, strict=True):
            query, part = owner >> PARTS, owner & PART
            parts = self._matched.get(query)
            if parts is None:
                parts = self._matched[query] = {}
                record = self._standing.records[query]
                if record is not None and record.layer is not None:
                    self._ready.setdefault(record.layer.level, []).append((query, record.layer))
            branches = parts.setdefault(part, {})
            for at, view in came:
                for number in numbers[at]:
                    branches[number] = view

    def _fail(self, numbers: Iterable[int], error: Exception) -> None:
        named = [record.name for number in sorted(numbers) if (record := self._standing.records[number]) is not None]
        self.failures += [Failure(name, error) for name in named]

    def _plain(self, number: int, branches: Branches) -> None:
        """A feed that only filters."""
        record = self._standing.records[number]
        assert record is not None
        item, before = self._view.seen.item, self._before
        update = before is not None and before.emitted(number, record)
        fresh = not update and (before is None or not before.delivered(number, record))
        self.hits.append(Hit(record.name, item, item, frozenset(branches), None, update, fresh))
        self.numbers.append(number)

    def _emit(self, number: int, layer: Layer) -> None:
        parts = self._matched.pop(number)
        record = self._standing.records[number]
        assert record is not None
        before = self._before
        update = before is not None and before.emitted(number, record)
        emitted = layer.emit(parts.pop(0, {}), update, self._frequencies)
        for part, branches in parts.items():  # after the main side: an item is not joined with itself
            layer.remember(part - 1, branches)
        if emitted is None:
            return
        fresh = not update and (before is None or not before.delivered(number, record))
        original = self._view.seen
        hit = Hit(record.name, emitted.seen.item, original.item, emitted.branches, emitted.related, update, fresh)
        self.hits.append(hit)
        self.numbers.append(number)
        if layer.readers:
            self._view.features.add(layer.feature)
            if emitted.seen is not original:
                self._changed[layer.feature] = self._index.view(emitted.seen, self._view.sources())
            self._wait(self._index.rules_of(layer.feature))


def through(rule: Rule, view: View, changed: dict[str, View]) -> Iterator[tuple[int, View]]:
    """The sources of the rule through which the item meets its condition, by their places in it."""
    features, tree = view.features, rule.tree
    verdict: bool | None = None  # on the item as it arrived, asked once
    for at, source in enumerate(rule.sources):
        if source in features:
            if source in changed:
                if holds(tree, changed[source]):
                    yield at, changed[source]
                continue
            if verdict is None:
                verdict = holds(tree, view)
            if verdict:
                yield at, view
