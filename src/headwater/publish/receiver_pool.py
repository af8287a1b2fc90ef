"""Runs requests to receivers of strangers side by side, fairly: a slow receiver delays itself only.

    waiting rows ─► choose: receiver, then sender with the fewest running, then the longest wait ─► claimed ─► settled
                      at most so many per receiver, host, lane and in total

A row is claimed only when its request can begin, so an attempt that was never made is never counted. `ReceiverQueue`
chooses and has no clock; `RequestPool` runs the requests.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from headwater.formats.values.domains import registered_domain

SECONDS_BETWEEN_LOOKS = 1.0  # while requests run


@dataclass(frozen=True, slots=True)
class WaitingRequest:
    """A row that is due: to whom it goes, the host of that receiver, the lane in which it waits, and who asked for it.

    `sender` is empty if nobody did.
    """

    id: int
    receiver: str
    host: str
    lane: str = ""
    sender: str = ""


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """The most requests that run at once. A lane without a limit of its own may use the whole pool."""

    total: int
    per_host: int
    per_receiver: int
    lanes: Mapping[str, int] = field(default_factory=dict)


class ReceiverQueue:
    """Chooses the next requests; `per_receiver` may return a smaller limit for one receiver."""

    def __init__(self, limits: PoolLimits, per_receiver: Callable[[str], int] | None = None) -> None:
        self._limits = limits
        self._per_receiver = per_receiver or (lambda receiver: limits.per_receiver)
        self._running: dict[int, WaitingRequest] = {}
        self._receivers: Counter[str] = Counter()
        self._hosts: Counter[str] = Counter()
        self._lanes: Counter[str] = Counter()
        self._senders: Counter[str] = Counter()
        self._turns: dict[str, int] = {}  # receiver → when it was last chosen
        self._turn = 0

    @property
    def free(self) -> int:
        """The number of requests that may still begin."""
        return self._limits.total - len(self._running)

    def choose(self, waiting: Sequence[WaitingRequest]) -> list[WaitingRequest]:
        """Begin requests from `waiting`, which is in order of time, and return them.

        >>> queue = ReceiverQueue(PoolLimits(total=3, per_host=2, per_receiver=2))
        >>> rows = [WaitingRequest(n, "slow", "a.example") for n in range(5)]
        >>> [one.id for one in queue.choose([*rows, WaitingRequest(9, "other", "b.example")])]
        [0, 9, 1]
        """
        rows: dict[str, deque[WaitingRequest]] = defaultdict(deque)
        for one in waiting:
            if one.id not in self._running:
                rows[one.receiver].append(one)
        self._turns = {name: turn for name, turn in self._turns.items() if name in rows or self._receivers[name]}
        chosen: list[WaitingRequest] = []
        while rows and self.free > 0:
            ready = [name for name in rows if self._may_begin(rows[name][0])]
            if not ready:
                break
            for name in sorted(ready, key=lambda name: self._rank(rows[name][0])):
                if self.free > 0 and self._may_begin(rows[name][0]):
                    chosen.append(self._begin(rows[name].popleft()))
                    if not rows[name]:
                        del rows[name]
        return chosen

    def _rank(self, one: WaitingRequest) -> tuple[int, int, int]:
        """Return the place of a receiver's next request; the least is first."""
        sender = self._senders[one.sender] if one.sender else 0
        return self._receivers[one.receiver], sender, self._turns.get(one.receiver, 0)

    def _may_begin(self, one: WaitingRequest) -> bool:
        return (
            self._receivers[one.receiver] < self._per_receiver(one.receiver)
            and self._hosts[one.host] < self._limits.per_host
            and self._lanes[one.lane] < self._limits.lanes.get(one.lane, self._limits.total)
        )

    def _begin(self, one: WaitingRequest) -> WaitingRequest:
        self._turn += 1
        self._turns[one.receiver] = self._turn
        self._running[one.id] = one
        for counts, key in self._counts(one):
            counts[key] += 1
        return one

    def end(self, id: int) -> None:
        """Note that a chosen request has ended, or could not begin."""
        one = self._running.pop(id)
        for counts, key in self._counts(one):
            counts[key] -= 1
            if not counts[key]:
                del counts[key]

    def _counts(self, one: WaitingRequest) -> tuple[tuple[Counter[str], str], ...]:
        return (
            (self._receivers, one.receiver),
            (self._hosts, one.host),
            (self._lanes, one.lane),
            (self._senders, one.sender),
        )


class RequestPool:
    """Runs the chosen requests as tasks."""

    def __init__(self, limits: PoolLimits, per_receiver: Callable[[str], int] | None = None) -> None:
        self._queue = ReceiverQueue(limits, per_receiver)
        self.tasks: set[asyncio.Task[None]] = set()

    @property
    def free(self) -> int:
        """The number of requests that may still begin."""
        return self._queue.free

    def choose(self, waiting: Sequence[WaitingRequest]) -> list[int]:
        """Return the ids of the rows to claim now; each is followed by `start` or `release`."""
        return [one.id for one in self._queue.choose(waiting)]

    def release(self, id: int) -> None:
        """Give back the place of a row that somebody else has claimed."""
        self._queue.end(id)

    def start(self, id: int, work: Coroutine[Any, Any, None]) -> None:
        """Run the request of a claimed row."""
        task = asyncio.create_task(work)
        self.tasks.add(task)

        def finish(task: asyncio.Task[None]) -> None:
            self.tasks.discard(task)
            self._queue.end(id)

        task.add_done_callback(finish)


def find_host(address: str) -> str:
    """Return the registered domain of an address, or its IP address.

    >>> find_host("https://hooks.example.org:8443/a"), find_host("http://127.0.0.1:9/"), find_host("no address")
    ('example.org', '127.0.0.1', '')
    """
    try:
        return registered_domain(urlsplit(address).hostname or "")
    except ValueError:
        return ""


async def wait_for_progress(tasks: set[asyncio.Task[None]], woken: asyncio.Event) -> None:
    """Wait until one of the tasks has ended, the event is set, or a moment has passed; raise the error of a task."""
    waking = asyncio.create_task(woken.wait())
    try:
        done, _ = await asyncio.wait(
            {*tasks, waking}, timeout=SECONDS_BETWEEN_LOOKS, return_when=asyncio.FIRST_COMPLETED
        )
    finally:
        waking.cancel()
    for task in done - {waking}:
        task.result()


async def stop_tasks(tasks: set[asyncio.Task[None]], seconds: float) -> None:
    """Let tasks end, and cancel those that take longer; their rows are claimed again when the lease is over."""
    running = set(tasks)
    if running:
        _, late = await asyncio.wait(running, timeout=seconds)
        for task in late:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
