"""Learns how many requests per minute a host bears.

A host starts with a modest pace: a request in ten seconds, or one an hour for each of its feeds. Quick answers raise
it, slow ones lower it, and after a refusal the gap of `host_backoff` limits it. Hosts of our own network have no limit.
The plan keeps the pace on average; the gap after a refusal holds between any two requests.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headwater.arrays import Bools, Floats, Rows
from headwater.times import HOUR, MINUTE

FIRST_PACE = 6.0  # requests per minute
TRUSTING_ANSWERS = 60.0  # quick answers that double the pace
SLOW_ANSWER = 5.0  # seconds


class HostPace:
    """The answers of hosts since the start, one row per host.

    >>> pace = HostPace()
    >>> pace.note_answers(np.zeros(60, np.intp), np.full(60, 0.2))
    >>> pace.limit(np.array([3, 3, 3600]), np.array([False, False, True]), {1: 30.0}).tolist()
    [12.0, 2.0, inf]
    """

    def __init__(self) -> None:
        self._quick: Floats = np.empty(0)

    def note_answers(self, hosts: Rows, seconds: Floats) -> None:
        """Note how long the hosts took to answer, one position per answer."""
        if not len(hosts):
            return
        self._grow(int(hosts.max()) + 1)
        slow = seconds > SLOW_ANSWER
        np.add.at(self._quick, hosts[~slow], 1.0)
        self._quick[np.unique(hosts[slow])] *= 0.5

    def limit(self, feeds: Rows, own: Bools, gaps: Mapping[int, float]) -> Floats:
        """Return the requests per minute of each host, given its number of feeds and whether it is of our own network.

        `gaps` has the seconds between two requests of hosts that have refused some.
        """
        self._grow(len(feeds))
        trust = 1 + self._quick[: len(feeds)] / TRUSTING_ANSWERS
        limits = np.where(own, np.inf, np.maximum(FIRST_PACE, feeds * MINUTE / HOUR) * trust)
        for host, gap in gaps.items():
            limits[host] = min(limits[host], MINUTE / gap)
        return limits

    def _grow(self, hosts: int) -> None:
        if hosts > len(self._quick):
            more = max(hosts, 2 * len(self._quick)) - len(self._quick)
            self._quick = np.concatenate([self._quick, np.zeros(more)])
