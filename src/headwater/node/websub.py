"""Runs our hub, and our leases at the hubs of sources: requested, confirmed, renewed, and ended when a hub fails.

    a refresh shows a hub ─► asked (POST) ─► it verifies (GET, only while we wait for it) ─► active: pushes are items
                                 ▲                                                             │ only a slow safety poll
                                 └── refused, lease over, silent: polled as ever, asked again ◄┘

A hub that verifies and then does not push is noticed by the safety poll: it finds items that should have been pushed.
Where a feed is removed, paused or given up, or has another hub now, the old one is told (`unsubscribe`), and told again
if it does not confirm, until its lease is over anyway.

`WebSubClient` talks with hubs and may run beside the pages; `HubWatch` runs beside the crawl, notices silent hubs and
tells politeness which feeds are pushed. Both meet in the store. `PushService` runs the client and our own hub beside
the pages, since only the server knows the address that documents and callbacks carry.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

import structlog

from headwater.errors import HeadwaterError, NotAFeed, NotFound
from headwater.fetch.client import Fetcher, Page
from headwater.fetch.http.guarded_session import FetchFailure
from headwater.fetch.http.headers import has_valid_signature
from headwater.fetch.http.redirects import resolve_location
from headwater.loops import StepLoop
from headwater.node.aggregator import Aggregator, CrawlControl
from headwater.node.crawl.politeness import Politeness
from headwater.node.crawl.transport import StoredRefresh
from headwater.publish.document_cache import DocumentCache
from headwater.publish.websub_hub import HUB_PATH, WebSubHub
from headwater.store.content.websub_leases import (
    WebSubCancellation,
    WebSubLease,
    add_leases,
    claim_due_cancellations,
    claim_due_leases,
    confirm_lease,
    delete_cancellation,
    end_lease,
    expire_leases,
    find_lease_by_key,
    find_next_lease_due,
    list_offered_hubs,
    list_pushed_feeds,
    record_received_push,
    refuse_lease,
    set_lease_message,
)
from headwater.store.queries.hits import StoredHit
from headwater.store.store import Store


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


PATH = "/push/"
LEASE_SECONDS = 10 * 86_400.0
MIN_LEASE, MAX_LEASE = 60.0, 30 * 86_400.0  # leases that are believed
VERIFICATION_SECONDS = 600.0  # seconds in which a verification must come
FIRST_RETRY, SLOWEST_RETRY = 600.0, 86_400.0  # until a request without success is made again, doubled each time
SILENT_HUB_RETRY = 86_400.0  # until a hub that did not push is asked again
NOT_PUSHED = "It did not push items that a poll found; the feed is polled again."
MAX_UNSUBSCRIBES = 5  # requests to end a subscription that a hub answers with an error
RENEW_SHARE = 0.8  # of the lease, less up to a tenth by chance
PUSH_GRACE = 60.0  # an item that a poll found so soon after its publication may still be on its way
SCAN_SECONDS = 600.0
MAX_REDIRECTS = 5
MAX_CHALLENGE = 2_000

log = structlog.get_logger()


class WebSubClient(StepLoop):
    """`base` is the address under which hubs reach us."""

    def __init__(
        self, store: Store, fetcher: Fetcher, crawl: CrawlControl, base: str, *, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__("subscribing_failed", store.changes, clock=clock)
        self._store = store
        self._fetcher = fetcher
        self._crawl = crawl
        self._callback = base.rstrip("/") + PATH
        self._active: dict[int, float] = {}  # feeds that hubs push, and since when
        self._silent_feeds: list[int] = []
        self._state_lock = asyncio.Lock()  # the store and `_active` change together
        self._scanned_at = float("-inf")
        self._hubs_found = self._hubs_scanned = 0  # hubs found by refreshes, and those included in the last scan

    # the loop

    async def step(self) -> bool:
        """Scan for hubs, end expired leases and send due requests; return whether any was sent."""
        now = self._clock()
        if self._hubs_found != self._hubs_scanned or not self._scanned_at <= now < self._scanned_at + SCAN_SECONDS:
            await self._scan_store(now)
        async with self._state_lock:
            for feed_id in await self._store.write(expire_leases, now):
                await self._resume_polling(feed_id, "lease over")
            while self._silent_feeds:
                feed_id = self._silent_feeds.pop()
                await self._store.write(end_lease, feed_id, "silent", NOT_PUSHED, now + SILENT_HUB_RETRY)
                await self._resume_polling(feed_id, "hub silent")
        claimed = await self._store.write(claim_due_leases, now, now + VERIFICATION_SECONDS, now + FIRST_RETRY)
        parted = await self._store.write(claim_due_cancellations, now, FIRST_RETRY, SLOWEST_RETRY)
        await asyncio.gather(*map(self._request_lease, claimed), *map(self._request_unsubscribe, parted))
        return bool(claimed or parted)

    async def find_next_due(self) -> float:
        scan, due = self._scanned_at + SCAN_SECONDS, await self._store.read(find_next_lease_due)
        return scan if due is None else min(scan, due)

    async def _scan_store(self, now: float) -> None:
        """Create leases for new hubs, and read which feeds are pushed already."""
        looking = self._hubs_found  # hubs found from here on are for the next scan
        while found := await self._store.read(list_offered_hubs):
            new = [
                WebSubLease(feed, secrets.token_urlsafe(24), hub, topic, secrets.token_urlsafe(32), due=now)
                for feed, hub, topic in found
            ]
            await self._store.write(add_leases, new)
        async with self._state_lock:
            self._active = await self._store.read(list_pushed_feeds, now)
            self._crawl.politeness.pushed_feeds = set(self._active)
        self._scanned_at, self._hubs_scanned = now, looking

    # asking

    async def _request_lease(self, one: WebSubLease) -> None:
        """Request a lease. Its row waits for the verification already: some hubs verify before they answer."""
        form = {
            "hub.mode": "subscribe",
            "hub.topic": one.topic,
            "hub.callback": self._callback + one.key,
            "hub.secret": one.secret,
            "hub.lease_seconds": str(int(LEASE_SECONDS)),
        }
        refusal = await self._post_form(one.hub, form)
        if refusal is not None:
            now = self._clock()
            due = now + min(FIRST_RETRY * 2 ** (one.attempts - 1), SLOWEST_RETRY)
            await self._store.write(refuse_lease, one.feed_id, refusal, due, now)
        log.info("hub_subscription_requested", feed=one.feed_id, hub=one.hub, refused=refusal)

    async def _request_unsubscribe(self, one: WebSubCancellation) -> None:
        """Unsubscribe at a hub. It verifies that too, and until then is asked again."""
        form = {"hub.mode": "unsubscribe", "hub.topic": one.topic, "hub.callback": self._callback + one.key}
        refusal = await self._post_form(one.hub, form)
        if one.attempts >= MAX_UNSUBSCRIBES and refusal is not None:
            await self._store.write(delete_cancellation, one.key, one.topic)
        log.info("hub_unsubscription_requested", hub=one.hub, topic=one.topic, attempts=one.attempts, refused=refusal)

    async def _post_form(self, hub: str, form: Mapping[str, str]) -> str | None:
        """Send a request to a hub; return the reason of a refusal, None if it accepts."""
        try:
            answer = await self._post_with_redirects(hub, form)
        except (HeadwaterError, FetchFailure) as error:
            return str(error)
        return None if answer.ok else f"It answered {answer.status}: {_excerpt(answer.body)}"

    async def _post_with_redirects(self, hub: str, form: Mapping[str, str]) -> Page:
        """Hubs may send us to another place, where the same is asked (307 and 308 keep the method)."""
        for _ in range(MAX_REDIRECTS):
            answer = await self._fetcher.post(hub, form)
            if answer.status not in (307, 308):
                return answer
            hub = resolve_location(hub, answer.headers.get("Location"))
        return answer

    # being asked

    async def verify_intent(self, key: str, query: Mapping[str, str]) -> str | None:
        """Answer a hub's verification: the challenge if we made that request, else None (404)."""
        mode, topic = query.get("hub.mode"), query.get("hub.topic", "")
        now = self._clock()
        if mode == "denied":
            return await self._record_denial(key, topic, query.get("hub.reason", ""))
        challenge, seconds = query.get("hub.challenge", ""), query.get("hub.lease_seconds", "")
        if not 0 < len(challenge) <= MAX_CHALLENGE:
            return None
        if mode == "unsubscribe":
            return challenge if await self._store.write(delete_cancellation, key, topic) else None
        if mode != "subscribe":
            return None
        given = float(seconds) if seconds.isascii() and seconds.isdecimal() and len(seconds) < 16 else LEASE_SECONDS
        lease = min(max(given, MIN_LEASE), MAX_LEASE)
        due = now + lease * RENEW_SHARE * (1 - random.random() / 10)
        async with self._state_lock:
            feed_id = await self._store.write(confirm_lease, key, topic, now, now + lease, due)
            if feed_id is None:
                return None
            # The next poll stays where it was: it finds items that were published before the hub knew us.
            self._mark_pushed(feed_id, now)
        log.info("hub_confirmed", feed=feed_id, lease=lease)
        return challenge

    async def _record_denial(self, key: str, topic: str, reason: str) -> str | None:
        one = await self._store.read(find_lease_by_key, key)
        if one is None or one.topic != topic:
            return None
        message = "It denied the subscription" + (f": {_excerpt(reason.encode())}" if reason else ".")
        async with self._state_lock:
            await self._store.write(end_lease, one.feed_id, "refused", message, self._clock() + SILENT_HUB_RETRY)
            await self._resume_polling(one.feed_id, message)
        return ""

    # being pushed to

    async def expects_pushes(self, key: str) -> bool:
        """Return whether a lease with this key is running."""
        one = await self._store.read(find_lease_by_key, key)
        return one is not None and one.until is not None and one.until > self._clock()

    async def receive_push(self, key: str, body: bytes, headers: Mapping[str, str]) -> int:
        """Accept a push and return the status: 410 for an unknown one; a wrong signature is ignored with 202."""
        one = await self._store.read(find_lease_by_key, key)
        now = self._clock()
        if one is None or one.until is None or one.until <= now:
            return 410
        if not has_valid_signature(one.secret, headers.get("x-hub-signature", ""), body):
            await self._store.write(set_lease_message, one.feed_id, "A push without a valid signature was ignored.")
            log.warning("push_ignored", feed=one.feed_id, why="signature")
            return 202
        page = Page(200, one.topic, {"Content-Type": headers.get("content-type", "")}, body, "")
        try:
            document = await self._fetcher.read_feed(page)
            await self._crawl.accept_push(one.feed_id, document, len(body))
        except NotFound:
            return 410
        except NotAFeed:
            await self._crawl.note_signal(one.feed_id)  # a bare ping: look for ourselves
        async with self._state_lock:
            await self._store.write(record_received_push, one.feed_id, now)
            self._mark_pushed(one.feed_id, now)
        return 200

    # watching hubs

    def watch_refreshes(self, batch: Sequence[StoredRefresh]) -> None:
        """Notice new and changed hubs in refreshes, and hubs that do not push."""
        for one in batch:
            feed_id = one.verdict.refresh.feed_id
            after, before = one.verdict.known, one.known
            if (after.hub, after.topic) != (before.hub, before.topic) and after.hub is not None:
                self._hubs_found += 1
                self.wake()
            since = self._active.get(feed_id)
            if since is not None and not one.result.outcome.pushed and hub_missed_items(one, since):
                self._active.pop(feed_id)
                self._silent_feeds.append(feed_id)
                self.wake()

    def _mark_pushed(self, feed_id: int, now: float) -> None:
        """Note that a hub pushes a feed, so that a slow poll is enough."""
        self._active.setdefault(feed_id, now)
        self._crawl.politeness.pushed_feeds.add(feed_id)

    async def _resume_polling(self, feed_id: int, why: str) -> None:
        """Poll as if there were no hub."""
        self._active.pop(feed_id, None)
        self._crawl.politeness.pushed_feeds.discard(feed_id)
        await self._crawl.reconsider_feeds([feed_id])
        log.info("polling_resumed", feed=feed_id, why=why)


def hub_missed_items(one: StoredRefresh, since: float) -> bool:
    """Whether a poll found items that the hub should have pushed: published more than a minute ago, and after an
    earlier poll under the same lease."""
    last = one.known.last_refresh
    if last is None or last < since:
        return False
    latest = one.verdict.refresh.at - PUSH_GRACE
    return any(not item.dated or item.published <= latest for item in one.verdict.new)


def _excerpt(text: bytes) -> str:
    """Return the beginning of a response, on one line."""
    return " ".join(text[:200].decode("utf-8", "replace").split())[:120]


HUB_POLL_SECONDS = 10.0  # between two readings of the hub leases


async def follow_pushed_feeds(store: Store, politeness: Politeness) -> set[int]:
    """Read which feeds are pushed, so that they are polled slowly; return the feeds that are no longer pushed."""
    active = set(await store.read(list_pushed_feeds, time.time()))
    ended = politeness.pushed_feeds - active
    politeness.pushed_feeds = active
    return ended


class HubWatch:
    """Watches the refreshes that a process stores for items that a hub should have pushed."""

    def __init__(self, store: Store, politeness: Politeness) -> None:
        self._store = store
        self._politeness = politeness
        self._pushed_since: dict[int, float] = {}
        self._silent: list[int] = []

    async def follow(self) -> None:
        """End the leases of silent hubs, and read from the store which feeds are pushed."""
        while self._silent:
            due = time.time() + SILENT_HUB_RETRY
            await self._store.write(end_lease, self._silent[-1], "silent", NOT_PUSHED, due)
            self._silent.pop()
        self._pushed_since = await self._store.read(list_pushed_feeds, time.time())
        self._politeness.pushed_feeds = set(self._pushed_since)

    def watch_refreshes(self, batch: Sequence[StoredRefresh]) -> None:
        """End the lease of a hub whose feed shows items that it did not push."""
        for one in batch if self._pushed_since else ():
            since = self._pushed_since.get(one.known.feed_id)
            if since is not None and not one.result.outcome.pushed and hub_missed_items(one, since):
                del self._pushed_since[one.known.feed_id]
                self._politeness.pushed_feeds.discard(one.known.feed_id)
                self._silent.append(one.known.feed_id)
