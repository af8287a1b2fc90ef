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


class Acks:
    """All answers come to one inbox."""

    def __init__(self, link: Any) -> None:
        self._link = link
        self._inbox: str | None = None
        self._numbers = itertools.count()
        self._waiting: dict[str, asyncio.Future[Refusal | None]] = {}

    async def publish(self, messages: Sequence[Message]) -> list[Refusal | None]:
        """In their order; for each None, or what the stream said against it. An error where no stream answers."""
        if self._inbox is None:
            self._inbox = self._link.new_inbox()
            await self._link.subscribe(f"{self._inbox}.*", cb=self._heard)
        loop = asyncio.get_running_loop()
        sent: dict[str, asyncio.Future[Refusal | None]] = {}
        try:
            for subject, body, headers in messages:
                token = f"{next(self._numbers):x}"
                sent[token] = self._waiting[token] = loop.create_future()
                await self._link.publish(subject, body, reply=f"{self._inbox}.{token}", headers=headers)
            return await asyncio.wait_for(asyncio.gather(*sent.values()), ANSWER)
        except TimeoutError as error:
            raise Unanswered(f"no answer within {ANSWER:.0f} seconds") from error
        finally:
            for token in sent:
                self._waiting.pop(token, None)

    async def _heard(self, message: Any) -> None:
        from nats.js.errors import NoStreamResponseError

        future = self._waiting.get(message.subject.rpartition(".")[2])
        if future is None or future.done():
            return
        if not message.data:  # no responders
            future.set_exception(NoStreamResponseError())
            return
        error = orjson.loads(message.data).get("error")
        future.set_result(None if error is None else refusal(error))


def refusal(error: Mapping[str, Any]) -> Refusal:
    """As JetStream writes it."""
    return Refusal(int(error.get("err_code", 0)), str(error.get("description", "")))
