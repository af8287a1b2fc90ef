"""Keeps the definitions of query feeds for the processor: running, waiting and late ones.

A definition that was created when the outbox ended at position p applies to the entries after p. It is activated in one
of two ways, both in one transaction.

    in turn   exactly the entries up to p have been matched: it is added, and its window back-filled
    late      entries after p have been matched without it, so that a script with thousands of definitions does not
              delay the matching: a few hundred at a time are back-filled up to p, matched on their own with the
              entries since p, and then added

Only new definitions that filter, and that no waiting one reads, can be late: they need nothing but stored items.
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
from headwater.language.ast import CreateFeed, Query
from headwater.language.binary_form import pack_statement, unpack_statement
from headwater.language.normal_form import list_read_feeds
from headwater.model import QueryFeed
from headwater.node.queries.backfill import is_stateless
from headwater.query import Engine
from headwater.query.items.origin import Origin
from headwater.query.reader_scope import limit_to_reader
from headwater.query.source_scope import SourceScope, sort_by_dependency
from headwater.store.queries import query_feeds
from headwater.store.queries.document_hits import load_item_origins
from headwater.store.queries.query_feeds import list_all_query_feeds
from headwater.store.saved_state import read_revisions
from headwater.store.store import Store

LATE_SLICE = 500  # late definitions activated at a time
MANY_NEW = 50  # so many new definitions of one position are activated late

log = structlog.get_logger()

Key = TypeVar("Key")
Value = TypeVar("Value")


class UnpackedDefinitions(Mapping[Key, Value], Generic[Key, Value]):
    """A view of definitions that unpacks them at each access: a hundred thousand trees would take 110 MB, and unpacking
    one takes two microseconds."""

    def __init__(self, running: Mapping[Key, QueryFeed], ask: Callable[[CreateFeed], Value]) -> None:
        self._running = running
        self._select = ask

    def __getitem__(self, key: Key) -> Value:
        return self._select(query_feeds.read_running_definition(self._running[key]))

    def __iter__(self) -> Iterator[Key]:
        return iter(self._running)

    def __len__(self) -> int:
        return len(self._running)


class _PendingDefinition(NamedTuple):
    """A definition that waits, whether it is stateless, and the query feeds that it reads."""

    query: QueryFeed
    stateless: bool
    reads: frozenset[str]


class QueryDefinitions:
    """`running` has the activated query feeds by id, `ids` those that the engine accepted by name. `waiting` are
    activated in turn, by position; `late` have missed entries and must catch up."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.running: dict[int, QueryFeed] = {}
        self._in_force: dict[int, QueryFeed] = {}
        self.ids: dict[str, int] = {}
        self._ids_by_key: dict[str, int] = {}  # the same by folded name
        self.waiting: list[QueryFeed] = []
        self.late: list[QueryFeed] = []
        self._pending: dict[int, _PendingDefinition] = {}  # both, by id
        self._dropped_names: list[str] = []  # names that the engine still has

    @property
    def in_force(self) -> Mapping[int, CreateFeed]:
        """A snapshot of the definitions in force, by the id of their query feed."""
        return UnpackedDefinitions(dict(self._in_force), lambda create: create)

    def build_scope(self, origins: Mapping[int, Origin]) -> SourceScope:
        named = {key: self._in_force[id] for key, id in self._ids_by_key.items()}
        return SourceScope(origins, UnpackedDefinitions[str, Query](named, lambda create: create.query))

    def list_names(self) -> Set[str]:
        return self._ids_by_key.keys()

    def list_ids(self) -> Set[int]:
        """Return the ids of all running and waiting query feeds."""
        return self.running.keys() | self._pending.keys()

    # following the store

    def restore_running(self, known: Sequence[QueryFeed]) -> list[tuple[QueryFeed, bytes]]:
        """Add the definitions that ran before, dependencies first; return new packed forms for those without one."""
        with _paused_gc():
            return self._restore_running(known)

    def _restore_running(self, known: Sequence[QueryFeed]) -> list[tuple[QueryFeed, bytes]]:
        above: dict[str, tuple[QueryFeed, CreateFeed]] = {}
        forms: list[tuple[QueryFeed, bytes]] = []
        for query in known:
            if query.active is None:
                continue
            written = unpack_statement(query.form, query.active) if query.active == query.text else None
            if written is None:
                try:
                    written = query_feeds.read_definition(query.active)
                except (HeadwaterError, ValueError) as error:
                    log.error("query_not_parsed", query=query.name, error=str(error))
                    continue
                if query.active == query.text:
                    forms.append((query, pack_statement(written)))
            create = limit_to_reader(written, query.reader_id)
            if list_read_feeds(create.query):
                above[create.name.key] = query, create
            else:
                self._restore_one(query, create)
        for create in sort_by_dependency(create for _, create in above.values()):
            self._restore_one(*above[create.name.key])
        return forms

    def _restore_one(self, query: QueryFeed, create: CreateFeed) -> None:
        try:
            self._engine.add_query(create)
        except HeadwaterError as error:
            log.error("query_not_loaded", query=query.name, error=str(error))
        else:
            self._put_in_force(query, create)

    def apply_changes(self, changed: Iterable[QueryFeed], gone: Iterable[int], position: int) -> None:
        """Follow created, changed and dropped definitions; entries up to `position` have been matched."""
        for id in gone:
            self._pending.pop(id, None)
            query = self.running.pop(id, None)
            if query is not None:
                self._dropped_names.append(query.name)
                self._remove(id)
        self.drop_unread()
        for query in changed:
            # pending: it was dropped and restored
            if self._find_running_text(query) == query.text and not query.is_pending:
                self._pending.pop(query.id, None)
            else:
                self._pending[query.id] = _read_pending(query)
        waiting = sorted(
            (wait.query for wait in self._pending.values()),
            key=lambda query: (query.position, query.replaced or query.created, query.id),
        )
        late = self._find_late(waiting, position)
        self.late = [query for query in waiting if query.id in late]
        self.waiting = [query for query in waiting if query.id not in late]

    def _find_late(self, waiting: Sequence[QueryFeed], position: int) -> set[int]:
        names = {query.name.casefold() for query in waiting}
        read = frozenset[str]().union(*(wait.reads for wait in self._pending.values()))
        passed: set[int] = set()
        ahead: dict[int, list[int]] = {}
        for query in waiting:
            _, alone, reads = self._pending[query.id]
            above = not (reads.isdisjoint(names) and reads.isdisjoint(self._ids_by_key))
            if query.active is not None or above or not alone:
                continue
            if query.position < position:  # it was late before a restart, or before another came that reads it
                passed.add(query.id)
            elif query.name.casefold() not in read:
                ahead.setdefault(query.position, []).append(query.id)
        return passed.union(*(group for group in ahead.values() if len(group) >= MANY_NEW))

    def _find_running_text(self, query: QueryFeed) -> str | None:
        running = self.running.get(query.id)
        return None if running is None else running.active

    def drop_unread(self) -> None:
        """Remove dropped feeds from the engine, readers first. One that is still read by a feed whose new definition
        waits is removed when that is in force; until then its hits are ignored."""
        if not self._dropped_names:
            return
        used = self.list_names()
        left = [name for name in self._dropped_names if name.casefold() not in used]  # else another took the name
        while left:
            still = [name for name in left if not self._try_drop(name)]
            if len(still) == len(left):
                break
            left = still
        self._dropped_names = left

    def _try_drop(self, name: str) -> bool:
        try:
            self._engine.drop_query(name)
        except NotFound:
            return True
        except InputError:
            return False
        return True

    # activating

    def pop_in_turn(self, limit: int) -> list[QueryFeed]:
        """Remove and return the waiting definitions of the first position."""
        group = [query for query in self.waiting[:limit] if query.position == self.waiting[0].position]
        del self.waiting[: len(group)]
        return self._remove_pending(group)

    def pop_late(self) -> list[QueryFeed]:
        """Remove and return some late definitions of the first position."""
        group = [query for query in self.late[:LATE_SLICE] if query.position == self.late[0].position]
        del self.late[: len(group)]
        return self._remove_pending(group)

    def _remove_pending(self, group: list[QueryFeed]) -> list[QueryFeed]:
        for query in group:
            del self._pending[query.id]
        return group

    def add_to_engine(self, group: Sequence[QueryFeed]) -> tuple[list[QueryFeed], list[tuple[QueryFeed, str]]]:
        """Add definitions; return those that the engine accepted, and the others with its reasons."""
        taken, refused = [], []
        for query in group:
            self.running[query.id] = now = replace(query, active=query.text)
            try:
                create = query_feeds.read_running_definition(now)
                self._engine.add_query(msgspec.structs.replace(create, replace=True))
            except (HeadwaterError, ValueError) as error:
                refused.append((query, str(error)))
            else:
                self._put_in_force(now, create)
                taken.append(query)
        return taken, refused

    def _put_in_force(self, query: QueryFeed, create: CreateFeed) -> None:
        self._remove(query.id)
        self.running[query.id] = self._in_force[query.id] = query
        self.ids[create.name.name] = self._ids_by_key[create.name.key] = query.id

    def _remove(self, id: int) -> None:
        before = self._in_force.pop(id, None)
        if before is not None:
            name = query_feeds.read_running_definition(before).name
            if self._ids_by_key.get(name.key) == id:  # else another has taken the name meanwhile
                del self._ids_by_key[name.key]
                self.ids.pop(name.name, None)


def _read_pending(query: QueryFeed) -> _PendingDefinition:
    try:
        definition = query_feeds.read_query(query).query
    except (HeadwaterError, ValueError):
        return _PendingDefinition(query, False, frozenset())  # refused with its message when its turn comes
    return _PendingDefinition(
        query, is_stateless(definition), frozenset(name.key for name in list_read_feeds(definition))
    )


@contextmanager
def _paused_gc() -> Iterator[None]:
    """Pause the garbage collector, which would scan a hundred thousand definitions again and again."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


class DefinitionReader:
    """Reads the definitions in force from the store, since the query processor may be on another machine."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._revisions: tuple[int, int] | None = None
        self._definitions: dict[int, CreateFeed] = {}
        self._origins: dict[int, Origin] = {}

    @property
    def definitions(self) -> Mapping[int, CreateFeed]:
        return self._definitions

    def build_scope(self) -> SourceScope:
        return SourceScope(self._origins, {create.name.key: create.query for create in self._definitions.values()})

    async def reload_changes(self) -> bool:
        """Read the definitions again if they have changed; return whether they had."""
        revisions = await self._store.read(read_revisions)
        if revisions == self._revisions:
            return False
        found: dict[int, CreateFeed] = {}
        for query in await self._store.read(list_all_query_feeds):
            try:
                found[query.id] = query_feeds.read_query(query)
            except (HeadwaterError, ValueError) as error:
                log.error("query_not_parsed", query=query.name, error=str(error))
        self._origins = await self._store.read(load_item_origins) if found else {}  # asked about by queries only
        self._definitions, self._revisions = found, revisions
        return True
