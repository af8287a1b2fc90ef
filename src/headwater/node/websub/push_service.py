"""Runs the hub for the server's own feeds and the client for the hubs of other feeds.

It starts beside the node, since only the server knows the address that documents and callbacks carry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from headwater.node.aggregator import Aggregator
from headwater.node.websub.websub_client import WebSubClient
from headwater.publish.document_cache import DocumentCache
from headwater.publish.websub_hub import HUB_PATH, WebSubHub
from headwater.store.queries.hits import StoredHit


class PushService:
    """`async with PushService(node, base):` pushes until the block ends."""

    def __init__(self, node: Aggregator, base: str) -> None:
        base = base.rstrip("/")
        self._node = node
        self.documents = DocumentCache(node.store, base, hub=(base + HUB_PATH,))
        self.hub = WebSubHub(node.store, self.documents, node.courier)
        # Hubs must reach us, which the address we listen on cannot tell.
        public = node.settings.public_url
        self.websub_client = None if public is None else WebSubClient(node.store, node.fetcher, node.crawl, public)
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._node.on_hits.append(self._publish_hits)
        self._tasks = [asyncio.create_task(self.hub.run(self._stop))]
        if self.websub_client is not None:
            self._node.on_stored.append(self.websub_client.watch_refreshes)
            self._tasks.append(asyncio.create_task(self.websub_client.run(self._stop)))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self.hub.wake()
        self._node.on_hits.remove(self._publish_hits)
        if self.websub_client is not None:
            self.websub_client.wake()
            self._node.on_stored.remove(self.websub_client.watch_refreshes)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _publish_hits(self, hits: Sequence[StoredHit]) -> None:
        """Show new hits in the documents at once and push them to subscribers."""
        self.documents.expire()
        self.hub.wake()
