"""Whom a terminal works with: who lets it partitions, who brings it jobs, and who takes its results.

With NATS and with PostgreSQL alone these are others; the terminal is the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headwater.cluster.messages import Grant, Job, Result
from headwater.fetch.errand import Hopped

if TYPE_CHECKING:
    from headwater.cluster.terminal import Terminal


async def _nobody_waits(hopped: Hopped) -> None:
    """A refresh is answered by its result."""


class Taken(NamedTuple):
    """A job in our hands: `done` when its result is safe; not begun, `give_back` for others, `put_down` for nobody."""

    job: Job
    done: Callable[[], Awaitable[None]]
    give_back: Callable[[], Awaitable[None]]
    put_down: Callable[[], Awaitable[None]]
    hand_on: Callable[[Job], Awaitable[None]]  # to whoever holds the partition that the job now names
    answer: Callable[[Hopped], Awaitable[None]] = _nobody_waits  # instead of `done`, for an errand


class Landlord(Protocol):
    """Who says which partitions are ours."""

    async def tend(self, drained: Mapping[int, int]) -> Grant: ...

    async def leave(self, held: Mapping[int, int]) -> None: ...


class Jobs(Protocol):
    """Where jobs come from."""

    async def follow(self, terminal: Terminal, stop: asyncio.Event) -> None: ...


Then = Callable[[Exception | None], Awaitable[None]]


class Results(Protocol):
    """Where results go."""

    def put(self, result: Result, then: Then) -> None:
        """`then` is awaited when the result is safe, or with what was in the way of that."""
        ...

    def abandon(self) -> None:
        """What is not safe by now is not waited for."""
        ...
