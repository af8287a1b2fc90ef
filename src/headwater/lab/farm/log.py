"""What the farm was asked: one line per request, and how many requests a host had to bear at once."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import NamedTuple


class Line(NamedTuple):
    """One request. Times are the farm's wall clock; `feed` is None where no feed was asked for; `host` is what the
    Host header said, without the port. A status of 0 means that nothing was answered."""

    arrived: float
    ended: float
    method: str
    path: str
    feed: int | None
    status: int
    host: str
    peer: str


class Log:
    """The last `size` requests in the order in which they ended, and counts over all of them."""

    def __init__(self, size: int) -> None:
        self._lines: deque[Line] = deque(maxlen=size)
        self.statuses: Counter[int] = Counter()
        self.under_way: Counter[str] = Counter()
        self.most_at_once: dict[str, int] = {}

    def begin(self, host: str) -> None:
        now = self.under_way[host] = self.under_way[host] + 1
        if now > self.most_at_once.get(host, 0):
            self.most_at_once[host] = now

    def end(self, line: Line) -> None:
        self.under_way[line.host] -= 1
        self.statuses[line.status] += 1
        self._lines.append(line)

    def __iter__(self) -> Iterator[Line]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    def of(self, feed: int) -> list[Line]:
        """The requests for one feed's document."""
        return [line for line in self._lines if line.feed == feed]

    def clear(self) -> None:
        """Forget everything that is over."""
        self._lines.clear()
        self.statuses.clear()
        self.most_at_once = {host: count for host, count in self.under_way.items() if count}
