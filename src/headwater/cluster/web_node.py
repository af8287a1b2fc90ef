"""`headwater web`: the pages of a cluster as a process of their own, which decides and fetches nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

import numpy as np
import structlog

from headwater.cluster.cluster_dispatcher import JobSender
from headwater.cluster.fetcher_setup import RequestProxy, make_fetcher
from headwater.cluster.leader import load_leader_status
from headwater.cluster.leader_state import load_belief_sample
from headwater.cluster.leases.lease_clock import LeaseTiming
from headwater.cluster.membership import LocalMember
from headwater.cluster.remote_crawl import RemoteCrawl
from headwater.cluster.roles import join_cluster, make_request_proxy
from headwater.cluster.shared_node import join_postgres
from headwater.cluster.transport.nats_dispatch import NatsJobSender
from headwater.cluster.transport.postgres_transport import PostgresJobSender
from headwater.cluster.transport.proxied_requests import PostgresRequestProxy
from headwater.loops import run_every
from headwater.node.crawl.crawler import CrawlStatus
from headwater.node.crawl.politeness import Politeness
from headwater.node.crawl.strategy_setup import build_configured_strategy
from headwater.node.deliverer_setup import make_deliverer
from headwater.node.live_settings import POLL_SECONDS, LiveSettings
from headwater.node.node import Node
from headwater.node.quality.belief_sample import BeliefSample
from headwater.node.queries.processor import QueryProcessor
from headwater.publish.live_events import LiveEvents
from headwater.schedule.strategy import Strategy
from headwater.settings import Settings
from headwater.store.store import Store

log = structlog.get_logger()


class WebNode(Node):
    """Used like a `Node` by the pages; everything else happens elsewhere."""

    async def __aenter__(self) -> Self:
        given = self.settings
        timing = LeaseTiming(given.cluster_lease)
        identity = LocalMember(given, "web")
        try:
            self.store, outgoing, errands = await self._join_cluster(self._stack, identity)
            self._live_settings = LiveSettings(self.store, given)
            self.settings = given = await self._live_settings.load()
            self.fetcher = await self._stack.enter_async_context(make_fetcher(given, timing))
            self.scout = await self._stack.enter_async_context(make_fetcher(given, timing, errands=errands))
            courtesy = Politeness(np.random.default_rng(), least=given.least_interval)
            self.crawler = RemoteCrawl(self.store, self.fetcher, given, courtesy, outgoing)
            self.live = LiveEvents(self.store)
            self.deliverer = await make_deliverer(self.store, self.fetcher, given)
            self.processor = QueryProcessor(self.store)
        except BaseException:
            await self._stack.aclose()
            raise
        self._status: CrawlStatus | None = None
        await self._follow_status()
        self._tasks = [
            asyncio.create_task(run_every(1.0, self._follow_status, self._stop)),
            asyncio.create_task(run_every(POLL_SECONDS, self._follow_settings, self._stop)),
        ]
        return self

    async def _join_cluster(
        self, stack: AsyncExitStack, identity: LocalMember
    ) -> tuple[Store, JobSender, RequestProxy]:
        if self.settings.nats is None:
            store = await stack.enter_async_context(join_postgres(self.settings, identity))
            return store, PostgresJobSender(store), PostgresRequestProxy(store).proxy_request
        here = await stack.enter_async_context(join_cluster(self.settings, identity))
        return here.store, NatsJobSender(here.streams, here.store, lambda: True), make_request_proxy(here.streams)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()

    def _find_strategy(self) -> Strategy:
        return build_configured_strategy(self.settings)

    async def _apply_settings(self, changes: Mapping[str, Any], new: Settings, strategy: Strategy | None) -> None:
        """Show the changed settings; the process that leads finds them in the database itself."""
        self.settings = new
        if "budget" in changes:
            self.crawler.budget.set_limit(new.budget)

    def status(self) -> CrawlStatus:
        return self._status or self.crawler.status()

    async def sample_beliefs(self, now: float) -> BeliefSample | None:
        """What the leader believes, whichever process that is."""
        return await load_belief_sample(self.store)

    async def _follow_status(self) -> None:
        self._status = await load_leader_status(self.store)
