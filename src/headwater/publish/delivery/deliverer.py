"""Sends due deliveries, retries with back-off, and gives up after too many attempts.

    delivery row (due) ─► claimed: due again when the lease is over ─► sent │ failed, due later │ dead

A claim is committed before sending and the outcome after. If the process is killed in between, the message is sent
again under the same key: the Idempotency-Key of a web hook, the Message-ID of a mail. Nothing is skipped.
"""

from __future__ import annotations

import asyncio
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
from headwater.settings import Settings
from headwater.store import saved_state
from headwater.store.content.feeds import find_feeds
from headwater.store.publishing.deliveries import (
    Delivery,
    claim_due_batches,
    find_delivery_template,
    find_next_due_delivery,
    settle_deliveries,
)
from headwater.store.queries.hits import find_hits
from headwater.store.saved_state import load_state
from headwater.store.store import Store

LEASE = 300.0  # seconds; longer than any sink takes to send
CHECK_SECONDS = 1.0
CONCURRENT_DELIVERIES = 16
FIRST_WAIT, LONGEST_WAIT = 60.0, 6 * 3600.0  # seconds until the second attempt, and the longest pause
MOST_ATTEMPTS = 12  # over about a day and a half
SECRET_STATE = "hook secret"

log = structlog.get_logger()


def retry_wait(attempts: int, first: float = FIRST_WAIT, longest: float = LONGEST_WAIT) -> float:
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
        longest_wait: float = LONGEST_WAIT,
        most_attempts: int = MOST_ATTEMPTS,
    ) -> None:
        super().__init__("deliveries_failed", store.changes, clock=clock)
        self._store = store
        self._sinks = sinks
        self._lease = lease
        self._first_wait = first_wait
        self._longest_wait = longest_wait
        self._most_attempts = most_attempts
        self._slots = asyncio.Semaphore(CONCURRENT_DELIVERIES)
        self._renderers = start_renderers()

    async def step(self) -> bool:
        """Send the due deliveries. Return whether there were any."""
        batches = await self._store.write(claim_due_batches, self._clock(), self._lease)
        await asyncio.gather(*map(self.deliver_batch, batches))
        return bool(batches)

    async def find_next_due(self) -> float | None:
        return await self._store.read(find_next_due_delivery)

    async def deliver_batch(self, batch: Sequence[Delivery]) -> None:
        """Send a claimed batch and store the outcome."""
        async with self._slots:
            state, due, reason = await self._try_to_send(batch)
        ids = [one.id for one in batch]
        await self._store.write(settle_deliveries, ids, state, due, reason, self._clock())
        log.info(
            "delivered" if state == "sent" else "not_delivered",
            query=batch[0].query,
            kind=batch[0].kind,
            items=len(batch),
            state=state,
            message=reason,
        )

    async def _try_to_send(self, batch: Sequence[Delivery]) -> tuple[str, float | None, str | None]:
        """Return the state, the time of the next attempt, and the reason of a failure."""
        first = batch[0]
        try:
            message = await self._build_message(batch)
            if message is None:
                return "dead", None, "The items are no longer stored."
            await self._sinks[first.kind].send(message)
        except DeliveryFailed as error:
            return self._settle_failure(first, str(error), error.may_retry)
        except Exception as error:  # a bug in one sink must not stop the others
            log.error("sink_broke", kind=first.kind, error=repr(error))
            return self._settle_failure(first, f"Sending failed: {type(error).__name__}.", True)
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

    async def close(self) -> None:
        """Stop the worker processes."""
        await self._renderers.close()
        for sink in self._sinks.values():
            await sink.close()


async def make_deliverer(store: Store, fetcher: Fetcher, settings: Settings) -> Deliverer:
    """Make the deliverer of a server from its settings."""
    secret = await load_webhook_secret(store, time.time())
    sinks = {
        "email": MailSink(settings.smtp_url, settings.mail_from),
        "webhook": WebhookSink(fetcher, secret),
        "notify": NotificationSink(settings.allow_private),
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
