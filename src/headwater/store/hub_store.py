"""The store's side of the WebSub hub: `store.hub`. Every method is one transaction of its own."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.store.database.database import Database
from headwater.store.publishing import hub_subscribers
from headwater.store.values import HubRequest, HubSubscriber


class HubStore:
    """Requests to the hub, and those who follow topics by it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def ask(self, request: HubRequest, now: float) -> None:
        """Keep a request until the callback has confirmed it; it replaces one of the same topic and callback."""
        await self._database.write(hub_subscribers.add_hub_request, request, now)

    async def counts(self) -> tuple[int, int]:
        """How many requests wait, and how many subscribers there are."""
        return await self._database.read(hub_subscribers.count_hub_rows)

    async def claim_requests(self, now: float, lease: float, limit: int = 50) -> list[HubRequest]:
        """Requests to verify now; nobody else gets them before the lease has passed."""
        return await self._database.write(hub_subscribers.claim_due_hub_requests, now, lease, limit)

    async def postpone(self, request: HubRequest, due: float) -> None:
        await self._database.write(hub_subscribers.postpone_hub_request, request, due)

    async def drop(self, request: HubRequest) -> None:
        """The callback did not confirm: whatever stood before stands."""
        await self._database.write(hub_subscribers.delete_hub_request, request)

    async def confirm(self, request: HubRequest, etag: str | None, now: float, until: float) -> None:
        """The callback has confirmed; a new subscriber has the state `etag` of the topic."""
        await self._database.write(hub_subscribers.confirm_hub_request, request, etag, now, until)

    async def topics(self, now: float) -> list[str]:
        """What somebody follows now; ended leases are forgotten."""
        return await self._database.write(hub_subscribers.list_hub_topics, now)

    async def mark(self, etags: Mapping[str, str], now: float) -> int:
        """Everybody who lacks the present state of one of these topics is due; how many."""
        return await self._database.write(hub_subscribers.mark_outdated, etags, now)

    async def claim(self, now: float, lease: float, limit: int = 100) -> list[HubSubscriber]:
        """Subscribers to be sent something; nobody else gets them before the lease has passed."""
        return await self._database.write(hub_subscribers.claim_due_subscribers, now, lease, limit)

    async def settle(self, id: int, etag: str | None, due: float | None, message: str | None) -> None:
        """What became of it: the state it has got, or when it is tried again."""
        await self._database.write(hub_subscribers.settle_subscriber, id, etag, due, message)

    async def end(self, id: int) -> None:
        await self._database.write(hub_subscribers.remove_hub_subscriber, id)

    async def deny(self, topic: str, reason: str, now: float) -> int:
        """End all subscriptions to a topic and have their callbacks told; how many."""
        return await self._database.write(hub_subscribers.deny_topic, topic, reason, now)

    async def subscribers(self, limit: int = 1000) -> list[HubSubscriber]:
        return await self._database.read(hub_subscribers.list_hub_subscribers, limit)
