"""What queries mean: the reference evaluation, item by item, query by query, without any index.

Slow and plain on purpose. Everything the language decides is decided here once: the engine must give the same answers.
An item is offered to every source of every query feed. Through WHERE it comes to the joins, from there to DISTINCT,
then SET writes it anew, and it is emitted: appended to the feed's stream, which other query feeds read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from headwater.errors import NotFound
from headwater.formats.urls import normalise
from headwater.language.ast import (
    DEFAULT_HORIZON,
    Address,
    AllSources,
    Create,
    Drop,
    Join,
    JoinKind,
    Name,
    Query,
    Register,
    Script,
    Statement,
    Tag,
    Window,
)
from headwater.language.normal import Leaf, join_leaves, leaves, reads
from headwater.model import Item
from headwater.query.compare import meet
from headwater.query.document import Emission, Key, document
from headwater.query.origins import known_as
from headwater.query.predicate import Test, compile_predicate
from headwater.query.rewrite import rewrite
from headwater.query.similar import Frequencies
from headwater.query.text import Analysed, Detect, Origin


@dataclass(slots=True)
class _Past:
    """Items in the order in which they came, as windows of JOIN and DISTINCT look back at them."""

    entries: list[tuple[float, Analysed]] = field(default_factory=list)

    def add(self, at: float, seen: Analysed) -> None:
        """Remember the item; a new version of one we have takes its place, and does not make it younger."""
        for number, (since, known) in enumerate(self.entries):
            if known.key == seen.key:
                self.entries[number] = (since, seen)
                return
        self.entries.append((at, seen))

    def within(self, window: Window, now: float) -> Iterator[Analysed]:
        if window.seconds is None:
            yield from (seen for _, seen in self.entries[-window.count :])
        else:
            yield from (seen for at, seen in self.entries if at >= now - window.seconds)


@dataclass(slots=True)
class _Secondary:
    join: Join
    leaves: list[tuple[Leaf, Test]]
    past: _Past = field(default_factory=_Past)


@dataclass(slots=True)
class _Feed:
    """A query feed and all it remembers."""

    name: str
    query: Query
    leaves: list[tuple[Leaf, Test]]
    secondaries: list[_Secondary]
    emitted: dict[Key, Emission] = field(default_factory=dict)
    log: dict[int, Emission] = field(default_factory=dict)  # event → what was emitted; the stream
    firsts: _Past = field(default_factory=_Past)  # what DISTINCT compares with
    delivered: set[Key] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Event:
    number: int
    seen: Analysed
    past: bool = False  # replayed to fill a new feed's window


class Meaning:
    """Feeds, the items that have arrived, and what each query feed has made of them."""

    def __init__(self, detect: Detect | None = None) -> None:
        self._detect = detect
        self._feeds: dict[str, _Feed] = {}
        self._registered: dict[str, Register] = {}
        self._frequencies = Frequencies()
        self._history: list[Analysed] = []
        self._versions: dict[Key, tuple[str, int]] = {}  # content hash and number of the last version

    # statements

    def run(self, script: Script) -> None:
        for statement in script.statements:
            self.execute(statement)

    def execute(self, statement: Statement) -> None:
        """Carry out a statement that has passed `language.parse` with a catalogue of the feeds that exist."""
        match statement:
            case Create():
                self._create(statement)
            case Register():
                self._registered[statement.name.key] = statement
            case Drop():
                self._drop(statement)

    def _create(self, statement: Create) -> None:
        """A new feed is filled from history, as if it had been there, but delivers nothing of that. One that takes the
        place of another does not deliver again what that has delivered."""
        query = statement.query
        for part in (query.distinct, *query.joins):
            if part is not None and part.at is not None:
                self._frequencies.track(part.field)
        feed = _Feed(
            statement.name.name,
            query,
            self._compiled(leaves(query)),
            [_Secondary(join, self._compiled(join_leaves(query, join))) for join in query.joins],
        )
        replaced = self._feeds.get(statement.name.key)
        if replaced is not None:
            feed.delivered = replaced.delivered
        self._feeds[statement.name.key] = feed
        for number, seen in enumerate(self._history):
            self._evaluate(feed, _Event(number, seen, past=True), {})

    def _compiled(self, found: tuple[Leaf, ...]) -> list[tuple[Leaf, Test]]:
        return [(leaf, compile_predicate(leaf.condition, self._frequencies)) for leaf in found]

    def _drop(self, statement: Drop) -> None:
        gone = {statement.name.key}
        self._registered.pop(statement.name.key, None)
        while statement.cascade:
            users = {
                name
                for name, feed in self._feeds.items()
                if name not in gone and any(read.key in gone for read in reads(feed.query))
            }
            if not users:
                break
            gone |= users
        for name in gone:
            self._feeds.pop(name, None)

    # items

    def arrive(self, item: Item, origin: Origin, arrived: float | None = None) -> dict[str, Emission]:
        """An item, or a new version of one, has come: what each query feed emits because of it.

        The same version again changes nothing; what disappears at its source has no effect and is never told.
        """
        seen = Analysed(item, known_as(origin, self._registered.values()), arrived, self._detect)
        known = self._versions.get(seen.key)
        if known is None:
            self._frequencies.add(seen)
        elif known[0] == item.content_hash:
            return {}
        else:
            seen = seen.rewritten(replace(item, version=max(item.version, known[1] + 1)))
        self._versions[seen.key] = item.content_hash, seen.item.version
        event = _Event(len(self._history), seen)
        self._history.append(seen)
        done: dict[str, Emission | None] = {}
        for key in list(self._feeds):
            self._emission(key, event, done)
        return {self._feeds[key].name: emission for key, emission in done.items() if emission is not None}

    def _emission(self, key: str, event: _Event, done: dict[str, Emission | None]) -> Emission | None:
        """What a query feed emits at this event, evaluated after the feeds it reads."""
        if key not in done:
            feed = self._feeds[key]
            if event.past:
                done[key] = feed.log.get(event.number)
            else:
                done[key] = self._evaluate(feed, event, done)
        return done[key]

    def _evaluate(self, feed: _Feed, event: _Event, done: dict[str, Emission | None]) -> Emission | None:
        emission = self._main(feed, event, done)
        for secondary in feed.secondaries:  # after the main side: an item is not joined with itself
            matched = self._matched(secondary.leaves, event, done)
            if matched:
                secondary.past.add(event.seen.arrived, next(iter(matched.values())))
        if emission is not None:
            feed.log[event.number] = emission
        return emission

    def _matched(
        self, compiled: list[tuple[Leaf, Test]], event: _Event, done: dict[str, Emission | None]
    ) -> dict[int, Analysed]:
        """The sources through which the item comes, with the item as it comes through each."""
        found: dict[int, Analysed] = {}
        for number, (leaf, test) in enumerate(compiled):
            seen = self._through(leaf, event, done)
            if seen is not None and test(seen):
                found[number] = seen
        return found

    def _through(self, leaf: Leaf, event: _Event, done: dict[str, Emission | None]) -> Analysed | None:
        seen, source = event.seen, leaf.source
        match source:
            case Address(url):
                here = seen.source == normalise(url)
            case Tag(tag):
                here = seen.origin.tagged(tag)
            case AllSources():
                here = seen.origin.registered
            case Name():
                if source.key in self._feeds:
                    emission = self._emission(source.key, event, done)
                    return emission.seen if emission is not None else None
                here = seen.origin.called(source.name)
        return seen if here else None

    def _main(self, feed: _Feed, event: _Event, done: dict[str, Emission | None]) -> Emission | None:
        matched = self._matched(feed.leaves, event, done)
        if not matched:
            return None  # a version that matches no longer leaves the one before as it was published
        seen = next(iter(matched.values()))
        before = feed.emitted.get(event.seen.key)
        if before is None:
            emission = self._first(feed, event, seen, frozenset(matched))
            if emission is None:
                return None
        else:
            emission = replace(
                before,
                seen=rewrite(seen, feed.query.settings),
                original=event.seen,
                branches=before.branches | frozenset(matched),
                fresh=False,
                update=True,
            )
        feed.emitted[event.seen.key] = emission
        return emission

    def _first(self, feed: _Feed, event: _Event, seen: Analysed, branches: frozenset[int]) -> Emission | None:
        """The first emission of an item, if joins and DISTINCT let it pass."""
        related = self._joined(feed, seen)
        if related is None or self._repeats(feed, seen):
            return None
        fresh = not event.past and event.seen.key not in feed.delivered
        if fresh:
            feed.delivered.add(event.seen.key)
        return Emission(
            rewrite(seen, feed.query.settings),
            branches,
            related if feed.secondaries else None,
            seen.arrived,
            event.number,
            fresh,
            original=event.seen,
        )

    def _joined(self, feed: _Feed, seen: Analysed) -> tuple[Analysed, ...] | None:
        """What the joins find, in the order of arrival; None if one of them keeps the item out."""
        related: dict[Key, Analysed] = {}
        for secondary in feed.secondaries:
            join = secondary.join
            weight = self._frequencies.weight(join.field)
            found = [
                other
                for other in secondary.past.within(join.within, seen.arrived)
                if other.key != seen.key and meet(seen, join.field, other, join.other, join.at, weight)
            ]
            if bool(found) is (join.kind is JoinKind.ANTI) and join.kind is not JoinKind.LEFT:
                return None
            related |= {other.key: other for other in found}
        return tuple(sorted(related.values(), key=lambda other: other.item.first_seen))

    def _repeats(self, feed: _Feed, seen: Analysed) -> bool:
        """Whether DISTINCT keeps the item out; if not, later ones are compared with it."""
        distinct = feed.query.distinct
        if distinct is None:
            return False
        weight = self._frequencies.weight(distinct.field)
        window = distinct.within or DEFAULT_HORIZON
        for first in feed.firsts.within(window, seen.arrived):
            if meet(seen, distinct.field, first, distinct.field, distinct.at, weight):
                return True
        feed.firsts.add(seen.arrived, seen)
        return False

    # results

    def _named(self, name: str) -> _Feed:
        feed = self._feeds.get(name.casefold())
        if feed is None:
            raise NotFound(f"There is no query feed {name}.")
        return feed

    def names(self) -> list[str]:
        return [feed.name for feed in self._feeds.values()]

    def document(self, name: str, now: float | None = None) -> list[Emission]:
        """The feed's document at `now` (the last arrival if not given)."""
        feed = self._named(name)
        if now is None:
            now = max((seen.arrived for seen in self._history), default=0.0)
        return document(feed.query, feed.emitted.values(), now)

    def stream(self, name: str) -> list[Emission]:
        """Everything the feed has emitted, updates too, in the order of arrival."""
        return list(self._named(name).log.values())
