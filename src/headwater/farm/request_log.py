"""Logs the requests to the farm, and how many each host had at once."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import NamedTuple


class LoggedRequest(NamedTuple):
    """One request. Times are the farm's wall time; `feed` is None for other pages; `host` is the Host header without
    its port; status 0 means that no response was sent."""

    arrived: float
    ended: float
    method: str
    path: str
    feed: int | None
    status: int
    host: str
    peer: str


class RequestLog:
    """The last `size` requests in the order of their end, and counts of all requests."""

    def __init__(self, size: int) -> None:
        self._requests: deque[LoggedRequest] = deque(maxlen=size)
        self.statuses: Counter[int] = Counter()
        self.under_way: Counter[str] = Counter()
        self.most_at_once: dict[str, int] = {}

    def begin_request(self, host: str) -> None:
        now = self.under_way[host] = self.under_way[host] + 1
        if now > self.most_at_once.get(host, 0):
            self.most_at_once[host] = now

    def end_request(self, line: LoggedRequest) -> None:
        self.under_way[line.host] -= 1
        self.statuses[line.status] += 1
        self._requests.append(line)

    def __iter__(self) -> Iterator[LoggedRequest]:
        return iter(self._requests)

    def __len__(self) -> int:
        return len(self._requests)

    def for_feed(self, feed: int) -> list[LoggedRequest]:
        """Return the requests for one feed's document."""
        return [line for line in self._requests if line.feed == feed]

    def clear(self) -> None:
        """Forget finished requests."""
        self._requests.clear()
        self.statuses.clear()
        self.most_at_once = {host: count for host, count in self.under_way.items() if count}
