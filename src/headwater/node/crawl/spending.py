"""Accounts for requests and bytes, in total and per host, and keeps the record in the store.

The size of a document is not known before its fetch, so a fetch reserves the average of recent ones; its real size
replaces the reservation at the end. One reservation is one request: each hop of a redirect has its own. The next
leader, or a restarted server, counts what is in the record.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import numpy as np
from sqlalchemy import Connection

from headwater.arrays import Floats, Rows
from headwater.schedule.budget import BudgetRecord, RequestBudget, RequestCap
from headwater.schedule.politeness.host_rate import HostRate
from headwater.schedule.refresh_cost import Pressure, compute_costs
from headwater.store import saved_state
from headwater.store.store import Store
from headwater.times import MINUTE

FIRST_BYTES = 20_000.0  # expected size of a document before anything was fetched
LEARNING_RATE = 0.05  # weight of the latest document in the average


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """Requests and bytes of the last minute beside their caps (None: no cap)."""

    requests: int
    requests_allowed: float
    bytes: float
    bytes_allowed: float | None


class BudgetAccount:
    """The budget of a crawl: reserve at the start of a fetch, charge at its end."""

    def __init__(self, cap: RequestCap, pace: HostRate | None = None, fetches: float = math.inf) -> None:
        """`fetches` may run at a time."""
        self.fetches = fetches
        self._budget = RequestBudget(cap)
        self._pace = pace if pace is not None else HostRate()
        self._typical_bytes = FIRST_BYTES
        self.people_waiting = 0  # requests beside refreshes that wait for their turn (`RequestGrants`)
        self._typical_seconds = 0.0  # before anything was fetched, parallel fetches are not known to be scarce
        self._clock_setback = 0.0  # seconds by which the clock was set back: the budget's own time only moves forward

    @property
    def rate(self) -> float:
        """Ordinary refreshes per second in the long run: as many as requests, bytes and parallel fetches allow."""
        return self._budget.rate / self.pressure.stretch

    @property
    def pressure(self) -> Pressure:
        """The use of bytes and of parallel fetches if all requests were ordinary refreshes."""
        used = self._budget.rate * self._typical_bytes * MINUTE
        return Pressure(
            0.0 if self.cap.bytes is None else used / self.cap.bytes,
            self._budget.rate * self._typical_seconds / self.fetches,
        )

    def compute_costs(self, size: Floats, seconds: Floats) -> Floats:
        """Return the cost of a refresh of each feed, from its mean bytes and seconds (NaN: none yet)."""
        return compute_costs(size, seconds, self._typical_bytes, self._typical_seconds, self.pressure)

    def note_seconds(self, seconds: Floats) -> None:
        """Learn how long fetches take."""
        if self._typical_seconds == 0 and len(seconds):
            self._typical_seconds = float(seconds.mean())
        for one in seconds.tolist():
            self._typical_seconds += LEARNING_RATE * (one - self._typical_seconds)

    @property
    def cap(self) -> RequestCap:
        return self._budget.cap

    def set_limit(self, requests: float) -> None:
        """Limit the budget to so many requests a minute."""
        self._budget.set_cap(RequestCap(requests, self.cap.bytes))

    def count_available(self, now: float) -> int:
        """Return how many refreshes may start at `now`; requests that people wait for come first."""
        return max(self.count_for_people(now) - self.people_waiting, 0)

    def count_for_people(self, now: float) -> int:
        """Return how many requests that people wait for may start at `now`."""
        return self._budget.available(now + self._clock_setback, self._typical_bytes)

    def find_refill(self, now: float) -> float:
        """Return when the next fetch may start: `now` if one may."""
        return self._budget.next_refill(now + self._clock_setback) - self._clock_setback

    def limit_host_room(self, room: Rows, now: float) -> Rows:
        return self._pace.limit_room(room, now)

    def is_host_ready(self, host: int, now: float) -> bool:
        return self._pace.may_request(host, now)

    @property
    def host_limit(self) -> float | None:
        """The requests per minute to one host that the operator allows; None: any number."""
        return self._pace.per_minute

    @property
    def has_host_pace(self) -> bool:
        """Whether hosts have a pace of their own."""
        return self._pace.is_limited

    def note_requests(self, hosts: Rows, at: Floats, now: float) -> None:
        """Note when hosts were asked, by another process or later than chosen."""
        self._pace.note_requests(hosts, np.minimum(at, now))

    def reserve(self, now: float, host: int) -> float:
        """Reserve a request for a starting fetch; return the reserved bytes, for `charge`."""
        self._pace.spend(host, now)
        self._budget.begin_refresh(now + self._clock_setback, self._typical_bytes)
        return self._typical_bytes

    def reserve_for_person(self, now: float) -> float:
        """Reserve a request beside the refreshes; return the reserved bytes, for `charge_without_document`."""
        self._budget.begin_refresh(now + self._clock_setback, self._typical_bytes)
        return self._typical_bytes

    def charge(self, now: float, reserved: float, size: int) -> None:
        """Charge a request that has ended, with the size of its document in bytes."""
        self._budget.end_refresh(now + self._clock_setback, reserved, float(size))
        self._typical_bytes += LEARNING_RATE * (size - self._typical_bytes)

    def charge_without_document(self, now: float, reserved: float, size: float) -> None:
        """Charge a request that brought no document: a hop of a redirect, or one that was abandoned."""
        self._budget.end_refresh(now + self._clock_setback, reserved, size)

    def charge_bytes(self, now: float, size: int) -> None:
        """Charge the document of a request that the previous process made; the record has the request."""
        self._budget.spend(now + self._clock_setback, 0, float(size))

    def hold_back(self, requests: int) -> None:
        """Keep so many requests free: other processes make them without asking."""
        self._budget.hold_back(requests)

    def make_record(self, now: float) -> BudgetRecord:
        """Record the spending that the next process must count."""
        return self._budget.make_record(now + self._clock_setback)

    def inherit(self, now: float, record: BudgetRecord, age: float, open_seconds: float) -> None:
        """Count the record of the previous process, made `age` seconds ago; see `RequestBudget.inherit`."""
        self._budget.inherit(now + self._clock_setback, record, age, open_seconds)

    def measure_use(self, now: float) -> BudgetUse:
        requests, size = self._budget.recent_usage(now + self._clock_setback)
        return BudgetUse(requests, self.cap.requests, size, self.cap.bytes)

    def shift_clock(self, back: float) -> None:
        """Follow a clock that was set back by so many seconds: past requests still count, and the budget refills."""
        self._clock_setback += back
        self._pace.shift_clock(back)


NAME, VERSION = "spent requests", 1

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(BudgetRecord).decode


class SpendingLog:
    """Saves and loads the record. `read_clock` reads a clock that all its writers share: the database's in a cluster.

    With a fenced store, a process that no longer leads cannot write after the next one has read.
    """

    def __init__(self, store: Store, read_clock: Callable[[Connection], float]) -> None:
        self._store = store
        self._read_clock = read_clock
        self._saving = asyncio.Lock()

    async def save_record(self, make_record: Callable[[], BudgetRecord]) -> float:
        """Save the record that `make_record` returns; return the time of the shared clock at which it was saved.

        One at a time, so that an older record does not replace a newer one.
        """
        async with self._saving:
            return await self._store.write(self._save, _encode(make_record()))

    async def load_record(self) -> tuple[BudgetRecord, float] | None:
        """Return the last record with its age in seconds; None if there is none."""
        return await self._store.read(self._load)

    def _save(self, connection: Connection, body: bytes) -> float:
        now = self._read_clock(connection)
        saved_state.save_state(connection, NAME, VERSION, body, now)
        return now

    def _load(self, connection: Connection) -> tuple[BudgetRecord, float] | None:
        found, saved = saved_state.load_state(connection, NAME), saved_state.find_save_time(connection, NAME)
        if found is None or saved is None or found[0] != VERSION:
            return None
        return _decode(found[1]), max(self._read_clock(connection) - saved, 0.0)
