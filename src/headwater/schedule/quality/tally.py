"""Counts caught, lost and delayed items by the hour.

The tally covers a day and the current hour, with a histogram of delays, so its size does not depend on the number of
feeds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Floats
from headwater.schedule.quality.promise_record import PromiseCounts
from headwater.schedule.quality.tally_period import DelaySummary, TallyPeriod
from headwater.times import DAY, HOUR

HOURS_KEPT = 25  # a day and the current hour
DELAY_EDGES = np.geomspace(1.0, 31 * DAY, 80)  # the bins make delays accurate to a fifth
MEDIAN_ITEMS, P95_ITEMS = 5, 20  # a quantile of fewer says nothing
_SUMS = ("requests", "bytes", "got", "lost", "dated", "waited", "missing")


class Tally:
    """Counts the last hours. The items of a feed's first refresh are history and do not count as caught.

    >>> tally = Tally()
    >>> tally.record(7200.0, weight=500, got=6, lost=2.0, delays=np.array([60.0, 60.0, 60.0, 60.0, 60.0, 600.0]))
    >>> hour = tally.summarise(7300.0, 1)
    >>> hour.completeness, hour.delay.mean, 50 < hour.delay.median < 70, hour.delay.p95
    (0.75, 150.0, True, None)
    """

    def __init__(self) -> None:
        self._hour = np.full(HOURS_KEPT, -1, np.int64)
        self._sums = np.zeros((HOURS_KEPT, len(_SUMS)))
        self._delays = np.zeros((HOURS_KEPT, len(DELAY_EDGES) + 1))

    def record(
        self,
        at: float,
        *,
        weight: float,
        got: int,
        lost: float,
        delays: Floats,
        requests: int = 1,
        missing: float = 0.0,
    ) -> None:
        """Count one refresh, or several of the same hour together.

        `missing` are the seconds during which items were shown and not fetched, as shares of their windows.
        """
        hour = int(at // HOUR)
        place = hour % HOURS_KEPT
        if self._hour[place] > hour:
            return  # older than the tally reaches
        if self._hour[place] < hour:
            self._hour[place], self._sums[place], self._delays[place] = hour, 0.0, 0.0
        self._sums[place] += (requests, weight, got, lost, len(delays), delays.sum(), missing)
        if len(delays):
            np.add.at(self._delays[place], np.searchsorted(DELAY_EDGES, delays), 1)

    def summarise(self, now: float, hours: int) -> TallyPeriod:
        """Sum up the current hour and the `hours` before it."""
        this = int(now // HOUR)
        mine = (self._hour > this - hours - 1) & (self._hour <= this)
        requests, weight, got, lost, dated, waited, _ = self._sums[mine].sum(0).tolist()
        counts = self._delays[mine].sum(0)
        delay = summarise_delays(int(dated), waited, counts)
        share = got / (got + lost) if got + lost > 0 else None
        return TallyPeriod(int(requests), int(weight), int(got), float(lost), share, delay)

    def count_hour(self, hour: int, feeds: int) -> PromiseCounts:
        """Return the counts of one hour (since 1970), in which so many feeds were watched."""
        place = hour % HOURS_KEPT
        if self._hour[place] != hour:
            return PromiseCounts()
        _, _, got, lost, dated, waited, missing = self._sums[place].tolist()
        return PromiseCounts(int(got), lost, int(dated), 0, waited, missing, feeds * HOUR)

    def save(self) -> dict[str, NDArray[Any]]:
        return {"hour": self._hour, "sums": self._sums, "delays": self._delays}

    def load(self, state: Mapping[str, NDArray[Any]]) -> bool:
        """Take over saved counts. Returns False and changes nothing if their shape differs."""
        if any(key not in state or state[key].shape != mine.shape for key, mine in self.save().items()):
            return False
        self._hour, self._sums, self._delays = (np.array(state[key]) for key in ("hour", "sums", "delays"))
        return True


def summarise_delays(items: int, waited: float, counts: Floats) -> DelaySummary | None:
    """Sum up delays counted by DELAY_EDGES; None without any.

    >>> counts = np.zeros(len(DELAY_EDGES) + 1)
    >>> counts[20] = 6
    >>> six = summarise_delays(6, 600.0, counts)
    >>> six.mean, six.median is None, six.p95 is None
    (100.0, False, True)
    """
    if not items:
        return None
    return DelaySummary(
        items,
        waited / items,
        _delay_quantile(counts, 0.5) if items >= MEDIAN_ITEMS else None,
        _delay_quantile(counts, 0.95) if items >= P95_ITEMS else None,
    )


def _delay_quantile(counts: Floats, share: float) -> float:
    """Return the delay that this share of the items does not exceed, interpolated within its bin."""
    upto = np.cumsum(counts)
    place = int(np.searchsorted(upto, share * upto[-1]))
    low = 0.0 if place == 0 else float(DELAY_EDGES[place - 1])
    high = float(DELAY_EDGES[min(place, len(DELAY_EDGES) - 1)])
    before = float(upto[place - 1]) if place else 0.0
    return low + (high - low) * float((share * upto[-1] - before) / max(counts[place], 1e-12))
