"""`headwater web`: the pages of a cluster as a process of their own, which decides and fetches nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

import numpy as np
import structlog

from headwater.cluster.by_nats import NatsOutgoing
from headwater.cluster.by_postgres import PostgresOutgoing
from headwater.cluster.controller import Outgoing
from headwater.cluster.errands import PostgresErrands
from headwater.cluster.fetchers import Errands, fetcher
from headwater.cluster.identity import Identity
from headwater.cluster.leading import last_status
from headwater.cluster.node import joined_by_postgres
from headwater.cluster.roles import by_terminals, joined
from headwater.cluster.timing import Timing
from headwater.cluster.told import last_told
from headwater.cluster.wishing import Wishing
from headwater.node.buying import Sample
from headwater.node.courtesy import Courtesy
from headwater.node.crawler import Status
from headwater.node.delivering import delivering
from headwater.node.kept_settings import LOOK, KeptSettings
from headwater.node.node import Node
from headwater.node.processor import Processor
from headwater.node.setting_up import build_strategy
from headwater.node.upkeep import every
from headwater.publish.live import Live
from headwater.schedule.base import Strategy
from headwater.settings import Settings
from headwater.store.store import Store

log = structlog.get_logger()


class WebNode(Node):
    """Used like a `Node` by the pages; everything else happens elsewhere."""

    async def __aenter__(self) -> Self:
        given = self.settings
        timing = Timing(given.cluster_lease)
        identity = Identity(given, "web")
        try:
            self.store, outgoing, errands = await self._join(self._stack, identity)
            self._kept = KeptSettings(self.store, given)
            self.settings = given = await self._kept.at_start()
            self.fetcher = await self._stack.enter_async_context(fetcher(given, timing))
            self.scout = await self._stack.enter_async_context(fetcher(given, timing, errands=errands))
            courtesy = Courtesy(np.random.default_rng(), least=given.least_interval)
            self.crawler = Wishing(self.store, self.fetcher, given, courtesy, outgoing)
            self.live = Live(self.store)
            self.deliverer = await delivering(self.store, self.fetcher, given)
            self.processor = Processor(self.store)
        except BaseException:
            await self._stack.aclose()
            raise
        self._status: Status | None = None
        await self._look()
        self._tasks = [
            asyncio.create_task(every(1.0, self._look, self._stop)),
            asyncio.create_task(every(LOOK, self._follow, self._stop)),
        ]
        return self

    async def _join(self, stack: AsyncExitStack, identity: Identity) -> tuple[Store, Outgoing, Errands]:
        if self.settings.nats is None:
            store = await stack.enter_async_context(joined_by_postgres(self.settings, identity))
            return store, PostgresOutgoing(store), PostgresErrands(store).send
        here = await stack.enter_async_context(joined(self.settings, identity))
        return here.store, NatsOutgoing(here.streams, here.store, lambda: True), by_terminals(here.streams)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()

    def _strategy(self) -> Strategy:
        return build_strategy(self.settings)

    async def _take(self, changes: Mapping[str, Any], new: Settings, strategy: Strategy | None) -> None:
        """Show the changed settings; the process that leads finds them in the database itself."""
        self.settings = new
        if "budget" in changes:
            self.crawler.spending.limit(new.budget)

    def status(self) -> Status:
        return self._status or self.crawler.status()

    async def sample(self, now: float) -> Sample | None:
        """What the leader believes, whichever process that is."""
        return await last_told(self.store)

    async def _look(self) -> None:
        self._status = await last_status(self.store)
