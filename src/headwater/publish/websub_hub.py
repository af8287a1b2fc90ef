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
from headwater.loops import StepLoop
from headwater.publish.delivery.deliverer import retry_wait
from headwater.publish.delivery.delivery_messages import sign_body
from headwater.publish.document_cache import CachedDocument, DocumentCache
from headwater.publish.published_documents import parse_topic
from headwater.store.store import Store
from headwater.store.values import HubRequest, HubSubscriber

HUB_PATH = "/hub"
LONGEST_LEASE, SHORTEST_LEASE = 10 * 86_400.0, 300.0
LONGEST_SECRET = 200  # bytes; shorter than this (§5.1)
LONGEST_ADDRESS = 2_000
MOST_REQUESTS, MOST_SUBSCRIBERS = 5_000, 100_000
CLAIM_SECONDS = 120.0  # seconds; longer than any callback may take
CONCURRENT_REQUESTS = 32
VERIFY_ATTEMPTS, SEND_ATTEMPTS = 3, 12  # the latter over about a day and a half

log = structlog.get_logger()


class WebSubHub(StepLoop):
    """The hub of one server. `documents` are what it pushes; its own address stands in them."""

    def __init__(
        self,
        store: Store,
        documents: DocumentCache,
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
        self._compared_version: Hashable = None
        self._first_hit_ids: dict[
            str, int
        ] = {}  # topic → the end of its stream when we first saw that somebody follows it
        self._sent_hit_ids: dict[int, int] = {}  # subscriber → the end of the stream when it was last sent something
        self._slots = asyncio.Semaphore(CONCURRENT_REQUESTS)

    # requests

    async def accept_request(self, form: Mapping[str, str]) -> tuple[int, str]:
        """What to answer to a request, and in words why: 202 means that the callback will be asked to confirm."""
        request = self._validate_request(form)
        if isinstance(request, str):
            return 400, request
        if request.mode == "subscribe" and await self._find_document(request.topic) is None:
            return 404, "This hub does not publish that topic, or not without a valid token."
        waiting, subscribers = await self._store.hub.counts()
        if waiting >= MOST_REQUESTS or (request.mode == "subscribe" and subscribers >= MOST_SUBSCRIBERS):
            return 503, "The hub has too many subscriptions; try again later."
        await self._store.hub.ask(request, self._clock())
        self.wake()
        return 202, "Accepted: the callback will be asked to confirm."

    def _validate_request(self, form: Mapping[str, str]) -> HubRequest | str:
        """The request, or the sentence that says what is wrong with it."""
        mode, topic, callback = (form.get(f"hub.{name}", "") for name in ("mode", "topic", "callback"))
        if mode not in ("subscribe", "unsubscribe"):
            return "hub.mode must be subscribe or unsubscribe. This hub notices by itself what its feeds publish."
        if parse_topic(topic, self._documents.base) is None or len(topic) > LONGEST_ADDRESS:
            return f"hub.topic must be the address of a feed of {self._documents.base}, as its self link gives it."
        if len(callback) > LONGEST_ADDRESS or not _is_callback_address(callback):
            return "hub.callback must be an http or https address of at most 2,000 characters, without a fragment."
        try:
            self._fetcher.check_address(callback)
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
        requests = await self._store.hub.claim_requests(self._clock(), CLAIM_SECONDS)
        await asyncio.gather(*map(self._verify_intent, requests))
        await self._mark_outdated()
        subscribers = await self._store.hub.claim(self._clock(), CLAIM_SECONDS)
        await asyncio.gather(*map(self._push_to, subscribers))
        if subscribers:
            self._compared_version = None  # something may have changed while it was being sent
        return bool(requests or subscribers)

    async def _find_document(self, topic: str) -> CachedDocument | None:
        key = parse_topic(topic, self._documents.base)
        return None if key is None else await self._documents.find_document(*key)

    async def _mark_outdated(self) -> None:
        """Compare what has been published with what subscribers have."""
        version = await self._store.publishing.version()
        if version == self._compared_version:
            return
        self._documents.expire()
        etags = {}
        for topic in await self._store.hub.topics(self._clock()):
            found = await self._find_document(topic)
            if found is None:
                ended = await self._store.hub.deny(topic, "The feed is no longer published.", self._clock())
                log.info("hub_topic_ended", topic=topic.partition("?")[0], subscribers=ended)
                self.wake()
            else:
                etags[topic] = found.etag
                if topic not in self._first_hit_ids:
                    self._first_hit_ids[topic] = await self._documents.last_hit_id(
                        _topic_path(topic, self._documents.base)
                    )
        if etags:
            await self._store.hub.mark(etags, self._clock())
        self._compared_version = version

    # verification of intent (§5.3)

    async def _verify_intent(self, request: HubRequest) -> None:
        async with self._slots:
            agreed = await self._callback_agrees(request)
        now = self._clock()
        if agreed is None and request.attempts < VERIFY_ATTEMPTS and request.mode != "denied":
            await self._store.hub.postpone(request, now + retry_wait(request.attempts, self._first_wait))
        elif agreed:
            found = await self._find_document(request.topic) if request.mode == "subscribe" else None
            until = now + (request.lease or LONGEST_LEASE)
            await self._store.hub.confirm(request, None if found is None else found.etag, now, until)
            self._compared_version = None
        else:
            await self._store.hub.drop(request)
        log.info("hub_asked", mode=request.mode, topic=request.topic.partition("?")[0], agreed=agreed)

    async def _callback_agrees(self, request: HubRequest) -> bool | None:
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
            answer = await self._fetcher.fetch_once(add_query(request.callback, query))
        except AddressError:
            return False
        except HeadwaterError:
            return None
        if answer.status >= 500:
            return None
        return answer.ok and answer.body == challenge.encode() and request.mode != "denied"

    # distribution (§7)

    async def _push_to(self, one: HubSubscriber) -> None:
        async with self._slots:
            found = await self._find_document(one.topic)
            if found is None:  # the next look denies it
                await self._store.hub.settle(one.id, None, None, None)
                return
            path = _topic_path(one.topic, self._documents.base)
            end = await self._documents.last_hit_id(path)
            after = self._sent_hit_ids.get(one.id, self._first_hit_ids.get(one.topic, end))
            body = await self._documents.render_since(path, found, after) if after < end else found.body
            status, said = await self._post_document(one, found, body)
        if status is not None and 200 <= status < 300:
            self._sent_hit_ids[one.id] = end
            await self._store.hub.settle(one.id, found.etag, None, None)
        elif status == 410 or one.attempts >= SEND_ATTEMPTS:
            await self._store.hub.end(one.id)
            self._sent_hit_ids.pop(one.id, None)
        else:
            due = self._clock() + retry_wait(one.attempts, self._first_wait)
            await self._store.hub.settle(one.id, None, due, said)
        log.info("hub_sent", topic=one.topic.partition("?")[0], status=status, attempts=one.attempts, message=said)

    async def _post_document(
        self, one: HubSubscriber, found: CachedDocument, body: bytes
    ) -> tuple[int | None, str | None]:
        headers = {
            "Content-Type": found.type,
            "Link": ", ".join(f'<{address}>; rel="{relation}"' for address, relation in found.links),
        }
        if one.secret is not None:
            headers["X-Hub-Signature"] = sign_body(one.secret.encode("utf-8", "replace"), body)
        try:
            answer = await self._fetcher.post(one.callback, body, headers, read=False)
        except HeadwaterError as error:
            return None, str(error)
        return answer.status, None if answer.ok else f"The callback answered {answer.status}."


def _topic_path(topic: str, base: str) -> str:
    key = parse_topic(topic, base)
    return "" if key is None else key[0]


def _is_callback_address(address: str) -> bool:
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc) and "#" not in address


def add_query(address: str, more: Mapping[str, str]) -> str:
    """The address with more in its query, which is kept as it is.

    >>> add_query("https://example.org/c?id=1", {"hub.mode": "subscribe"})
    'https://example.org/c?id=1&hub.mode=subscribe'
    """
    return f"{address}{'&' if '?' in address else '?'}{urlencode(more)}"
