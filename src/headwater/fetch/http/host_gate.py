"""Pacing: about one connection at a time to each registered domain, and a pause between two of them.

`Pace` decides and knows no clock; `HostGate` waits on its behalf. Both cost the same whether one feed waits or
ten thousand do.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache

from publicsuffixlist import PublicSuffixList

from headwater.fetch.http.address_guard import is_public, parse_literal_address


@lru_cache(maxsize=1)
def _load_suffix_list() -> PublicSuffixList:
    return PublicSuffixList()


@lru_cache(maxsize=16384)
def registered_domain(host: str) -> str:
    """The domain somebody registered, which is whose servers are spared; an address or local name is itself.

    >>> registered_domain("feeds.news.example.co.uk")
    'example.co.uk'
    """
    name = host.rstrip(".").lower()
    last = name.rpartition(".")[2]
    # Letters alone are no number in any of the ways in which addresses are written; finding that out takes long.
    if not (last.isascii() and last.isalpha()) and parse_literal_address(name) is not None:
        return name
    return _load_suffix_list().privatesuffix(name) or name


@lru_cache(maxsize=1024)
def is_local_domain(domain: str) -> bool:
    """Whether a domain is on our own network, where nobody needs to be spared a pause."""
    address = parse_literal_address(domain)
    return not is_public(address) if address is not None else "." not in domain


@dataclass(slots=True)
class _HostState:
    active: int = 0
    next_start: float = 0.0


class HostSlots:
    """Who may start now: at most `per_host` at once, starts at least `gap` seconds apart (local hosts: no gap, unless
    it is to hold `everywhere`).

    Every `enter` that returned 0 is followed by one `leave`. A host that is idle and past its gap is forgotten.
    """

    def __init__(self, per_host: int = 1, gap: float = 1.0, *, everywhere: bool = False) -> None:
        self._per_host = per_host
        self._gap = gap
        self._everywhere = everywhere
        self._hosts: OrderedDict[str, _HostState] = OrderedDict()

    def __len__(self) -> int:
        return len(self._hosts)

    def enter(self, domain: str, now: float) -> float | None:
        """0: start now. A number: try again after so many seconds. None: wait until somebody leaves.

        >>> pace = HostSlots(per_host=1, gap=2.0)
        >>> pace.enter("example.org", 10.0), pace.enter("example.org", 10.0), pace.leave("example.org", 11.0)
        (0.0, None, None)
        >>> pace.enter("example.org", 11.5)
        0.5
        """
        host = self._hosts.get(domain)
        if host is None:
            self._forget_idle_hosts(now)
            host = self._hosts[domain] = _HostState()
        elif host.active >= self._per_host:
            return None
        elif host.next_start > now:
            return host.next_start - now
        host.active += 1
        if gap := self.find_gap(domain):
            host.next_start = now + gap
        return 0.0

    def find_gap(self, domain: str) -> float:
        """Seconds between two starts."""
        return self._gap if self._gap and (self._everywhere or not is_local_domain(domain)) else 0.0

    @property
    def longest_gap(self) -> float:
        """Of all domains."""
        return self._gap

    def wait(self, domain: str, now: float) -> float | None:
        """What `enter` would answer, without entering: for a scheduler that prefers another feed meanwhile."""
        host = self._hosts.get(domain)
        if host is None:
            return 0.0
        return None if host.active >= self._per_host else max(0.0, host.next_start - now)

    def leave(self, domain: str, now: float) -> None:
        host = self._hosts[domain]
        host.active -= 1
        if not host.active:
            if host.next_start <= now:
                del self._hosts[domain]
            else:
                self._hosts.move_to_end(domain)

    def _forget_idle_hosts(self, now: float) -> None:
        """Drop at most two idle hosts from the old end: as many leave as come, at constant cost."""
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
    """Lets fetches through as `Pace` allows, first come first served for each domain."""

    def __init__(
        self,
        per_host: int = 1,
        gap: float = 1.0,
        *,
        everywhere: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._slots = HostSlots(per_host, gap, everywhere=everywhere)
        self._now = clock
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}

    def wait(self, host: str) -> float | None:
        """How long a fetch of this host would wait now (None: until a running one ends)."""
        domain = registered_domain(host)
        return None if domain in self._queues else self._slots.wait(domain, self._now())

    def find_gap(self, domain: str) -> float:
        """Seconds between the starts of two fetches."""
        return self._slots.find_gap(domain)

    @property
    def longest_gap(self) -> float:
        """Of all domains."""
        return self._slots.longest_gap

    def try_enter(self, domain: str) -> bool:
        """Enter if nobody has to wait."""
        return domain not in self._queues and self._slots.enter(domain, self._now()) == 0.0

    async def enter(self, domain: str) -> None:
        """Wait for the turn of a domain."""
        if self.try_enter(domain):
            return
        queue = self._queues.setdefault(domain, deque())
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            if queue[0] is not turn:
                await turn
            while (delay := self._slots.enter(domain, self._now())) != 0.0:
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
        self._slots.leave(domain, self._now())
        if queue := self._queues.get(domain):
            self._wake_first(queue)

    @staticmethod
    def _wake_first(queue: deque[asyncio.Future[None]]) -> None:
        if not queue[0].done():
            queue[0].set_result(None)

    @asynccontextmanager
    async def slot(self, host: str) -> AsyncIterator[None]:
        domain = registered_domain(host)
        await self.enter(domain)
        try:
            yield
        finally:
            self.leave(domain)
