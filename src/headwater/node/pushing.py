"""Pushes of a node that others reach at an address: the hub for its own feeds, and hubs of others that push to it.

It starts beside the node, since only the server knows the address that documents and callbacks carry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from headwater.node.node import Node
from headwater.node.subscribing import Subscriber
from headwater.publish.cache import Documents
from headwater.publish.hub import PATH, Hub
from headwater.store.values import StoredHit


class Pushing:
    """`async with Pushing(node, base):` pushes until the block ends."""

    def __init__(self, node: Node, base: str) -> None:
        base = base.rstrip("/")
        self._node = node
        self.documents = Documents(node.store, base, hub=(base + PATH,))
        self.hub = Hub(node.store, self.documents, node.fetcher)
        # Hubs of others must reach us: the address we listen on says nothing about that.
        public = node.settings.public_url
        self.subscriber = None if public is None else Subscriber(node.store, node.fetcher, node.crawler, public)
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._node.on_hits.append(self._hits)
        self._tasks = [asyncio.create_task(self.hub.run(self._stop))]
        if self.subscriber is not None:
            self._node.on_settled.append(self.subscriber.settled)
            self._tasks.append(asyncio.create_task(self.subscriber.run(self._stop)))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self.hub.wake()
        self._node.on_hits.remove(self._hits)
        if self.subscriber is not None:
            self.subscriber.wake()
            self._node.on_settled.remove(self.subscriber.settled)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _hits(self, hits: Sequence[StoredHit]) -> None:
        """Published: whoever asks sees it at once, and whoever has subscribed is sent it."""
        self.documents.expire()
        self.hub.wake()
