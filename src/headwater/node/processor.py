"""The query processor: follows the outbox and matches every item with all standing queries, exactly once.

    outbox ─► match (in a thread) ─► one transaction: hits, what is delivered because of them, checkpoint ─► on_hits

The outbox is the truth and `wake` only a hint. Definitions come from the store: one that was given when the outbox
ended at position p is taken up when everything up to p has been matched without it, so that an item meets the queries
that existed when it arrived, whatever was killed meanwhile. What the engine remembers (windows of joins and of
DISTINCT) is saved from time to time; after a restart the entries behind it are matched again and their hits thrown
away.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog
from sqlalchemy import Connection

from headwater.errors import HeadwaterError, InputError, NotFound
from headwater.language.ast import Create
from headwater.model import QueryFeed
from headwater.node.filling import Filling, fill, fill_together, plain
from headwater.query import Engine, Hit
from headwater.query.scope import Scope, in_order
from headwater.query.text import Detect, Origin
from headwater.store import hits, outbox, queries, state
from headwater.store.store import Store
from headwater.store.values import Emitted, Matched, OutboxEntry, StoredHit

CONSUMER, MEMORY = "queries", "query state"  # checkpoints: what was written, what the saved memory has seen
STATE, VERSION = "query engine", 1
BATCH = 200
LOOK = 1.0  # seconds between two looks at the outbox while nobody wakes us
SAVE = 300.0
GROUP = 5_000  # definitions taken up at a time
FEW = 2  # so many are filled one by one, each from as much of the past as there is
WAIT_AFTER_FAILURE = 5.0

_NONE = Emitted()

log = structlog.get_logger()

Entries = Callable[[int, int], Awaitable[list[OutboxEntry]]]

Write = Callable[[Connection, Sequence[StoredHit]], None]
"""Writes what must not be lost because of hits, in their transaction: deliveries."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where the processor stands: entries of the outbox up to `position` are done, `behind` are waiting."""

    queries: int
    position: int
    behind: int
    matched: int
    hits: int


class Processor:
    """Keeps query feeds filled until it is stopped. One at a time writes; others that run beside it stay ready."""

    def __init__(
        self,
        store: Store,
        *,
        detect: Detect | None = None,
        writers: Sequence[Write] = (),
        on_hits: Callable[[Sequence[StoredHit]], None] = lambda hits: None,
        on_taken: Callable[[], Awaitable[None]] | None = None,
        clock: Callable[[], float] = time.time,
        batch: int = BATCH,
        entries: Entries | None = None,
    ) -> None:
        """`entries` reads the outbox beyond a position by another way, which may be a little behind the store."""
        self._store = store
        self._entries = entries or store.outbox
        self._detect = detect
        self.writers = list(writers)
        self._on_hits = on_hits
        self._on_taken = on_taken
        self._changed = False
        self._clock = clock
        self._batch = batch
        self._woken = asyncio.Event()
        self._engine = Engine(detect)
        self._position = 0
        self._revisions = (-1, -1)
        self._origins: dict[int, Origin] = {}
        self._running: dict[int, QueryFeed] = {}  # as the engine has them
        self._definitions: dict[int, Create] = {}
        self._waiting: list[QueryFeed] = []  # definitions to be taken up, by position
        self._dropped: list[str] = []  # names that the engine still has
        self._matched = self._hits = 0

    # what others see

    def wake(self) -> None:
        """Something has been written: look now."""
        self._woken.set()

    async def progress(self) -> Progress:
        end = await self._store.outbox_end()
        return Progress(len(self._running), self._position, max(end - self._position, 0), self._matched, self._hits)

    @property
    def definitions(self) -> Mapping[int, Create]:
        """The definitions in force, by the id of their query feed."""
        return self._definitions

    def scope(self) -> Scope:
        by_name = {create.name.key: create.query for create in self._definitions.values()}
        return Scope(self._origins, by_name)

    # the loop

    async def run(self, stop: asyncio.Event) -> None:
        """Follow the outbox until `stop` is set. A failure is logged and tried again: it never ends the loop."""
        stopping = asyncio.create_task(self._wake_at(stop))
        loaded, saved = False, time.monotonic()
        try:
            while not stop.is_set():
                self._woken.clear()
                try:
                    if not loaded:
                        await self.load()
                        loaded = True
                    busy = await self.step()
                    if self._changed and not busy and self._on_taken is not None:
                        await self._on_taken()
                        self._changed = False
                    if time.monotonic() - saved > SAVE:
                        await self.save()
                        saved = time.monotonic()
                except Exception as error:
                    log.error("queries_failed", error=repr(error))
                    loaded, busy = False, False  # what the engine has seen is uncertain: begin from the store
                    await self._pause(stop, WAIT_AFTER_FAILURE)
                if not busy:
                    await self._pause(self._woken, LOOK)
            if loaded:
                await self.save()
        finally:
            stopping.cancel()
            await asyncio.gather(stopping, return_exceptions=True)

    async def _wake_at(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._woken.set()

    @staticmethod
    async def _pause(event: asyncio.Event, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(event.wait(), seconds)

    # beginning and saving

    async def load(self) -> None:
        """Begin where the last processor stopped, however it stopped."""
        self._engine, self._running, self._definitions = Engine(self._detect), {}, {}
        self._revisions, self._waiting, self._dropped = (-1, -1), [], []
        async with self._store.transaction() as transaction:
            await transaction.run(outbox.advance, MEMORY, 0)  # retention spares what would have to be matched again
            await transaction.run(outbox.advance, CONSUMER, 0)
        await self._look_at_feeds()
        await asyncio.to_thread(self._take_running, await self._store.queries.all())
        self._position = await self._remember()
        done = await self._store.checkpoint(CONSUMER)
        while self._position < done:
            entries = [e for e in await self._store.outbox(self._position, self._batch) if e.position <= done]
            if not entries:
                break
            await self._match(entries)
            self._position = entries[-1].position
        self._position = done

    def _take_running(self, known: Sequence[QueryFeed]) -> None:
        """The definitions that ran before, lower ones first."""
        creates: dict[str, tuple[QueryFeed, Create]] = {}
        for query in known:
            if query.active is not None:
                try:
                    create = queries.definition(query.active)
                except (HeadwaterError, ValueError) as error:
                    log.error("query_not_understood", query=query.name, error=str(error))
                    continue
                creates[create.name.key] = (query, create)
        for create in in_order(create for _, create in creates.values()):
            query = creates[create.name.key][0]
            try:
                self._engine.add(create)
            except HeadwaterError as error:
                log.error("query_not_taken", query=query.name, error=str(error))
                continue
            self._running[query.id] = query
            self._definitions[query.id] = create

    async def _remember(self) -> int:
        """Load what the engine remembered; the position up to which it has seen."""
        saved = await self._store.load_state(STATE)
        if saved is None or saved[0] != VERSION:
            return await self._store.checkpoint(MEMORY)
        try:
            await asyncio.to_thread(self._engine.load, saved[1])
        except Exception as error:
            log.error("query_memory_lost", error=repr(error))
        return await self._store.checkpoint(MEMORY)

    async def save(self) -> None:
        """Keep what the engine remembers, with the position it belongs to."""
        position, blob = self._position, await asyncio.to_thread(self._engine.save)
        async with self._store.transaction() as transaction:
            await transaction.run(state.save, STATE, VERSION, blob, self._clock())
            await transaction.run(outbox.advance, MEMORY, position)

    # one step

    async def step(self) -> bool:
        """Match one batch, or take up one definition; False when there is nothing to do."""
        if not self._running:
            end = await self._store.outbox_end()
            await self._look()
            if not self._waiting:
                await self._pass_by(end)
                return False
        entries = await self._entries(self._position, self._batch)
        # After the entries: a query that existed when one of them arrived is then among those we look at.
        await self._look()
        if self._waiting:
            if self._entries != self._store.outbox:  # whether nothing is left before a position only the store knows
                entries = await self._store.outbox(self._position, self._batch)
            entries = [entry for entry in entries if entry.position <= self._waiting[0].position]
            if not entries:
                await self._take_up()
                return True
        if not entries:
            return False
        await self._write(entries, await self._match(entries))
        return True

    async def _pass_by(self, end: int) -> None:
        """Nobody asks for what came up to here: it need not even be read."""
        if end > self._position:
            async with self._store.transaction() as transaction:
                await transaction.run(outbox.advance, CONSUMER, end)
                await transaction.run(outbox.advance, MEMORY, end)
            self._position = end

    async def _look(self) -> None:
        """Follow what others have changed: feeds with their names and tags, definitions."""
        revisions = await self._store.queries.revisions()
        if revisions[0] != self._revisions[0]:
            await self._look_at_feeds()
        if revisions[1] != self._revisions[1]:
            await self._look_at_queries()
        self._revisions = revisions

    async def _look_at_feeds(self) -> None:
        origins = await self._store.queries.origins()
        for feed in self._origins.keys() - origins.keys():
            self._engine.forget(feed)
        for feed, origin in origins.items():
            self._engine.feed(feed, origin)
        self._origins = origins

    async def _look_at_queries(self) -> None:
        self._changed = True
        known = {query.id: query for query in await self._store.queries.all()}
        gone = [id for id in self._running if id not in known]
        self._dropped += [self._running.pop(id).name for id in gone]
        for id in gone:
            self._definitions.pop(id, None)
        self._drop()
        self._waiting = sorted(
            (query for query in known.values() if self._runs(query) != query.text),
            key=lambda query: (query.position, query.replaced or query.created, query.id),
        )

    def _runs(self, query: QueryFeed) -> str | None:
        running = self._running.get(query.id)
        return None if running is None else running.active

    def _drop(self) -> None:
        """Take dropped feeds out of the engine, readers first. One that a feed still reads whose new definition waits
        goes when that is in force; until then its hits are thrown away."""
        standing = {create.name.key for create in self._definitions.values()}
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

    # definitions

    async def _take_up(self) -> None:
        """From here on items meet the definitions that come next; their windows come from the past."""
        position = self._waiting[0].position
        group = [query for query in self._waiting[:GROUP] if query.position == position]
        del self._waiting[: len(group)]
        taken, refused = await asyncio.to_thread(self._add, group)
        for query, problem in refused:
            log.error("query_not_taken", query=query.name, error=problem)
            async with self._store.transaction() as transaction:
                await transaction.run(queries.set_problem, query, problem)
        self._drop()
        fillings = await self._fill([query for query in taken if query.pending])  # else another processor has
        if fillings:
            async with self._store.transaction() as transaction:
                await transaction.run(_filled, fillings)
        log.info("queries_taken", queries=len(taken), filled=len(fillings))

    def _add(self, group: Sequence[QueryFeed]) -> tuple[list[QueryFeed], list[tuple[QueryFeed, str]]]:
        """Those that the engine has taken, and why it refused the others."""
        taken, refused = [], []
        for query in group:
            self._running[query.id] = replace(query, active=query.text)
            try:
                create = queries.definition(query.text)
                self._engine.add(replace(create, replace=True))
            except (HeadwaterError, ValueError) as error:
                refused.append((query, str(error)))
            else:
                self._definitions[query.id] = create
                taken.append(query)
        return taken, refused

    async def _fill(self, group: Sequence[QueryFeed]) -> list[tuple[QueryFeed, Filling]]:
        scope, now = self.scope(), self._clock()
        names = {create.name.key for create in self._definitions.values()}
        pairs = [(query, self._definitions[query.id].query) for query in group]
        many = [pair for pair in pairs if plain(pair[1], names)]
        filled = await fill_together(self._store, many, scope, self._origins, now) if len(many) > FEW else {}
        return [
            (query, filled.get(query.id) or await fill(self._store, self._engine, query, definition, scope, now))
            for query, definition in pairs
        ]

    # matching

    async def _match(self, entries: Sequence[OutboxEntry]) -> list[tuple[OutboxEntry, Hit]]:
        changed = {entry.item.id for entry in entries if entry.kind != "new" and entry.item.id is not None}
        before = await self._store.queries.emitted(changed) if changed else {}
        return await asyncio.to_thread(self._match_all, entries, before)

    def _match_all(
        self, entries: Sequence[OutboxEntry], before: Mapping[int, Emitted]
    ) -> list[tuple[OutboxEntry, Hit]]:
        found: list[tuple[OutboxEntry, Hit]] = []
        seen: set[int | None] = set()
        for entry in entries:
            if entry.item.id in seen:  # all entries of an item show it as it is now
                continue
            seen.add(entry.item.id)
            arrived = entry.item.first_seen if entry.kind == "new" else entry.at
            try:
                told = before.get(entry.item.id or 0, _NONE)
                hits = list(self._engine.match(entry.item, None, arrived, told.by, told.delivered))
            except Exception as error:  # one bad item must not hold up all others
                log.error("item_not_matched", item=entry.item.id, error=repr(error))
                continue
            found += [(entry, hit) for hit in hits]
        return found

    async def _write(self, entries: Sequence[OutboxEntry], found: Sequence[tuple[OutboxEntry, Hit]]) -> None:
        ids = {create.name.name: id for id, create in self._definitions.items()}
        last = entries[-1].position
        async with self._store.transaction() as transaction:
            stored = await transaction.run(self._written, entries, found, ids)
        self._position = last
        self._matched += len(entries)
        self._hits += len(stored)
        if stored:
            self._on_hits(stored)

    def _written(
        self,
        connection: Connection,
        entries: Sequence[OutboxEntry],
        found: Sequence[tuple[OutboxEntry, Hit]],
        ids: Mapping[str, int],
    ) -> list[StoredHit]:
        done = outbox.lock_checkpoint(connection, CONSUMER)  # another processor may have been here first
        matched = [
            Matched(ids[hit.query], _versioned(hit, entry.item.version), entry.item.first_seen)
            for entry, hit in found
            if entry.position > done and hit.query in ids
        ]
        stored = hits.write(connection, matched)
        hits.count_offered(
            connection, Counter(e.item.feed_id for e in entries if e.kind == "new" and e.position > done)
        )
        if stored:
            for write in self.writers:
                write(connection, stored)
        outbox.advance(connection, CONSUMER, entries[-1].position)
        return stored


def _versioned(hit: Hit, version: int) -> Hit:
    """The hit with the version that the store counts; the engine counts what it has met."""
    if hit.original.version == version == hit.item.version:
        return hit
    return replace(hit, item=replace(hit.item, version=version), original=replace(hit.original, version=version))


def _filled(connection: Connection, fillings: Sequence[tuple[QueryFeed, Filling]]) -> None:
    """Windows, what was kept of the past, and that the definitions run: together or not at all."""
    done = [(query, filling) for query, filling in fillings if queries.activate(connection, query)]
    hits.set_sources(connection, {query.id: filling.kept for query, filling in done})
    hits.refill(connection, {query.id: filling.window for query, filling in done})
