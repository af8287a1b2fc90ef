"""Measures leases: all time spans of a cluster from one setting, and the database's time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

MAX_FETCH_SECONDS = 30.0  # seconds a fetch may take
IGNORED_SKEW, LOGGED_SKEW = 0.5, 2.0  # seconds of difference between clocks

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """`lease` is that of partitions. A leader is replaced sooner: it talks to no host."""

    lease: float = 60.0

    @property
    def leader_seconds(self) -> float:
        """The time after which a silent leader is replaced."""
        return self.lease / 6

    @property
    def heartbeat_seconds(self) -> float:
        """The time between two heartbeats."""
        return self.lease / 12

    @property
    def fetch_seconds(self) -> float:
        """The longest time of a fetch: it must end before its partition can pass on."""
        return min(MAX_FETCH_SECONDS, self.lease / 2)

    @property
    def begin_seconds(self) -> float:
        """The time within which the request of a job begins, or not at all: another terminal gets the job later."""
        return self.lease

    @property
    def ack_seconds(self) -> float:
        """The time after which an unfinished job goes to another terminal: the lease has ended by then."""
        return self.lease * 1.5

    @property
    def in_flight_seconds(self) -> float:
        """The time after which the leader repeats a job without a result."""
        return self.lease * 3


class DatabaseClock:
    """The database's time, as of its last answer. Refreshes are dated by it: a feed must not seem to post early
    because our clock is wrong."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._offset = 0.0  # seconds to add to our clock

    def now(self) -> float:
        return self._clock() + self._offset

    def correct(self, clock: float, asked: float, answered: float) -> None:
        """Correct the offset: the database's clock showed `clock` between these two moments of ours.

        A difference within that uncertainty is ignored.
        """
        offset = clock - (asked + answered) / 2
        if abs(offset - self._offset) > IGNORED_SKEW + (answered - asked) / 2:
            if abs(offset) > LOGGED_SKEW:
                log.warning("clock_is_wrong", seconds=round(-offset, 1), correction="the database's clock is used")
            self._offset = offset
