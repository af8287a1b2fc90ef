"""The query feeds that stand: their names, where they are posted in the index, and which of them read which.

A feed that only filters is a name, its text and a place in the index. One that joins, compares, rewrites, reads query
feeds or is read by one is a `Layer` besides.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from headwater.errors import InputError, NotFound, QueryError
from headwater.language import parse
from headwater.language.ast import (
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
from headwater.language.formatter import format_script
from headwater.language.normal_form import QuerySource, list_join_sources, list_read_feeds, list_sources
from headwater.query.feeds.derived_feed import DerivedFeed
from headwater.query.index import features
from headwater.query.index.condition_index import ConditionIndex, PostingPlace
from headwater.query.index.condition_tree import BranchNumbers, ConditionNode, ConditionRule, build_tree
from headwater.query.items.similarity import WordFrequencies

Source: TypeAlias = FeedAddress | FeedName | TaggedSources | AllSources

PART_BITS = 12  # bits of a rule's owner that say which part of the query it is: 0 the main side, n the n-th join
PART_MASK = (1 << PART_BITS) - 1


class QueryFeedEntry:
    """A query feed: `places` is where it is posted, `replaced` the numbers of the definitions it took the place of."""

    __slots__ = ("layer", "name", "places", "replaced", "text")

    def __init__(self, name: str, text: str, replaced: tuple[int, ...]) -> None:
        self.name = name
        self.text = text
        self.replaced = replaced
        self.places: PostingPlace | tuple[tuple[int, ConditionRule], ...] | None = None
        self.layer: DerivedFeed | None = None


class QueryFeeds:
    def __init__(self, index: ConditionIndex, frequencies: WordFrequencies) -> None:
        self.records: list[QueryFeedEntry | None] = []
        self._numbers: dict[str, int] = {}
        self._index = index
        self._frequencies = frequencies
        self._unknown_names: set[str] = set()  # names that were read as a source nobody has told us of

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
        found = self.records[number]
        assert found is not None
        return found

    def read_query(self, record: QueryFeedEntry) -> Query:
        """The query of a feed; of one that only filters it is read again from its text."""
        return record.layer.query if record.layer is not None else _parse_create(record.text).query

    # adding

    def add_feed(self, create: CreateFeed) -> int:
        """Take in a query feed, or a new definition of one; its number."""
        key, query = create.name.key, create.query
        number = self._numbers.get(key)
        if number is not None and not create.replace:
            raise QueryError(f"Feed {self._entry_at(number).name} exists already; CREATE OR REPLACE FEED changes it.")
        alone = _split_simple_filter(query)
        if alone is not None and number is None and key not in self._unknown_names:
            number = self._store_entry(create, key)
            self._entry_at(number).places = self._post_filter(number, *alone)
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
        if inner or readers or query.joins or query.distinct is not None or query.settings:
            self._entry_at(number).layer = self._make_derived_feed(create.name.name, query, readers)
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
        for part in (query.distinct, *query.joins):
            if part is not None and part.at is not None:
                self._frequencies.track_field(part.field)
        return DerivedFeed(name, query, readers=readers)

    def _remove_definition(self, key: str, number: int) -> tuple[tuple[int, ...], set[str]]:
        """Take the old definition away; the numbers it stands for, and who reads the feed."""
        old = self._entry_at(number)
        readers: set[str] = set()
        if old.layer is not None:
            readers = old.layer.readers
            self._remove_reader(key, old.layer.query)
        self._unpost_feed(number, old)
        self.records[number] = None
        return (*old.replaced, number), readers

    def _adopt_readers(self, key: str) -> set[str]:
        """The feeds that read a name which was nobody's so far."""
        self._unknown_names.discard(key)
        readers = {
            other for other in self._numbers if any(n.key == key for n in list_read_feeds(self._find_query(other)))
        }
        for reader in readers:
            self._ensure_derived_feed(reader)
        return readers

    def reserve_number(self, record: QueryFeedEntry | None = None) -> int:
        """A number that nothing else has."""
        self.records.append(record)
        return self._index.add_owner()

    def _find_query(self, key: str) -> Query:
        return self.read_query(self._entry_at(self._numbers[key]))

    def _check_cycle(self, key: str, read: set[str]) -> None:
        todo: list[tuple[str, tuple[str, ...]]] = [(name, (key, name)) for name in sorted(read)]
        met: set[str] = set()
        while todo:
            here, path = todo.pop()
            if here == key:
                shown = " → ".join(self._display_name(step) for step in path)
                raise QueryError(f"Feed {self._display_name(key)} would read itself: {shown}.")
            number = self._numbers.get(here)
            if number is not None and here not in met:
                met.add(here)
                todo += [(name.key, (*path, name.key)) for name in list_read_feeds(self._find_query(here))]

    def _display_name(self, key: str) -> str:
        number = self._numbers.get(key)
        return key if number is None else self._entry_at(number).name

    def _ensure_derived_feed(self, key: str) -> DerivedFeed:
        """Make a layer of a feed that only filters, as another is to read what it emits."""
        number = self._numbers[key]
        record = self._entry_at(number)
        if record.layer is None:
            query = self.read_query(record)
            self._unpost_feed(number, record)
            record.layer = DerivedFeed(record.name, query)
            self._post_feed(number, query)
        return record.layer

    def _repost_readers(self, key: str) -> None:
        """A feed has changed: the level of those above it, and what may come to them, count anew.

        All are taken out before the first is put back: they share rules, which know their level.
        """
        above = [self._numbers[user] for user in self._list_readers(key)]
        for number in above:
            self._unpost_feed(number, self._entry_at(number))
        for number in above:
            self._post_feed(number, self.read_query(self._entry_at(number)))

    # posting

    def _post_feed(self, number: int, query: Query) -> None:
        record = self._entry_at(number)
        if record.layer is None:
            found = list_sources(query)
            if len(found) == 1:
                record.places = self._post_filter(number, found[0].source, found[0].condition)
                return
        else:
            self._update_level(record.layer, query)
        record.places = tuple(
            (number << PART_BITS | part, self._index.post_rule(number << PART_BITS | part, rule, numbers))
            for part, rule, numbers in self.build_rules(query)
        )

    def _post_filter(self, number: int, source: Source, condition: Condition) -> PostingPlace:
        tree, feature = build_tree(condition, self._frequencies), features.source_feature(source)
        place = self._index.post_simple(number, tree, feature)
        return place or self._index.post_rule(number, ConditionRule(tree, (feature,), 0, False), None)

    def _update_level(self, layer: DerivedFeed, query: Query) -> None:
        """Work out how high the layer lies and whether it may change items, from the feeds it reads."""
        below = [self._find_derived_feed(name.key) for name in list_read_feeds(query) if name.key in self._numbers]
        layer.level = max((other.level + 1 for other in below), default=0)
        main = [
            self._find_derived_feed(leaf.source.key)  # type: ignore[union-attr]
            for leaf in list_sources(query)
            if self._reads_query_feed(leaf)
        ]
        layer.rewrites = bool(query.settings) or any(other.rewrites for other in main)

    def _find_derived_feed(self, key: str) -> DerivedFeed:
        layer = self._entry_at(self._numbers[key]).layer
        assert layer is not None
        return layer

    def _reads_query_feed(self, leaf: QuerySource) -> bool:
        return isinstance(leaf.source, FeedName) and leaf.source.key in self._numbers

    def build_rules(self, query: Query) -> Iterator[tuple[int, ConditionRule, BranchNumbers]]:
        """The query's parts, each with a rule for all the sources that share a condition, not yet posted."""
        yield from ((0, *found) for found in self._group_by_condition(list_sources(query)))
        for part, join in enumerate(query.joins, 1):
            yield from ((part, *found) for found in self._group_by_condition(list_join_sources(query, join)))

    def _group_by_condition(self, found: tuple[QuerySource, ...]) -> Iterator[tuple[ConditionRule, BranchNumbers]]:
        groups: dict[ConditionNode, dict[str, tuple[int, ...]]] = {}
        for number, leaf in enumerate(found):
            sources = groups.setdefault(build_tree(leaf.condition, self._frequencies), {})
            inner = self._find_derived_feed(leaf.source.key) if self._reads_query_feed(leaf) else None  # type: ignore[union-attr]
            feature = features.source_feature(leaf.source) if inner is None else inner.feature
            sources[feature] = (*sources.get(feature, ()), number)
        for tree, sources in groups.items():
            below = [self._find_derived_feed(source[2:]) for source in sources if source.startswith("@q")]
            level = max((layer.level + 1 for layer in below), default=0)
            forced = any(layer.rewrites for layer in below)
            yield ConditionRule(tree, tuple(sources), level, forced), tuple(sources.values())

    def note_move(self, owner: int, key: str) -> None:
        """The index has posted a simple condition under another feature."""
        self._entry_at(owner).places = key

    # dropping

    def drop_feed(self, name: str, cascade: bool = False) -> list[str]:
        """Take a feed away; with `cascade` those that read it too, without it is an error if there are any."""
        key = name.casefold()
        record = self.find_entry(name)
        users = self._list_readers(key) if record.layer is not None else []
        if users and not cascade:
            listed = ", ".join(self._display_name(user) for user in users)
            raise InputError(f"Feed {record.name} is used by {listed}; drop them first, or all with CASCADE.")
        gone = [key, *users]
        names = [self._display_name(each) for each in gone]
        for each in reversed(gone):
            number = self._numbers.pop(each)
            found = self._entry_at(number)
            if found.layer is not None:
                self._remove_reader(each, found.layer.query)
            self._unpost_feed(number, found)
            self.records[number] = None
        return names

    def _list_readers(self, key: str) -> list[str]:
        """The feeds that read this one, directly or through others; a reader after what it reads."""
        found: dict[str, None] = {}
        todo = [key]
        while todo:
            layer = self._entry_at(self._numbers[todo.pop(0)]).layer
            for reader in sorted(layer.readers) if layer is not None else ():
                found.pop(reader, None)
                found[reader] = None
                todo.append(reader)
        return list(found)

    def _remove_reader(self, key: str, query: Query) -> None:
        for name in list_read_feeds(query):
            number = self._numbers.get(name.key)
            layer = self._entry_at(number).layer if number is not None else None
            if layer is not None:
                layer.readers.discard(key)

    def _unpost_feed(self, number: int, record: QueryFeedEntry) -> None:
        if isinstance(record.places, tuple):
            for owner, rule in record.places:
                self._index.drop_rule_owner(owner, rule)
        elif record.places is not None:
            self._index.drop_owner(number, record.places)
        record.places = None


def _split_simple_filter(query: Query) -> tuple[Source, Condition] | None:
    """The source and the condition of a query that only filters, reads one thing and names no feed, as most do."""
    if len(query.branches) > 1 or query.joins or query.distinct is not None or query.settings:
        return None
    (branch,) = query.branches
    if branch.var is not None or isinstance(branch.source, FeedName | SourceGroup):
        return None
    where = query.where
    return branch.source, where if branch.filter is None and where else conjoin_conditions((branch.filter, where))


def _parse_create(text: str) -> CreateFeed:
    (create,) = parse(text).queries
    return create
