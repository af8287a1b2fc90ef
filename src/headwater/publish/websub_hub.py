"""Verifies subscribers of our WebSub hub and pushes changed documents to them (W3C WebSub, §5–§8).

    request (202) ─► stored ─► callback confirms ─► subscriber ─► feed changed ─► signed POST
                                 │ no: nothing changes   │ lease over, 410, too many failures: removed

Verifications and pushes have pools of their own (`receiver_pool`), and in them strangers and subscribers have lanes of
their own: slow callbacks of strangers delay neither pushes nor renewals. A row is claimed, and its attempt counted,
when its request begins.

All state is in the store, so a restart loses no subscriber. A claim on a row is a lease, so several processes can share
the work. A push contains the current document, so a subscriber that was away gets one message and not a hundred. Items
that entered and left the feed's window between two pushes are added to it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

import structlog

from headwater.errors import AddressError, HeadwaterError
from headwater.fetch.client import Fetcher
from headwater.loops import StepLoop
from headwater.publish.delivery.deliverer import retry_wait
from headwater.publish.delivery.delivery_messages import sign_body
from headwater.publish.document_cache import CachedDocument, DocumentCache
from headwater.publish.published_documents import parse_topic
from headwater.publish.receiver_pool import (
    PoolLimits,
    RequestPool,
    WaitingRequest,
    find_host,
    stop_tasks,
    wait_for_progress,
)
from headwater.store.publishing.hub_subscribers import (
    DueCallback,
    HubRequest,
    HubSubscriber,
    add_hub_request,
    claim_due_hub_requests,
    claim_due_subscribers,
    confirm_hub_request,
    count_hub_rows,
    count_waiting_requests,
    delete_hub_request,
    deny_topic,
    find_next_hub_due,
    has_hub_subscriber,
    list_due_hub_requests,
    list_due_subscribers,
    list_hub_topics,
    mark_outdated,
    postpone_hub_request,
    remove_hub_subscriber,
    settle_subscriber,
)
from headwater.store.publishing.private_feeds import read_publication_version
from headwater.store.store import Store

HUB_PATH = "/hub"
MAX_LEASE, MIN_LEASE = 10 * 86_400.0, 300.0
MAX_SECRET_LENGTH = 200  # bytes; secrets must be shorter (§5.1)
MAX_ADDRESS_LENGTH = 2_000
MAX_REQUESTS, MAX_SUBSCRIBERS = 5_000, 100_000
MAX_REQUESTS_PER_SENDER = 100  # unconfirmed ones of one address
CLAIM_SECONDS = 120.0  # longer than any callback may take
VERIFY_SECONDS, SEND_SECONDS = 10.0, 30.0  # that a callback has to answer
KNOWN, STRANGER = "known", "stranger"
NEW, FAILING = "new", "failing"
VERIFY_LIMITS = PoolLimits(total=32, per_host=8, per_receiver=4, lanes={STRANGER: 24})
SEND_LIMITS = PoolLimits(total=64, per_host=12, per_receiver=8, lanes={NEW: 48, FAILING: 16})
MAX_LISTED = 20_000  # subscribers among which the next are chosen
STOP_SECONDS = 5.0  # that running requests may take when the process stops
VERIFY_ATTEMPTS, SEND_ATTEMPTS = 3, 12  # 12 attempts take about a day and a half

Claimed = TypeVar("Claimed", HubRequest, HubSubscriber)

log = structlog.get_logger()


class WebSubHub(StepLoop):
    """The hub of one server. `documents` render the pushed feeds and know the server's address."""

    def __init__(
        self,
        store: Store,
        documents: DocumentCache,
        fetcher: Fetcher,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__("hub_failed", store.changes, clock=clock)
        self._store = store
        self._documents = documents
        self._fetcher = fetcher
        self._compared_version: Hashable = None
        self._first_hit_ids: dict[str, int] = {}  # topic → last hit when its first subscriber was seen
        self._sent_hit_ids: dict[int, int] = {}  # subscriber → last hit at its last push
        self._verifications = RequestPool(VERIFY_LIMITS)
        self._pushes = RequestPool(SEND_LIMITS)

    # requests

    async def accept_request(self, form: Mapping[str, str], sender: str | None = None) -> tuple[int, str]:
        """Store a request and return the status and sentence of the response; 202 means that verification follows.

        `sender` is the address that sent the request. Its unconfirmed requests are limited. A confirmed subscriber may
        renew or end its subscription however many strangers wait.
        """
        request = self._validate_request(form)
        if isinstance(request, str):
            return 400, request
        if request.mode == "subscribe" and await self._find_document(request.topic) is None:
            return 404, "This hub does not publish that topic, or not without a valid token."
        if not await self._store.read(has_hub_subscriber, request.topic, request.callback):
            waiting, subscribers = await self._store.read(count_hub_rows)
            if waiting >= MAX_REQUESTS or (request.mode == "subscribe" and subscribers >= MAX_SUBSCRIBERS):
                return 503, "The hub has too many subscriptions. Try again later."
            if sender is not None:
                if await self._store.read(count_waiting_requests, sender) >= MAX_REQUESTS_PER_SENDER:
                    return 429, f"{MAX_REQUESTS_PER_SENDER} requests of yours wait for confirmation. Try again later."
                request = replace(request, sender=sender)
        await self._store.write(add_hub_request, request, self._clock())
        self.wake()
        return 202, "Accepted. The hub will verify the callback."

    def _validate_request(self, form: Mapping[str, str]) -> HubRequest | str:
        """Return the request, or a sentence with the error."""
        mode, topic, callback = (form.get(f"hub.{name}", "") for name in ("mode", "topic", "callback"))
        if mode not in ("subscribe", "unsubscribe"):
            return "hub.mode must be subscribe or unsubscribe. This hub needs no publish requests."
        if parse_topic(topic, self._documents.base) is None or len(topic) > MAX_ADDRESS_LENGTH:
            return f"hub.topic must be the address of a feed of {self._documents.base}, as in its self link."
        if len(callback) > MAX_ADDRESS_LENGTH or not _is_callback_address(callback):
            return "hub.callback must be an http or https address of at most 2,000 characters, without a fragment."
        try:
            self._fetcher.check_address(callback)
        except AddressError as error:
            return f"hub.callback cannot be called. {error}"
        secret = form.get("hub.secret") or None
        if secret is not None and len(secret.encode("utf-8", "replace")) >= MAX_SECRET_LENGTH:
            return f"hub.secret must be shorter than {MAX_SECRET_LENGTH} bytes."
        asked = form.get("hub.lease_seconds") or str(int(MAX_LEASE))
        if not (asked.isascii() and asked.isdecimal() and 0 < len(asked) < 16 and int(asked) > 0):
            return "hub.lease_seconds must be a number of seconds."
        lease = min(max(float(asked), MIN_LEASE), MAX_LEASE)
        return HubRequest(mode, topic, callback, secret, lease)

    # the loop

    async def step(self) -> bool:
        """Start due verifications and pushes, and wait for progress. Return whether any run."""
        had_tasks = bool(self._verifications.tasks or self._pushes.tasks)
        await self._mark_outdated()
        await self._start_verifications()
        await self._start_pushes()
        tasks = self._verifications.tasks | self._pushes.tasks
        if tasks:
            await wait_for_progress(tasks, self._woken)
        return bool(tasks) or had_tasks  # places may have become free after we looked

    async def close(self) -> None:
        """Let running requests end, for a moment."""
        await stop_tasks(self._verifications.tasks | self._pushes.tasks, STOP_SECONDS)

    async def _start_verifications(self) -> None:
        pool = self._verifications
        if not pool.free:
            return
        due = await self._store.read(list_due_hub_requests, self._clock(), MAX_REQUESTS)
        if ids := pool.choose([make_waiting(one, KNOWN if one.is_known else STRANGER) for one in due]):
            claim = partial(self._store.write, claim_due_hub_requests, self._clock(), CLAIM_SECONDS, len(ids), ids=ids)
            await _start_claimed(pool, ids, claim, self._verify_intent)

    async def _start_pushes(self) -> None:
        pool = self._pushes
        if not pool.free:
            return
        due = await self._store.read(list_due_subscribers, self._clock(), MAX_LISTED)
        if ids := pool.choose([make_waiting(one, self._find_lane(one)) for one in due]):
            claim = partial(self._store.write, claim_due_subscribers, self._clock(), CLAIM_SECONDS, len(ids), ids=ids)
            await _start_claimed(pool, ids, claim, self._push_to)

    def _find_lane(self, one: DueCallback) -> str:
        """Subscribers that accepted their last push may use the whole pool; others leave some of it to them."""
        if one.attempts:
            return FAILING
        return KNOWN if one.id in self._sent_hit_ids else NEW

    async def find_next_due(self) -> float | None:
        return await self._store.read(find_next_hub_due, self._clock())

    async def _find_document(self, topic: str) -> CachedDocument | None:
        key = parse_topic(topic, self._documents.base)
        return None if key is None else await self._documents.find_document(*key)

    async def _mark_outdated(self) -> None:
        """Mark subscribers whose document has changed, and end topics that are no longer published."""
        version = await self._store.read(read_publication_version)
        if version == self._compared_version:
            return
        self._documents.expire()
        etags = {}
        for topic in await self._store.write(list_hub_topics, self._clock()):
            found = await self._find_document(topic)
            if found is None:
                ended = await self._store.write(deny_topic, topic, "The feed is no longer published.", self._clock())
                log.info("hub_topic_ended", topic=topic.partition("?")[0], subscribers=ended)
                self.wake()
            else:
                etags[topic] = found.etag
                if topic not in self._first_hit_ids:
                    self._first_hit_ids[topic] = await self._documents.last_hit_id(
                        _topic_path(topic, self._documents.base)
                    )
        if etags:
            await self._store.write(mark_outdated, etags, self._clock())
        self._compared_version = version

    # verification of intent (§5.3)

    async def _verify_intent(self, request: HubRequest) -> None:
        agreed = await self._callback_agrees(request)
        now = self._clock()
        if agreed is None and request.attempts < VERIFY_ATTEMPTS and request.mode != "denied":
            await self._store.write(postpone_hub_request, request, now + retry_wait(request.attempts))
        elif agreed:
            found = await self._find_document(request.topic) if request.mode == "subscribe" else None
            until = now + (request.lease or MAX_LEASE)
            await self._store.write(confirm_hub_request, request, None if found is None else found.etag, now, until)
            self._compared_version = None
        else:
            await self._store.write(delete_hub_request, request)
        log.info("subscription_requested", mode=request.mode, topic=request.topic.partition("?")[0], agreed=agreed)

    async def _callback_agrees(self, request: HubRequest) -> bool | None:
        """Return whether the callback confirms; None if it could not be reached."""
        challenge = secrets.token_urlsafe(24)
        query = {"hub.mode": request.mode, "hub.topic": request.topic}
        if request.mode == "denied":
            query["hub.reason"] = request.reason or ""
        else:
            query["hub.challenge"] = challenge
        if request.mode == "subscribe":
            query["hub.lease_seconds"] = str(int(request.lease or MAX_LEASE))
        try:
            answer = await self._fetcher.fetch_once(add_query(request.callback, query), seconds=VERIFY_SECONDS)
        except AddressError:
            return False
        except HeadwaterError:
            return None
        if answer.status >= 500:
            return None
        return answer.ok and answer.body == challenge.encode() and request.mode != "denied"

    # distribution (§7)

    async def _push_to(self, subscriber: HubSubscriber) -> None:
        found = await self._find_document(subscriber.topic)
        if found is None:  # `_mark_outdated` will deny the topic
            await self._store.write(settle_subscriber, subscriber.id, None, None, None)
            return
        path = _topic_path(subscriber.topic, self._documents.base)
        end = await self._documents.last_hit_id(path)
        after = self._sent_hit_ids.get(subscriber.id, self._first_hit_ids.get(subscriber.topic, end))
        body = await self._documents.render_since(path, found, after) if after < end else found.body
        status, reason = await self._post_document(subscriber, found, body)
        if status is not None and 200 <= status < 300:
            self._sent_hit_ids[subscriber.id] = end
            await self._store.write(settle_subscriber, subscriber.id, found.etag, None, None)
        elif status == 410 or subscriber.attempts >= SEND_ATTEMPTS:
            await self._store.write(remove_hub_subscriber, subscriber.id)
            self._sent_hit_ids.pop(subscriber.id, None)
        else:
            due = self._clock() + retry_wait(subscriber.attempts)
            await self._store.write(settle_subscriber, subscriber.id, None, due, reason)
        self._compared_version = None  # the feed may have changed during the push
        log.info(
            "hub_sent",
            topic=subscriber.topic.partition("?")[0],
            status=status,
            attempts=subscriber.attempts,
            message=reason,
        )

    async def _post_document(
        self, subscriber: HubSubscriber, found: CachedDocument, body: bytes
    ) -> tuple[int | None, str | None]:
        headers = {
            "Content-Type": found.type,
            "Link": ", ".join(f'<{address}>; rel="{relation}"' for address, relation in found.links),
        }
        if subscriber.secret is not None:
            headers["X-Hub-Signature"] = sign_body(subscriber.secret.encode("utf-8", "replace"), body)
        try:
            answer = await self._fetcher.post(subscriber.callback, body, headers, read=False, seconds=SEND_SECONDS)
        except HeadwaterError as error:
            return None, str(error)
        return answer.status, None if answer.ok else f"The callback answered {answer.status}."


async def _start_claimed(
    pool: RequestPool,
    ids: Sequence[int],
    claim: Callable[[], Awaitable[Sequence[Claimed]]],
    run: Callable[[Claimed], Coroutine[Any, Any, None]],
) -> None:
    """Claim chosen rows and start their requests; places of rows that another process has claimed are given back."""
    claimed: dict[int, Claimed] = {}
    try:
        claimed = {one.id: one for one in await claim()}
    finally:
        for id in ids:
            if id in claimed:
                pool.start(id, run(claimed[id]))
            else:
                pool.release(id)


def make_waiting(one: DueCallback, lane: str) -> WaitingRequest:
    """Return a row as it waits for its turn. Each lane counts for itself, so nobody waits for callbacks of another one.

    Host and port of a callback are one receiver: its path differs for each subscription.

    >>> make_waiting(DueCallback(1, "http://push.example.org:9000/callback?id=7", True, 0), "new")
    WaitingRequest(id=1, receiver='new push.example.org:9000', host='new example.org', lane='new', sender='')
    """
    receiver, host = f"{lane} {urlsplit(one.callback).netloc}", f"{lane} {find_host(one.callback)}"
    return WaitingRequest(one.id, receiver, host, lane, one.sender or "")


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
    """Add parameters to the query of an address.

    >>> add_query("https://example.org/c?id=1", {"hub.mode": "subscribe"})
    'https://example.org/c?id=1&hub.mode=subscribe'
    """
    return f"{address}{'&' if '?' in address else '?'}{urlencode(more)}"
