"""The query feeds that stand: their names, where they are posted in the index, and which of them read which.

A feed that only filters is a name, its text and a place in the index. One that joins, compares, rewrites, reads query
feeds or is read by one is a `Layer` besides.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from headwater.errors import InputError, NotFound, QueryError
from headwater.language import parse
from headwater.language.ast import Address, AllSources, Create, Group, Name, Pred, Query, Script, Tag, conjunction
from headwater.language.fmt import format_script
from headwater.language.normal import Leaf, join_leaves, leaves, reads
from headwater.query import features
from headwater.query.index import Index, Place
from headwater.query.layers import Layer
from headwater.query.nodes import Node, node
from headwater.query.rules import Numbers, Rule
from headwater.query.similar import Frequencies

Source: TypeAlias = Address | Name | Tag | AllSources

PARTS = 12  # bits of a rule's owner that say which part of the query it is: 0 the main side, n the n-th join
PART = (1 << PARTS) - 1


class Record:
    """A query feed: `places` is where it is posted, `replaced` the numbers of the definitions it took the place of."""

    __slots__ = ("layer", "name", "places", "replaced", "text")

    def __init__(self, name: str, text: str, replaced: tuple[int, ...]) -> None:
        self.name = name
        self.text = text
        self.replaced = replaced
        self.places: Place | tuple[tuple[int, Rule], ...] | None = None
        self.layer: Layer | None = None


class Standing:
    def __init__(self, index: Index, frequencies: Frequencies) -> None:
        self.records: list[Record | None] = []
        self._numbers: dict[str, int] = {}
        self._index = index
        self._frequencies = frequencies
        self._dangling: set[str] = set()  # names that were read as a source nobody has told us of

    def __len__(self) -> int:
        return len(self._numbers)

    def names(self) -> list[str]:
        return [self._record(number).name for number in self._numbers.values()]

    def number(self, name: str) -> int:
        found = self._numbers.get(name.casefold())
        if found is None:
            raise NotFound(f"There is no query feed {name}.")
        return found

    def known(self, key: str) -> int | None:
        return self._numbers.get(key)

    def record(self, name: str) -> Record:
        return self._record(self.number(name))

    def _record(self, number: int) -> Record:
        found = self.records[number]
        assert found is not None
        return found

    def query(self, record: Record) -> Query:
        """The query of a feed; of one that only filters it is read again from its text."""
        return record.layer.query if record.layer is not None else _read(record.text).query

    # adding

    def add(self, create: Create) -> int:
        """Take in a query feed, or a new definition of one; its number."""
        key, query = create.name.key, create.query
        number = self._numbers.get(key)
        if number is not None and not create.replace:
            raise QueryError(f"Feed {self._record(number).name} exists already; CREATE OR REPLACE FEED changes it.")
        alone = _alone(query)
        if alone is not None and number is None and key not in self._dangling:
            number = self._stand(create, key)
            self._record(number).places = self._post_plain(number, *alone)
            return number
        read = {name.key for name in reads(query)}
        if read:
            self._refuse_cycle(key, read)
        replaced: tuple[int, ...] = ()
        readers: set[str] = set()
        if number is not None:
            replaced, readers = self._replace(key, number)
        elif key in self._dangling:
            readers = self._readers(key)
        number = self._stand(create, key, replaced)
        inner = {each for each in read if each in self._numbers}
        self._dangling |= read - inner
        for each in inner:
            self._watch(each).readers.add(key)
        if inner or readers or query.joins or query.distinct is not None or query.settings:
            self._record(number).layer = self._new_layer(create.name.name, query, readers)
        self._post(number, query)
        if readers:
            self._repost_above(key)
        return number

    def _stand(self, create: Create, key: str, replaced: tuple[int, ...] = ()) -> int:
        name = create.name.name
        number = self.reserve(Record(name, create.text or format_script(Script((create,))), replaced))
        self._numbers[name if key == name else key] = number
        return number

    def _new_layer(self, name: str, query: Query, readers: set[str]) -> Layer:
        for part in (query.distinct, *query.joins):
            if part is not None and part.at is not None:
                self._frequencies.track(part.field)
        return Layer(name, query, readers=readers)

    def _replace(self, key: str, number: int) -> tuple[tuple[int, ...], set[str]]:
        """Take the old definition away; the numbers it stands for, and who reads the feed."""
        old = self._record(number)
        readers: set[str] = set()
        if old.layer is not None:
            readers = old.layer.readers
            self._unread(key, old.layer.query)
        self._unpost(number, old)
        self.records[number] = None
        return (*old.replaced, number), readers

    def _readers(self, key: str) -> set[str]:
        """The feeds that read a name which was nobody's so far."""
        self._dangling.discard(key)
        readers = {other for other in self._numbers if any(n.key == key for n in reads(self._query_of(other)))}
        for reader in readers:
            self._watch(reader)
        return readers

    def reserve(self, record: Record | None = None) -> int:
        """A number that nothing else has."""
        self.records.append(record)
        return self._index.owner()

    def _query_of(self, key: str) -> Query:
        return self.query(self._record(self._numbers[key]))

    def _refuse_cycle(self, key: str, read: set[str]) -> None:
        todo: list[tuple[str, tuple[str, ...]]] = [(name, (key, name)) for name in sorted(read)]
        met: set[str] = set()
        while todo:
            here, path = todo.pop()
            if here == key:
                shown = " → ".join(self._shown(step) for step in path)
                raise QueryError(f"Feed {self._shown(key)} would read itself: {shown}.")
            number = self._numbers.get(here)
            if number is not None and here not in met:
                met.add(here)
                todo += [(name.key, (*path, name.key)) for name in reads(self._query_of(here))]

    def _shown(self, key: str) -> str:
        number = self._numbers.get(key)
        return key if number is None else self._record(number).name

    def _watch(self, key: str) -> Layer:
        """Make a layer of a feed that only filters, as another is to read what it emits."""
        number = self._numbers[key]
        record = self._record(number)
        if record.layer is None:
            query = self.query(record)
            self._unpost(number, record)
            record.layer = Layer(record.name, query)
            self._post(number, query)
        return record.layer

    def _repost_above(self, key: str) -> None:
        """A feed has changed: the level of those above it, and what may come to them, count anew.

        All are taken out before the first is put back: they share rules, which know their level.
        """
        above = [self._numbers[user] for user in self._users(key)]
        for number in above:
            self._unpost(number, self._record(number))
        for number in above:
            self._post(number, self.query(self._record(number)))

    # posting

    def _post(self, number: int, query: Query) -> None:
        record = self._record(number)
        if record.layer is None:
            found = leaves(query)
            if len(found) == 1:
                record.places = self._post_plain(number, found[0].source, found[0].condition)
                return
        else:
            self._place(record.layer, query)
        record.places = tuple(
            (number << PARTS | part, self._index.post_rule(number << PARTS | part, rule, numbers))
            for part, rule, numbers in self.conditions(query)
        )

    def _post_plain(self, number: int, source: Source, condition: Pred) -> Place:
        tree, feature = node(condition, self._frequencies), features.source(source)
        place = self._index.post_simple(number, tree, feature)
        return place or self._index.post_rule(number, Rule(tree, (feature,), 0, False), None)

    def _place(self, layer: Layer, query: Query) -> None:
        """Work out how high the layer lies and whether it may change items, from the feeds it reads."""
        below = [self._layer(name.key) for name in reads(query) if name.key in self._numbers]
        layer.level = max((other.level + 1 for other in below), default=0)
        main = [self._layer(leaf.source.key) for leaf in leaves(query) if self._is_query(leaf)]  # type: ignore[union-attr]
        layer.rewrites = bool(query.settings) or any(other.rewrites for other in main)

    def _layer(self, key: str) -> Layer:
        layer = self._record(self._numbers[key]).layer
        assert layer is not None
        return layer

    def _is_query(self, leaf: Leaf) -> bool:
        return isinstance(leaf.source, Name) and leaf.source.key in self._numbers

    def conditions(self, query: Query) -> Iterator[tuple[int, Rule, Numbers]]:
        """The query's parts, each with a rule for all the sources that share a condition, not yet posted."""
        yield from ((0, *found) for found in self._grouped(leaves(query)))
        for part, join in enumerate(query.joins, 1):
            yield from ((part, *found) for found in self._grouped(join_leaves(query, join)))

    def _grouped(self, found: tuple[Leaf, ...]) -> Iterator[tuple[Rule, Numbers]]:
        groups: dict[Node, dict[str, tuple[int, ...]]] = {}
        for number, leaf in enumerate(found):
            sources = groups.setdefault(node(leaf.condition, self._frequencies), {})
            inner = self._layer(leaf.source.key) if self._is_query(leaf) else None  # type: ignore[union-attr]
            feature = features.source(leaf.source) if inner is None else inner.feature
            sources[feature] = (*sources.get(feature, ()), number)
        for tree, sources in groups.items():
            below = [self._layer(source[2:]) for source in sources if source.startswith("@q")]
            level = max((layer.level + 1 for layer in below), default=0)
            forced = any(layer.rewrites for layer in below)
            yield Rule(tree, tuple(sources), level, forced), tuple(sources.values())

    def moved(self, owner: int, key: str) -> None:
        """The index has posted a simple condition under another feature."""
        self._record(owner).places = key

    # dropping

    def drop(self, name: str, cascade: bool = False) -> list[str]:
        """Take a feed away; with `cascade` those that read it too, without it is an error if there are any."""
        key = name.casefold()
        record = self.record(name)
        users = self._users(key) if record.layer is not None else []
        if users and not cascade:
            listed = ", ".join(self._shown(user) for user in users)
            raise InputError(f"Feed {record.name} is used by {listed}; drop them first, or all with CASCADE.")
        gone = [key, *users]
        names = [self._shown(each) for each in gone]
        for each in reversed(gone):
            number = self._numbers.pop(each)
            found = self._record(number)
            if found.layer is not None:
                self._unread(each, found.layer.query)
            self._unpost(number, found)
            self.records[number] = None
        return names

    def _users(self, key: str) -> list[str]:
        """The feeds that read this one, directly or through others; a reader after what it reads."""
        found: dict[str, None] = {}
        todo = [key]
        while todo:
            layer = self._record(self._numbers[todo.pop(0)]).layer
            for reader in sorted(layer.readers) if layer is not None else ():
                found.pop(reader, None)
                found[reader] = None
                todo.append(reader)
        return list(found)

    def _unread(self, key: str, query: Query) -> None:
        for name in reads(query):
            number = self._numbers.get(name.key)
            layer = self._record(number).layer if number is not None else None
            if layer is not None:
                layer.readers.discard(key)

    def _unpost(self, number: int, record: Record) -> None:
        if isinstance(record.places, tuple):
            for owner, rule in record.places:
                self._index.drop_rule(owner, rule)
        elif record.places is not None:
            self._index.drop(number, record.places)
        record.places = None


def _alone(query: Query) -> tuple[Source, Pred] | None:
    """The source and the condition of a query that only filters, reads one thing and names no feed, as most do."""
    if len(query.branches) > 1 or query.joins or query.distinct is not None or query.settings:
        return None
    (branch,) = query.branches
    if branch.var is not None or isinstance(branch.source, Name | Group):
        return None
    where = query.where
    return branch.source, where if branch.filter is None and where else conjunction((branch.filter, where))


def _read(text: str) -> Create:
    (create,) = parse(text).queries
    return create
