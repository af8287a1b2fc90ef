"""No sixty seconds hold more requests than the cap, in any order of refreshes, people's wishes, results and leaders.

The ledgers of a leader run against all that the network and other processes may do within the rules: a request begins
within the interval that its grant names, ends within the time of a fetch, and its end may never be heard.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.cluster.leases.lease_clock import LeaseTiming
from headwater.node.crawl.fetch_pool import AllHoldings, JobDecision, decide_job
from headwater.node.crawl.job_ledger import GrantLedger, JobLedger
from headwater.node.crawl.spending import BudgetAccount
from headwater.node.crawl.transport import Job
from headwater.node.request_grants import BEGIN_SECONDS
from headwater.schedule.budget import BudgetRecord, RequestBudget, RequestCap
from headwater.store.request_grants import GrantRow

TIMING = LeaseTiming(60.0)


@dataclass
class Sent:
    """A job on its way: the terminals that have it, and when its request ends, if it has begun."""

    job: Job
    taken_at: float = -1e9
    ends: float | None = None


@dataclass
class Wish:
    granted: float | None = None
    ends: float | None = None
    over: bool = False


@dataclass
class GrantSimulation:
    cap: int
    now: float = 0.0
    epoch: int = 0
    record: BudgetRecord = field(default_factory=BudgetRecord)
    saved: float = 0.0
    jobs: list[Sent] = field(default_factory=list)
    wishes: dict[int, Wish] = field(default_factory=dict)
    arrived: list[float] = field(default_factory=list)
    feeds: int = 0
    asked: int = 0

    def __post_init__(self) -> None:
        self.lead()

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def lead(self) -> None:
        """Another leader takes over: it knows the record and the jobs that the transport still has."""
        self.epoch += 1
        self.budget = BudgetAccount(RequestCap(self.cap))
        self.ledger, self.grants = (
            JobLedger(self.budget, self.epoch, TIMING.in_flight_seconds),
            GrantLedger(self.budget),
        )
        self.ledger.inherit(self.record, self.now - self.saved, TIMING.begin_seconds + TIMING.lease, self.now)
        for one in self.jobs:
            self.ledger.adopt_job(one.job.feed_id, self.now)
        self.save()

    def save(self) -> None:
        self.record, self.saved = self.budget.make_record(self.now), self.now

    def send(self, crash: bool) -> None:
        """The leader sends a job; it may crash between its record and the job."""
        if not self.budget.count_available(self.now):
            return
        self.feeds += 1
        number = self.ledger.number_job()
        self.ledger.begin_job(self.feeds, number, self.feeds, self.now, self.now)
        self.save()
        if crash:
            self.lead()
            return
        job = Job(self.feeds, 0, number, "https://a.example/", "a test", begin_by=self.now + TIMING.begin_seconds)
        self.jobs.append(Sent(job))

    def take(self, which: float, lasts: float, moment: float) -> None:
        """A terminal gets a job, for the first time or again when the broker repeats it."""
        ready = [one for one in self.jobs if one.taken_at + TIMING.ack_seconds <= self.now]
        if not ready:
            return
        one = ready[int(which * (len(ready) - 1))]
        one.taken_at = self.now
        decision, _ = decide_job(one.job, AllHoldings(), self.now, self.now)
        if decision is JobDecision.BEGIN:
            one.ends = self.now + lasts * TIMING.fetch_seconds
            self.arrived.append(self.now + moment * lasts * TIMING.fetch_seconds)
        else:  # it goes back unbegun
            self.jobs.remove(one)
            self.ledger.cancel_jobs([one.job.feed_id], self.now)

    def hear(self, which: float, redirected: bool) -> None:
        """A result is stored, and the leader learns from it."""
        ended = [one for one in self.jobs if one.ends is not None and one.ends <= self.now]
        if ended:
            one = ended[int(which * (len(ended) - 1))]
            self.jobs.remove(one)
            size = None if redirected else 1000
            self.ledger.land_job(one.job.feed_id, one.job.generation, size, one.job.feed_id, self.now)

    def wish(self) -> None:
        self.asked += 1
        self.wishes[self.asked] = Wish()

    def grant(self, crash: bool) -> None:
        """The leader's desk looks at the wishes; it may crash between its record and the grants."""
        rows = [GrantRow(id, one.granted is not None, one.over) for id, one in self.wishes.items()]
        self.grants.end_grants(rows, self.now)
        self.wishes = {id: one for id, one in self.wishes.items() if not one.over}
        given = self.grants.choose_wishes([row for row in rows if not row.is_over], self.now)
        self.save()
        if crash:
            self.lead()
            return
        for id in given:
            self.wishes[id].granted = self.now

    def begin(self, which: float, lasts: float, moment: float) -> None:
        """The request of a person begins within its interval, or not at all."""
        ready = [one for one in self.wishes.values() if one.granted is not None and one.ends is None and not one.over]
        if not ready:
            return
        one = ready[int(which * (len(ready) - 1))]
        assert one.granted is not None
        if self.now <= one.granted + BEGIN_SECONDS:
            one.ends = self.now + lasts * TIMING.fetch_seconds
            self.arrived.append(self.now + moment * lasts * TIMING.fetch_seconds)
        else:
            one.over = True

    def end(self, which: float) -> None:
        """A person's process notes the end of its request, or gives a wish up."""
        ended = [one for one in self.wishes.values() if one.granted is None or (one.ends or 1e9) <= self.now]
        if ended:
            ended[int(which * (len(ended) - 1))].over = True

    def expire(self) -> None:
        self.ledger.cancel_jobs(self.ledger.list_overdue(self.now), self.now)


Event = tuple[object, ...]


def draw_event(rng: random.Random) -> Event:
    """Draw an event; most fill the budget, and a crash between two actions is rare."""

    def share() -> float:
        return rng.choice((0.0, rng.random(), 1.0))

    events: dict[Event, int] = {
        ("wait", rng.choice((0.1, 5.0, 20.0, 40.0)) * rng.random()): 20,
        ("send", rng.random() < 0.1): 30,
        ("take", share(), share(), share()): 30,
        ("hear", share(), rng.random() < 0.3): 8,
        ("wish",): 8,
        ("grant", rng.random() < 0.1): 10,
        ("begin", share(), share(), share()): 10,
        ("end", share()): 5,
        ("expire",): 2,
        ("lead",): 1,
    }
    return rng.choices(list(events), list(events.values()))[0]


def count_fullest_minute(cap: int, events: list[Event]) -> int:
    world = GrantSimulation(cap)
    for name, *arguments in events:
        getattr(world, str(name))(*arguments)
    return max((sum(last - 60 < at <= last for at in world.arrived) for last in world.arrived), default=0)


@given(st.integers(1, 6), st.integers(0, 2**32))
def test_no_minute_exceeds_the_cap_in_any_interleaving(cap: int, seed: int) -> None:
    rng = random.Random(seed)
    assert count_fullest_minute(cap, [draw_event(rng) for _ in range(300)]) <= cap


def test_a_late_result_does_not_end_the_request_of_another_leader() -> None:
    """The result of the first job is stored two leaders later, while a job of the second leader has not begun."""
    long, short = ("take", 1.0, 1.0, 1.0), ("take", 1.0, 0.0, 0.0)
    events = [("send", False), ("wait", 10.0), ("lead",), ("wait", 49.0), long, ("wait", 72.0), ("send", False)]
    events += [("wait", 10.0), ("lead",), ("hear", 0.0, False), ("wait", 48.0), long, ("wait", 13.0)]
    events += [("send", False), short, ("wait", 30.0), ("send", False), short]
    assert count_fullest_minute(2, events) == 2


FIRST, LAST = ("take", 0.0, 1.0, 0.0), ("take", 1.0, 1.0, 1.0)
LONG = [("send", False), ("wait", 59.0), LAST, ("wait", 31.0)]  # a request that arrives 89 seconds after its job
PERSON = [("wish",), ("grant", False), ("begin", 1.0, 0.0, 0.0)]
FORGETFUL = {
    "a leader that inherits nothing": (
        RequestBudget,
        "inherit",
        [("send", False), FIRST, ("lead",), ("send", False), LAST],
    ),
    "a grant that reserves nothing": (BudgetAccount, "reserve_for_person", [*PERSON, *PERSON]),
    "a refresh that reserves nothing": (RequestBudget, "begin_refresh", [*LONG, ("send", False), FIRST]),
}


@pytest.mark.parametrize("name", FORGETFUL)
def test_the_property_finds_a_leader_that_forgets(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, method, events = FORGETFUL[name]
    assert count_fullest_minute(1, list(events)) <= 1
    monkeypatch.setattr(kind, method, lambda *given, **named: 0.0)
    assert count_fullest_minute(1, list(events)) > 1
