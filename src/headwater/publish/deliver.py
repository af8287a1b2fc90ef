"""Sends what is due: claims a batch, sends it, writes down what became of it. Tried again with back-off, then given up.

    delivery row (due) ─► claimed: not due again before the lease has passed ─► sent │ failed, due later │ dead

A claim is committed before anything is sent and the end after, so whatever kills us between, the message is sent again
later under the same key: a web hook knows it by its Idempotency-Key, a mail by its Message-ID. Nothing is skipped.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import structlog

from headwater.errors import InputError
from headwater.publish.documents import entry
from headwater.publish.sinks import Message, Sink, Undelivered
from headwater.publish.stepping import Stepping
from headwater.publish.templates import Template, rendered, renderers
from headwater.store import state
from headwater.store.store import Store
from headwater.store.values import Delivery

LEASE = 300.0  # seconds; longer than any sink takes
LOOK = 1.0
AT_ONCE = 16
FIRST, LONGEST = 60.0, 6 * 3600.0  # seconds until the second attempt, and between two at the most
MOST_ATTEMPTS = 12  # over about a day and a half
SECRET = "hook secret"

log = structlog.get_logger()


def wait_after(attempts: int, first: float = FIRST, longest: float = LONGEST) -> float:
    """Seconds until the next attempt, doubling.

    >>> [wait_after(n) / 60 for n in (1, 2, 3, 20)]
    [1.0, 2.0, 4.0, 360.0]
    """
    return float(min(first * 2 ** (attempts - 1), longest))


class Deliverer(Stepping):
    """Empties the list of deliveries until it is stopped; several processes may do so together."""

    def __init__(
        self,
        store: Store,
        sinks: Mapping[str, Sink],
        *,
        clock: Callable[[], float] = time.time,
        lease: float = LEASE,
        first_wait: float = FIRST,
        longest_wait: float = LONGEST,
        most_attempts: int = MOST_ATTEMPTS,
    ) -> None:
        super().__init__("deliveries_failed")
        self._store = store
        self._sinks = sinks
        self._clock = clock
        self._lease = lease
        self._first_wait = first_wait
        self._longest_wait = longest_wait
        self._most = most_attempts
        self._free = asyncio.Semaphore(AT_ONCE)
        self._renderers = renderers()

    async def step(self) -> bool:
        """Send what is due now; False where nothing was."""
        batches = await self._store.publishing.claim(self._clock(), self._lease)
        await asyncio.gather(*map(self.deliver, batches))
        return bool(batches)

    async def deliver(self, batch: Sequence[Delivery]) -> None:
        """Send what has been claimed, and write down what became of it."""
        async with self._free:
            state, due, said = await self._attempt(batch)
        ids = [one.id for one in batch]
        await self._store.publishing.settle(ids, state, due, said, self._clock())
        log.info(
            "delivered" if state == "sent" else "not_delivered",
            query=batch[0].query,
            kind=batch[0].kind,
            items=len(batch),
            state=state,
            message=said,
        )

    async def _attempt(self, batch: Sequence[Delivery]) -> tuple[str, float | None, str | None]:
        """(state, when due again, what to tell the owner)."""
        first = batch[0]
        try:
            message = await self._message(batch)
            if message is None:
                return "dead", None, "The items are no longer stored."
            await self._sinks[first.kind].send(message)
        except Undelivered as error:
            return self._failed(first, str(error), error.ever)
        except Exception as error:  # a defect of a sink must not hold up the others
            log.error("sink_broke", kind=first.kind, error=repr(error))
            return self._failed(first, f"Sending failed: {type(error).__name__}.", True)
        return "sent", None, None

    def _failed(self, first: Delivery, said: str, ever: bool) -> tuple[str, float | None, str]:
        if not ever or first.attempts >= self._most:
            return "dead", None, said
        return "failed", self._clock() + wait_after(first.attempts, self._first_wait, self._longest_wait), said

    async def _message(self, batch: Sequence[Delivery]) -> Message | None:
        hits = await self._store.queries.hits([one.hit_id for one in batch])
        if not hits:
            return None
        feeds = await self._store.feeds_by_id({hit.item.feed_id for hit in hits})
        items = [entry(hit.item, feeds.get(hit.item.feed_id)) for hit in hits]
        first = batch[0]
        at = first.slot if first.slot is not None else hits[0].arrived
        message = Message(first.batch or str(first.id), first.query, first.address, items, at)
        return message if first.kind == "webhook" else await self._in_words(message)

    async def _in_words(self, message: Message) -> Message:
        """The message in the words of its template, where there is one."""
        template = Template(*await self._store.publishing.template(message.query))
        if template == Template():
            return message
        try:
            subject, text = await rendered(self._renderers, template, message.query, message.items, message.at)
        except InputError as error:
            raise Undelivered(str(error)) from error
        return replace(message, subject=subject, text=text)

    async def close(self) -> None:
        """Let go of the processes that render templates and send notifications."""
        await self._renderers.close()
        for sink in self._sinks.values():
            await sink.close()


async def hook_secret(store: Store, now: float) -> bytes:
    """The secret that signs web hooks: made once, kept in the store."""
    kept = await store.load_state(SECRET)
    if kept is None:
        await store.write(state.keep, SECRET, 1, secrets.token_hex(32).encode(), now)
        kept = await store.load_state(SECRET)
    assert kept is not None
    return kept[1]
