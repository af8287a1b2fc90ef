"""Limits concurrency and pace per registered domain.

`HostSlots` decides and has no clock; `HostGate` waits. The cost of a request does not grow with the number of waiting
ones.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from dataclasses import dataclass

from headwater.fetch.http.address_guard import is_local_domain


@dataclass(slots=True)
class _HostUse:
    active: int = 0
    next_start: float = 0.0


class HostSlots:
    """Grants slots per domain: at most `per_host` at once, starts at least `gap` seconds apart.

    Local hosts have no gap unless `everywhere` is set. Every `enter` that returned 0 is followed by one `leave`. Idle
    domains are forgotten after their gap.
    """

    def __init__(self, per_host: int = 1, gap: float = 1.0, *, everywhere: bool = False) -> None:
        self._per_host = per_host
        self._gap = gap
        self._everywhere = everywhere
        self._hosts: OrderedDict[str, _HostUse] = OrderedDict()

    def __len__(self) -> int:
        return len(self._hosts)

    def enter(self, domain: str, now: float) -> float | None:
        """Return 0 to start now, the seconds to wait, or None to wait until a slot is free.

        >>> pace = HostSlots(per_host=1, gap=2.0)
        >>> pace.enter("example.org", 10.0), pace.enter("example.org", 10.0), pace.leave("example.org", 11.0)
        (0.0, None, None)
        >>> pace.enter("example.org", 11.5)
        0.5
        """
        host = self._hosts.get(domain)
        if host is None:
            self._forget_idle_hosts(now)
            host = self._hosts[domain] = _HostUse()
        elif host.active >= self._per_host:
            return None
        elif host.next_start > now:
            return host.next_start - now
        host.active += 1
        if gap := self.find_gap(domain):
            host.next_start = now + gap
        return 0.0

    def find_gap(self, domain: str) -> float:
        """Return the seconds between two starts."""
        return self._gap if self._gap and (self._everywhere or not is_local_domain(domain)) else 0.0

    @property
    def longest_gap(self) -> float:
        """The longest gap of any domain, in seconds."""
        return self._gap

    def leave(self, domain: str, now: float) -> None:
        host = self._hosts[domain]
        host.active -= 1
        if not host.active:
            if host.next_start <= now:
                del self._hosts[domain]
            else:
                self._hosts.move_to_end(domain)

    def _forget_idle_hosts(self, now: float) -> None:
        """Drop up to two idle hosts, the oldest first: constant cost, and the table does not grow."""
        for _ in range(2):
            if not self._hosts:
                return
            domain, host = next(iter(self._hosts.items()))
            if host.active:
                self._hosts.move_to_end(domain)
            elif host.next_start <= now:
                del self._hosts[domain]
            else:
                return


class HostGate:
    """Lets requests through as HostSlots allows, first come, first served per domain."""

    def __init__(
        self,
        per_host: int = 1,
        gap: float = 1.0,
        *,
        everywhere: bool = False,
    ) -> None:
        self._slots = HostSlots(per_host, gap, everywhere=everywhere)
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}

    def find_gap(self, domain: str) -> float:
        """Return the seconds between the starts of two requests."""
        return self._slots.find_gap(domain)

    @property
    def longest_gap(self) -> float:
        """The longest gap of any domain, in seconds."""
        return self._slots.longest_gap

    def try_enter(self, domain: str) -> bool:
        """Take a slot if one is free and nobody waits."""
        return domain not in self._queues and self._slots.enter(domain, time.monotonic()) == 0.0

    async def enter(self, domain: str) -> None:
        """Wait for a slot of the domain."""
        if self.try_enter(domain):
            return
        queue = self._queues.setdefault(domain, deque())
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            if queue[0] is not turn:
                await turn
            while (delay := self._slots.enter(domain, time.monotonic())) != 0.0:
                if delay is None:
                    turn = queue[0] = asyncio.get_running_loop().create_future()
                    await turn
                else:
                    await asyncio.sleep(delay)
        finally:
            queue.remove(turn)
            if queue:
                self._wake_first(queue)
            else:
                del self._queues[domain]

    def leave(self, domain: str) -> None:
        self._slots.leave(domain, time.monotonic())
        if queue := self._queues.get(domain):
            self._wake_first(queue)

    @staticmethod
    def _wake_first(queue: deque[asyncio.Future[None]]) -> None:
        if not queue[0].done():
            queue[0].set_result(None)
