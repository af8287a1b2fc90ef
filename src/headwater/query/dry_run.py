"""Runs a script over a table of items and collects the documents of its query feeds."""

from __future__ import annotations

from dataclasses import replace

from headwater.language.ast import CreateFeed, Query, RegisterFeed, Script
from headwater.language.normal_form import uses_changes, uses_stories
from headwater.model import Item
from headwater.query.engine import Engine
from headwater.query.hits import Hit
from headwater.query.items.analysed_item import AnalysedItem, LanguageDetector
from headwater.query.items.origin import Origin, apply_registrations
from headwater.query.query_document import Emission, ItemKey, select_items
from headwater.query.stories.story_items import ItemStory
from headwater.query.stories.story_placer import StoryPlacer


class DryRun:
    """Runs the query feeds of a script, as they are at its end, over up to `items` items."""

    def __init__(self, script: Script, items: int, detect: LanguageDetector | None = None) -> None:
        self._detect = detect
        self._engine = Engine(detect, remember=max(items, 1))
        self._registered: dict[str, RegisterFeed] = {}
        self._queries: dict[str, Query] = {}
        for statement in script.statements:
            self._engine.execute(statement)
            if isinstance(statement, RegisterFeed):
                self._registered[statement.name.key] = statement
            elif isinstance(statement, CreateFeed):
                self._queries[statement.name.name.casefold()] = statement.query
            else:
                self._registered.pop(statement.name.key, None)
        self._versions: dict[ItemKey, Item] | None = {} if any(map(uses_changes, self._queries.values())) else None
        self._placer = StoryPlacer() if any(map(uses_stories, self._queries.values())) else None
        self._emitted: dict[str, dict[ItemKey, Emission]] = {name: {} for name in self._engine.query_names()}
        self._origins: dict[Origin, None] = {}
        self._last_arrival = 0.0
        self._event_count = 0

    def add_arrival(self, item: Item, origin: Origin, arrived: float) -> None:
        known = apply_registrations(origin, self._registered.values())
        story, previous = self._place_item(item, known, arrived), self._find_previous(item, origin)
        for hit in self._engine.match(item, origin, arrived, story=story, previous=previous):
            emitted = self._emitted[hit.query]
            emission = self._make_emission(hit, hit.origin or known, arrived)
            before = emitted.get(emission.key)
            if before is not None:
                emission = replace(
                    before,
                    analysed=emission.analysed,
                    original=emission.original,
                    branches=before.branches | emission.branches,
                    related=before.related if emission.related is None else emission.related,
                    fresh=False,
                    update=True,
                )
            emitted[emission.key] = emission
        self._last_arrival = max(self._last_arrival, arrived) if self._event_count else arrived
        self._event_count += 1

    def _place_item(self, item: Item, origin: Origin, arrived: float) -> ItemStory | None:
        """Group the items of the table as the server would, if a query asks for stories."""
        if self._placer is None:
            return None
        if self._placer.knows(item):
            return self._placer.change_item(item)
        if origin not in self._origins:
            self._origins[origin] = None
            self._placer.set_origins(self._origins)
        return self._placer.place_item(item, origin, arrived).story

    def _find_previous(self, item: Item, origin: Origin) -> Item | None:
        """Return the version before this one, if a query asks for changes."""
        if self._versions is None:
            return None
        previous = self._versions.get((origin.url, item.identity))
        self._versions[origin.url, item.identity] = item
        return previous

    def _make_emission(self, hit: Hit, origin: Origin, arrived: float) -> Emission:
        original = AnalysedItem(hit.original, origin, arrived, self._detect)
        analysed = original if hit.item is hit.original else original.with_item(hit.item)
        return Emission(
            analysed, hit.branches, hit.related, arrived, self._event_count, hit.fresh, hit.update, original=original
        )

    def query_names(self) -> list[str]:
        return self._engine.query_names()

    def select_items(self, name: str) -> list[Emission]:
        """Return the document of a query feed after the last arrival."""
        return select_items(self._queries[name.casefold()], self._emitted[name].values(), self._last_arrival)
