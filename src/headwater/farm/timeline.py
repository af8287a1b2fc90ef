"""Computes when feeds publish, as a pure function of seed, feed and time, so that results can be verified.

Farm time counts seconds since the farm's epoch, a midnight. A feed's times are drawn in blocks of 90 days by a
generator seeded with (seed, feed, block). Any period of any feed can therefore be computed without running a farm:
`compute_postings(seed, feed, start, end)`. An item's number encodes its block and its index in it.

Farm time may run faster than the wall clock. `speed` compresses the publication pattern, not the dates: at speed 1000 a
farm day takes 86 seconds, and each item is dated with the wall time at which it appeared. A reader therefore measures
true delays. At speed 1 the hours of a farm day are the hours of UTC.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from headwater.arrays import Floats
from headwater.errors import InputError
from headwater.farm.sample_text import KINDS, PLACES, TOPICS, feed_title
from headwater.lab.traces import daily_shapes
from headwater.times import DAY

BLOCK = 90 * DAY
PER_BLOCK = 1_000_000  # item numbers reserved for one block
RATES = (1 / 90, 1000 / 90)  # items a day; 1 to 1000 in 90 days, as in Sia & Cho's collection
FORMATS = ("rss", "atom", "rdf", "json")
HINTS = ("none", "ttl", "max-age", "sy", "skip")
VALIDATORS = ("both", "both", "both", "etag", "last-modified")


class FarmPosting(NamedTuple):
    """Item `number`, published at farm time `at`."""

    number: int
    at: float


@dataclass(frozen=True, slots=True)
class FarmProfile:
    """The constant properties of a feed. `rate` is in items per second of farm time, `hour` shifts the daily shape."""

    feed: int
    title: str
    topic: str
    format: str
    rate: float
    shape: str
    hour: float
    hints: str
    validators: str
    full: bool  # whole articles, or summaries only
    gzip: bool

    def shape_factors(self) -> Floats:
        """Return the daily shape as factors of the rate."""
        match self.shape:
            case "peaks":
                return daily_shapes.peak_shape(at=(self.hour, (self.hour + 9) % 24))
            case "waves":
                return daily_shapes.wave_shape(top=self.hour)
            case _:
                return daily_shapes.uniform_shape()

    def silent_hours(self) -> tuple[int, ...]:
        """Return the hours of the farm day in which the feed never publishes."""
        by_hour = self.shape_factors().reshape(24, -1).sum(axis=1)
        return tuple(int(hour) for hour in np.flatnonzero(by_hour == 0))


def hash_parts(*parts: object) -> bytes:
    """Return 64 pseudo-random bytes that depend on `parts` only."""
    return blake2b("/".join(map(str, parts)).encode()).digest()


def make_profile(seed: int, feed: int, rates: tuple[float, float] = RATES, format: str | None = None) -> FarmProfile:
    """Return the profile of a feed; `format` replaces its format and changes nothing else."""
    check_rates(rates)
    d = hash_parts(seed, feed)
    quantile = int.from_bytes(d[:7], "big") / (1 << 56)
    topic = list(TOPICS)[d[8] % len(TOPICS)]
    return FarmProfile(
        feed=feed,
        title=feed_title(topic, PLACES[d[9] % len(PLACES)], KINDS[d[10] % len(KINDS)]),
        topic=topic,
        format=format or ("rss" if d[11] < 96 else FORMATS[d[11] % len(FORMATS)]),
        rate=float(daily_shapes.power_law_quantile(quantile, *rates)) / DAY,
        shape=("peaks", "uniform", "waves")[d[12] % 3],
        hour=d[13] * 24 / 256,
        hints=HINTS[d[14] % len(HINTS)],
        validators=VALIDATORS[d[15] % len(VALIDATORS)],
        full=d[16] < 96,
        gzip=d[17] < 160,
    )


def check_rates(rates: tuple[float, float]) -> None:
    low, high = rates
    if not 0 < low <= high <= 10_000:
        raise InputError(f"Rates must be above 0 and at most 10000 items a day, lowest first, not {low:g} to {high:g}.")


class FarmTimeline:
    """The publication times of one feed. Blocks are drawn on demand and dropped when they have passed."""

    def __init__(self, seed: int, profile: FarmProfile) -> None:
        self._seed = seed
        self._profile = profile
        self._factors = profile.shape_factors()
        self._blocks: dict[int, array[float]] = {}

    def postings_between(self, start: float, end: float) -> list[FarmPosting]:
        """Return the postings in [start, end), in order."""
        found: list[FarmPosting] = []
        for block in range(max(0, int(start // BLOCK)), max(0, int(end // BLOCK)) + 1):
            times = self._block_times(block)
            first, last = bisect_left(times, start), bisect_left(times, end)
            found += [FarmPosting(block * PER_BLOCK + index, times[index]) for index in range(first, last)]
        return found

    def newest_postings(self, at: float, size: int) -> list[FarmPosting]:
        """Return the newest `size` postings until `at`, newest first."""
        found: list[FarmPosting] = []
        block = int(at // BLOCK)
        while block >= 0 and len(found) < size:
            times = self._block_times(block)
            last = bisect_right(times, at)
            first = max(0, last - (size - len(found)))
            found += [FarmPosting(block * PER_BLOCK + index, times[index]) for index in range(last - 1, first - 1, -1)]
            block -= 1
        for old in [number for number in self._blocks if number <= block]:
            del self._blocks[old]
        return found

    def time_of_next(self, at: float) -> float:
        """Return the time of the first posting after `at`."""
        block = max(0, int(at // BLOCK))
        while True:
            times = self._block_times(block)
            index = bisect_right(times, at)
            if index < len(times):
                return times[index]
            block += 1

    def find_posting(self, number: int) -> FarmPosting | None:
        """Return a past or future posting by its number, or None."""
        block, index = divmod(number, PER_BLOCK)
        times = self._block_times(block) if block >= 0 else array("d")
        return FarmPosting(number, times[index]) if index < len(times) else None

    def _block_times(self, block: int) -> array[float]:
        times = self._blocks.get(block)
        if times is None:
            rng = np.random.default_rng((self._seed, self._profile.feed, block))
            start = block * BLOCK
            drawn = daily_shapes.draw_poisson_times(rng, self._profile.rate, self._factors, start, start + BLOCK)
            times = self._blocks[block] = array("d", drawn.tobytes())  # a quarter of the memory of a list
        return times


def compute_postings(
    seed: int, feed: int, start: float, end: float, rates: tuple[float, float] = RATES
) -> list[FarmPosting]:
    """Return the postings of a feed in the farm time [start, end).

    >>> both = compute_postings(1, 7, 0, 20 * DAY)
    >>> both == compute_postings(1, 7, 0, 8 * DAY) + compute_postings(1, 7, 8 * DAY, 20 * DAY)
    True
    """
    return FarmTimeline(seed, make_profile(seed, feed, rates)).postings_between(start, end)


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
