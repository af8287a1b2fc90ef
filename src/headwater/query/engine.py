"""Standing queries over a stream of items: queries come and go, each item is told the query feeds it comes out of.

An item is cut into words once and becomes a set of features (`features`). Through the index (`index`) it meets only
conditions of which it has the rarest feature. Feeds that do more than filter (`layers`) are evaluated after the feeds
they read. The answers are those of `meaning`, the reference; what is remembered is bounded.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from headwater.language import parse
from headwater.language.ast import Create, Drop, Register, Statement
from headwater.model import Item
from headwater.query import features, state
from headwater.query.features import Place
from headwater.query.filling import Filling
from headwater.query.hits import Arrival, Failure, Hit, Hits
from headwater.query.index import Index
from headwater.query.origins import known_as
from headwater.query.passing import Passing
from headwater.query.recent import ITEMS, Before, Recent, Remembered, Seen, Told
from headwater.query.shares import Shares
from headwater.query.similar import Frequencies
from headwater.query.standing import Standing
from headwater.query.text import Analysed, Detect, Origin

RETUNED = 256  # items between two looks at where conditions are posted
PLACES = 10_000  # origins whose features are kept ready


class Engine:
    """The query feeds that exist, and what must be remembered to match items against them."""

    def __init__(self, detect: Detect | None = None, remember: int = ITEMS) -> None:
        self.detect = detect
        self._origins: dict[int, Origin] = {}
        self._registered: dict[str, Register] = {}
        self._places: dict[Origin, Place] = {}
        self._shares = Shares()
        self._frequencies = Frequencies()
        self._index = Index(self._shares)
        self._standing = Standing(self._index, self._frequencies)
        self._recent = Recent(remember)
        self._event = 0

    # feeds and queries

    def feed(self, feed_id: int, origin: Origin) -> None:
        """Tell where the items of a feed come from; told again, its new names and tags count from then on."""
        self._origins[feed_id] = origin

    def forget(self, feed_id: int) -> None:
        """The feed is no more."""
        self._origins.pop(feed_id, None)

    def use_compiled(self, wanted: bool) -> None:
        """Look up with compiled code always, or never; as it is, where numba is installed and queries are many."""
        self._index.use_compiled(wanted)

    def names(self) -> list[str]:
        return self._standing.names()

    def __len__(self) -> int:
        return len(self._standing)

    def __contains__(self, name: str) -> bool:
        return self._standing.known(name.casefold()) is not None

    def add(self, query: Create | str) -> None:
        """Take in a query feed, or all that a script creates, registers and drops.

        A query that replaces another (`OR REPLACE`) does not deliver again what that has delivered.
        """
        if isinstance(query, str):
            for statement in parse(query).statements:
                self.execute(statement)
        else:
            self._standing.add(query)

    def execute(self, statement: Statement) -> None:
        match statement:
            case Create():
                self.add(statement)
            case Register():
                self._registered[statement.name.key] = statement
                self._places.clear()
            case Drop(name, cascade):
                if self._registered.pop(name.key, None) is not None:
                    self._places.clear()
                else:
                    self.drop(name.name, cascade)

    def drop(self, name: str, cascade: bool = False) -> tuple[str, ...]:
        """Take a query feed away, with `cascade` those that read it too; the names of all that went."""
        return tuple(self._standing.drop(name, cascade))

    # items

    def match(
        self,
        item: Item,
        origin: Origin | None = None,
        arrived: float | None = None,
        emitted: Collection[str] | None = None,
        delivered: Collection[str] = (),
    ) -> Hits:
        """An item, or a new version of one, has come: the query feeds it comes out of.

        `emitted` names the query feeds that hold an earlier version, `delivered` those that have delivered it. Where
        `emitted` is not given the engine's own memory of recent items says, and the same version again is no hit.
        """
        place = self._place(origin or self._origin(item.feed_id))
        seen = Analysed(item, place.origin, arrived, self.detect)
        key = seen.key
        known = self._recent.get(key)
        if known is not None and known.content_hash == item.content_hash and emitted is None:
            return Hits(item, ())
        if known is not None and emitted is None:
            item = replace(item, version=max(item.version, known.version + 1))
            seen = seen.rewritten(item)
        elif known is None and not emitted:
            self._frequencies.add(seen)
        view = self._index.view(seen, place.features)
        self._shares.observe(view.features)
        before: Before = None
        if emitted is not None:
            before = Told(emitted, delivered) if emitted or delivered else None
        elif known is not None:
            before = Remembered(known)
        met, rules = self._index.candidates(view)
        self._event += 1
        if self._event % RETUNED == 0:
            for owner, feature in self._index.retune(view):
                self._standing.moved(owner, feature)
        numbers = met
        made: Sequence[Hit] = ()
        failures: Sequence[Failure] = ()
        if rules:
            passing = Passing(view, self._standing, self._index, self._frequencies, before, self._event)
            passing.go(rules)
            met.extend(passing.plain)
            numbers, made, failures = met + array("I", passing.numbers), passing.hits, passing.failures
        records = self._standing.records
        if known is None:
            self._recent.put(key, Seen(item.content_hash, item.version, numbers))
        else:
            every = [*{*known.emitted, *numbers}]
            self._recent.put(key, Seen(item.content_hash, item.version, every, known.silent))
        if before is None:
            return Hits(item, records, met, made, failures=failures)
        mine = [(number, record) for number in met if (record := records[number]) is not None]
        updates = frozenset(number for number, record in mine if before.emitted(number, record))
        delivered_before = frozenset(number for number, record in mine if before.delivered(number, record))
        return Hits(item, records, met, made, updates, delivered_before, failures)

    def candidates(self, item: Item, origin: Origin | None = None) -> int:
        """How many owners and rules the index looks at for an item: what `match` works on."""
        place = self._place(origin or self._origin(item.feed_id))
        return self._index.looked_at(self._index.view(Analysed(item, place.origin), place.features))

    def _origin(self, feed_id: int) -> Origin:
        return self._origins.get(feed_id) or Origin(None, f"feed:{feed_id}")

    def _place(self, origin: Origin) -> Place:
        found = self._places.get(origin)
        if found is None:
            if len(self._places) >= PLACES:
                self._places.clear()
            found = self._places[origin] = features.place(known_as(origin, self._registered.values()))
        return found

    def backfill(self, name: str, past: Iterable[Arrival]) -> list[tuple[Arrival, Hit]]:
        """What a query feed makes of items that came before it, in the order of their arrival; nothing is fresh.

        Its windows are filled on the way: this is also how they come back after a restart without a saved state.
        """
        filling = Filling(self._standing, self._index, self._frequencies, name)
        found: list[tuple[Arrival, Hit]] = []
        for each in past:
            place = self._place(each.origin or self._origin(each.item.feed_id))
            seen = Analysed(each.item, place.origin, each.arrived, self.detect)
            hit = filling.take(self._index.view(seen, place.features), each.emitted)
            if hit is not None:
                self._recent.fill(seen.key, each.item, filling.number)
                found.append((each, hit))
        return found

    # surviving

    def save(self) -> bytes:
        """What must survive a restart besides the queries: windows of joins and DISTINCT, frequencies of words, recent
        items. Its size is bounded by the windows."""
        return state.save(self._standing, self._recent, self._frequencies, self._shares)

    def load(self, saved: bytes) -> None:
        """Take up what `save` gave, after the queries have been added; a query that changed since starts afresh."""
        state.load(saved, self._standing, self._recent, self._frequencies, self._shares)
