"""Limits requests per minute to one host.

Requests to a host are at least 60/limit seconds apart, so no sixty seconds contain more than the limit and the host
sees them evenly spread. Without a limit nothing is stored.
"""

from __future__ import annotations

import math

import numpy as np

from headwater.arrays import Floats, Rows
from headwater.errors import SettingsError
from headwater.times import MINUTE


class HostRate:
    """Allows `per_minute` requests to each host; None is no limit.

    >>> rate = HostRate(6)
    >>> rate.spend(1, 0.0)
    >>> rate.limit_room(np.array([4, 4, 4]), 9.0).tolist(), rate.limit_room(np.array([4, 4, 4]), 10.0).tolist()
    ([1, 0, 1], [1, 1, 1])
    >>> rate.note_requests(np.array([2]), np.array([5.0]))
    >>> rate.limit_room(np.array([4, 4, 4]), 10.0).tolist()
    [1, 1, 0]
    """

    def __init__(self, per_minute: float | None = None) -> None:
        if per_minute is not None and not (per_minute > 0 and math.isfinite(per_minute)):
            raise SettingsError(
                f"The host budget is {per_minute:g} requests per minute, which allows none: give more than 0."
            )
        self.per_minute = per_minute
        self._gap = None if per_minute is None else MINUTE / per_minute
        self._free_at: Floats = np.empty(0)  # when each host may next be asked

    def spend(self, host: int, now: float) -> None:
        if self._gap is None:
            return
        self._grow(host + 1)
        self._free_at[host] = max(self._free_at[host], now) + self._gap

    @property
    def is_limited(self) -> bool:
        return self._gap is not None

    def note_requests(self, hosts: Rows, at: Floats) -> None:
        """Record requests made by any process: the hosts are left alone as if this one had made them."""
        if self._gap is None or not len(hosts):
            return
        self._grow(int(hosts.max()) + 1)
        np.maximum.at(self._free_at, hosts, at + self._gap)

    def may_request(self, host: int, now: float) -> bool:
        return self._gap is None or host >= len(self._free_at) or bool(self._free_at[host] <= now)

    def limit_room(self, room: Rows, now: float) -> Rows:
        """Return the room of each host: at most one where a limit applies, none before its time."""
        if self._gap is None:
            return room
        self._grow(len(room))
        return np.minimum(room, (self._free_at[: len(room)] <= now).astype(room.dtype))

    def shift_clock(self, back: float) -> None:
        """Adjust to a clock that was set back by `back` seconds."""
        self._free_at -= back

    def _grow(self, hosts: int) -> None:
        if hosts > len(self._free_at):
            more = np.full(max(hosts, 2 * len(self._free_at), 64) - len(self._free_at), -np.inf)
            self._free_at = np.concatenate([self._free_at, more])
