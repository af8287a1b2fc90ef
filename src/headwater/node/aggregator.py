"""Declares the running aggregator as pages, APIs and push services see it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from headwater.fetch.client import Fetcher
from headwater.model import Document, Markup
from headwater.node.crawl.crawl_status import CrawlStatus
from headwater.node.crawl.politeness import Politeness
from headwater.node.crawl.scheduler import UpcomingRefresh
from headwater.node.crawl.transport import StoredRefresh
from headwater.node.quality.belief_sample import BeliefSample
from headwater.publish.live_events import LiveEvents
from headwater.settings import Settings
from headwater.store.queries.hits import StoredHit
from headwater.store.store import Store


class CrawlControl(Protocol):
    """The crawl as the rest of a process sees it, whether it runs here or on another machine."""

    @property
    def politeness(self) -> Politeness: ...

    def status(self) -> CrawlStatus:
        """Return the state of the crawl."""
        ...

    async def request_refresh(self, feed_id: int) -> StoredRefresh:
        """Refresh a feed for a person and return when it is stored. Raises RefreshHeld inside Retry-After."""
        ...

    async def accept_push(self, feed_id: int, document: Document[Markup], size: int) -> StoredRefresh:
        """Store a document that a hub pushed, and return when it is stored."""
        ...

    async def note_signal(self, feed_id: int) -> None:
        """Note that a hub announced something new at a feed, without the items."""
        ...

    async def reconsider_feeds(self, feed_ids: Iterable[int]) -> None:
        """Compute anew when feeds may be polled, after a hub has begun or ceased to push them."""
        ...

    async def list_upcoming(self, now: float, limit: int) -> list[UpcomingRefresh]:
        """List the next refreshes, soonest first; none where another machine schedules."""
        ...

    async def sample_beliefs(self, now: float) -> BeliefSample | None:
        """Return beliefs about some feeds that stand for all, or None while there are none."""
        ...


class Aggregator(Protocol):
    """A running aggregator: a single server, a node of a shared database, or the web role of a cluster.

    `fetcher` is for addresses that people give; in a cluster its requests go through the terminals. `courier`
    is for callbacks of the hub, which are not paced like feeds. `on_hits` and `on_stored` are listeners: of items that
    query feeds let out, and of refreshes stored by this process.
    """

    store: Store
    fetcher: Fetcher
    courier: Fetcher
    live: LiveEvents
    on_hits: list[Callable[[Sequence[StoredHit]], None]]
    on_stored: list[Callable[[Sequence[StoredRefresh]], None]]

    @property
    def crawl(self) -> CrawlControl: ...

    @property
    def settings(self) -> Settings: ...

    @property
    def pinned_settings(self) -> frozenset[str]:
        """Return the settings given by an option, the environment or headwater.toml, which win at the next start."""
        ...

    async def change_settings(self, changes: Mapping[str, Any]) -> Settings:
        """Change settings on every node of the database, now and after a restart. Raises SettingsError."""
        ...

    def status(self) -> CrawlStatus:
        """Return the state of the aggregator."""
        ...

    def wake_deliveries(self) -> None:
        """Look for due deliveries now."""
        ...

    async def send_test_message(self, kind: str, address: str) -> None:
        """Send a test message by mail (email), web hook or notification (notify). Raises InputError with the reason."""
        ...

    async def wait_until_broken(self) -> None:
        """Return when a part of the aggregator has ended without being asked to."""
        ...
