"""Limits a group of feeds, those of readers, to a share of the requests in any minute."""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from headwater.arrays import Bools, Rows

SPAN_SECONDS = 60.0


class GroupShare:
    """Counts the refreshes of a group over the last minute. A share of 1 limits nothing.

    >>> share = GroupShare(0.25)
    >>> share.count_room(0.0, 20)
    5
    >>> share.spend(0.0, 4)
    >>> share.count_room(59.0, 20), share.count_room(60.0, 20)
    (1, 5)
    """

    def __init__(self, share: float = 1.0) -> None:
        self.share = share
        self._spent: deque[tuple[float, int]] = deque()

    @property
    def limits(self) -> bool:
        return self.share < 1.0

    def count_room(self, now: float, cap: float) -> int:
        """Return how many refreshes of the group may start at `now`, with `cap` requests a minute for all.

        A share of less than one request a minute allows one.
        """
        while self._spent and not now - SPAN_SECONDS < self._spent[0][0] <= now:  # over, or the clock was set back
            self._spent.popleft()
        most = max(math.floor(self.share * cap), 1)
        return max(most - sum(number for _, number in self._spent), 0)

    def spend(self, now: float, number: int) -> None:
        if number:
            self._spent.append((now, number))

    def find_refill(self, now: float, cap: float) -> float:
        """Return when the next refresh of the group may start: `now` if one may."""
        return now if self.count_room(now, cap) else self._spent[0][0] + SPAN_SECONDS


def limit_group(rows: Rows, is_in_group: Bools, room: int) -> Rows:
    """Return the rows in their order, with at most the first `room` of the group.

    >>> limit_group(np.array([3, 0, 1, 2]), np.array([True, True, False, True]), 1).tolist()
    [3, 2]
    """
    in_group = is_in_group[rows]
    return rows[~in_group | (np.cumsum(in_group) <= room)]
