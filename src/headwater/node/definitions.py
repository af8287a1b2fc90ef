"""The definitions of query feeds as the processor has them: those that run, those that wait, and their taking up.

A definition that was given when the outbox ended at position p holds for what comes behind p. There are two ways to
take it up, and both end in one transaction that makes it run.

    in turn   everything up to p has been matched and nothing behind it: it is added, its window filled from the past
    late      entries behind p have been matched without it, so that a script of many thousand definitions does not
              hold up the matching: a few hundred at a time are filled from the past up to p, matched on their own with
              what came between p and here, and then added

Late is for new definitions that only filter and that no other waits for; their own past is all they need.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from typing import Generic, NamedTuple, TypeVar

import msgspec
import structlog

from headwater.errors import HeadwaterError, InputError, NotFound
from headwater.language.ast import Create, Query
from headwater.language.normal import reads
from headwater.language.packed import pack, unpack
from headwater.model import QueryFeed
from headwater.node.filling import stateless
from headwater.query import Engine
from headwater.query.scope import Scope, in_order
from headwater.query.text import Origin
from headwater.store import queries

SLICE = 500  # definitions taken up late at a time
MANY = 50  # new definitions of one position from which they are taken up late

log = structlog.get_logger()

Key = TypeVar("Key")
Value = TypeVar("Value")


class Unpacked(Mapping[Key, Value], Generic[Key, Value]):
    """What is asked of definitions, read from their packed form each time: a hundred thousand trees are 110 MB, and
    unpacking one takes two microseconds."""

    def __init__(self, running: Mapping[Key, QueryFeed], ask: Callable[[Create], Value]) -> None:
        self._running = running
        self._ask = ask

    def __getitem__(self, key: Key) -> Value:
        return self._ask(queries.running(self._running[key]))

    def __iter__(self) -> Iterator[Key]:
        return iter(self._running)

    def __len__(self) -> int:
        return len(self._running)


class _Wait(NamedTuple):
    """A definition that waits, and what being late depends on: whether it remembers anything, and whom it reads."""

    query: QueryFeed
    stateless: bool
    reads: frozenset[str]


class Definitions:
    """`running` are query feeds whose turn has come, by id; `ids` are those that the engine has taken, by name.
    `waiting` are to be taken up in turn, by position; `late` have been passed by and are to be caught up with."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.running: dict[int, QueryFeed] = {}
        self._taken: dict[int, QueryFeed] = {}
        self.ids: dict[str, int] = {}
        self._keys: dict[str, int] = {}  # the same by folded name
        self.waiting: list[QueryFeed] = []
        self.late: list[QueryFeed] = []
        self._waits: dict[int, _Wait] = {}  # both, by id
        self._dropped: list[str] = []  # names that the engine still has

    @property
    def creates(self) -> Mapping[int, Create]:
        """The definitions in force, as they are now, by the id of their query feed."""
        return Unpacked(dict(self._taken), lambda create: create)

    def scope(self, origins: Mapping[int, Origin]) -> Scope:
        named = {key: self._taken[id] for key, id in self._keys.items()}
        return Scope(origins, Unpacked[str, Query](named, lambda create: create.query))

    def names(self) -> Set[str]:
        return self._keys.keys()

    def known(self) -> Set[int]:
        """The ids of all that run or wait."""
        return self.running.keys() | self._waits.keys()

    # following the store

    def begin(self, known: Sequence[QueryFeed]) -> list[tuple[QueryFeed, bytes]]:
        """Take up the definitions that ran before, lower ones first; the forms of those that had none of use."""
        with _uncollected():
            return self._begin(known)

    def _begin(self, known: Sequence[QueryFeed]) -> list[tuple[QueryFeed, bytes]]:
        above: dict[str, tuple[QueryFeed, Create]] = {}
        forms: list[tuple[QueryFeed, bytes]] = []
        for query in known:
            if query.active is None:
                continue
            create = unpack(query.form, query.active) if query.active == query.text else None
            if create is None:
                try:
                    create = queries.definition(query.active)
                except (HeadwaterError, ValueError) as error:
                    log.error("query_not_understood", query=query.name, error=str(error))
                    continue
                if query.active == query.text:
                    forms.append((query, pack(create)))
            if reads(create.query):
                above[create.name.key] = query, create
            else:
                self._began(query, create)
        for create in in_order(create for _, create in above.values()):
            self._began(*above[create.name.key])
        return forms

    def _began(self, query: QueryFeed, create: Create) -> None:
        try:
            self._engine.add(create)
        except HeadwaterError as error:
            log.error("query_not_taken", query=query.name, error=str(error))
        else:
            self._run(query, create)

    def follow(self, changed: Iterable[QueryFeed], gone: Iterable[int], position: int) -> None:
        """Definitions have come, changed or gone; entries up to `position` have been matched."""
        for id in gone:
            self._waits.pop(id, None)
            query = self.running.pop(id, None)
            if query is not None:
                self._dropped.append(query.name)
                self._forget(id)
        self.let_go()
        for query in changed:
            if self._runs(query) == query.text and not query.pending:  # pending: it was dropped and brought back
                self._waits.pop(query.id, None)
            else:
                self._waits[query.id] = _wait(query)
        waiting = sorted(
            (wait.query for wait in self._waits.values()),
            key=lambda query: (query.position, query.replaced or query.created, query.id),
        )
        late = self._may_be_late(waiting, position)
        self.late = [query for query in waiting if query.id in late]
        self.waiting = [query for query in waiting if query.id not in late]

    def _may_be_late(self, waiting: Sequence[QueryFeed], position: int) -> set[int]:
        names = {query.name.casefold() for query in waiting}
        read = frozenset[str]().union(*(wait.reads for wait in self._waits.values()))
        passed: set[int] = set()
        ahead: dict[int, list[int]] = {}
        for query in waiting:
            _, alone, mine = self._waits[query.id]
            above = not (mine.isdisjoint(names) and mine.isdisjoint(self._keys))
            if query.active is not None or above or not alone:
                continue
            if query.position < position:  # it was late before a restart, or before another came that reads it
                passed.add(query.id)
            elif query.name.casefold() not in read:
                ahead.setdefault(query.position, []).append(query.id)
        return passed.union(*(group for group in ahead.values() if len(group) >= MANY))

    def _runs(self, query: QueryFeed) -> str | None:
        running = self.running.get(query.id)
        return None if running is None else running.active

    def let_go(self) -> None:
        """Take dropped feeds out of the engine, readers first. One that a feed still reads whose new definition waits
        goes when that is in force; until then its hits are thrown away."""
        if not self._dropped:
            return
        standing = self.names()
        left = [name for name in self._dropped if name.casefold() not in standing]  # not one that took its name
        while left:
            still = [name for name in left if not self._gone(name)]
            if len(still) == len(left):
                break
            left = still
        self._dropped = left

    def _gone(self, name: str) -> bool:
        try:
            self._engine.drop(name)
        except NotFound:
            return True
        except InputError:
            return False
        return True

    # taking up

    def next_in_turn(self, most: int) -> list[QueryFeed]:
        """The definitions to be taken up at the first position where any are."""
        group = [query for query in self.waiting[:most] if query.position == self.waiting[0].position]
        del self.waiting[: len(group)]
        return self._turned(group)

    def next_late(self) -> list[QueryFeed]:
        group = [query for query in self.late[:SLICE] if query.position == self.late[0].position]
        del self.late[: len(group)]
        return self._turned(group)

    def _turned(self, group: list[QueryFeed]) -> list[QueryFeed]:
        for query in group:
            del self._waits[query.id]
        return group

    def add(self, group: Sequence[QueryFeed]) -> tuple[list[QueryFeed], list[tuple[QueryFeed, str]]]:
        """Those that the engine has taken, and why it refused the others."""
        taken, refused = [], []
        for query in group:
            self.running[query.id] = now = replace(query, active=query.text)
            try:
                create = queries.running(now)
                self._engine.add(msgspec.structs.replace(create, replace=True))
            except (HeadwaterError, ValueError) as error:
                refused.append((query, str(error)))
            else:
                self._run(now, create)
                taken.append(query)
        return taken, refused

    def _run(self, query: QueryFeed, create: Create) -> None:
        self._forget(query.id)
        self.running[query.id] = self._taken[query.id] = query
        self.ids[create.name.name] = self._keys[create.name.key] = query.id

    def _forget(self, id: int) -> None:
        before = self._taken.pop(id, None)
        if before is not None:
            name = queries.running(before).name
            if self._keys.get(name.key) == id:  # else another has taken the name meanwhile
                del self._keys[name.key]
                self.ids.pop(name.name, None)


def _wait(query: QueryFeed) -> _Wait:
    try:
        definition = queries.definition(query.text, query.form).query
    except (HeadwaterError, ValueError):
        return _Wait(query, False, frozenset())  # refused with its message when its turn comes
    return _Wait(query, stateless(definition), frozenset(name.key for name in reads(definition)))


@contextmanager
def _uncollected() -> Iterator[None]:
    """A hundred thousand definitions are no garbage: the collector would go through all of them again and again."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()
