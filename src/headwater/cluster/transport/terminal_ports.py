"""Whom a terminal works with: who lets it partitions, who brings it jobs, and who takes its results.

With NATS and with PostgreSQL alone these are others; the terminal is the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headwater.cluster.transport.wire_messages import FetchResult, Grant, Job
from headwater.fetch.http.remote_session import RemoteReply

if TYPE_CHECKING:
    from headwater.cluster.fetch_pool import FetchPool


async def _ignore_reply(hopped: RemoteReply) -> None:
    """A refresh is answered by its result."""


class ReceivedJob(NamedTuple):
    """A job in our hands: `done` when its result is safe; not begun, `give_back` for others, `put_down` for nobody."""

    job: Job
    done: Callable[[], Awaitable[None]]
    give_back: Callable[[], Awaitable[None]]
    put_down: Callable[[], Awaitable[None]]
    hand_on: Callable[[Job], Awaitable[None]]  # to whoever holds the partition that the job now names
    answer: Callable[[RemoteReply], Awaitable[None]] = _ignore_reply  # instead of `done`, for an errand


class PartitionSource(Protocol):
    """Who says which partitions are ours."""

    async def renew_partitions(self, drained: Mapping[int, int]) -> Grant: ...

    async def release_partitions(self, held: Mapping[int, int]) -> None: ...


class JobReceiver(Protocol):
    """Where jobs come from."""

    async def receive_jobs(self, terminal: FetchPool, stop: asyncio.Event) -> None: ...


OnSafe = Callable[[Exception | None], Awaitable[None]]


class ResultSender(Protocol):
    """Where results go."""

    def send_result(self, result: FetchResult, then: OnSafe) -> None:
        """`then` is awaited when the result is safe, or with what was in the way of that."""
        ...

    def abandon(self) -> None:
        """What is not safe by now is not waited for."""
        ...
