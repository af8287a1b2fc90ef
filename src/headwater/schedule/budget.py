"""Limits requests and bytes in any minute (token bucket plus sliding window).

The token bucket spreads requests over the minute, but a full bucket and its refill could fall into one minute. The
sliding window therefore remembers everything spent in the last minute; both together never exceed the cap. A running
refresh counts until it ends and enters the window at its end, because the moment at which its request leaves is
unknown. Manual refreshes, first refreshes and each hop of a redirect use the same budget.

A process that takes over, or starts again, inherits the record of the previous one (`BudgetRecord`).
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from headwater.errors import SettingsError
from headwater.times import MINUTE, format_duration

BUCKET_SECONDS = 0.1  # spending within it is remembered as one entry, with the last time


@dataclass(frozen=True, slots=True)
class RequestCap:
    """The limit for any minute: `requests`, and `bytes` if not None."""

    requests: float
    bytes: float | None = None

    def __post_init__(self) -> None:
        for what, amount in (("requests per minute", self.requests), ("bytes", self.bytes)):
            if amount is not None and not (amount > 0 and math.isfinite(amount)):
                raise SettingsError(f"The budget is {amount:g} {what}, which allows no refresh: give a number above 0.")


@dataclass(frozen=True, slots=True)
class BudgetRecord:
    """The spending of a budget, with ages instead of times, so that the clock of the process does not matter.

    `spent` has (age in seconds, requests, bytes), oldest first; `open_requests` had not ended.
    """

    open_requests: int = 0
    spent: tuple[tuple[float, int, float], ...] = ()


def describe_limit(requests: float) -> str:
    """Write how many requests a cap per minute allows, and in which time: below one a minute, one in a longer time.

    >>> describe_limit(60), describe_limit(0.5)
    ('60 in the last minute', '1 in the last 2 min')
    """
    if requests >= 1:
        return f"{requests:g} in the last minute"
    return f"1 in the last {format_duration(MINUTE / requests)}"


class RequestBudget:
    """Spends a `RequestCap`.

    `available` says how many refreshes may start; `begin_refresh` and `end_refresh` record those that do. `spend`
    records both at once, for simulations. `make_record` and `inherit` carry the window to the next process. The bucket
    holds `burst` seconds' worth, at least one request. Below one
    request a minute the same rules apply to a longer span: one request in 60/requests seconds.

    >>> budget = RequestBudget(RequestCap(requests=60), burst=10.0)
    >>> budget.available(0.0)  # ten seconds at one a second
    10
    >>> budget.spend(0.0, 10)
    >>> budget.available(0.5), budget.available(3.0), budget.available(59.9)
    (0, 3, 10)
    """

    def __init__(self, cap: RequestCap, burst: float = 10.0) -> None:
        self._burst = burst
        self._spent: deque[tuple[float, int, float]] = deque()  # when, how many requests, how many bytes
        self._bucket_start = -math.inf  # of the last entry
        self._requests = 0
        self._bytes = 0.0
        self._latest_time = -math.inf
        self._in_flight = 0
        self._inherited = 0  # requests of the previous process that may not have ended
        self._inherited_until = -math.inf  # when the last of them has
        self._held_back = 0
        self._reserved = 0.0
        self._tokens = math.inf
        self.set_cap(cap)

    def set_cap(self, cap: RequestCap) -> None:
        """Use this cap from now on. Earlier spending still counts."""
        self.cap = cap
        self._span = max(MINUTE, MINUTE / cap.requests)
        self._max_requests = max(int(cap.requests), 1)
        self.rate = self._max_requests / self._span  # refreshes per second in the long run
        self._bucket_size = min(max(self.rate * self._burst, 1.0), float(self._max_requests))
        self._tokens = min(self._tokens, self._bucket_size)

    def available(self, now: float, typical_bytes: float = 0.0) -> int:
        """Return how many refreshes may start at `now`. A cap in bytes allows as many as fit at the typical size."""
        self._drop_expired(now)
        # The tolerance keeps a token that rounding (0.1 + 0.2) has made a little less than whole.
        room = min(self._max_requests - self._count_requests() - self._held_back, int(self._tokens + 1e-9))
        if self.cap.bytes is not None:
            left = self.cap.bytes - self._bytes - self._reserved
            room = min(room, int(left // max(typical_bytes, 1.0)) if left > 0 else 0)
        return max(room, 0)

    def spend(self, now: float, requests: int, weight: float = 0.0) -> None:
        """Record `requests` that start and end at `now` and transfer `weight` bytes together."""
        self._drop_expired(now)
        self._tokens -= requests
        self._record_spent(requests, weight)

    def begin_refresh(self, now: float, reserved_bytes: float = 0.0) -> None:
        """Record that a refresh starts and is expected to transfer `reserved_bytes`."""
        self._drop_expired(now)
        self._tokens -= 1
        self._in_flight += 1
        self._reserved += reserved_bytes

    def end_refresh(self, now: float, reserved_bytes: float, real_bytes: float) -> None:
        """Replace the reservation by the real cost; bytes beyond the reservation are owed."""
        self._drop_expired(now)
        self._in_flight -= 1
        self._reserved = max(self._reserved - reserved_bytes, 0.0)
        self._record_spent(1, real_bytes)

    def hold_back(self, requests: int) -> None:
        """Keep so many requests free for others."""
        self._held_back = requests

    def make_record(self, now: float) -> BudgetRecord:
        """Record the spending that the next process must count; ages are whole seconds, rounded down."""
        self._drop_expired(now)
        ages: dict[float, tuple[int, float]] = {}
        for at, requests, weight in self._spent:
            age = math.floor(self._latest_time - at)
            before = ages.get(age, (0, 0.0))
            ages[age] = (before[0] + requests, before[1] + weight)
        return BudgetRecord(self._in_flight + self._inherited, tuple((age, *spent) for age, spent in ages.items()))

    def inherit(self, now: float, record: BudgetRecord, age: float, open_seconds: float) -> None:
        """Count the record of the previous process, made `age` seconds ago, before anything is spent.

        Its open requests end within `open_seconds` from now, and count until then: nobody knows whether a result
        belongs to one of them.
        """
        self._drop_expired(now)
        for past, requests, weight in record.spent:
            self._spent.append((self._latest_time - past - max(age, 0.0), requests, weight))
            self._requests += requests
            self._bytes += weight
        self._inherited = record.open_requests
        self._inherited_until = self._latest_time + open_seconds
        self._drop_expired(now)

    def recent_usage(self, now: float) -> tuple[int, float]:
        """Return the requests and bytes of the last span (a minute), running refreshes included."""
        self._drop_expired(now)
        return self._count_requests(), self._bytes + self._reserved

    def next_refill(self, now: float) -> float:
        """Return the next time at which a refresh may start; `now` if one may start at once."""
        if self.available(now):
            return now
        moments = [now + (1 - self._tokens) / self.rate] if self._tokens < 1 else []
        if self._requests >= self._max_requests:
            moments.append(next(at for at, requests, _ in self._spent if requests) + self._span)
        elif self._count_requests() + self._held_back >= self._max_requests and self._inherited:
            moments.append(self._inherited_until)
        owed = math.inf if self.cap.bytes is None else self._bytes - self.cap.bytes
        for at, _, weight in self._spent if math.isfinite(owed) and owed >= 0 else ():
            owed -= weight
            if owed < 0:
                moments.append(at + self._span)
                break
        return max(moments, default=now)

    def _count_requests(self) -> int:
        return self._requests + self._in_flight + self._inherited

    def _record_spent(self, requests: int, weight: float) -> None:
        if not (requests or weight):
            return
        self._requests += requests
        self._bytes += weight
        if self._spent and self._latest_time < self._bucket_start + BUCKET_SECONDS:
            _, before, bytes_before = self._spent.pop()
            self._spent.append((self._latest_time, before + requests, bytes_before + weight))
        else:
            self._bucket_start = self._latest_time
            self._spent.append((self._latest_time, requests, weight))

    def _drop_expired(self, now: float) -> None:
        # A clock set back must not free spent requests, so time never goes back here.
        if now > self._latest_time:
            self._tokens = min(self._tokens + (now - self._latest_time) * self.rate, self._bucket_size)
            self._latest_time = now
        if self._inherited and self._latest_time >= self._inherited_until:
            self._record_spent(self._inherited, 0.0)
            self._inherited = 0
        since, spent = self._latest_time - self._span, self._spent
        while spent and spent[0][0] <= since:
            _, requests, weight = spent.popleft()
            self._requests -= requests
            self._bytes -= weight


def split_requests(available: int, wished: int, first: int) -> tuple[int, int, int]:
    """Split the available refreshes between manual refreshes, first refreshes and the strategy, in that order.

    >>> split_requests(10, 3, 4)
    (3, 4, 3)
    >>> split_requests(5, 3, 4)
    (3, 2, 0)
    """
    people = min(max(wished, 0), max(available, 0))
    firsts = min(max(first, 0), available - people)
    return people, firsts, available - people - firsts
