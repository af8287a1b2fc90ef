"""Resolves which feeds a query reads: addresses, names, tags, and other query feeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from headwater.formats.values.links import normalise_url
from headwater.language.ast import AllSources, CreateFeed, FeedAddress, FeedName, Query, TaggedSources
from headwater.language.normal_form import list_join_sources, list_read_feeds, list_sources
from headwater.query.items.origin import Origin


class SourceScope:
    """Finds the feeds that a query reads, among all feeds."""

    def __init__(self, origins: Mapping[int, Origin], definitions: Mapping[str, Query]) -> None:
        self._origins = origins
        self._definitions = definitions  # by folded name

    # Computed on demand: with 100,000 feeds, each takes longer than the rest of a preview.

    @cached_property
    def _by_address(self) -> dict[str, int]:
        return {normalise_url(origin.url): feed for feed, origin in self._origins.items()}

    @cached_property
    def _by_name(self) -> dict[str, set[int]]:
        found: dict[str, set[int]] = {}
        for feed, origin in self._origins.items():
            for name in filter(None, (origin.name, *origin.aliases)):
                found.setdefault(name.casefold(), set()).add(feed)
        return found

    @cached_property
    def _by_tag(self) -> dict[str, set[int]]:
        found: dict[str, set[int]] = {}
        for feed, origin in self._origins.items():
            for tag in origin.tags:
                found.setdefault(tag.casefold(), set()).add(feed)
        return found

    def find_feeds(self, query: Query, joined: bool = False) -> set[int]:
        """Return the feeds whose items may match the query; with `joined`, also the feeds of its joins."""
        return self._collect_feeds(query, joined, set())

    def _collect_feeds(self, query: Query, joined: bool, passed: set[str]) -> set[int]:
        found: set[int] = set()
        sources = [query_source.source for query_source in list_sources(query)]
        if joined:
            sources += [query_source.source for join in query.joins for query_source in list_join_sources(query, join)]
        for source in sources:
            found |= self._find_source_feeds(source, joined, passed)
        return found

    def _find_source_feeds(
        self, source: FeedAddress | FeedName | TaggedSources | AllSources, joined: bool, passed: set[str]
    ) -> set[int]:
        match source:
            case FeedAddress(url):
                feed = self._by_address.get(normalise_url(url))
                return set() if feed is None else {feed}
            case TaggedSources(tag):
                return self._by_tag.get(tag.casefold(), set())
            case AllSources():
                return {feed for feed, origin in self._origins.items() if origin.registered}
            case FeedName():
                inner = self._definitions.get(source.key)
                if inner is None:
                    return self._by_name.get(source.key, set())
                if source.key in passed:
                    return set()
                return self._collect_feeds(inner, joined, passed | {source.key})


def sort_by_dependency(creates: Iterable[CreateFeed]) -> list[CreateFeed]:
    """Sort definitions so that each comes after those it reads."""
    by_key = {create.name.key: create for create in creates}
    done: dict[str, CreateFeed] = {}
    for start in by_key:
        todo = [start]
        entered: set[str] = set()
        while todo:
            key = todo[-1]
            lower = [read.key for read in list_read_feeds(by_key[key].query) if read.key in by_key]
            missing = [each for each in lower if each not in done and each not in entered]
            if missing and key not in entered:
                entered.add(key)
                todo += missing
            else:
                entered.add(key)
                done.setdefault(key, by_key[key])
                todo.pop()
    return list(done.values())
