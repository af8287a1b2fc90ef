"""Follows the outbox and matches every item with all standing queries, exactly once.

    outbox ─► group, match (in a thread) ─► one transaction: stories, hits, their deliveries, checkpoint ─► on_hits

The outbox is the truth and `wake` only a hint. A definition that was created when the outbox ended at position p is
activated when the entries up to p have been matched without it, so that an item meets the queries that existed when it
arrived, even if processes are killed meanwhile. The memory of the engine (windows of joins and of DISTINCT) and of the
stories is saved from time to time; after a restart the entries since then are matched again and their hits ignored, and
their items keep the stories that were saved with the hits.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog
from sqlalchemy import Connection

from headwater.errors import InputError
from headwater.language.ast import CreateFeed, Query
from headwater.loops import pause, set_with
from headwater.model import Item, QueryFeed
from headwater.node.queries.backfill import Backfill, BackfillBatch, backfill_queries, with_version, write_backfills
from headwater.node.queries.definitions import QueryDefinitions
from headwater.query import Engine, Hit
from headwater.query.items.analysed_item import LanguageDetector
from headwater.query.items.origin import Origin
from headwater.query.source_scope import SourceScope
from headwater.query.stories.story_grouper import WINDOW, StoryGrouper
from headwater.query.stories.story_items import ItemStory
from headwater.query.stories.story_placer import PlacedItem, StoryPlacer
from headwater.store import saved_state
from headwater.store.content import outbox
from headwater.store.content.items import EarlierVersion, find_earlier_versions, find_items
from headwater.store.content.outbox import OutboxEntry, find_last_position, list_outbox_entries, read_checkpoint
from headwater.store.content.stories import find_placements, save_placements
from headwater.store.database.dialect import chunks
from headwater.store.queries import hits, query_feeds, selectivity
from headwater.store.queries.document_hits import load_item_origins
from headwater.store.queries.hits import NewHit, ShowingQueries, StoredHit, find_showing_queries, list_past_items
from headwater.store.queries.query_feeds import list_all_query_feeds, list_changed_query_feeds
from headwater.store.queries.source_references import note_missing_sources
from headwater.store.saved_state import load_state, read_revisions
from headwater.store.store import Store

_NOTHING_EMITTED = ShowingQueries()

log = structlog.get_logger()


@dataclass(slots=True)
class MatchBatch:
    """The hits of some entries, and the error of each query that could not be matched, by its name."""

    hits: list[tuple[OutboxEntry, Hit]] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    placed: list[tuple[OutboxEntry, PlacedItem]] = field(default_factory=list)


def match_entries(
    engine: Engine | None,
    placer: StoryPlacer,
    entries: Sequence[OutboxEntry],
    before: Mapping[int, ShowingQueries],
    known: Mapping[int, PlacedItem],
    origins: Mapping[int, Origin],
    versions: Mapping[int, Sequence[EarlierVersion]],
) -> MatchBatch:
    """Group entries into stories and match them; without queries there is no engine. `before` has the queries that
    showed an item before it changed, `known` the placements of items that were grouped before, `versions` the earlier
    versions of changed items."""
    found = MatchBatch()
    seen: set[int | None] = set()
    for entry in entries:
        if entry.item.id in seen:  # all entries of an item have its current state
            continue
        seen.add(entry.item.id)
        arrived = _find_arrival(entry)
        try:
            story = _find_story(placer, entry, known, origins, found)
            if engine is None:
                continue
            shown = before.get(entry.item.id or 0, _NOTHING_EMITTED)
            hits = engine.match(
                entry.item, None, arrived, shown.by, shown.delivered, story, _find_previous(entry, versions)
            )
        except Exception as error:  # one bad item must not stop the others
            log.error("item_not_matched", item=entry.item.id, error=repr(error))
            continue
        for failure in hits.failures:
            log.error("query_failed", query=failure.query, item=entry.item.id, error=repr(failure.error))
            found.failed.setdefault(failure.query, f"Item {entry.item.id} could not be tried: {failure.error!r}")
        found.hits += [(entry, hit) for hit in hits]
    return found


def _find_arrival(entry: OutboxEntry) -> float:
    """Return when this version of the item arrived."""
    return entry.item.first_seen if entry.kind == "new" else entry.at


def _find_previous(entry: OutboxEntry, versions: Mapping[int, Sequence[EarlierVersion]]) -> Item | None:
    """Return the version that the change of an entry replaced."""
    if entry.kind == "new":
        return None
    replaced = (version.item for version in versions.get(entry.item.id or 0, ()) if version.until >= entry.at)
    return next(replaced, None)


def _find_story(
    placer: StoryPlacer,
    entry: OutboxEntry,
    known: Mapping[int, PlacedItem],
    origins: Mapping[int, Origin],
    found: MatchBatch,
) -> ItemStory | None:
    item = entry.item
    if entry.kind != "new":
        return placer.change_item(item)
    origin = origins.get(item.feed_id) or Origin(None, f"feed:{item.feed_id}")
    before = known.get(item.id or 0)
    placed = placer.place_item(item, origin, item.first_seen, before)
    if before is None:
        found.placed.append((entry, placed))
    return placed.story


CONSUMER, ENGINE_CHECKPOINT = "queries", "query state"  # checkpoints of hits and of the saved memory
STATE, VERSION = "query engine", 1
STORIES_STATE, STORIES_VERSION = "stories", 1
MAX_REGROUPED = 100_000  # stored items that are grouped if there is no saved state
BATCH = 200
IDLE_SECONDS = 0.1  # at least between two looks while there is no query
SAVE_SECONDS = 300.0
MAX_GROUP = 5_000  # definitions activated at a time
WAIT_AFTER_FAILURE = 5.0


HitWriter = Callable[[Connection, Sequence[StoredHit]], None]
"""Writes deliveries and articles in the transaction of the hits that cause them."""


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """The progress of the processor: entries of the outbox up to `position` are done, `behind` are waiting."""

    query_feeds: int
    position: int
    behind: int
    matched: int
    hits: int


class QueryProcessor:
    """Keeps query feeds filled until it is stopped. If several run, one of them writes and the others stand by."""

    def __init__(
        self,
        store: Store,
        *,
        detect: LanguageDetector | None = None,
        writers: Sequence[HitWriter] = (),
        on_hits: Callable[[Sequence[StoredHit]], None] = lambda hits: None,
        on_taken: Callable[[], Awaitable[None]] | None = None,
        clock: Callable[[], float] = time.time,
        batch: int = BATCH,
    ) -> None:
        self._store = store
        self._detect = detect
        self.writers = list(writers)
        self._on_hits = on_hits
        self._on_definitions_changed = on_taken
        self._definitions_changed = False
        self._clock = clock
        self._batch = batch
        self._woken = asyncio.Event()
        self._engine = Engine(detect)
        self._position = 0
        self._revisions = (-1, -1)
        self._origins: dict[int, Origin] = {}
        self._placer = StoryPlacer()
        self._broken: int | None = None  # query feeds whose source is missing
        self._definitions = QueryDefinitions(self._engine)
        self._matched = self._hits = 0

    # state for other parts

    def wake(self) -> None:
        """Look at the outbox now."""
        self._woken.set()

    async def measure_progress(self) -> QueryProgress:
        end = await self._store.read(find_last_position)
        return QueryProgress(
            len(self._definitions.running), self._position, max(end - self._position, 0), self._matched, self._hits
        )

    @property
    def definitions(self) -> Mapping[int, CreateFeed]:
        """The definitions in force, by the id of their query feed."""
        return self._definitions.in_force

    def build_scope(self) -> SourceScope:
        return self._definitions.build_scope(self._origins)

    # the loop

    async def run(self, stop: asyncio.Event) -> None:
        """Follow the outbox until `stop` is set. A failure is logged and tried again: it never ends the loop."""
        async with set_with(stop, self._woken):
            with self._store.changes.waking(self._woken):
                await self._follow_outbox(stop)

    async def _follow_outbox(self, stop: asyncio.Event) -> None:
        loaded, saved = False, time.monotonic()
        while not stop.is_set():
            self._woken.clear()
            try:
                if not loaded:
                    await self.load()
                    loaded = True
                if await self.step():
                    continue
                if self._definitions_changed and self._on_definitions_changed is not None:
                    await self._on_definitions_changed()
                    self._definitions_changed = False
                if time.monotonic() - saved > SAVE_SECONDS:
                    await self.save()
                    saved = time.monotonic()
            except Exception as error:
                log.error("queries_failed", error=repr(error))
                loaded = False  # the state of the engine is uncertain: load it from the store
                await pause(stop, WAIT_AFTER_FAILURE)
                continue
            if not self._definitions.running:
                await pause(stop, IDLE_SECONDS)
            await self._woken.wait()
        if loaded:
            await self.save()

    # beginning and saving

    async def load(self) -> None:
        """Continue where the last processor stopped."""
        self._engine, self._placer = Engine(self._detect), StoryPlacer()
        self._definitions, self._revisions = QueryDefinitions(self._engine), (-1, -1)
        await self._store.write(_create_checkpoints)
        revisions = await self._store.read(read_revisions)
        await self._follow_feeds()
        known = await self._store.read(list_all_query_feeds)
        forms = await asyncio.to_thread(self._definitions.restore_running, known)
        self._position = await self._restore_engine()
        await self._restore_stories(self._position)
        done = await self._store.read(read_checkpoint, CONSUMER)
        while self._position < done:
            entries = [
                e
                for e in await self._store.read(list_outbox_entries, self._position, self._batch)
                if e.position <= done
            ]
            if not entries:
                break
            found = await self._match_entries(entries, again=True)
            await self._store.write(save_placements, [placed for _, placed in found.placed])
            self._position = entries[-1].position
        self._position = done
        await asyncio.to_thread(self._definitions.apply_changes, known, (), done)
        self._revisions, self._definitions_changed = revisions, True
        await self._store.write(query_feeds.save_packed_forms, forms)

    async def _restore_engine(self) -> int:
        """Load the memory of the engine; return its position in the outbox."""
        saved = await self._store.read(load_state, STATE)
        if saved is None or saved[0] != VERSION:
            return await self._store.read(read_checkpoint, ENGINE_CHECKPOINT)
        try:
            await asyncio.to_thread(self._engine.load, saved[1])
        except Exception as error:
            log.error("query_memory_lost", error=repr(error))
        return await self._store.read(read_checkpoint, ENGINE_CHECKPOINT)

    async def _restore_stories(self, position: int) -> None:
        """Load the state of the stories; without one, group the stored items of the last two days."""
        self._placer.set_origins(self._origins.values())
        saved = await self._store.read(load_state, STORIES_STATE)
        if saved is not None and saved[0] == STORIES_VERSION:
            try:
                self._placer.grouper = await asyncio.to_thread(StoryGrouper.load_state, saved[1])
            except InputError as error:
                log.error("story_memory_lost", error=str(error))
            else:
                return
        since = self._clock() - WINDOW
        ids = await self._store.read(list_past_items, since=since, limit=MAX_REGROUPED, upto=position)
        for chunk in chunks(ids, self._batch):
            known = await self._store.read(find_placements, chunk)
            entries = [OutboxEntry(position, "new", item) for item in await self._store.read(find_items, chunk)]
            found = await asyncio.to_thread(match_entries, None, self._placer, entries, {}, known, self._origins, {})
            await self._store.write(save_placements, [placed for _, placed in found.placed])

    async def save(self) -> None:
        """Save the memory of the engine and of the stories with their position."""
        position, blob = self._position, await asyncio.to_thread(self._engine.save)
        stories = await asyncio.to_thread(self._placer.grouper.save_state)
        await self._store.write(_save_engine, blob, stories, position, self._clock())

    # one step

    async def step(self) -> bool:
        """Match one batch, and activate definitions in turn or some late ones; return whether there was work."""
        wanted = self._definitions
        entries = await self._store.read(list_outbox_entries, self._position, self._batch)
        seen = entries[-1].position if entries else self._position
        # After the entries: then every query that existed when one of them arrived is known.
        await self._follow_changes()
        first = min((group[0].position for group in (wanted.waiting, wanted.late) if group), default=None)
        if first is not None:
            # Again: entries that a definition must wait for may have arrived since; but none beyond it, because queries
            # created before those are not known yet.
            again = await self._store.read(list_outbox_entries, self._position, self._batch)
            entries = [entry for entry in again if entry.position <= max(seen, first)]
        nothing = not entries
        if wanted.waiting:
            entries = [entry for entry in entries if entry.position <= wanted.waiting[0].position]
        if entries:
            await self._store_matches(entries, await self._match_entries(entries))
        if wanted.late and self._is_matched_up_to(wanted.late[0].position, first if nothing else None):
            await self._activate_late()
        elif wanted.waiting and not entries:
            await self._activate_in_turn()
        else:
            return bool(entries)
        return True

    def _is_matched_up_to(self, position: int, upto: int | None) -> bool:
        """Whether everything up to a position has been matched; there are no more entries up to `upto`."""
        return self._position >= position or (upto is not None and position <= upto)

    async def _follow_changes(self) -> None:
        """Follow changes of feeds, their names and tags, and of definitions."""
        revisions = await self._store.read(read_revisions)
        if revisions[0] != self._revisions[0]:
            await self._follow_feeds()
        if revisions[1] != self._revisions[1]:
            await self._follow_queries()
        self._revisions = revisions

    async def _follow_feeds(self) -> None:
        origins = await self._store.read(load_item_origins)
        for feed in self._origins.keys() - origins.keys():
            self._engine.remove_origin(feed)
        for feed, origin in origins.items():
            self._engine.set_origin(feed, origin)
        lost = {one.name for one in self._origins.values()} - {one.name for one in origins.values()}
        if lost or self._broken is None or self._broken > 0:
            self._broken = await self._store.write(note_missing_sources)
        self._origins = origins
        self._placer.set_origins(origins.values())

    async def _follow_queries(self) -> None:
        self._definitions_changed = True
        changed, gone = await self._store.read(
            list_changed_query_feeds, self._revisions[1], self._definitions.list_ids()
        )
        await asyncio.to_thread(self._definitions.apply_changes, changed, gone, self._position)

    # definitions

    async def _activate_in_turn(self) -> None:
        """Activate the next definitions and fill their windows from stored items."""
        taken = await self._add_to_engine(self._definitions.pop_in_turn(MAX_GROUP))
        fillings = await self._backfill([query for query in taken if query.is_pending])  # else it was filled
        if fillings:
            await self._store.write(write_backfills, fillings)
        log.info("queries_loaded", queries=len(taken), filled=len(fillings))

    async def _activate_late(self) -> None:
        """Activate late definitions: fill their windows and match the entries that they have missed."""
        group = self._definitions.pop_late()
        together = await asyncio.to_thread(BackfillBatch, _parse_definitions(group), self._origins, self._detect)
        scope = await asyncio.to_thread(self.build_scope)
        filled = await together.backfill(self._store, scope, self._clock(), len(group) + len(self._definitions.late))
        missed = await together.catch_up(self._store, self._position)
        stored = await self._store.write(self._store_late, [(query, filled[query.id]) for query in group], missed)
        if stored is None:
            self._revisions = (self._revisions[0], -1)  # another processor is ahead: read the definitions again
            return
        await self._add_to_engine(group)
        self._report_hits(stored)
        log.info("queries_loaded", queries=len(group), filled=len(group), late=len(self._definitions.late))

    async def _add_to_engine(self, group: Sequence[QueryFeed]) -> list[QueryFeed]:
        taken, refused = await asyncio.to_thread(self._definitions.add_to_engine, group)
        for query, problem in refused:
            log.error("query_not_loaded", query=query.name, error=problem)
            await self._store.write(query_feeds.set_problem, query, problem)
        self._definitions.drop_unread()
        return taken

    async def _backfill(self, group: Sequence[QueryFeed]) -> list[tuple[QueryFeed, Backfill]]:
        names, now = self._definitions.list_names(), self._clock()
        return await backfill_queries(
            self._store, self._engine, _parse_definitions(group), names, self._origins, self.build_scope(), now
        )

    def _store_late(
        self, connection: Connection, fillings: Sequence[tuple[QueryFeed, Backfill]], missed: Sequence[NewHit]
    ) -> list[StoredHit] | None:
        if outbox.lock_checkpoint(connection, CONSUMER) != self._position:
            return None
        running = write_backfills(connection, fillings)
        stored = hits.save_hits(connection, [one for one in missed if one.query_id in running])
        self._run_writers(connection, stored)
        return stored

    # matching

    async def _match_entries(self, entries: Sequence[OutboxEntry], again: bool = False) -> MatchBatch:
        """Group and match entries; `again` after a restart, when their items have stories already."""
        changed = {entry.item.id for entry in entries if entry.kind != "new" and entry.item.id is not None}
        before = await self._store.read(find_showing_queries, changed) if changed else {}
        new = {entry.item.id for entry in entries if entry.kind == "new" and entry.item.id is not None}
        known = await self._store.read(find_placements, new) if again and new else {}
        versions = await self._store.read(find_earlier_versions, changed) if changed else {}
        engine = self._engine if self._definitions.running else None
        return await asyncio.to_thread(
            match_entries, engine, self._placer, entries, before, known, self._origins, versions
        )

    async def _store_matches(self, entries: Sequence[OutboxEntry], found: MatchBatch) -> None:
        stored = await self._store.write(self._write_matches, entries, found, self._definitions.ids)
        self._position = entries[-1].position
        self._matched += len(entries)
        self._report_hits(stored)

    def _report_hits(self, stored: Sequence[StoredHit]) -> None:
        self._hits += len(stored)
        if stored:
            self._on_hits(stored)

    def _run_writers(self, connection: Connection, stored: Sequence[StoredHit]) -> None:
        if stored:
            for write in self.writers:
                write(connection, stored)

    def _write_matches(
        self, connection: Connection, entries: Sequence[OutboxEntry], found: MatchBatch, ids: Mapping[str, int]
    ) -> list[StoredHit]:
        done = outbox.lock_checkpoint(connection, CONSUMER)  # another processor may have been here first
        matched = [
            NewHit(ids[hit.query], with_version(hit, entry.item.version), _find_arrival(entry))
            for entry, hit in found.hits
            if entry.position > done and hit.query in ids
        ]
        stored = hits.save_hits(connection, matched)
        save_placements(connection, [placed for entry, placed in found.placed if entry.position > done])
        if self._definitions.running:
            selectivity.count_offered(
                connection, Counter(e.item.feed_id for e in entries if e.kind == "new" and e.position > done)
            )
        self._run_writers(connection, stored)
        for name, problem in found.failed.items():
            if name in ids:
                query_feeds.set_problem(connection, self._definitions.running[ids[name]], problem)
        outbox.advance_checkpoint(connection, CONSUMER, entries[-1].position)
        return stored


def _parse_definitions(group: Sequence[QueryFeed]) -> list[tuple[QueryFeed, Query]]:
    return [(query, query_feeds.read_query(query).query) for query in group]


def _create_checkpoints(connection: Connection) -> None:
    """Add both checkpoints, so that retention spares the entries that would have to be matched again."""
    outbox.advance_checkpoint(connection, ENGINE_CHECKPOINT, 0)
    outbox.advance_checkpoint(connection, CONSUMER, 0)


def _save_engine(connection: Connection, blob: bytes, stories: bytes, position: int, now: float) -> None:
    saved_state.save_state(connection, STATE, VERSION, blob, now)
    saved_state.save_state(connection, STORIES_STATE, STORIES_VERSION, stories, now)
    outbox.advance_checkpoint(connection, ENGINE_CHECKPOINT, position)
