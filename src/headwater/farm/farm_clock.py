"""The farm's two clocks: the wall clock its readers see, and farm time, which may run faster.

`speed` compresses the pattern, not the dates: at speed 1000 a farm day passes in 86 seconds of the wall clock, and
every date the farm writes is the wall-clock moment at which the item really appeared. So the delay a reader measures
is true.
At speed 1 the hours of the farm's day are the hours of UTC.
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.farm.timeline import BLOCK
from headwater.lab.traces.daily_shapes import DAY


class FarmClock:
    """Maps between wall-clock seconds and farm time; one block of farm time has passed before the farm starts."""

    def __init__(self, wall: Callable[[], float], speed: float, started: float | None = None) -> None:
        self._wall = wall
        self._ahead = 0.0
        self.speed = speed
        self.started = wall() if started is None else started
        self.origin = BLOCK + self.started % DAY  # farm time at the start

    def wall_time(self) -> float:
        return self._wall() + self._ahead

    def farm_time(self) -> float:
        """Farm time."""
        return self.to_farm_time(self.wall_time())

    def advance(self, seconds: float) -> None:
        """Let `seconds` of the wall clock pass at once."""
        self._ahead += seconds

    def to_farm_time(self, wall: float) -> float:
        return self.origin + (wall - self.started) * self.speed

    def to_wall_time(self, farm: float) -> float:
        """The wall-clock moment of a farm time: what the farm writes as the item's date."""
        return self.started + (farm - self.origin) / self.speed
