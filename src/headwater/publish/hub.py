"""Our WebSub hub: whoever subscribes to one of our feeds is sent it when it changes (W3C WebSub, §5–§8).

    request (202) ─► kept ─► the callback is asked to confirm ─► subscriber ─► feed changed ─► POST, signed
                                 │ no: nothing changes               │ lease over, 410, too many failures: forgotten

Rows in the store are the truth, so a restart loses nobody; a claim on a row is a lease, so several processes may work.
What is sent is always the present document, so a subscriber that was away gets one message and not a hundred; what came
and left the feed's window between two messages is added to it.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Hashable, Mapping
from urllib.parse import urlencode, urlsplit

import structlog

from headwater.errors import AddressError, HeadwaterError
from headwater.fetch.client import Fetcher
from headwater.publish.cache import Cached, Documents
from headwater.publish.deliver import wait_after
from headwater.publish.documents import topic_of
from headwater.publish.messages import signature
from headwater.publish.stepping import Stepping
from headwater.store.store import Store
from headwater.store.values import HubRequest, Subscriber

PATH = "/hub"
LONGEST_LEASE, SHORTEST_LEASE = 10 * 86_400.0, 300.0
LONGEST_SECRET = 200  # bytes; shorter than this (§5.1)
LONGEST_ADDRESS = 2_000
MOST_REQUESTS, MOST_SUBSCRIBERS = 5_000, 100_000
CLAIM = 120.0  # seconds; longer than any callback may take
AT_ONCE = 32
VERIFY_ATTEMPTS, SEND_ATTEMPTS = 3, 12  # the latter over about a day and a half

log = structlog.get_logger()


class Hub(Stepping):
    """The hub of one server. `documents` are what it pushes; its own address stands in them."""

    def __init__(
        self,
        store: Store,
        documents: Documents,
        fetcher: Fetcher,
        *,
        clock: Callable[[], float] = time.time,
        first_wait: float = 60.0,
        challenge: Callable[[], str] = lambda: secrets.token_urlsafe(24),
    ) -> None:
        super().__init__("hub_failed")
        self._store = store
        self._documents = documents
        self._fetcher = fetcher
        self._clock = clock
        self._first_wait = first_wait
        self._challenge = challenge
        self._marked: Hashable = None
        self._begin: dict[str, int] = {}  # topic → the end of its stream when we first saw that somebody follows it
        self._got: dict[int, int] = {}  # subscriber → the end of the stream when it was last sent something
        self._free = asyncio.Semaphore(AT_ONCE)

    # requests

    async def take(self, form: Mapping[str, str]) -> tuple[int, str]:
        """What to answer to a request, and in words why: 202 means that the callback will be asked to confirm."""
        request = self._judged(form)
        if isinstance(request, str):
            return 400, request
        if request.mode == "subscribe" and await self._found(request.topic) is None:
            return 404, "This hub does not publish that topic, or not without a valid token."
        waiting, subscribers = await self._store.hub.counts()
        if waiting >= MOST_REQUESTS or (request.mode == "subscribe" and subscribers >= MOST_SUBSCRIBERS):
            return 503, "The hub has too many subscriptions; try again later."
        await self._store.hub.ask(request, self._clock())
        self.wake()
        return 202, "Accepted: the callback will be asked to confirm."

    def _judged(self, form: Mapping[str, str]) -> HubRequest | str:
        """The request, or the sentence that says what is wrong with it."""
        mode, topic, callback = (form.get(f"hub.{name}", "") for name in ("mode", "topic", "callback"))
        if mode not in ("subscribe", "unsubscribe"):
            return "hub.mode must be subscribe or unsubscribe. This hub notices by itself what its feeds publish."
        if topic_of(topic, self._documents.base) is None or len(topic) > LONGEST_ADDRESS:
            return f"hub.topic must be the address of a feed of {self._documents.base}, as its self link gives it."
        if len(callback) > LONGEST_ADDRESS or not _is_callback(callback):
            return "hub.callback must be an http or https address of at most 2,000 characters, without a fragment."
        try:
            self._fetcher.check(callback)
        except AddressError as error:
            return f"hub.callback cannot be called. {error}"
        secret = form.get("hub.secret") or None
        if secret is not None and len(secret.encode("utf-8", "replace")) >= LONGEST_SECRET:
            return f"hub.secret must be shorter than {LONGEST_SECRET} bytes."
        asked = form.get("hub.lease_seconds") or str(int(LONGEST_LEASE))
        if not (asked.isascii() and asked.isdecimal() and 0 < len(asked) < 16 and int(asked) > 0):
            return "hub.lease_seconds must be a number of seconds."
        lease = min(max(float(asked), SHORTEST_LEASE), LONGEST_LEASE)
        return HubRequest(mode, topic, callback, secret, lease)

    # the loop

    async def step(self) -> bool:
        """Do what is due now; False where nothing was."""
        requests = await self._store.hub.claim_requests(self._clock(), CLAIM)
        await asyncio.gather(*map(self._verify, requests))
        await self._mark()
        subscribers = await self._store.hub.claim(self._clock(), CLAIM)
        await asyncio.gather(*map(self._send, subscribers))
        if subscribers:
            self._marked = None  # something may have changed while it was being sent
        return bool(requests or subscribers)

    async def _found(self, topic: str) -> Cached | None:
        key = topic_of(topic, self._documents.base)
        return None if key is None else await self._documents.find(*key)

    async def _mark(self) -> None:
        """Compare what has been published with what subscribers have."""
        version = await self._store.publishing.version()
        if version == self._marked:
            return
        self._documents.expire()
        etags = {}
        for topic in await self._store.hub.topics(self._clock()):
            found = await self._found(topic)
            if found is None:
                ended = await self._store.hub.deny(topic, "The feed is no longer published.", self._clock())
                log.info("hub_topic_ended", topic=topic.partition("?")[0], subscribers=ended)
                self.wake()
            else:
                etags[topic] = found.etag
                if topic not in self._begin:
                    self._begin[topic] = await self._documents.last_hit(_path(topic, self._documents.base))
        if etags:
            await self._store.hub.mark(etags, self._clock())
        self._marked = version

    # verification of intent (§5.3)

    async def _verify(self, request: HubRequest) -> None:
        async with self._free:
            agreed = await self._agrees(request)
        now = self._clock()
        if agreed is None and request.attempts < VERIFY_ATTEMPTS and request.mode != "denied":
            await self._store.hub.postpone(request, now + wait_after(request.attempts, self._first_wait))
        elif agreed:
            found = await self._found(request.topic) if request.mode == "subscribe" else None
            until = now + (request.lease or LONGEST_LEASE)
            await self._store.hub.confirm(request, None if found is None else found.etag, now, until)
            self._marked = None
        else:
            await self._store.hub.drop(request)
        log.info("hub_asked", mode=request.mode, topic=request.topic.partition("?")[0], agreed=agreed)

    async def _agrees(self, request: HubRequest) -> bool | None:
        """Whether the callback confirms; None if it could not be asked."""
        challenge = self._challenge()
        query = {"hub.mode": request.mode, "hub.topic": request.topic}
        if request.mode == "denied":
            query["hub.reason"] = request.reason or ""
        else:
            query["hub.challenge"] = challenge
        if request.mode == "subscribe":
            query["hub.lease_seconds"] = str(int(request.lease or LONGEST_LEASE))
        try:
            answer = await self._fetcher.ask(with_query(request.callback, query))
        except AddressError:
            return False
        except HeadwaterError:
            return None
        if answer.status >= 500:
            return None
        return answer.ok and answer.body == challenge.encode() and request.mode != "denied"

    # distribution (§7)

    async def _send(self, one: Subscriber) -> None:
        async with self._free:
            found = await self._found(one.topic)
            if found is None:  # the next look denies it
                await self._store.hub.settle(one.id, None, None, None)
                return
            path = _path(one.topic, self._documents.base)
            end = await self._documents.last_hit(path)
            after = self._got.get(one.id, self._begin.get(one.topic, end))
            body = await self._documents.since(path, found, after) if after < end else found.body
            status, said = await self._post(one, found, body)
        if status is not None and 200 <= status < 300:
            self._got[one.id] = end
            await self._store.hub.settle(one.id, found.etag, None, None)
        elif status == 410 or one.attempts >= SEND_ATTEMPTS:
            await self._store.hub.end(one.id)
            self._got.pop(one.id, None)
        else:
            due = self._clock() + wait_after(one.attempts, self._first_wait)
            await self._store.hub.settle(one.id, None, due, said)
        log.info("hub_sent", topic=one.topic.partition("?")[0], status=status, attempts=one.attempts, message=said)

    async def _post(self, one: Subscriber, found: Cached, body: bytes) -> tuple[int | None, str | None]:
        headers = {
            "Content-Type": found.type,
            "Link": ", ".join(f'<{address}>; rel="{relation}"' for address, relation in found.links),
        }
        if one.secret is not None:
            headers["X-Hub-Signature"] = signature(one.secret.encode("utf-8", "replace"), body)
        try:
            answer = await self._fetcher.post(one.callback, body, headers, read=False)
        except HeadwaterError as error:
            return None, str(error)
        return answer.status, None if answer.ok else f"The callback answered {answer.status}."


def _path(topic: str, base: str) -> str:
    key = topic_of(topic, base)
    return "" if key is None else key[0]


def _is_callback(address: str) -> bool:
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc) and "#" not in address


def with_query(address: str, more: Mapping[str, str]) -> str:
    """The address with more in its query, which is kept as it is.

    >>> with_query("https://example.org/c?id=1", {"hub.mode": "subscribe"})
    'https://example.org/c?id=1&hub.mode=subscribe'
    """
    return f"{address}{'&' if '?' in address else '?'}{urlencode(more)}"
