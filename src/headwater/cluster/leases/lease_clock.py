"""The clocks and the spans of time of a cluster, all in proportion to one setting: how long a partition is leased."""

from __future__ import annotations

import time
from dataclasses import dataclass

import structlog

MAX_FETCH_SECONDS = 30.0  # seconds a fetch may take
IGNORED_SKEW, LOGGED_SKEW = 0.5, 2.0  # seconds: a difference that is not followed, and one that is worth a sentence

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """`lease` is for partitions; who leads is replaced sooner, because nothing is asked of hosts by leading."""

    lease: float = 60.0

    @property
    def leader_seconds(self) -> float:
        """How long a leader that falls silent is waited for."""
        return self.lease / 6

    @property
    def heartbeat_seconds(self) -> float:
        """Between two signs of life."""
        return self.lease / 12

    @property
    def fetch_seconds(self) -> float:
        """A fetch must end before its partition can pass on, so it begins only with so much of the lease left."""
        return min(MAX_FETCH_SECONDS, self.lease / 2)

    @property
    def ack_seconds(self) -> float:
        """After which a job that was taken is given to another: its taker's lease has passed by then."""
        return self.lease * 1.5

    @property
    def in_flight_seconds(self) -> float:
        """After which the controller wants a job again of which it has heard nothing."""
        return self.lease * 3


class DatabaseClock:
    """The database's time, as its answers tell it. Times of refreshes go by it: a wrong clock of ours must not look
    like a feed that posts early."""

    def __init__(self) -> None:
        self._offset = 0.0  # what our wall clock lacks

    def now(self) -> float:
        return time.time() + self._offset

    def correct(self, clock: float, asked: float, answered: float) -> None:
        """It was `clock` there at some moment between these two of ours: only what is beyond that doubt is followed."""
        offset = clock - (asked + answered) / 2
        if abs(offset - self._offset) > IGNORED_SKEW + (answered - asked) / 2:
            if abs(offset) > LOGGED_SKEW:
                log.warning("clock_is_wrong", seconds=round(-offset, 1), correction="the database's clock is used")
            self._offset = offset
