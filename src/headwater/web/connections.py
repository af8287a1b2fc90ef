"""Decides which clients stay connected: limits in total and per address, and on idle and slow ones.

    accepted ─► waiting for a request ─► receiving its body ─► being answered ─► waiting …
                 may be replaced by a newcomer                   is never replaced

A newcomer at a limit takes the place of the connection that waits longest for its client, so idle clients lock nobody
out. This module has no clock and no sockets; `http_server` closes the connections that it names.
"""

from __future__ import annotations

import ipaddress
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

NOT_BEGUN = "no_request"
SLOW_HEAD = "slow_request"
SLOW_BODY = "slow_body"
STALLED = "answer_not_read"
NOT_CLOSED = "not_closed"
REPLACED = "replaced"
REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of one server; times are in seconds, `body_rate` in bytes per second."""

    total: int
    per_address: int = 256
    overflow: int = 32  # connections above a limit that are told so (503) instead of being closed
    header_bytes: int = 32 << 10
    headers: int = 100
    head_seconds: float = 10.0  # until the headers of a request are complete
    body_seconds: float = 20.0  # until `body_rate` counts
    body_rate: float = 500.0
    stalled_seconds: float = 60.0  # in which a client reads less of its answer than `body_rate`
    closing_seconds: float = 5.0  # that a refused client has to read why


@dataclass(slots=True, eq=False)
class ClientConnection:
    """One connection and how long its client has kept us waiting. `close` ends it."""

    address: str
    waiting_since: float | None
    over_limit: bool = False
    head_begun: bool = False
    body_since: float | None = None
    received: int = 0  # bytes of the body
    unsent: int = 0  # bytes of the answer, when the client last made progress
    stalled_since: float | None = None
    closing_since: float | None = None
    close: Callable[[str], None] = field(default=lambda reason: None)

    def note_unsent(self, size: int, limits: ConnectionLimits, now: float) -> None:
        """Note how much of the answer the client has still to read; it stalls while that does not shrink."""
        enough = self.unsent - limits.body_rate * limits.stalled_seconds
        if not size:
            self.stalled_since = None
        elif self.stalled_since is None or size > self.unsent or size <= enough:
            self.unsent, self.stalled_since = size, now

    def find_fault(self, limits: ConnectionLimits, now: float) -> str | None:
        """Return why the connection is to be ended, or None.

        >>> limits = ConnectionLimits(total=10)
        >>> ClientConnection("192.0.2.1", 0.0).find_fault(limits, 9.0)
        >>> ClientConnection("192.0.2.1", 0.0).find_fault(limits, 11.0)
        'no_request'
        >>> ClientConnection("192.0.2.1", None, body_since=0.0, received=50_000).find_fault(limits, 100.0)
        >>> ClientConnection("192.0.2.1", None, body_since=0.0, received=50_000).find_fault(limits, 121.0)
        'slow_body'
        """
        if self.closing_since is not None and now - self.closing_since > limits.closing_seconds:
            return NOT_CLOSED
        if self.stalled_since is not None and now - self.stalled_since > limits.stalled_seconds:
            return STALLED
        if self.waiting_since is not None and now - self.waiting_since > limits.head_seconds:
            return SLOW_HEAD if self.head_begun else NOT_BEGUN
        if self.body_since is None:
            return None
        end = self.body_since + limits.body_seconds + self.received / limits.body_rate
        return SLOW_BODY if now > end else None


class ConnectionTable:
    """The open connections of a server. `is_exempt` tells which addresses have no limit of their own: proxies.

    `closed` counts, by reason, connections that were ended or refused.
    """

    def __init__(self, limits: ConnectionLimits, is_exempt: Callable[[str], bool] = lambda address: False) -> None:
        self.limits = limits
        self.closed: Counter[str] = Counter()
        self._is_exempt = is_exempt
        self._open: dict[ClientConnection, None] = {}
        self._per_address: Counter[str] = Counter()
        self._waiting: OrderedDict[ClientConnection, None] = OrderedDict()  # the longest waiting first
        self._waiting_at: dict[str, OrderedDict[ClientConnection, None]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def list_connections(self) -> list[ClientConnection]:
        """Return all open connections."""
        return list(self._open)

    def admit(self, address: str, now: float) -> tuple[ClientConnection | None, ClientConnection | None]:
        """Return the connection of a newcomer, and one that it replaces, which the caller closes.

        If nothing can be replaced, the newcomer is `over_limit`, or None when too many are.
        """
        client = group_address(address)
        replaced: ClientConnection | None = None
        over = False
        if not self._is_exempt(address) and self._per_address[client] >= self.limits.per_address:
            replaced = next(iter(self._waiting_at.get(client, ())), None)
            over = replaced is None
        if replaced is None and len(self._open) >= self.limits.total:
            replaced = next(iter(self._waiting), None)
            over = over or replaced is None
        if over and self._count_above(client) >= self.limits.overflow:
            self.closed[REFUSED] += 1
            return None, None
        if replaced is not None:
            self.closed[REPLACED] += 1
            self.remove(replaced)
        if over:
            self.closed[REFUSED] += 1
        made = ClientConnection(client, None, over_limit=over)
        self._open[made] = None
        self._per_address[client] += 1
        self.mark_waiting(made, now)
        return made, replaced

    def _count_above(self, client: str) -> int:
        """Count the connections above a limit: of the address, or in total."""
        return max(len(self._open) - self.limits.total, self._per_address[client] - self.limits.per_address, 0)

    def mark_waiting(self, one: ClientConnection, now: float) -> None:
        """Note that the next thing is the client's to do: send a request."""
        one.waiting_since, one.head_begun = now, False
        if one in self._open:
            self._waiting[one] = None
            self._waiting.move_to_end(one)
            self._waiting_at.setdefault(one.address, OrderedDict())[one] = None
            self._waiting_at[one.address].move_to_end(one)

    def mark_busy(self, one: ClientConnection) -> None:
        """Note that a request has arrived, which is not interrupted for a newcomer."""
        one.waiting_since = None
        self._forget_waiting(one)

    def remove(self, one: ClientConnection) -> None:
        """Forget a connection that has ended."""
        if one not in self._open:
            return
        del self._open[one]
        self._forget_waiting(one)
        self._per_address[one.address] -= 1
        if not self._per_address[one.address]:
            del self._per_address[one.address]

    def _forget_waiting(self, one: ClientConnection) -> None:
        self._waiting.pop(one, None)
        same = self._waiting_at.get(one.address)
        if same is not None:
            same.pop(one, None)
            if not same:
                del self._waiting_at[one.address]


def group_address(address: str) -> str:
    """Return the address that counts as one client: a network of 64 bits in IPv6, where everybody has one.

    >>> group_address("192.0.2.7"), group_address("2001:db8:1:2:3:4:5:6"), group_address("::ffff:192.0.2.7")
    ('192.0.2.7', '2001:db8:1:2::/64', '192.0.2.7')
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if found.version == 4:
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))
