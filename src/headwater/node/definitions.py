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
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import structlog

from headwater.errors import HeadwaterError, InputError, NotFound
from headwater.language.ast import Create
from headwater.language.normal import reads
from headwater.model import QueryFeed
from headwater.node.filling import plain
from headwater.query import Engine
from headwater.query.scope import Scope, in_order
from headwater.query.text import Origin
from headwater.store import queries

SLICE = 500  # definitions taken up late at a time
MANY = 50  # new definitions of one position from which they are taken up late

# Of thousands that come at once most look like this, and need not be parsed before their turn comes.
_SURELY_PLAIN = re.compile(
    r"""CREATE\s+FEED\s+\S+\s+AS\s+RETURN\s+(?:ALL|TAG\s+"[^"]*"|"[^"]*")\s*(?:WHERE\b|;|$)(?!.*\bDISTINCT\b)""",
    re.IGNORECASE | re.DOTALL,
)

log = structlog.get_logger()


class Definitions:
    """`running` are query feeds as the engine has them, `creates` their definitions, `ids` theirs by name; `waiting`
    are to be taken up in turn, by position, and `late` have been passed by and are to be caught up with."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.running: dict[int, QueryFeed] = {}
        self.creates: dict[int, Create] = {}
        self.ids: dict[str, int] = {}
        self.waiting: list[QueryFeed] = []
        self.late: list[QueryFeed] = []
        self._read: dict[str, Create] = {}  # texts that wait
        self._dropped: list[str] = []  # names that the engine still has

    def scope(self, origins: Mapping[int, Origin]) -> Scope:
        return Scope(origins, {create.name.key: create.query for create in self.creates.values()})

    def names(self) -> set[str]:
        return {create.name.key for create in self.creates.values()}

    # following the store

    def begin(self, known: Sequence[QueryFeed]) -> None:
        """The definitions that ran before, lower ones first."""
        with _uncollected():
            self._begin(known)

    def _begin(self, known: Sequence[QueryFeed]) -> None:
        found: dict[str, tuple[QueryFeed, Create]] = {}
        for query in known:
            if query.active is not None:
                try:
                    create = queries.definition(query.active)
                except (HeadwaterError, ValueError) as error:
                    log.error("query_not_understood", query=query.name, error=str(error))
                    continue
                found[create.name.key] = (query, create)
        for create in in_order(create for _, create in found.values()):
            query = found[create.name.key][0]
            try:
                self._engine.add(create)
            except HeadwaterError as error:
                log.error("query_not_taken", query=query.name, error=str(error))
                continue
            self._run(query, create)

    def follow(self, known: Sequence[QueryFeed], position: int) -> None:
        """Definitions have come, changed or gone; entries up to `position` have been matched."""
        there = {query.id: query for query in known}
        gone = [id for id in self.running if id not in there]
        for id in gone:
            self._dropped.append(self.running.pop(id).name)
            create = self.creates.pop(id, None)
            if create is not None:
                self.ids.pop(create.name.name, None)
        self.let_go()
        waiting = sorted(
            (query for query in known if self._runs(query) != query.text),
            key=lambda query: (query.position, query.replaced or query.created, query.id),
        )
        texts = {query.text for query in waiting if not _SURELY_PLAIN.match(query.text)}
        self._read = {text: create for text in texts if (create := self._parsed(text)) is not None}
        late = self._may_be_late(waiting, position)
        self.late = [query for query in waiting if query.id in late]
        self.waiting = [query for query in waiting if query.id not in late]

    def _parsed(self, text: str) -> Create | None:
        if text not in self._read:
            try:
                return queries.definition(text)
            except (HeadwaterError, ValueError):
                return None  # refused with its message when its turn comes
        return self._read[text]

    def _may_be_late(self, waiting: Sequence[QueryFeed], position: int) -> set[int]:
        names = self.names() | {query.name.casefold() for query in waiting}
        read = {name.key for create in self._read.values() for name in reads(create.query)}
        passed: set[int] = set()
        ahead: dict[int, list[int]] = {}
        for query in waiting:
            create = self._read.get(query.text)
            surely = create is None and _SURELY_PLAIN.match(query.text) is not None
            if query.active is not None or not (surely or (create is not None and plain(create.query, names))):
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
        return group

    def next_late(self) -> list[QueryFeed]:
        group = [query for query in self.late[:SLICE] if query.position == self.late[0].position]
        del self.late[: len(group)]
        return group

    def add(self, group: Sequence[QueryFeed]) -> tuple[list[QueryFeed], list[tuple[QueryFeed, str]]]:
        """Those that the engine has taken, and why it refused the others."""
        taken, refused = [], []
        for query in group:
            self.running[query.id] = replace(query, active=query.text)
            try:
                create = self._read.pop(query.text, None) or queries.definition(query.text)
                self._engine.add(replace(create, replace=True))
            except (HeadwaterError, ValueError) as error:
                refused.append((query, str(error)))
            else:
                self._run(self.running[query.id], create)
                taken.append(query)
        return taken, refused

    def _run(self, query: QueryFeed, create: Create) -> None:
        before = self.creates.get(query.id)
        if before is not None:
            self.ids.pop(before.name.name, None)
        self.running[query.id] = query
        self.creates[query.id] = create
        self.ids[create.name.name] = query.id

    def create(self, query: QueryFeed) -> Create:
        """The definition of one that waits or has been taken up."""
        known = self.creates.get(query.id) or self._read.get(query.text)
        return known or queries.definition(query.text)


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
