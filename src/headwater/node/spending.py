"""What the crawler may spend: the budget in requests and bytes, the pace of each host, and what has been spent.

Weights are not known before a fetch, so each reserves what a fetch has weighed lately; when it ends, what it really
weighed replaces that. A redirected fetch took a second request, which is owed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.estimate.base import Floats, Rows
from headwater.model import Outcome
from headwater.schedule.budget import Cap, Purse
from headwater.schedule.pace import Pace

FIRST_WEIGHT = 20_000.0  # bytes that a fetch is expected to weigh before anything was fetched
LEARN = 0.05  # the weight of the latest fetch in that expectation


@dataclass(frozen=True, slots=True)
class Spent:
    """The last minute: requests and bytes beside their caps (None: no cap)."""

    requests: int
    requests_allowed: float
    bytes: float
    bytes_allowed: float | None


class Spending:
    def __init__(self, cap: Cap, pace: Pace | None = None) -> None:
        self._purse = Purse(cap)
        self._pace = pace if pace is not None else Pace()
        self._typical = FIRST_WEIGHT
        self._back = 0.0  # how far the clock was set back: the purse's own time only ever moves forward

    @property
    def rate(self) -> float:
        """Refreshes per second in the long run."""
        return self._purse.rate

    @property
    def cap(self) -> Cap:
        return self._purse.cap

    def limit(self, requests: float) -> None:
        """From now on spend so many requests a minute."""
        self._purse.limit(Cap(requests, self.cap.bytes))

    def available(self, now: float) -> int:
        return self._purse.available(now + self._back, self._typical)

    def room(self, room: Rows, now: float) -> Rows:
        return self._pace.room(room, now)

    def ready(self, host: int, now: float) -> bool:
        return self._pace.ready(host, now)

    @property
    def paced(self) -> bool:
        """Whether hosts have a pace of their own."""
        return self._pace.limited

    def asked(self, hosts: Rows, at: Floats, now: float) -> None:
        """Hosts were asked at these moments, by another process or later than they were chosen."""
        self._pace.asked(hosts, np.minimum(at, now))

    def begin(self, now: float, host: int) -> float:
        """A fetch starts; give what this returns back to `end`."""
        self._pace.spend(host, now)
        self._purse.begin(now + self._back, self._typical)
        return self._typical

    def end(self, now: float, reserved: float, outcome: Outcome | None) -> None:
        """A fetch is over; None: it was given up, and nobody knows what it weighed."""
        if outcome is None:
            self._purse.end(now + self._back, reserved, reserved)
            return
        self.ended(now, reserved, outcome.bytes, outcome.final_url != outcome.url)

    def ended(self, now: float, reserved: float, weight: int, redirected: bool) -> None:
        """A fetch is over that weighed so many bytes."""
        self._purse.end(now + self._back, reserved, float(weight), 2 if redirected else 1)
        self._typical += LEARN * (weight - self._typical)

    def spent(self, now: float) -> Spent:
        requests, weight = self._purse.used(now + self._back)
        return Spent(requests, self.cap.requests, weight, self.cap.bytes)

    def shift(self, back: float) -> None:
        """The clock was set back by so many seconds: what was spent stays spent, and the budget does not freeze."""
        self._back += back
        self._pace.shift(back)
