"""Converts between wall time and farm time, which may run faster.

`speed` compresses the publication pattern, not the dates: at speed 1000 a farm day takes 86 seconds, and each item is
dated with the wall time at which it appeared. A reader therefore measures true delays. At speed 1 the hours of a farm
day are the hours of UTC.
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.farm.timeline import BLOCK
from headwater.times import DAY


class FarmClock:
    """Maps wall-clock seconds to farm time and back. The farm starts after one block of farm time."""

    def __init__(self, wall: Callable[[], float], speed: float, started: float | None = None) -> None:
        self._wall = wall
        self._ahead = 0.0
        self.speed = speed
        self.started = wall() if started is None else started
        self.origin = BLOCK + self.started % DAY  # farm time at the start

    def wall_time(self) -> float:
        return self._wall() + self._ahead

    def farm_time(self) -> float:
        return self.to_farm_time(self.wall_time())

    def advance(self, seconds: float) -> None:
        """Move the wall clock forward by `seconds`."""
        self._ahead += seconds

    def to_farm_time(self, wall: float) -> float:
        return self.origin + (wall - self.started) * self.speed

    def to_wall_time(self, farm: float) -> float:
        """Return the wall time of a farm time: the date of an item published then."""
        return self.started + (farm - self.origin) / self.speed
