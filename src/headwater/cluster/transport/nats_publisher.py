"""Publishes many messages at once and collects the stream's answer to each.

nats-py can do this too, but loses the answer if a stream refuses a message, which we need.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from headwater.cluster.transport.nats_errors import JetStreamRefusal

ACK_SECONDS = 10.0  # that the broker may take

OutgoingMessage = tuple[str, bytes, Mapping[str, str] | None]  # subject, body, headers


class AckTimeout(TimeoutError):
    """The broker neither acknowledged nor refused messages in time."""


class _PendingAcks:
    """The answers to messages that were published together; `done` when all are there."""

    def __init__(self, number: int) -> None:
        self.answers: list[JetStreamRefusal | None] = [None] * number
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open = set(range(number))

    def record_ack(self, place: int, refusal: JetStreamRefusal | None) -> None:
        self.answers[place] = refusal
        self._open.discard(place)
        if not self._open and not self.done.done():
            self.done.set_result(None)

    def fail(self, error: Exception) -> None:
        """End the wait: no stream is there to answer."""
        if not self.done.done():
            self.done.set_exception(error)


class NatsPublisher:
    """Publishes messages and receives their acknowledgements at one inbox: a future each would cost too much."""

    def __init__(self, link: Any) -> None:
        self._link = link
        self._inbox: str | None = None
        self._numbers = itertools.count()
        self._pending: dict[str, _PendingAcks] = {}

    async def publish_all(self, messages: Sequence[OutgoingMessage]) -> list[JetStreamRefusal | None]:
        """Publish messages in order; return for each None or the stream's refusal. Raises if no stream answers."""
        if not messages:
            return []
        if self._inbox is None:
            self._inbox = self._link.new_inbox()
            await self._link.subscribe(f"{self._inbox}.*.*", cb=self._receive_ack)
        token = f"{next(self._numbers):x}"
        sent = self._pending[token] = _PendingAcks(len(messages))
        try:
            for place, (subject, body, headers) in enumerate(messages):
                await self._link.publish(subject, body, reply=f"{self._inbox}.{token}.{place}", headers=headers)
            await asyncio.wait_for(sent.done, ACK_SECONDS)
        except TimeoutError as error:
            raise AckTimeout(f"no answer within {ACK_SECONDS:.0f} seconds") from error
        finally:
            del self._pending[token]
        return sent.answers

    async def _receive_ack(self, message: Any) -> None:
        _, token, place = message.subject.rsplit(".", 2)
        sent = self._pending.get(token)
        if sent is None:
            return
        if not message.data:  # no responders
            from nats.js.errors import NoStreamResponseError

            sent.fail(NoStreamResponseError())
            return
        error = orjson.loads(message.data).get("error")
        sent.record_ack(int(place), None if error is None else parse_refusal(error))


def parse_refusal(error: Mapping[str, Any]) -> JetStreamRefusal:
    """Read an error as JetStream writes it."""
    return JetStreamRefusal(int(error.get("err_code", 0)), str(error.get("description", "")))
