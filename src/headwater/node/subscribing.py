"""Our subscriptions at the hubs of sources: asked for, confirmed, renewed, and given up when a hub breaks its word.

    a refresh shows a hub ─► asked (POST) ─► it verifies (GET, only while we wait for it) ─► active: pushes are items
                                 ▲                                                             │ only a slow safety poll
                                 └── refused, lease over, silent: polled as ever, asked again ◄┘

A hub that verifies and then does not push is noticed by the safety poll: it finds items that should have been pushed.
Where a feed is removed, paused or given up, or has another hub now, the old one is told (`unsubscribe`), and told again
if it does not confirm, until its lease is over anyway.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Callable, Mapping, Sequence

import structlog

from headwater.errors import HeadwaterError, NotAFeed, NotFound
from headwater.fetch.client import Fetcher, Page
from headwater.fetch.journey import next_address
from headwater.fetch.push import signed_by
from headwater.fetch.transport import Failure
from headwater.node.crawler import Crawler
from headwater.node.refresher import Settled
from headwater.publish.stepping import Stepping
from headwater.store.store import Store
from headwater.store.values import Farewell, Subscription

PATH = "/push/"
LEASE = 10 * 86_400.0
SHORTEST, LONGEST = 60.0, 30 * 86_400.0  # leases that are believed
PATIENCE = 600.0  # seconds in which a verification must come
FIRST, SLOWEST = 600.0, 86_400.0  # until a request without success is made again, doubled each time
SILENCE = 86_400.0  # until a hub that did not push is asked again
NOT_PUSHED = "It did not push items that a poll found; the feed is polled again."
FAREWELLS = 5  # requests to end a subscription that a hub answers with an error
RENEW = 0.8  # of the lease, less up to a tenth by chance
GRACE = 60.0  # an item that a poll found so soon after its publication may still be on its way
SCAN = 600.0
MOST_REDIRECTS = 5
LONGEST_CHALLENGE = 2_000

log = structlog.get_logger()


class Subscriber(Stepping):
    """`base` is the address under which hubs reach us."""

    def __init__(
        self, store: Store, fetcher: Fetcher, crawler: Crawler, base: str, *, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__("subscribing_failed")
        self._store = store
        self._fetcher = fetcher
        self._crawler = crawler
        self._callback = base.rstrip("/") + PATH
        self._clock = clock
        self._active: dict[int, float] = {}  # feeds that hubs push, and since when
        self._silent: list[int] = []
        self._marking = asyncio.Lock()  # the store and `_active` change together
        self._scanned = float("-inf")
        self._found = self._looked = 0  # hubs that refreshes have shown, and those that the last scan has seen

    # the loop

    async def step(self) -> bool:
        """Do what is due now; False where nothing was."""
        now = self._clock()
        if self._found != self._looked or not self._scanned <= now < self._scanned + SCAN:
            await self._scan(now)
        async with self._marking:
            for feed_id in await self._store.subscriptions.lapse(now):
                await self._resume(feed_id, "lease over")
            while self._silent:
                feed_id = self._silent.pop()
                await self._store.subscriptions.end(feed_id, "silent", NOT_PUSHED, now + SILENCE)
                await self._resume(feed_id, "hub silent")
        claimed = await self._store.subscriptions.claim(now, now + PATIENCE, now + FIRST)
        parted = await self._store.subscriptions.claim_farewells(now, FIRST, SLOWEST)
        await asyncio.gather(*map(self._ask, claimed), *map(self._part, parted))
        return bool(claimed or parted)

    async def _scan(self, now: float) -> None:
        """What the store has: feeds with a hub we have not asked, and those that are pushed already."""
        looking = self._found  # what is found from here on is for the next scan
        while found := await self._store.subscriptions.wanted():
            new = [
                Subscription(feed, secrets.token_urlsafe(24), hub, topic, secrets.token_urlsafe(32), due=now)
                for feed, hub, topic in found
            ]
            await self._store.subscriptions.add(new)
        async with self._marking:
            self._active = await self._store.subscriptions.active(now)
            self._crawler.courtesy.pushed = set(self._active)
        self._scanned, self._looked = now, looking

    # asking

    async def _ask(self, one: Subscription) -> None:
        """The row waits for the verification already: some hubs verify before they answer."""
        form = {
            "hub.mode": "subscribe",
            "hub.topic": one.topic,
            "hub.callback": self._callback + one.key,
            "hub.secret": one.secret,
            "hub.lease_seconds": str(int(LEASE)),
        }
        said = await self._told(one.hub, form)
        if said is not None:
            now = self._clock()
            due = now + min(FIRST * 2 ** (one.attempts - 1), SLOWEST)
            await self._store.subscriptions.refuse(one.feed_id, said, due, now)
        log.info("hub_asked_for", feed=one.feed_id, hub=one.hub, refused=said)

    async def _part(self, one: Farewell) -> None:
        """Tell a hub that we want no more; it verifies that as well, and until then is asked again."""
        form = {"hub.mode": "unsubscribe", "hub.topic": one.topic, "hub.callback": self._callback + one.key}
        said = await self._told(one.hub, form)
        if one.attempts >= FAREWELLS and said is not None:
            await self._store.subscriptions.forget_farewell(one.key, one.topic)
        log.info("hub_left", hub=one.hub, topic=one.topic, attempts=one.attempts, refused=said)

    async def _told(self, hub: str, form: Mapping[str, str]) -> str | None:
        """What a hub has against a request; None where it accepts."""
        try:
            answer = await self._post(hub, form)
        except (HeadwaterError, Failure) as error:
            return str(error)
        return None if answer.ok else f"It answered {answer.status}: {_words(answer.body)}"

    async def _post(self, hub: str, form: Mapping[str, str]) -> Page:
        """Hubs may send us to another place, where the same is asked (307 and 308 keep the method)."""
        for _ in range(MOST_REDIRECTS):
            answer = await self._fetcher.post(hub, form)
            if answer.status not in (307, 308):
                return answer
            hub = next_address(hub, answer.headers.get("Location"))
        return answer

    # being asked

    async def confirm(self, key: str, query: Mapping[str, str]) -> str | None:
        """What to answer to a hub's GET: the challenge for what we have asked, nothing (404) for anything else."""
        mode, topic = query.get("hub.mode"), query.get("hub.topic", "")
        now = self._clock()
        if mode == "denied":
            return await self._denied(key, topic, query.get("hub.reason", ""))
        challenge, seconds = query.get("hub.challenge", ""), query.get("hub.lease_seconds", "")
        if not 0 < len(challenge) <= LONGEST_CHALLENGE:
            return None
        if mode == "unsubscribe":
            return challenge if await self._store.subscriptions.forget_farewell(key, topic) else None
        if mode != "subscribe":
            return None
        given = float(seconds) if seconds.isascii() and seconds.isdecimal() and len(seconds) < 16 else LEASE
        lease = min(max(given, SHORTEST), LONGEST)
        due = now + lease * RENEW * (1 - random.random() / 10)
        async with self._marking:
            feed_id = await self._store.subscriptions.confirm(key, topic, now, now + lease, due)
            if feed_id is None:
                return None
            # Its next poll comes when it would have come: what was published before the hub knew us is found by it.
            self._note(feed_id, now)
        log.info("hub_confirmed", feed=feed_id, lease=lease)
        return challenge

    async def _denied(self, key: str, topic: str, reason: str) -> str | None:
        one = await self._store.subscriptions.by_key(key)
        if one is None or one.topic != topic:
            return None
        said = f"It denied the subscription: {_words(reason.encode())}" if reason else "It denied the subscription."
        async with self._marking:
            await self._store.subscriptions.end(one.feed_id, "refused", said, self._clock() + SILENCE)
            await self._resume(one.feed_id, said)
        return ""

    # being pushed to

    async def receive(self, key: str, body: bytes, headers: Mapping[str, str]) -> int:
        """What to answer to a push: 410 ends what we do not know; a wrong signature is ignored without a word."""
        one = await self._store.subscriptions.by_key(key)
        now = self._clock()
        if one is None or one.until is None or one.until <= now:
            return 410
        if not signed_by(one.secret, headers.get("x-hub-signature", ""), body):
            await self._store.subscriptions.say(one.feed_id, "A push without a valid signature was ignored.")
            log.warning("push_ignored", feed=one.feed_id, why="signature")
            return 202
        page = Page(200, one.topic, {"Content-Type": headers.get("content-type", "")}, body, "")
        try:
            document = await self._fetcher.read(page)
            await self._crawler.accept(one.feed_id, document, len(body))
        except NotFound:
            return 410
        except NotAFeed:
            await self._crawler.tell(one.feed_id)  # a bare ping: look for ourselves
        async with self._marking:
            await self._store.subscriptions.pushed(one.feed_id, now)
            self._note(one.feed_id, now)
        return 200

    # watching hubs

    def settled(self, batch: Sequence[Settled]) -> None:
        """After refreshes: a hub that has come or changed is asked; one that does not push is noticed."""
        for one in batch:
            feed_id = one.verdict.refresh.feed_id
            after, before = one.verdict.known, one.fetched.known
            if (after.hub, after.topic) != (before.hub, before.topic) and after.hub is not None:
                self._found += 1
                self.wake()
            since = self._active.get(feed_id)
            if since is not None and not one.fetched.outcome.pushed and missed(one, since):
                self._active.pop(feed_id)
                self._silent.append(feed_id)
                self.wake()

    def _note(self, feed_id: int, now: float) -> None:
        """A hub pushes it: a slow safety poll is enough."""
        self._active.setdefault(feed_id, now)
        self._crawler.courtesy.pushed.add(feed_id)

    async def _resume(self, feed_id: int, why: str) -> None:
        """Poll as if there were no hub."""
        self._active.pop(feed_id, None)
        self._crawler.courtesy.pushed.discard(feed_id)
        await self._crawler.reconsider([feed_id])
        log.info("polling_resumed", feed=feed_id, why=why)


def missed(one: Settled, since: float) -> bool:
    """Whether a poll found what the hub should have pushed: something new, not just published, that came after a
    poll which the hub had already confirmed us before."""
    last = one.fetched.known.last_refresh
    if last is None or last < since:
        return False
    latest = one.verdict.refresh.at - GRACE
    return any(not item.dated or item.published <= latest for item in one.verdict.new)


def _words(text: bytes) -> str:
    """Some words of a stranger's answer, on one line."""
    return " ".join(text[:200].decode("utf-8", "replace").split())[:120]
