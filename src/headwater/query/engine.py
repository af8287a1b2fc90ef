"""Standing queries over a stream of items: queries come and go, each item is told the query feeds it comes out of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headwater.errors import InputError, NotFound, QueryError
from headwater.language import parse
from headwater.language.ast import Create, Drop, Name
from headwater.language.normal import reads
from headwater.model import Item
from headwater.query.document import Emission
from headwater.query.hits import Arrival, Hit, Related
from headwater.query.meaning import Meaning
from headwater.query.text import Analysed, Detect, Origin


class Engine:
    """The query feeds that exist, and what must be remembered to match items against them."""

    def __init__(self, detect: Detect | None = None) -> None:
        self._detect = detect
        self._origins: dict[int, Origin] = {}
        self._creates: dict[str, Create] = {}
        self._meaning = Meaning(detect)

    def feed(self, feed_id: int, origin: Origin) -> None:
        """Tell where the items of a feed come from; told again, its new names and tags count from then on."""
        self._origins[feed_id] = origin

    def forget(self, feed_id: int) -> None:
        """The feed is no more."""
        self._origins.pop(feed_id, None)

    def names(self) -> list[str]:
        return [create.name.name for create in self._creates.values()]

    def add(self, query: Create | str) -> None:
        """Take in a query feed; its text is a CREATE FEED statement. `OR REPLACE` replaces the one of that name."""
        if isinstance(query, str):
            (query,) = parse(query).queries
        if query.name.key in self._creates and not query.replace:
            raise QueryError(f"Feed {query.name.name} exists already.")
        self._meaning.execute(query)
        self._creates[query.name.key] = query

    def drop(self, name: str, cascade: bool = False) -> tuple[str, ...]:
        """Take a query feed away, with `cascade` those that read it too; the names of all that went."""
        key = name.casefold()
        if key not in self._creates:
            raise NotFound(f"There is no query feed {name}.")
        gone = [key]
        for other, create in self._creates.items():
            if any(read.key in gone for read in reads(create.query)):
                gone.append(other)
        if len(gone) > 1 and not cascade:
            raise InputError(
                f"Feed {name} is used by {', '.join(self._creates[other].name.name for other in gone[1:])}."
            )
        self._meaning.execute(Drop(Name(name), cascade=True))
        return tuple(self._creates.pop(other).name.name for other in gone)

    def match(
        self,
        item: Item,
        origin: Origin | None = None,
        arrived: float | None = None,
        emitted: Mapping[str, bool] | None = None,
    ) -> Sequence[Hit]:
        """An item, or a new version of one, has come: the query feeds it comes out of.

        `emitted` names the query feeds that have emitted an earlier version, each with whether it was delivered. Not
        given, the engine's own memory of recent items says.
        """
        origin = origin or self._origin(item.feed_id)
        found = self._meaning.arrive(item, origin, arrived)
        return [_hit(name, emission) for name, emission in found.items()]

    def _origin(self, feed_id: int) -> Origin:
        return self._origins.get(feed_id) or Origin(None, f"feed:{feed_id}")

    def backfill(self, name: str, past: Iterable[Arrival]) -> list[tuple[Arrival, Hit]]:
        """What a query feed makes of items that came before it, in the order of their arrival; nothing is fresh."""
        filling = Meaning(self._detect)
        for create in self._creates.values():
            filling.execute(create)
        found = []
        for each in past:
            hits = filling.arrive(each.item, each.origin or self._origin(each.item.feed_id), each.arrived)
            found += [(each, _hit(query, emission)) for query, emission in hits.items() if query == name]
        return found

    def save(self) -> bytes:
        """What must survive a restart besides the queries: windows of joins and DISTINCT, frequencies of words."""
        return b""

    def load(self, state: bytes) -> None:
        """Take up what `save` gave, after the same queries have been added."""


def _hit(name: str, emission: Emission) -> Hit:
    original = emission.original or emission.seen
    related = None if emission.related is None else tuple(map(_related, emission.related))
    return Hit(name, emission.seen.item, original.item, emission.branches, related, emission.update, emission.fresh)


def _related(seen: Analysed) -> Related:
    item = seen.item
    return Related(seen.source, item.identity, item.id, item.title, item.link, item.first_seen)
