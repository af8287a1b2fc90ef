"""Sends due deliveries, retries with back-off, and gives up after too many attempts.

    delivery row (due) ─► the receiver's turn ─► claimed: due again after the lease ─► sent │ failed, due later │ dead

Every receiver has a queue of its own (`receiver_pool`), so one that stalls delays no other. A delivery is claimed, and
its attempt counted, when its request begins. A receiver gets one request at a time until it has accepted one.

A claim is committed before sending and the outcome after. If the process is killed in between, the message is sent
again under the same key: the Idempotency-Key of a web hook, the Message-ID of a mail. Nothing is skipped.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from html import escape

import msgspec
import structlog

from headwater.errors import InputError
from headwater.fetch.client import Fetcher
from headwater.loops import StepLoop
from headwater.model import Entry
from headwater.publish.delivery.delivery_templates import DeliveryTemplate, render_in_worker, start_renderers
from headwater.publish.delivery.sinks import (
    DeliveryFailed,
    DeliveryMessage,
    MailSink,
    NotificationSink,
    Sink,
    WebhookSink,
)
from headwater.publish.published_documents import to_entry
from headwater.publish.receiver_pool import (
    PoolLimits,
    RequestPool,
    WaitingRequest,
    find_host,
    stop_tasks,
    wait_for_progress,
)
from headwater.settings import Settings
from headwater.store import saved_state
from headwater.store.content.feeds import find_feeds
from headwater.store.publishing.deliveries import (
    Delivery,
    DeliveryOutcome,
    claim_due_batches,
    find_delivery_template,
    find_next_due_delivery,
    list_due_deliveries,
    settle_outcomes,
)
from headwater.store.queries.hits import find_hits
from headwater.store.saved_state import load_state
from headwater.store.store import Store

LEASE = 300.0  # seconds; longer than any sink takes to send
CHECK_SECONDS = 1.0
POOL_LIMITS = {  # by kind; mails and notifications go through one server and two worker processes
    "webhook": PoolLimits(total=64, per_host=12, per_receiver=4),
    "email": PoolLimits(total=8, per_host=8, per_receiver=2),
    "notify": PoolLimits(total=2, per_host=2, per_receiver=1),
}
STOP_SECONDS = 5.0  # that running requests may take when the process stops
MAX_RECEIVERS = 10_000  # remembered
FIRST_WAIT, MAX_WAIT = 60.0, 6 * 3600.0  # seconds until the second attempt, and the longest pause
MAX_ATTEMPTS = 12  # over about a day and a half
SECRET_STATE = "hook secret"

log = structlog.get_logger()


def retry_wait(attempts: int, first: float = FIRST_WAIT, longest: float = MAX_WAIT) -> float:
    """Return the seconds until the next attempt, doubling each time.

    >>> [retry_wait(n) / 60 for n in (1, 2, 3, 20)]
    [1.0, 2.0, 4.0, 360.0]
    """
    return float(min(first * 2 ** (attempts - 1), longest))


class Deliverer(StepLoop):
    """Sends deliveries until it is stopped. Several processes can share the work."""

    def __init__(
        self,
        store: Store,
        sinks: Mapping[str, Sink],
        *,
        clock: Callable[[], float] = time.time,
        lease: float = LEASE,
        first_wait: float = FIRST_WAIT,
        longest_wait: float = MAX_WAIT,
        most_attempts: int = MAX_ATTEMPTS,
    ) -> None:
        super().__init__("deliveries_failed", store.changes, clock=clock)
        self._store = store
        self._sinks = sinks
        self._lease = lease
        self._first_wait = first_wait
        self._longest_wait = longest_wait
        self._most_attempts = most_attempts
        self._pools = {kind: RequestPool(limits, self._find_limit) for kind, limits in POOL_LIMITS.items()}
        self._proven: dict[str, int] = {}  # receivers whose last message was accepted, and the items they take in one
        self._outcomes: list[DeliveryOutcome] = []
        self._renderers = start_renderers()

    async def step(self) -> bool:
        """Settle ended deliveries, start due ones, and wait for progress. Return whether anything runs."""
        had_tasks = any(pool.tasks for pool in self._pools.values())
        await self._settle()
        await self._start_due()
        tasks = {task for pool in self._pools.values() for task in pool.tasks}
        if tasks:
            await wait_for_progress(tasks, self._woken)
        await self._settle()
        return bool(tasks) or had_tasks  # places may have become free after we looked

    async def find_next_due(self) -> float | None:
        return await self._store.read(find_next_due_delivery)

    async def _start_due(self) -> None:
        most = max(limits.per_receiver for limits in POOL_LIMITS.values())
        if not any(pool.free for pool in self._pools.values()):
            return
        waiting = await self._store.read(list_due_deliveries, self._clock(), most)
        for kind, pool in self._pools.items():
            rows = [
                WaitingRequest(one.id, one.address, find_host(one.address) if kind == "webhook" else kind)
                for one in waiting
                if one.kind == kind
            ]
            if ids := pool.choose(rows):
                await self._start_batches(pool, ids)

    async def _start_batches(self, pool: RequestPool, ids: list[int]) -> None:
        claimed = []
        try:
            sizes = {address: size for address, size in self._proven.items() if size > 1}
            claimed = await self._store.write(claim_due_batches, self._clock(), self._lease, ids=ids, sizes=sizes)
        finally:
            begun = {one.id: batch for batch in claimed for one in batch}
            for id in ids:
                batch = begun.get(id)
                if batch is not None and id == next(one.id for one in batch if one.id in ids):
                    pool.start(id, self._deliver_batch(batch))
                else:  # in the same message as another, or claimed by another process
                    pool.release(id)

    def _find_limit(self, receiver: str) -> int:
        """A receiver that did not accept its last message gets one request at a time."""
        return POOL_LIMITS["webhook"].per_receiver if receiver in self._proven else 1

    async def _settle(self) -> None:
        """Store the outcomes of ended requests in one transaction."""
        outcomes, self._outcomes = self._outcomes, []
        if outcomes:
            try:
                await self._store.write(settle_outcomes, outcomes, self._clock())
            except BaseException:
                self._outcomes = outcomes + self._outcomes
                raise

    async def _deliver_batch(self, batch: Sequence[Delivery]) -> None:
        """Send a claimed batch and note the outcome."""
        state, due, reason = await self._try_to_send(batch)
        self._outcomes.append(DeliveryOutcome([one.id for one in batch], state, due, reason))
        log.info(
            "delivered" if state == "sent" else "not_delivered",
            query=batch[0].query,
            kind=batch[0].kind,
            items=len(batch),
            state=state,
            message=reason,
        )

    def _remember_receiver(self, address: str, size: int | None) -> None:
        """Note that a receiver accepted a message, and how many items it takes in one."""
        self._proven.pop(address, None)
        self._proven[address] = size or 1
        if len(self._proven) > MAX_RECEIVERS:
            del self._proven[next(iter(self._proven))]

    async def _try_to_send(self, batch: Sequence[Delivery]) -> tuple[str, float | None, str | None]:
        """Return the state, the time of the next attempt, and the reason of a failure."""
        first = batch[0]
        try:
            message = await self._build_message(batch)
            if message is None:
                return "dead", None, "The items are no longer stored."
            size = await self._sinks[first.kind].send(message)
        except DeliveryFailed as error:
            self._proven.pop(first.address, None)
            return self._settle_failure(first, str(error), error.may_retry)
        except Exception as error:  # a bug in one sink must not stop the others
            self._proven.pop(first.address, None)
            log.error("sink_failed", kind=first.kind, error=repr(error))
            return self._settle_failure(first, f"Sending failed: {type(error).__name__}.", True)
        self._remember_receiver(first.address, size)
        return "sent", None, None

    def _settle_failure(self, first: Delivery, reason: str, may_retry: bool) -> tuple[str, float | None, str]:
        if not may_retry or first.attempts >= self._most_attempts:
            return "dead", None, reason
        return "failed", self._clock() + retry_wait(first.attempts, self._first_wait, self._longest_wait), reason

    async def _build_message(self, batch: Sequence[Delivery]) -> DeliveryMessage | None:
        first = batch[0]
        if first.alert is not None:
            about = Entry(id=f"alert {first.batch or first.id}", title=f"{first.query}: promise broken")
            entry = msgspec.structs.replace(about, summary=escape(first.alert), published=first.at)
            return DeliveryMessage(first.batch or str(first.id), first.query, first.address, [entry], first.at)
        hits = await self._store.read(find_hits, [one.hit_id for one in batch])
        if not hits:
            return None
        feeds = await self._store.read(find_feeds, {hit.item.feed_id for hit in hits})
        items = [to_entry(hit.item, feeds.get(hit.item.feed_id)) for hit in hits]
        at = first.slot if first.slot is not None else hits[0].arrived
        message = DeliveryMessage(first.batch or str(first.id), first.query, first.address, items, at)
        return message if first.kind == "webhook" else await self._apply_template(message)

    async def _apply_template(self, message: DeliveryMessage) -> DeliveryMessage:
        """Apply the template of the query feed or of the server, if there is one."""
        template = DeliveryTemplate(*await self._store.read(find_delivery_template, message.query))
        if template == DeliveryTemplate():
            return message
        try:
            subject, text = await render_in_worker(self._renderers, template, message.query, message.items, message.at)
        except InputError as error:
            raise DeliveryFailed(str(error)) from error
        return replace(message, subject=subject, text=text)

    async def send_test(self, kind: str, address: str) -> None:
        """Send a test message now. Raises InputError with the reason why it was not accepted."""
        now = self._clock()
        about = Entry(id="test", title="Test message", published=now)
        entry = msgspec.structs.replace(about, summary="Alerts of your queries arrive here.")
        message = DeliveryMessage(f"test-{secrets.token_hex(8)}", "Headwater", address, [entry], now)
        try:
            await self._sinks[kind].send(message)
        except DeliveryFailed as error:
            raise InputError(str(error), "address") from error

    async def close(self) -> None:
        """Let running requests end, store their outcomes and stop the worker processes."""
        for pool in self._pools.values():
            await stop_tasks(pool.tasks, STOP_SECONDS)
        await self._settle()
        await self._renderers.close()
        for sink in self._sinks.values():
            await sink.close()


async def make_deliverer(store: Store, fetcher: Fetcher, settings: Callable[[], Settings]) -> Deliverer:
    """Make the deliverer of a server; `settings` returns the settings in force."""
    secret = await load_webhook_secret(store, time.time())
    sinks = {
        "email": MailSink(lambda: (settings().smtp_url, settings().mail_from)),
        "webhook": WebhookSink(fetcher, secret),
        "notify": NotificationSink(settings().allow_private),
    }
    return Deliverer(store, sinks)


async def load_webhook_secret(store: Store, now: float) -> bytes:
    """Return the secret that signs web hooks, creating it on first use."""
    kept = await store.read(load_state, SECRET_STATE)
    if kept is None:
        await store.write(saved_state.save_state_once, SECRET_STATE, 1, secrets.token_hex(32).encode(), now)
        kept = await store.read(load_state, SECRET_STATE)
    assert kept is not None
    return kept[1]
