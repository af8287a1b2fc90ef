"""Takes the best feeds within the budget and the room of each host."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from headwater.arrays import Floats, Rows

_SEARCH_FACTOR = 4  # feeds with room are searched first among this many times the number wanted


@dataclass(frozen=True, slots=True)
class Budget:
    """`now`: how many refreshes may start at this call; `rate`: how many per second in the long run (0: unlimited).

    `host` gives each row's host, `room` how many refreshes each host may still get at this call; both or neither.
    `pace` is how many requests per minute each host bears in the long run (inf: any number).
    """

    now: int
    rate: float = 0.0
    host: Rows | None = None
    room: Rows | None = None
    pace: Floats | None = None

    def after(self, rows: Rows) -> Budget:
        """Return the budget that is left once these rows are taken: fewer refreshes, less room at their hosts.

        >>> Budget(3, host=np.array([0, 0, 1]), room=np.array([2, 2])).after(np.array([0])).room.tolist()
        [1, 2]
        """
        room = self.room
        if self.host is not None and room is not None:
            room = room - np.bincount(self.host[rows], minlength=len(room))
        return replace(self, now=self.now - len(rows), room=room)


@dataclass(frozen=True, slots=True)
class Choice:
    """The rows to refresh, best first, each with its value to the strategy; `Strategy.why` explains one of them."""

    rows: Rows
    value: Floats

    def __add__(self, other: Choice) -> Choice:
        """Append the rows of another choice."""
        return Choice(np.concatenate([self.rows, other.rows]), np.concatenate([self.value, other.value]))


def take_best(rows: Rows, value: Floats, budget: Budget, rng: np.random.Generator | None = None) -> Choice:
    """Return the `budget.now` rows of greatest value, best first, within the room of each host.

    Ties go to the lower row, or to chance if `rng` is given.

    >>> take_best(np.array([4, 5, 6]), np.array([.1, .9, .5]), Budget(2)).rows.tolist()
    [5, 6]
    >>> one_each = Budget(2, host=np.zeros(7, np.intp), room=np.array([1]))
    >>> take_best(np.array([4, 5, 6]), np.array([.1, .9, .5]), one_each).rows.tolist()
    [5]
    """
    most = max(budget.now, 0)
    if rng is not None:
        shuffled = rng.permutation(len(rows))
        rows, value = rows[shuffled], value[shuffled]
    if budget.host is not None and budget.room is not None:
        order = _find_greatest_with_room(value, budget.host[rows], budget.room, most)
    else:
        order = _find_greatest(value, most)
    return Choice(rows[order], value[order])


def take_first(rows: Rows, budget: Budget) -> Rows:
    """Return the first `budget.now` rows within the room of each host; as `take_best` of equal values, without sorting.

    >>> take_first(np.array([4, 5, 6]), Budget(2, host=np.array([0, 0, 0, 0, 0, 0, 1]), room=np.array([1, 1]))).tolist()
    [4, 6]
    """
    most = max(budget.now, 0)
    if budget.host is None or budget.room is None or not most:
        return rows[:most]
    few = max(_SEARCH_FACTOR * most, 256)
    while True:
        host = budget.host[rows[:few]]
        taken = rows[:few][_rank_within_host(host) < budget.room[host]][:most]
        if len(taken) == most or few >= len(rows):
            return taken
        few *= _SEARCH_FACTOR


def _find_greatest_with_room(value: Floats, host: Rows, room: Rows, most: int) -> Rows:
    """Return the positions of the `most` greatest values whose hosts have room, best first.

    Looks among the best few, and among more only if hosts have run out of room: sorting all due feeds to take a few
    dozen would cost more than refreshing those.
    """
    few = max(_SEARCH_FACTOR * most, 256)
    while True:
        order = _find_greatest(value, few)
        order = order[_rank_within_host(host[order]) < room[host[order]]][:most]
        if len(order) == most or few >= len(value):
            return order
        few *= _SEARCH_FACTOR


def _find_greatest(value: Floats, few: int) -> Rows:
    """Return the positions of the `few` greatest values, best first and ties in order of position.

    Selection is linear, sorting is not, so only the greatest are sorted. All values equal to the smallest of them take
    part, because `argpartition` alone would keep an arbitrary one of the equals.
    """
    low = -value
    if not few:
        return np.empty(0, np.intp)
    if few >= len(value):
        return np.argsort(low, kind="stable")
    some = np.flatnonzero(low <= np.partition(low, few - 1)[few - 1])
    return some[np.argsort(low[some], kind="stable")][:few]


def _rank_within_host(host: Rows) -> Rows:
    """Count for each position the earlier positions with the same host."""
    order = np.argsort(host, kind="stable")
    ordered = host[order]
    first = np.searchsorted(ordered, ordered, side="left")
    place = np.empty(len(host), np.intp)
    place[order] = np.arange(len(host)) - first
    return place
