"""A script tried on a table of items: the engine runs, and what its query feeds would show is kept."""

from __future__ import annotations

from dataclasses import replace

from headwater.language.ast import Create, Query, Register, Script
from headwater.model import Item
from headwater.query.document import Emission, Key, document
from headwater.query.engine import Engine
from headwater.query.hits import Hit
from headwater.query.origins import known_as
from headwater.query.text import Analysed, Detect, Origin


class Trial:
    """The query feeds of a script, from its end on; `items` is how many are going to come."""

    def __init__(self, script: Script, items: int, detect: Detect | None = None) -> None:
        self._detect = detect
        self._engine = Engine(detect, remember=max(items, 1))
        self._registered: dict[str, Register] = {}
        self._queries: dict[str, Query] = {}
        for statement in script.statements:
            self._engine.execute(statement)
            if isinstance(statement, Register):
                self._registered[statement.name.key] = statement
            elif isinstance(statement, Create):
                self._queries[statement.name.name.casefold()] = statement.query
            else:
                self._registered.pop(statement.name.key, None)
        self._emitted: dict[str, dict[Key, Emission]] = {name: {} for name in self._engine.names()}
        self._arrived = 0.0
        self._events = 0

    def arrive(self, item: Item, origin: Origin, arrived: float) -> None:
        known = known_as(origin, self._registered.values())
        for hit in self._engine.match(item, origin, arrived):
            emitted = self._emitted[hit.query]
            emission = self._emission(hit, known, arrived)
            before = emitted.get(emission.key)
            if before is not None:
                emission = replace(
                    before,
                    seen=emission.seen,
                    original=emission.original,
                    branches=before.branches | emission.branches,
                    fresh=False,
                    update=True,
                )
            emitted[emission.key] = emission
        self._arrived = max(self._arrived, arrived) if self._events else arrived
        self._events += 1

    def _emission(self, hit: Hit, origin: Origin, arrived: float) -> Emission:
        original = Analysed(hit.original, origin, arrived, self._detect)
        seen = original if hit.item is hit.original else original.rewritten(hit.item)
        return Emission(
            seen, hit.branches, hit.related, arrived, self._events, hit.fresh, hit.update, original=original
        )

    def names(self) -> list[str]:
        return self._engine.names()

    def document(self, name: str) -> list[Emission]:
        """What the feed shows after the last arrival."""
        return document(self._queries[name.casefold()], self._emitted[name].values(), self._arrived)
