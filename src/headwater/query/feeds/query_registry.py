"""Registers query feeds: their names, their places in the index, and which of them read each other.

A feed that only filters has a name, its text and a place in the index. A feed that reads it is posted with both
conditions on the sources of both, so a layer of filters costs no more than one filter. A feed that joins, deduplicates,
rewrites or publishes stories has a `DerivedFeed`, and so has one that is read and whose condition takes long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
from headwater.query.feeds.compared_texts import ComparedFields
from headwater.query.feeds.derived_feed import DerivedFeed, query_feed_feature
from headwater.query.index import features
from headwater.query.index.condition_index import ConditionIndex, PostingPlace
from headwater.query.index.condition_tree import (
    BranchNumbers,
    ConditionNode,
    ConditionRule,
    build_tree,
    uses_features_only,
)
from headwater.query.items.similarity import WordFrequencies
from headwater.query.stories.story_views import StoryView

Source: TypeAlias = FeedAddress | FeedName | TaggedSources | AllSources

PART_BITS = 12  # bits of a rule's owner for the part of the query: 0 for the main sources, n for the n-th join
PART_MASK = (1 << PART_BITS) - 1
MAX_UNFOLDED = 16  # sources of a filter that are posted again for each of its readers


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
        self._compared = ComparedFields()
        self._reads: dict[str, set[str]] = {}  # the query feeds that a query feed reads
        self._readers: dict[str, set[str]] = {}  # the same the other way round; a derived feed has the same set
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
        if number is not None:
            replaced = self._remove_definition(key, number)
        elif key in self._unknown_names:
            self._adopt_readers(key)
        number = self._store_entry(create, key, replaced)
        inner = {each for each in read if each in self._numbers}
        self._unknown_names |= read - inner
        for each in inner:
            self._add_reader(each, key)
        if not _only_filters(query) or (self._readers.get(key) and not self._can_unfold(query)):
            derived = self._entry_at(number).derived = self._make_derived_feed(create.name.name, query)
            derived.view = self._join_view(number, query) if uses_stories(query) else None
        self._post_feed(number, query)
        if self._readers.get(key):
            self._repost_readers(key)
        return number

    def _store_entry(self, create: CreateFeed, key: str, replaced: tuple[int, ...] = ()) -> int:
        name = create.name.name
        number = self.reserve_number(QueryFeedEntry(name, create.text or format_script(Script((create,))), replaced))
        self._numbers[name if key == name else key] = number
        return number

    def _make_derived_feed(self, name: str, query: Query) -> DerivedFeed:
        track_compared_fields(query, self._frequencies)
        return DerivedFeed(name, query, self._compared, readers=self._readers.setdefault(name.casefold(), set()))

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

    def build_view_rules(self, sources: tuple[QuerySource, ...], unfold: bool = True) -> list[ConditionRule]:
        """Build the rules by which sources let items through. `unfold` is explained at `build_rules`."""
        rules = [rule for rule, _ in self._group_by_condition(sources, None, self._frequencies, unfold)]
        for rule in rules:
            self._index.open_features(rule.tree)
        return rules

    def _remove_definition(self, key: str, number: int) -> tuple[int, ...]:
        """Remove the old definition, but not the readers of the feed. Return the numbers it stands for."""
        old = self._entry_at(number)
        self._remove_reader(key)
        if old.derived is not None:
            self._leave_view(number, old.derived)
            old.derived.clear_windows()
        self._unpost_feed(number, old)
        self.entries[number] = None
        return (*old.replaced, number)

    def _adopt_readers(self, key: str) -> None:
        """Find the feeds that already read this name."""
        self._unknown_names.discard(key)
        for other in self._numbers:
            if any(name.key == key for name in list_read_feeds(self._find_query(other))):
                self._reads.setdefault(other, set()).add(key)
                self._readers.setdefault(key, set()).add(other)

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

    def _add_reader(self, key: str, reader: str) -> None:
        """Note that a query feed is read. A filter that cannot be posted with its readers becomes a derived feed."""
        self._reads.setdefault(reader, set()).add(key)
        self._readers.setdefault(key, set()).add(reader)
        number = self._numbers[key]
        entry = self._entry_at(number)
        if entry.derived is None:
            query = self.read_query(entry)
            if not self._can_unfold(query):
                self._unpost_feed(number, entry)
                entry.derived = self._make_derived_feed(entry.name, query)
                self._post_feed(number, query)

    # layers of filters

    def _can_unfold(self, query: Query) -> bool:
        """Return whether readers of the query can be posted with its condition, at about no cost.

        Of an item that several sources let through, one of them rewritten, the first source decides what is published;
        this order would be lost.
        """
        if not _only_filters(query) or any(derived.rewrites for derived in self._list_derived(list_sources(query))):
            return False
        found = [condition for one in list_sources(query) for _, condition in self._unfold_source(one)]
        return len(found) <= MAX_UNFOLDED and all(
            uses_features_only(build_tree(condition, self._frequencies)) for condition in found
        )

    def _unfold_source(self, one: QuerySource) -> Iterator[tuple[Source, Condition]]:
        """Yield the sources behind a source, each with all conditions on the way to it."""
        name = one.source.key if isinstance(one.source, FeedName) else ""
        entry = self._entry_at(self._numbers[name]) if name in self._numbers else None
        if entry is None or entry.derived is not None:
            yield one.source, one.condition
            return
        for inner in list_sources(self.read_query(entry)):
            for source, condition in self._unfold_source(inner):
                yield source, conjoin_conditions((condition, one.condition))

    def _list_derived(self, sources: Iterable[QuerySource]) -> list[DerivedFeed]:
        """Return the derived feeds that the sources read, directly or through filters."""
        found = [source for one in sources for source, _ in self._unfold_source(one)]
        return [
            self._find_derived_feed(source.key)
            for source in found
            if isinstance(source, FeedName) and source.key in self._numbers
        ]

    def _repost_readers(self, key: str) -> None:
        """Post all readers of a changed feed again, because their levels and rules may differ.

        All of them are removed before the first is posted again: they share rules, and a rule has one level.
        """
        readers = [self._numbers[reader] for reader in self._list_readers(key)]
        for number in readers:
            self._unpost_feed(number, self._entry_at(number))
        for number in readers:
            entry = self._entry_at(number)
            query = self.read_query(entry)
            if entry.derived is None and self._readers.get(entry.name.casefold()) and not self._can_unfold(query):
                entry.derived = self._make_derived_feed(entry.name, query)
            self._post_feed(number, query)

    # posting

    def _post_feed(self, number: int, query: Query) -> None:
        entry = self._entry_at(number)
        if entry.derived is None:
            found = [source for one in list_sources(query) for source in self._unfold_source(one)]
            if len(found) == 1 and not self._list_derived(list_sources(query)):
                entry.places = self._post_filter(number, *found[0])
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
        main = self._list_derived(list_sources(query))
        joined = [other for join in query.joins for other in self._list_derived(list_join_sources(query, join))]
        derived.level = max((other.level + 1 for other in (*main, *joined)), default=0)
        derived.rewrites = bool(query.settings) or any(other.rewrites for other in main)

    def _find_derived_feed(self, key: str) -> DerivedFeed:
        return self.find_derived(self._numbers[key])

    def build_rules(
        self, query: Query, view: StoryView | None, frequencies: WordFrequencies | None = None, unfold: bool = True
    ) -> Iterator[tuple[int, ConditionRule, BranchNumbers]]:
        """Yield the parts of the query, each with a rule per condition and the branches of its sources. `frequencies`
        weigh the words of SIMILAR, if not those of new items. Without `unfold`, filters that the query reads are named
        and not replaced by their sources: past items say which feeds have published them."""
        weighed = frequencies or self._frequencies
        yield from ((0, *found) for found in self._group_by_condition(list_sources(query), view, weighed, unfold))
        for part, join in enumerate(query.joins, 1):
            found_sources = list_join_sources(query, join)
            yield from ((part, *found) for found in self._group_by_condition(found_sources, None, weighed, unfold))

    def _group_by_condition(
        self, found: tuple[QuerySource, ...], view: StoryView | None, frequencies: WordFrequencies, unfold: bool
    ) -> Iterator[tuple[ConditionRule, BranchNumbers]]:
        groups: dict[ConditionNode, dict[str, tuple[int, ...]]] = {}
        for number, one in enumerate(found):
            for source, condition in self._unfold_source(one) if unfold else ((one.source, one.condition),):
                sources = groups.setdefault(build_tree(condition, frequencies, view), {})
                if isinstance(source, FeedName) and source.key in self._numbers:
                    feature = query_feed_feature(source.key)
                else:
                    feature = features.source_feature(source)
                if number not in sources.get(feature, ()):
                    sources[feature] = (*sources.get(feature, ()), number)
        for tree, sources in groups.items():
            read = [source[2:] for source in sources if source.startswith("@q")]
            below = [derived for key in read if (derived := self._entry_at(self._numbers[key]).derived) is not None]
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
        readers = self._list_readers(key)
        if readers and not cascade:
            listed = ", ".join(self._display_name(reader) for reader in readers)
            raise InputError(f"Feed {entry.name} is used by {listed}. Drop these first, or use CASCADE to drop all.")
        self._views_outdated = bool(self.views)
        dropped = [key, *readers]
        names = [self._display_name(each) for each in dropped]
        for each in reversed(dropped):
            number = self._numbers.pop(each)
            found = self._entry_at(number)
            self._remove_reader(each)
            self._readers.pop(each, None)
            if found.derived is not None:
                self._leave_view(number, found.derived)
                found.derived.clear_windows()
            self._unpost_feed(number, found)
            self.entries[number] = None
        return names

    def _list_readers(self, key: str) -> list[str]:
        """Return the direct and indirect readers of a feed, each after the feeds it reads."""
        found: dict[str, None] = {}
        todo = [key]
        while todo:
            for reader in sorted(self._readers.get(todo.pop(0), ())):
                found.pop(reader, None)
                found[reader] = None
                todo.append(reader)
        return list(found)

    def _remove_reader(self, key: str) -> None:
        for read in self._reads.pop(key, ()):
            self._readers[read].discard(key)

    def _unpost_feed(self, number: int, entry: QueryFeedEntry) -> None:
        if isinstance(entry.places, tuple):
            for owner, rule in entry.places:
                self._index.drop_rule_owner(owner, rule)
        elif entry.places is not None:
            self._index.drop_owner(number, entry.places)
        entry.places = None


def _split_simple_filter(query: Query) -> tuple[Source, Condition] | None:
    """Return the source and condition of a query that only filters one source and reads no named feed, as most do."""
    if len(query.branches) > 1 or not _only_filters(query):
        return None
    (branch,) = query.branches
    if branch.var is not None or isinstance(branch.source, FeedName | SourceGroup):
        return None
    where = query.where
    return branch.source, where if branch.filter is None and where else conjoin_conditions((branch.filter, where))


def _only_filters(query: Query) -> bool:
    return not (query.joins or query.distinct is not None or query.settings or uses_stories(query))


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
