"""Draws synthetic worlds as traces: feeds with rates, hours, bursts, changes and words drawn from a seed.

One value describes a world and one function draws it, so that experiments differ only in their descriptions. Everything
is drawn feed by feed from a generator that the caller seeds; the result is the same in any process.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Floats
from headwater.errors import TraceError
from headwater.lab.traces import daily_shapes
from headwater.lab.traces.trace import Trace
from headwater.times import DAY

MONDAY = 1_609_718_400.0  # 2021-01-04 00:00 UTC: worlds begin on a Monday
ShapeFamily = Literal["uniform", "peaks", "waves", "six", "mixed"]

# After Sia & Cho's figure 12: peaks at different hours of the day, and two patterns with a burst of two hours.
SIX_SHAPES: tuple[Floats, ...] = (
    daily_shapes.wave_shape(top=8.0, depth=0.9),
    daily_shapes.wave_shape(top=12.0, depth=0.9),
    daily_shapes.wave_shape(top=16.0, depth=0.9),
    daily_shapes.wave_shape(top=20.0, depth=0.9),
    daily_shapes.peak_shape(at=(11.0,), width=2.0),
    daily_shapes.peak_shape(at=(0.0,), width=2.0),
)


@dataclass(frozen=True, slots=True)
class WorldSettings:
    """The description of a world. Rates are items per feed and day.

    With `exponent`, rates follow p(x) ~ x^−exponent on [low, high], else they are uniform there. `share` of the
    postings follow the daily shape; `weekend` is the rate on Saturdays and Sundays relative to other days. An event
    brings `burst` items on average within `burst_minutes`. At each of `changes` (shares of the time), the share
    `changing` of the feeds get new rates and shapes. Items carry `words` of a dictionary as titles. Window sizes are
    drawn from `windows` (default: the replay's); the share `undated` of the feeds gives no dates. `past` is the number
    of older items of each feed, because a document shows its last items however old they are.
    """

    feeds: int = 200
    days: float = 28.0
    low: float = 1.0
    high: float = 20.0
    exponent: float | None = None
    shape: ShapeFamily = "uniform"
    share: float = 1.0
    weekend: float = 1.0
    burst: float = 1.0
    burst_minutes: float = 30.0
    changes: tuple[float, ...] = ()
    changing: float = 1.0
    words: int = 0
    windows: tuple[int, ...] = ()
    undated: float = 0.0
    past: int = 0

    def __post_init__(self) -> None:
        if self.feeds < 1 or not self.days > 0:
            raise TraceError(f"A world of {self.feeds} feeds and {self.days:g} days is empty; give more of both.")
        if not 0 <= self.low <= self.high:
            raise TraceError(f"Rates from {self.low:g} to {self.high:g} are not a range; give 0 ≤ low ≤ high.")
        if self.exponent is not None and not self.low > 0:
            raise TraceError("A power law cannot begin at 0; give a lowest rate above it.")
        if self.burst < 1:
            raise TraceError(f"A burst has {self.burst:g} items; it must have at least 1.")
        if any(not 0 < when < 1 for when in self.changes) or list(self.changes) != sorted(self.changes):
            raise TraceError("Changes are shares of the time between 0 and 1, in order.")
        if self.windows and min(self.windows) < 1:
            raise TraceError("Windows must show at least one item.")


@dataclass(frozen=True, slots=True)
class SyntheticWorld:
    """A drawn world: its trace and the truth behind it. `rates` and `shapes` are those before the first change."""

    settings: WorldSettings
    trace: Trace
    rates: Floats
    daily_shapes: Floats
    kinds: NDArray[np.int64]  # index of each feed's shape in its family


def list_shapes(shape: ShapeFamily) -> tuple[Floats, ...]:
    """Return the shapes among which the feeds of a world choose."""
    if shape == "six":
        return SIX_SHAPES
    if shape == "mixed":
        return (*list_shapes("peaks"), *list_shapes("waves"), *list_shapes("uniform"))
    if shape == "peaks":
        # Six short bursts a day at equal distances, as the thesis' robots publish (fig. 6.5a), at different minutes.
        return tuple(
            daily_shapes.peak_shape(at=tuple(first + 4.0 * k for k in range(6)), width=0.5)
            for first in (0.5, 1.75, 3.0)
        )
    if shape == "waves":
        return tuple(daily_shapes.wave_shape(top=top) for top in (10.0, 14.0, 18.0))
    return (daily_shapes.uniform_shape(),)


def draw_world(settings: WorldSettings, rng: np.random.Generator) -> SyntheticWorld:
    """Draw a world of this description."""
    choices = np.array([daily_shapes.blend_shape(each, settings.share) for each in list_shapes(settings.shape)])
    edges = [0.0, *settings.changes, 1.0]
    parts: list[list[Floats]] = [[] for _ in range(settings.feeds)]
    truth: list[tuple[Floats, NDArray[np.int64]]] = []
    for begin, end in pairwise(edges):
        rates = _draw_rates(settings, rng)
        kinds = rng.integers(len(choices), size=settings.feeds)
        if truth and settings.changing < 1.0:
            stays = rng.random(settings.feeds) >= settings.changing
            rates, kinds = np.where(stays, truth[-1][0], rates), np.where(stays, truth[-1][1], kinds)
        truth.append((rates, kinds))
        span = (MONDAY + begin * settings.days * DAY, MONDAY + end * settings.days * DAY)
        for feed in range(settings.feeds):
            parts[feed].append(_draw_times(settings, rng, rates[feed], choices[kinds[feed]], *span))
    if settings.past:
        for feed, (rate, kind) in enumerate(zip(*truth[0], strict=True)):
            parts[feed].insert(0, _draw_past(settings, rng, rate, choices[kind]))
    times = [np.concatenate(part) for part in parts]
    first_rates, first_kinds = truth[0]
    windows = np.asarray(rng.choice(settings.windows, settings.feeds), dtype=np.int64) if settings.windows else None
    dated = rng.random(settings.feeds) >= settings.undated if settings.undated else None
    trace = join_times(times, titles=_draw_titles(settings, rng, [len(each) for each in times]))
    trace = dataclasses.replace(trace, windows=windows, dated=dated)
    return SyntheticWorld(settings, trace, first_rates, choices[first_kinds], first_kinds)


def join_times(times: Sequence[Floats], titles: tuple[str, ...] | None = None) -> Trace:
    """Make a trace of the sorted times of every feed."""
    offsets = np.concatenate([[0], np.cumsum([len(each) for each in times])]).astype(np.intp)
    names = tuple(f"feed-{k:05d}" for k in range(len(times)))
    return Trace(names, offsets, np.concatenate(times) if times else np.zeros(0), titles)


def _draw_rates(settings: WorldSettings, rng: np.random.Generator) -> Floats:
    if settings.exponent is not None:
        return daily_shapes.draw_power_law(rng, settings.feeds, settings.low, settings.high, settings.exponent)
    return rng.uniform(settings.low, settings.high, settings.feeds)


def _draw_times(
    settings: WorldSettings, rng: np.random.Generator, rate: float, shape: Floats, start: float, end: float
) -> Floats:
    """Draw the times of one feed: events of a Poisson process, thinned at weekends, each a burst of items."""
    events_per_second = rate / settings.burst / DAY
    if settings.weekend == 1.0:
        events = daily_shapes.draw_poisson_times(rng, events_per_second, shape, start, end)
    else:
        weekday = 7.0 / (5.0 + 2.0 * settings.weekend)  # keeps the mean: 5·a + 2·a·weekend = 7
        saturday = settings.weekend * weekday
        top = max(weekday, saturday)
        events = daily_shapes.draw_poisson_times(rng, events_per_second * top, shape, start, end)
        day = ((events - MONDAY) // DAY).astype(int) % 7
        events = events[rng.random(len(events)) < np.where(day >= 5, saturday, weekday) / top]
    if settings.burst > 1.0:
        sizes = rng.geometric(1.0 / settings.burst, len(events))
        late = rng.uniform(0.0, settings.burst_minutes * 60.0, int(sizes.sum()))
        first = np.cumsum(sizes) - sizes
        late[first] = 0.0  # the first item of a burst is the event itself
        events = np.sort(np.repeat(events, sizes) + late)
        events = events[events < end]
    return events


def _draw_past(settings: WorldSettings, rng: np.random.Generator, rate: float, shape: Floats) -> Floats:
    """Draw the last items before the world begins; fewer if even twice their mean time brings fewer."""
    long_ago = MONDAY - np.ceil(2 * (settings.past + settings.burst) / rate) * DAY
    return _draw_times(settings, rng, rate, shape, long_ago, MONDAY)[-settings.past :]


def _draw_titles(settings: WorldSettings, rng: np.random.Generator, counts: list[int]) -> tuple[str, ...] | None:
    """Draw titles of one or two words of the feed's profile; each word is in a profile with probability ½."""
    if not settings.words:
        return None
    titles: list[str] = []
    for count in counts:
        profile = np.flatnonzero(rng.random(settings.words) < 0.5)
        profile = profile if len(profile) else np.array([int(rng.integers(settings.words))])
        carried = max(1, round(0.2 * len(profile)))
        picks = np.argsort(rng.random((count, len(profile))), axis=1)[:, :carried]
        titles += [" ".join(f"word{profile[k]}" for k in pick) for pick in picks]
    return tuple(titles)
