"""The store's side of our subscriptions at hubs: `store.subscriptions`. Every method is one transaction of its own."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from headwater.store.content import websub_leases
from headwater.store.database.database import Database
from headwater.store.values import WebSubCancellation, WebSubLease


class SubscriptionStore:
    """Which hubs push which feeds to us."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def wanted(self, limit: int = 500) -> list[tuple[int, str, str]]:
        """Feeds that offer a hub at which we have not asked yet: (feed, hub, topic)."""
        return await self._database.read(websub_leases.list_offered_hubs, limit)

    async def add(self, new: Sequence[WebSubLease]) -> None:
        """Remember what is to be asked for, in place of what stood for these feeds."""
        await self._database.write(websub_leases.add_leases, new)

    async def claim(self, now: float, pending: float, again: float, limit: int = 20) -> list[WebSubLease]:
        """Subscriptions to ask for now; a verification is awaited until `pending`."""
        return await self._database.write(websub_leases.claim_due_leases, now, pending, again, limit)

    async def confirm(self, key: str, topic: str, now: float, until: float, due: float) -> int | None:
        """A hub verifies: the feed, or None where nothing of the kind is awaited."""
        return await self._database.write(websub_leases.confirm_lease, key, topic, now, until, due)

    async def refuse(self, feed_id: int, message: str, due: float, now: float) -> None:
        """The request failed; asked again at `due`."""
        await self._database.write(websub_leases.refuse_lease, feed_id, message, due, now)

    async def end(self, feed_id: int, state: str, message: str, due: float) -> None:
        """No longer believed in: `state` is refused or silent."""
        await self._database.write(websub_leases.end_lease, feed_id, state, message, due)

    async def lapse(self, now: float) -> list[int]:
        """Note which leases have ended; their feeds."""
        return await self._database.write(websub_leases.expire_leases, now)

    async def claim_farewells(
        self, now: float, first: float, slowest: float, limit: int = 20
    ) -> list[WebSubCancellation]:
        """Hubs to be told now that a subscription is over; again after `first` seconds, twice as many, … `slowest`."""
        return await self._database.write(websub_leases.claim_due_cancellations, now, first, slowest, limit)

    async def forget_farewell(self, key: str, topic: str) -> bool:
        """A hub has confirmed the end, or is told no more; False where it was never told."""
        return await self._database.write(websub_leases.delete_cancellation, key, topic)

    async def pushed(self, feed_id: int, now: float) -> None:
        """Count a push, which also shows that the hub lives."""
        await self._database.write(websub_leases.record_received_push, feed_id, now)

    async def say(self, feed_id: int, message: str) -> None:
        """Keep a sentence for whoever asks how the subscription is."""
        await self._database.write(websub_leases.set_lease_message, feed_id, message)

    async def by_key(self, key: str) -> WebSubLease | None:
        return await self._database.read(websub_leases.find_lease_by_key, key)

    async def by_feed(self, feed_ids: Collection[int]) -> dict[int, WebSubLease]:
        return await self._database.read(websub_leases.find_leases_of_feeds, feed_ids)

    async def active(self, now: float) -> dict[int, float]:
        """The feeds that hubs push, and since when."""
        return await self._database.read(websub_leases.list_pushed_feeds, now)
