"""What the crawler may spend: the budget in requests and bytes, the pace of each host, and what has been spent.

Weights are not known before a fetch, so each reserves what a fetch has weighed lately; when it ends, what it really
weighed replaces that. A redirected fetch took a second request, which is owed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.arrays import Floats, Rows
from headwater.model import Outcome
from headwater.schedule.budget import RequestBudget, RequestCap
from headwater.schedule.politeness.host_rate import HostRate

FIRST_BYTES = 20_000.0  # bytes that a fetch is expected to weigh before anything was fetched
LEARNING_RATE = 0.05  # the weight of the latest fetch in that expectation


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """The last minute: requests and bytes beside their caps (None: no cap)."""

    requests: int
    requests_allowed: float
    bytes: float
    bytes_allowed: float | None


class BudgetAccount:
    def __init__(self, cap: RequestCap, pace: HostRate | None = None) -> None:
        self._purse = RequestBudget(cap)
        self._pace = pace if pace is not None else HostRate()
        self._typical_bytes = FIRST_BYTES
        self._clock_setback = 0.0  # how far the clock was set back: the purse's own time only ever moves forward

    @property
    def rate(self) -> float:
        """Refreshes per second in the long run."""
        return self._purse.rate

    @property
    def cap(self) -> RequestCap:
        return self._purse.cap

    def set_limit(self, requests: float) -> None:
        """From now on spend so many requests a minute."""
        self._purse.set_cap(RequestCap(requests, self.cap.bytes))

    def count_available(self, now: float) -> int:
        return self._purse.available(now + self._clock_setback, self._typical_bytes)

    def find_refill(self, now: float) -> float:
        """Return the next moment at which a fetch may start: `now` if one may."""
        return self._purse.next_refill(now + self._clock_setback) - self._clock_setback

    def limit_host_room(self, room: Rows, now: float) -> Rows:
        return self._pace.limit_room(room, now)

    def is_host_ready(self, host: int, now: float) -> bool:
        return self._pace.may_request(host, now)

    @property
    def has_host_pace(self) -> bool:
        """Whether hosts have a pace of their own."""
        return self._pace.is_limited

    def note_requests(self, hosts: Rows, at: Floats, now: float) -> None:
        """Hosts were asked at these moments, by another process or later than they were chosen."""
        self._pace.note_requests(hosts, np.minimum(at, now))

    def reserve(self, now: float, host: int) -> float:
        """A fetch starts; give what this returns back to `end`."""
        self._pace.spend(host, now)
        self._purse.begin_refresh(now + self._clock_setback, self._typical_bytes)
        return self._typical_bytes

    def charge_outcome(self, now: float, reserved: float, outcome: Outcome | None) -> None:
        """A fetch is over; None: it was given up, and nobody knows what it weighed."""
        if outcome is None:
            self._purse.end_refresh(now + self._clock_setback, reserved, reserved)
            return
        self.charge(now, reserved, outcome.bytes, outcome.final_url != outcome.url)

    def charge(self, now: float, reserved: float, weight: int, redirected: bool) -> None:
        """A fetch is over that weighed so many bytes."""
        self._purse.end_refresh(now + self._clock_setback, reserved, float(weight), 2 if redirected else 1)
        self._typical_bytes += LEARNING_RATE * (weight - self._typical_bytes)

    def measure_use(self, now: float) -> BudgetUse:
        requests, weight = self._purse.recent_usage(now + self._clock_setback)
        return BudgetUse(requests, self.cap.requests, weight, self.cap.bytes)

    def shift_clock(self, back: float) -> None:
        """The clock was set back by so many seconds: what was spent stays spent, and the budget does not freeze."""
        self._clock_setback += back
        self._pace.shift_clock(back)
