"""Publishing many messages at once and hearing of each whether the stream has taken it.

nats-py has this too, but loses the answer where a stream refuses a message, which for us is an answer like any other.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from headwater.cluster.refusals import Refusal

ANSWER = 10.0  # seconds that the broker may take

Message = tuple[str, bytes, Mapping[str, str] | None]  # subject, body, headers


class Unanswered(TimeoutError):
    """The broker has heard messages and says neither that it has taken them nor that it has not."""


class _Sent:
    """Messages that went together: what was said of each, and when something has been said of all."""

    def __init__(self, number: int) -> None:
        self.said: list[Refusal | None] = [None] * number
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open = set(range(number))

    def heard(self, place: int, said: Refusal | None) -> None:
        self.said[place] = said
        self._open.discard(place)
        if not self._open and not self.over.done():
            self.over.set_result(None)

    def nobody(self, error: Exception) -> None:
        """No stream is there to answer."""
        if not self.over.done():
            self.over.set_exception(error)


class Acks:
    """All answers come to one inbox. A future for each would cost more than the message."""

    def __init__(self, link: Any) -> None:
        self._link = link
        self._inbox: str | None = None
        self._numbers = itertools.count()
        self._waiting: dict[str, _Sent] = {}

    async def publish(self, messages: Sequence[Message]) -> list[Refusal | None]:
        """In their order; for each None, or what the stream said against it. An error where no stream answers."""
        if not messages:
            return []
        if self._inbox is None:
            self._inbox = self._link.new_inbox()
            await self._link.subscribe(f"{self._inbox}.*.*", cb=self._heard)
        token = f"{next(self._numbers):x}"
        sent = self._waiting[token] = _Sent(len(messages))
        try:
            for place, (subject, body, headers) in enumerate(messages):
                await self._link.publish(subject, body, reply=f"{self._inbox}.{token}.{place}", headers=headers)
            await asyncio.wait_for(sent.over, ANSWER)
        except TimeoutError as error:
            raise Unanswered(f"no answer within {ANSWER:.0f} seconds") from error
        finally:
            del self._waiting[token]
        return sent.said

    async def _heard(self, message: Any) -> None:
        _, token, place = message.subject.rsplit(".", 2)
        sent = self._waiting.get(token)
        if sent is None:
            return
        if not message.data:  # no responders
            from nats.js.errors import NoStreamResponseError

            sent.nobody(NoStreamResponseError())
            return
        error = orjson.loads(message.data).get("error")
        sent.heard(int(place), None if error is None else refusal(error))


def refusal(error: Mapping[str, Any]) -> Refusal:
    """As JetStream writes it."""
    return Refusal(int(error.get("err_code", 0)), str(error.get("description", "")))
