"""Leading a cluster: what the process does that holds the controller's lease. Every write of it carries the epoch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import msgspec
import numpy as np
import structlog

from headwater.cluster import pushed, told
from headwater.cluster.controller import Controller, Outgoing
from headwater.cluster.timing import Timing
from headwater.errors import HeadwaterError
from headwater.language.ast import Create
from headwater.node.courtesy import Courtesy
from headwater.node.deciding import Status
from headwater.node.kept_settings import KeptSettings
from headwater.node.learning import Lesson
from headwater.node.setting_up import build_strategy, spending
from headwater.node.upkeep import Upkeep, every
from headwater.query.scope import Scope
from headwater.query.text import Origin
from headwater.settings import Settings
from headwater.store import leases, queries
from headwater.store.leases import Lease
from headwater.store.store import Store

SEAT = "controller"
STATUS, VERSION = "cluster status", 1
LOOK = 1.0
TELL = 2.0  # seconds between two words for those who watch
PER_TERMINAL = 8  # jobs in flight, as a multiple of what a terminal fetches at once

log = structlog.get_logger()


class StandingQueries:
    """The definitions in force, read from the store: the query processor may be on another machine."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._revisions: tuple[int, int] | None = None
        self._definitions: dict[int, Create] = {}
        self._origins: dict[int, Origin] = {}

    @property
    def definitions(self) -> Mapping[int, Create]:
        return self._definitions

    def scope(self) -> Scope:
        return Scope(self._origins, {create.name.key: create.query for create in self._definitions.values()})

    async def look(self) -> bool:
        """Read anew what has changed; whether anything had."""
        revisions = await self._store.queries.revisions()
        if revisions == self._revisions:
            return False
        found: dict[int, Create] = {}
        for query in await self._store.queries.all():
            try:
                found[query.id] = queries.definition(query.text, query.form)
            except (HeadwaterError, ValueError) as error:
                log.error("query_not_understood", query=query.name, error=str(error))
        self._origins = await self._store.queries.origins() if found else {}  # asked about by queries only
        self._definitions, self._revisions = found, revisions
        return True


class Leader:
    """Builds a controller anew each time the lease is won, and runs it with its upkeep until the lease is lost."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        outgoing: Callable[[Store, Lease], Outgoing],
        *,
        roles: Sequence[str],
        beside: Callable[[Store, Lease, asyncio.Event], Sequence[asyncio.Task[None]]] = lambda store, held, over: (),
    ) -> None:
        """`roles` are those of members that fetch; `beside` starts what else only the leader does."""
        self._store = store
        self._settings = settings
        self._kept = KeptSettings(store, settings)
        self._began = False
        self._outgoing = outgoing
        self._roles = frozenset(roles)
        self._beside = beside
        self._terminals = 0
        self._away: float | None = None  # since when none of those who fetch reaches anybody
        self.controller: Controller | None = None
        self.upkeep: Upkeep | None = None
        self.took: float | None = None  # seconds from winning the lease to the first choice

    @property
    def capacity(self) -> int:
        return PER_TERMINAL * self._terminals

    def status(self) -> Status | None:
        """What goes on, None while another leads."""
        if self.controller is None or self.upkeep is None:
            return None
        return replace(self.controller.status(), aims=self.upkeep.aims, network_away_since=self._away)

    async def follow(self) -> None:
        """Take up settings that a node has changed. Called from the start of the process on, also while another leads:
        what is given by hand wins over changes before the start, not over those since."""
        if not self._began:
            self._settings, self._began = await self._kept.at_start(), True
        strategy = build_strategy(self._settings) if self.controller is None else self.controller.strategy
        if (news := await self._kept.news(self._settings, strategy)) is not None:
            self._settings = news[1]
            if self.upkeep is not None:
                await self.upkeep.take(*news)

    async def lead(self, held: Lease, over: asyncio.Event) -> None:
        """Work of the seat."""
        began = time.monotonic()
        await self.follow()
        store = self._store.fenced(held)
        controller, standing = self._new_controller(store, held), StandingQueries(store)
        upkeep = Upkeep(store, controller, self._settings)
        await upkeep.begin()
        await controller.inherit()
        await standing.look()
        await pushed.follow(store, controller.courtesy)
        await self._count(store)
        self.controller, self.upkeep = controller, upkeep
        self.took = time.monotonic() - began
        log.info("leads", epoch=held.epoch, feeds=len(controller.roster), seconds=round(self.took, 2))
        tasks = [
            *upkeep.tasks(standing, over),
            *self._watching(store, controller, upkeep, standing, over),
            *self._beside(store, held, over),
        ]
        try:
            await upkeep.want(standing)
            await controller.run(over)
        finally:
            over.set()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.controller = self.upkeep = None
            try:
                await upkeep.save()
                await upkeep.report()
            except HeadwaterError as error:  # another leads: what it learns counts
                log.warning("not_saved", error=str(error))

    def _new_controller(self, store: Store, held: Lease) -> Controller:
        given = self._settings
        return Controller(
            store,
            build_strategy(given),
            spending(given),
            Courtesy(np.random.default_rng(), least=given.least_interval),
            self._outgoing(store, held),
            epoch=held.epoch,
            timing=Timing(given.cluster_lease),
            per_host=given.per_host,
            capacity=lambda: self.capacity,
            on_learned=self._learned,
        )

    def _watching(
        self, store: Store, controller: Controller, upkeep: Upkeep, standing: StandingQueries, over: asyncio.Event
    ) -> list[asyncio.Task[None]]:
        """What changes elsewhere, and what is told to those who watch."""
        told_last = b""

        async def look() -> None:
            if await standing.look():
                await upkeep.want(standing)

        async def tell() -> None:
            nonlocal told_last
            status = self.status()
            said = b"" if status is None else msgspec.json.encode(status)
            if said and said != told_last:
                await store.save_state(STATUS, VERSION, said, time.time())
                told_last = said

        async def hubs() -> None:
            ended = await pushed.follow(store, controller.courtesy)
            await controller.reconsider(ended)

        async def believe() -> None:
            await told.tell(store, controller)

        async def count() -> None:
            await self._count(store)

        works = ((pushed.LOOK, hubs), (told.EVERY, believe), (LOOK, look), (LOOK, count), (TELL, tell))
        return [asyncio.create_task(every(seconds, work, over)) for seconds, work in works]

    async def _count(self, store: Store) -> None:
        """How much the terminals that are there can fetch at once."""
        here = await store.read(leases.members, self._settings.cluster_lease)
        infos = [msgspec.json.decode(one.info) for one in here if one.role in self._roles]
        self._terminals = sum(int(info.get("capacity", 0)) for info in infos)
        away = [info.get("away_since") for info in infos]
        self._away = min(away) if away and None not in away else None

    def _learned(self, lessons: Sequence[Lesson]) -> None:
        if self.upkeep is None:
            return
        self.upkeep.watch.note((lesson.refresh, lesson.before) for lesson in lessons)
        bound = log.bind()  # once: it looks its settings up each time
        for lesson in lessons:
            refresh = lesson.refresh
            bound.info(
                "refreshed",
                feed=refresh.feed_id,
                url=lesson.url,
                ending=refresh.ending.value,
                new=refresh.new,
                lost=round(refresh.lost, 1),
                reason=refresh.reason,
            )


async def last_status(store: Store) -> Status | None:
    """What the leader said last; None if there was none."""
    saved = await store.load_state(STATUS)
    if saved is None or saved[0] != VERSION:
        return None
    return msgspec.json.decode(saved[1], type=Status)
