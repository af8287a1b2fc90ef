"""Registers query feeds: their names, their places in the index, and which of them read each other.

A feed that only filters has a name, its text and a place in the index. A feed that joins, deduplicates or rewrites,
reads query feeds or is read by one, also has a `DerivedFeed`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from headwater.errors import InputError, NotFound, QueryError
from headwater.language import parse
from headwater.language.ast import (
    TRUE,
    AllSources,
    Condition,
    CreateFeed,
    FeedAddress,
    FeedName,
    Query,
    Script,
    SourceGroup,
    TaggedSources,
    conjoin_conditions,
)
from headwater.language.formatter import format_condition, format_script, format_source
from headwater.language.normal_form import (
    QuerySource,
    list_counted_sources,
    list_join_sources,
    list_read_feeds,
    list_sources,
    uses_stories,
)
from headwater.query.feeds.derived_feed import DerivedFeed
from headwater.query.index import features
from headwater.query.index.condition_index import ConditionIndex, PostingPlace
from headwater.query.index.condition_tree import BranchNumbers, ConditionNode, ConditionRule, build_tree
from headwater.query.items.similarity import WordFrequencies
from headwater.query.stories.story_views import StoryView

Source: TypeAlias = FeedAddress | FeedName | TaggedSources | AllSources

PART_BITS = 12  # bits of a rule's owner for the part of the query: 0 for the main sources, n for the n-th join
PART_MASK = (1 << PART_BITS) - 1


class QueryFeedEntry:
    """A query feed with its places in the index. `replaced` are the numbers of the definitions that it replaced."""

    __slots__ = ("derived", "name", "places", "replaced", "text")

    def __init__(self, name: str, text: str, replaced: tuple[int, ...]) -> None:
        self.name = name
        self.text = text
        self.replaced = replaced
        self.places: PostingPlace | tuple[tuple[int, ConditionRule], ...] | None = None
        self.derived: DerivedFeed | None = None


class StoryViewEntry:
    """A view of stories, the rules by which its sources let items through, and the numbers of its query feeds."""

    __slots__ = ("numbers", "rules", "sources", "view")

    def __init__(self, view: StoryView, sources: tuple[QuerySource, ...]) -> None:
        self.view = view
        self.sources = sources
        self.numbers: set[int] = set()
        self.rules: list[ConditionRule] = []


class QueryFeeds:
    """All query feeds of an engine, by number and by name."""

    def __init__(self, index: ConditionIndex, frequencies: WordFrequencies) -> None:
        self.entries: list[QueryFeedEntry | None] = []
        self._numbers: dict[str, int] = {}
        self._index = index
        self._frequencies = frequencies
        self._unknown_names: set[str] = set()  # names that queries read and that are not query feeds yet
        self.views: dict[str, StoryViewEntry] = {}
        self._views_outdated = False

    def __len__(self) -> int:
        return len(self._numbers)

    def feed_names(self) -> list[str]:
        return [self._entry_at(number).name for number in self._numbers.values()]

    def find_number(self, name: str) -> int:
        found = self._numbers.get(name.casefold())
        if found is None:
            raise NotFound(f"There is no query feed {name}.")
        return found

    def get_number(self, key: str) -> int | None:
        return self._numbers.get(key)

    def find_entry(self, name: str) -> QueryFeedEntry:
        return self._entry_at(self.find_number(name))

    def _entry_at(self, number: int) -> QueryFeedEntry:
        found = self.entries[number]
        assert found is not None
        return found

    def read_query(self, entry: QueryFeedEntry) -> Query:
        """Return the query of a feed. For a feed that only filters, parse its text again."""
        return entry.derived.query if entry.derived is not None else _parse_create(entry.text).query

    # adding

    def add_feed(self, create: CreateFeed) -> int:
        """Add a query feed, or a new definition of one, and return its number."""
        key, query = create.name.key, create.query
        number = self._numbers.get(key)
        if number is not None and not create.replace:
            raise QueryError(
                f"Feed {self._entry_at(number).name} exists already. Use CREATE OR REPLACE FEED to change it."
            )
        self._views_outdated = bool(self.views)
        simple = _split_simple_filter(query)
        if simple is not None and number is None and key not in self._unknown_names:
            number = self._store_entry(create, key)
            self._entry_at(number).places = self._post_filter(number, *simple)
            return number
        read = {name.key for name in list_read_feeds(query)}
        if read:
            self._check_cycle(key, read)
        replaced: tuple[int, ...] = ()
        readers: set[str] = set()
        if number is not None:
            replaced, readers = self._remove_definition(key, number)
        elif key in self._unknown_names:
            readers = self._adopt_readers(key)
        number = self._store_entry(create, key, replaced)
        inner = {each for each in read if each in self._numbers}
        self._unknown_names |= read - inner
        for each in inner:
            self._ensure_derived_feed(each).readers.add(key)
        stories = uses_stories(query)
        if inner or readers or query.joins or query.distinct is not None or query.settings or stories:
            derived = self._entry_at(number).derived = self._make_derived_feed(create.name.name, query, readers)
            derived.view = self._join_view(number, query) if stories else None
        self._post_feed(number, query)
        if readers:
            self._repost_readers(key)
        return number

    def _store_entry(self, create: CreateFeed, key: str, replaced: tuple[int, ...] = ()) -> int:
        name = create.name.name
        number = self.reserve_number(QueryFeedEntry(name, create.text or format_script(Script((create,))), replaced))
        self._numbers[name if key == name else key] = number
        return number

    def _make_derived_feed(self, name: str, query: Query, readers: set[str]) -> DerivedFeed:
        track_compared_fields(query, self._frequencies)
        return DerivedFeed(name, query, readers=readers)

    # stories

    def _join_view(self, number: int, query: Query) -> StoryView:
        """Return the view of the stories that the query's sources let through; equal sources share one."""
        sources = list_counted_sources(query)
        key = ("EACH STORY " if query.each_story else "") + _describe_sources(sources)
        entry = self.views.setdefault(key, StoryViewEntry(StoryView(key, query.each_story), sources))
        entry.numbers.add(number)
        self._views_outdated = True
        return entry.view

    def _leave_view(self, number: int, derived: DerivedFeed) -> None:
        if derived.view is not None:
            entry = self.views[derived.view.key]
            entry.numbers.discard(number)
            if not entry.numbers:
                del self.views[entry.view.key]

    def update_views(self) -> None:
        """Build the rules of the views again if query feeds have come or gone."""
        if self._views_outdated:
            for entry in self.views.values():
                entry.rules = self.build_view_rules(entry.sources)
            self._views_outdated = False

    def list_view_rules(self, view: StoryView) -> list[ConditionRule]:
        """Return the rules by which the sources of a view let items through."""
        return self.views[view.key].rules

    def find_derived(self, number: int) -> DerivedFeed:
        """Return the derived feed of a query feed that has one."""
        derived = self._entry_at(number).derived
        assert derived is not None
        return derived

    def build_view_rules(self, sources: tuple[QuerySource, ...]) -> list[ConditionRule]:
        """Build the rules by which sources let items through."""
        rules = [rule for rule, _ in self._group_by_condition(sources, None, self._frequencies)]
        for rule in rules:
            self._index.open_features(rule.tree)
        return rules

    def _remove_definition(self, key: str, number: int) -> tuple[tuple[int, ...], set[str]]:
        """Remove the old definition. Return the numbers it stands for and the readers of the feed."""
        old = self._entry_at(number)
        readers: set[str] = set()
        if old.derived is not None:
            readers = old.derived.readers
            self._remove_reader(key, old.derived.query)
            self._leave_view(number, old.derived)
        self._unpost_feed(number, old)
        self.entries[number] = None
        return (*old.replaced, number), readers

    def _adopt_readers(self, key: str) -> set[str]:
        """Return the feeds that already read this name, and make them derived feeds."""
        self._unknown_names.discard(key)
        readers = {
            other for other in self._numbers if any(n.key == key for n in list_read_feeds(self._find_query(other)))
        }
        for reader in readers:
            self._ensure_derived_feed(reader)
        return readers

    def reserve_number(self, entry: QueryFeedEntry | None = None) -> int:
        """Return a new number."""
        self.entries.append(entry)
        return self._index.add_owner()

    def _find_query(self, key: str) -> Query:
        return self.read_query(self._entry_at(self._numbers[key]))

    def _check_cycle(self, key: str, read: set[str]) -> None:
        todo: list[tuple[str, tuple[str, ...]]] = [(name, (key, name)) for name in sorted(read)]
        visited: set[str] = set()
        while todo:
            here, path = todo.pop()
            if here == key:
                shown = " → ".join(self._display_name(step) for step in path)
                raise QueryError(f"Feed {self._display_name(key)} would read itself: {shown}.")
            number = self._numbers.get(here)
            if number is not None and here not in visited:
                visited.add(here)
                todo += [(name.key, (*path, name.key)) for name in list_read_feeds(self._find_query(here))]

    def _display_name(self, key: str) -> str:
        number = self._numbers.get(key)
        return key if number is None else self._entry_at(number).name

    def _ensure_derived_feed(self, key: str) -> DerivedFeed:
        """Return the derived feed of a query feed, creating it if the feed only filters: another feed will read it."""
        number = self._numbers[key]
        entry = self._entry_at(number)
        if entry.derived is None:
            query = self.read_query(entry)
            self._unpost_feed(number, entry)
            entry.derived = DerivedFeed(entry.name, query)
            self._post_feed(number, query)
        return entry.derived

    def _repost_readers(self, key: str) -> None:
        """Post all readers of a changed feed again, because their levels and rules may differ.

        All of them are removed before the first is posted again: they share rules, and a rule has one level.
        """
        readers = [self._numbers[reader] for reader in self._list_readers(key)]
        for number in readers:
            self._unpost_feed(number, self._entry_at(number))
        for number in readers:
            self._post_feed(number, self.read_query(self._entry_at(number)))

    # posting

    def _post_feed(self, number: int, query: Query) -> None:
        entry = self._entry_at(number)
        if entry.derived is None:
            found = list_sources(query)
            if len(found) == 1:
                entry.places = self._post_filter(number, found[0].source, found[0].condition)
                return
        else:
            self._update_level(entry.derived, query)
        view = None if entry.derived is None else entry.derived.view
        entry.places = tuple(
            (number << PART_BITS | part, self._index.post_rule(number << PART_BITS | part, rule, numbers))
            for part, rule, numbers in self.build_rules(query, view)
        )

    def _post_filter(self, number: int, source: Source, condition: Condition) -> PostingPlace:
        tree, feature = build_tree(condition, self._frequencies), features.source_feature(source)
        place = self._index.post_simple(number, tree, feature)
        return place or self._index.post_rule(number, ConditionRule(tree, (feature,), 0, False), None)

    def _update_level(self, derived: DerivedFeed, query: Query) -> None:
        """Compute the level of a derived feed and whether it may rewrite items, from the feeds it reads."""
        below = [self._find_derived_feed(name.key) for name in list_read_feeds(query) if name.key in self._numbers]
        derived.level = max((other.level + 1 for other in below), default=0)
        sources = (query_source.source for query_source in list_sources(query))
        names = [source.key for source in sources if isinstance(source, FeedName)]
        main = [self._find_derived_feed(key) for key in names if key in self._numbers]
        derived.rewrites = bool(query.settings) or any(other.rewrites for other in main)

    def _find_derived_feed(self, key: str) -> DerivedFeed:
        return self.find_derived(self._numbers[key])

    def build_rules(
        self, query: Query, view: StoryView | None, frequencies: WordFrequencies | None = None
    ) -> Iterator[tuple[int, ConditionRule, BranchNumbers]]:
        """Yield the parts of the query, each with a rule per condition and the branches of its sources. `frequencies`
        weigh the words of SIMILAR, if not those of new items."""
        weighed = frequencies or self._frequencies
        yield from ((0, *found) for found in self._group_by_condition(list_sources(query), view, weighed))
        for part, join in enumerate(query.joins, 1):
            found_sources = list_join_sources(query, join)
            yield from ((part, *found) for found in self._group_by_condition(found_sources, None, weighed))

    def _group_by_condition(
        self, found: tuple[QuerySource, ...], view: StoryView | None, frequencies: WordFrequencies
    ) -> Iterator[tuple[ConditionRule, BranchNumbers]]:
        groups: dict[ConditionNode, dict[str, tuple[int, ...]]] = {}
        for number, query_source in enumerate(found):
            sources = groups.setdefault(build_tree(query_source.condition, frequencies, view), {})
            source = query_source.source
            if isinstance(source, FeedName) and source.key in self._numbers:
                feature = self._find_derived_feed(source.key).feature
            else:
                feature = features.source_feature(source)
            sources[feature] = (*sources.get(feature, ()), number)
        for tree, sources in groups.items():
            below = [self._find_derived_feed(source[2:]) for source in sources if source.startswith("@q")]
            level = max((derived.level + 1 for derived in below), default=0)
            forced = any(derived.rewrites for derived in below)
            yield ConditionRule(tree, tuple(sources), level, forced), tuple(sources.values())

    def note_move(self, owner: int, key: str) -> None:
        """Note that the index has moved a simple condition to another feature."""
        self._entry_at(owner).places = key

    # dropping

    def drop_feed(self, name: str, cascade: bool = False) -> list[str]:
        """Drop a feed and, with `cascade`, its readers. Raises InputError for readers without `cascade`."""
        key = name.casefold()
        entry = self.find_entry(name)
        readers = self._list_readers(key) if entry.derived is not None else []
        if readers and not cascade:
            listed = ", ".join(self._display_name(reader) for reader in readers)
            raise InputError(f"Feed {entry.name} is used by {listed}. Drop these first, or use CASCADE to drop all.")
        self._views_outdated = bool(self.views)
        dropped = [key, *readers]
        names = [self._display_name(each) for each in dropped]
        for each in reversed(dropped):
            number = self._numbers.pop(each)
            found = self._entry_at(number)
            if found.derived is not None:
                self._remove_reader(each, found.derived.query)
                self._leave_view(number, found.derived)
            self._unpost_feed(number, found)
            self.entries[number] = None
        return names

    def _list_readers(self, key: str) -> list[str]:
        """Return the direct and indirect readers of a feed, each after the feeds it reads."""
        found: dict[str, None] = {}
        todo = [key]
        while todo:
            derived = self._entry_at(self._numbers[todo.pop(0)]).derived
            for reader in sorted(derived.readers) if derived is not None else ():
                found.pop(reader, None)
                found[reader] = None
                todo.append(reader)
        return list(found)

    def _remove_reader(self, key: str, query: Query) -> None:
        for name in list_read_feeds(query):
            number = self._numbers.get(name.key)
            derived = self._entry_at(number).derived if number is not None else None
            if derived is not None:
                derived.readers.discard(key)

    def _unpost_feed(self, number: int, entry: QueryFeedEntry) -> None:
        if isinstance(entry.places, tuple):
            for owner, rule in entry.places:
                self._index.drop_rule_owner(owner, rule)
        elif entry.places is not None:
            self._index.drop_owner(number, entry.places)
        entry.places = None


def _split_simple_filter(query: Query) -> tuple[Source, Condition] | None:
    """Return the source and condition of a query that only filters one source and reads no named feed, as most do."""
    if len(query.branches) > 1 or query.joins or query.distinct is not None or query.settings or uses_stories(query):
        return None
    (branch,) = query.branches
    if branch.var is not None or isinstance(branch.source, FeedName | SourceGroup):
        return None
    where = query.where
    return branch.source, where if branch.filter is None and where else conjoin_conditions((branch.filter, where))


def _parse_create(text: str) -> CreateFeed:
    (create,) = parse(text).queries
    return create


def _describe_sources(sources: tuple[QuerySource, ...]) -> str:
    """Return a text that is equal for equal sources in any order."""
    return " | ".join(sorted({f"{format_source(one.source)}[{_describe_condition(one.condition)}]" for one in sources}))


def _describe_condition(condition: Condition) -> str:
    return "" if condition == TRUE else format_condition(condition)


def track_compared_fields(query: Query, frequencies: WordFrequencies) -> None:
    """Count from now on the words of the fields that joins and DISTINCT compare by similarity."""
    for part in (query.distinct, *query.joins):
        if part is not None and part.at is not None:
            frequencies.track_field(part.field)
