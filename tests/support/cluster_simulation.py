"""Simulates a cluster under a virtual clock: many processes, and a network that fails in every way, from one seed.

The processes are generators that yield their actions: a transaction of the database, a call of the broker, a request to
a host, or a pause. Between any two actions a process may crash, be paused for longer than a lease, or be cut off; a
call may be lost before or after its effect, late, or repeated. The decisions are those of the real processes:

| decision | code |
|---|---|
| who leads, who holds a partition | `decide_lease`, `LeaseTerm`, `divide_share`, `LeasedHoldings` |
| which jobs are in flight, and when they are due again | `JobLedger`, `AdoptedJobs` |
| how many requests the cap still allows | `RequestBudget`, through `BudgetAccount` |
| which person's request is granted | `GrantLedger` |
| whether a job begins | `decide_job`, `DatabaseClock` |
| which items of a document are new, and which result is late | `judge`, `is_late` |

Database, broker and hosts are small models: one transaction at a time, messages delivered at least once.

Invariants are checked with every event: one holder per lease and epoch, one request per host at a time, no more than
the cap in any sixty seconds, no item announced or matched twice. After the faults have ended, everything comes to rest:
every served item is stored, and every hit was delivered, once in effect.

    cd tests && python -m support.cluster_simulation SEED     # replays one seed and prints its events
"""

from __future__ import annotations

import heapq
import itertools
import random
import sys
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Generator, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from msgspec.structs import replace
from structlog.testing import capture_logs

from headwater.cluster.leases.election import LeaseTerm
from headwater.cluster.leases.holdings import LeasedHoldings
from headwater.cluster.leases.lease_clock import DatabaseClock, LeaseTiming
from headwater.cluster.leases.partitions import compute_fair_share, divide_share
from headwater.cluster.transport.wire_messages import Grant
from headwater.fetch.http.redirects import Handover
from headwater.fetch.http.remote_session import RemoteRequest
from headwater.model import Document, Ending, Entry, Known, Markup, Outcome
from headwater.node.crawl.fetch_pool import JobDecision, decide_job
from headwater.node.crawl.ingest import is_late
from headwater.node.crawl.job_ledger import AdoptedJobs, GrantLedger, JobLedger
from headwater.node.crawl.spending import BudgetAccount
from headwater.node.crawl.transport import FetchResult, Job, ProxiedRequest
from headwater.node.request_grants import BEGIN_SECONDS
from headwater.novelty import find_unknown_identities, judge
from headwater.schedule.budget import BudgetRecord, RequestCap
from headwater.store.cluster_leases import ClusterLease, decide_lease
from headwater.store.request_grants import GrantRow

Process = Generator[Any, Any, None]
"""Yields actions, and is resumed with their results."""

LEASE = 6.0
TIMING = LeaseTiming(LEASE)
HOSTS, FEEDS, PARTITIONS = 8, 16, 8
CAP, CROWDED_CAP = 12, 120
SERVING_SECONDS, CROWDED_SERVING_SECONDS = 0.3, 2.0  # that a host takes on average to answer
WINDOW = 100  # items that a feed shows: none leaves it, so that an answer lost with its terminal is served again
INTERVAL = 3.0  # seconds between two refreshes of a feed: more than the cap allows
FAULTY_SECONDS, QUIET_SECONDS = 100.0, 240.0
PERSON_SECONDS, CROWDED_PERSON_SECONDS = 8.0, 1.0  # between two requests of people, who come before refreshes
PATIENCE, REPLY_SECONDS = 20.0, 2.5 * LEASE  # that a person waits for a grant, and for an answer
ASK_SECONDS, GRANT_SECONDS = 30.0, 3 * LEASE  # after which a wish and a grant are over
MAX_DELIVERIES = 6  # more than the broker allows: the more often, the harder


class InvariantBroken(AssertionError):
    """The simulated cluster broke an invariant."""


class CallLost(Exception):
    """A call had no answer; its effect may have happened."""


class LeaseGone(Exception):
    """A fenced transaction was refused."""


@dataclass
class Call:
    """A transaction of the database or a call of the broker, with its effect."""

    effect: Callable[[], Any]


@dataclass
class Sleep:
    seconds: float


@dataclass
class HostRequest:
    """A request to a host; the answer is an Outcome or a Handover, None if it was cut."""

    job: Job
    until: float  # by the boot clock


@dataclass
class StreamMessage:
    body: Any
    visible_at: float
    deliveries: int = 0
    number: int = 0


@dataclass
class PlannedDelivery:
    due: float
    done: bool = False


@dataclass
class QueuedWish:
    """A row of `request_grant`."""

    asked: float
    granted: float | None = None
    ended: float | None = None


@dataclass
class Cluster:
    """The database and the broker."""

    leases: dict[str, ClusterLease] = field(default_factory=dict)
    members: dict[str, float] = field(default_factory=dict)
    record: tuple[BudgetRecord, float] | None = None
    known: dict[int, Known] = field(default_factory=dict)
    stored: set[tuple[int, str]] = field(default_factory=set)
    outbox: list[tuple[int, str]] = field(default_factory=list)
    lessons: list[tuple[FetchResult, bool]] = field(default_factory=list)
    checkpoint: int = 0
    deliveries: dict[tuple[int, str], PlannedDelivery] = field(default_factory=dict)
    jobs: dict[tuple[int, int], StreamMessage] = field(default_factory=dict)
    results: deque[StreamMessage] = field(default_factory=deque)
    newest_result: int = 0
    wishes: dict[int, QueuedWish] = field(default_factory=dict)
    newest_wish: int = 0
    replies: set[int] = field(default_factory=set)  # jobs of people that were answered


class Simulation:
    """One run. `run` raises InvariantBroken; `trace` has the last events."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.now = 1000.0
        self.cluster = Cluster(
            known={feed: Known(feed, f"https://h{feed % HOSTS}.example/{feed}") for feed in range(FEEDS)}
        )
        self.trace: deque[str] = deque(maxlen=400)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._machines: dict[str, Machine] = {}
        self._holders: dict[tuple[str, int], str] = {}
        self.arrivals: list[float] = []
        self._busy: dict[int, int] = {}  # request in progress by host
        self._requests = itertools.count(1)
        self.seen_results: set[int] = set()  # by a storer's transaction
        self.is_crowded = seed % 2 == 1  # then hosts are the bottleneck instead of the cap
        self.cap = CROWDED_CAP if self.is_crowded else CAP
        self.published: dict[int, list[str]] = {feed: [] for feed in range(FEEDS)}
        self.served: set[tuple[int, str]] = set()
        self.received: dict[tuple[int, str], int] = {}  # counted by the receiver of deliveries
        self.redirects = set(self.random.sample(range(FEEDS), 4))
        self.faulty = True
        self.end = self.now + FAULTY_SECONDS
        self.counts = dict.fromkeys(
            ("requests", "crashes", "pauses", "lost", "repeated", "leaders", "late", "unbegun", "granted", "answered"),
            0,
        )

    # the clock

    def at(self, when: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when, next(self._order), act))

    def tell(self, text: str) -> None:
        self.trace.append(f"{self.now - 1000:8.2f} {text}")

    def check(self, holds: bool, sentence: str) -> None:
        if not holds:
            raise InvariantBroken(f"seed {self.seed}, second {self.now - 1000:.2f}: {sentence}")

    def run(self) -> Simulation:
        roles = (("controller", 2, run_controller), ("terminal", 3, run_terminal), ("storer", 2, run_storer))
        more = (("processor", 2, run_processor), ("publisher", 2, run_publisher), ("web", 2, run_web))
        for role, number, work in (*roles, *more):
            for k in range(number):
                machine = self._machines[f"{role}{k}"] = Machine(self, f"{role}{k}", work)
                machine.start()
        self._publish_items()
        self._make_trouble()
        self.at(self.end, self._end_faults)
        while self.now < self.end + QUIET_SECONDS and (self.faulty or not self._is_at_rest()):
            self.now, _, act = heapq.heappop(self._events)
            act()
        self._check_rest()
        return self

    def _is_at_rest(self) -> bool:
        """Return whether every item was served, stored, matched and delivered."""
        cluster = self.cluster
        is_matched = cluster.checkpoint == len(cluster.outbox) == len(cluster.stored)
        return is_matched and len(self.received) == len(cluster.outbox) == sum(map(len, self.published.values()))

    def _publish_items(self) -> None:
        for feed, items in self.published.items():
            if self.random.random() < 0.15:
                items.append(f"{feed}-{len(items)}")
        if self.faulty:
            self.at(self.now + 1.0, self._publish_items)

    def _make_trouble(self) -> None:
        if not self.faulty:
            return
        machine = self.random.choice(list(self._machines.values()))
        kind = self.random.random()
        if kind < 0.35:
            machine.crash()
        elif kind < 0.65:
            machine.pause(self.random.choice((0.5, 2.0, LEASE, 1.5 * LEASE, 3 * LEASE)))
        elif kind < 0.85:
            machine.cut_off(self.random.uniform(0.5, 2 * LEASE))
        else:
            machine.skew += self.random.uniform(-40.0, 40.0)
            self.tell(f"{machine.name}: its clock is set, now {machine.skew:+.0f} s")
        self.at(self.now + self.random.expovariate(1 / 3.0), self._make_trouble)

    def _end_faults(self) -> None:
        self.faulty = False
        self.tell("no more faults")

    def _check_rest(self) -> None:
        cluster = self.cluster
        missing = self.served - cluster.stored
        self.check(not missing, f"served and never stored: {sorted(missing)[:5]}")
        unseen = set(range(1, cluster.newest_result + 1)) - self.seen_results - {one.number for one in cluster.results}
        self.check(not unseen, f"results that were lost: {sorted(unseen)[:5]}")
        self.check(cluster.checkpoint == len(cluster.outbox), "items were not matched")
        undelivered = set(cluster.outbox) - self.received.keys()
        self.check(not undelivered, f"hits that were not delivered: {sorted(undelivered)[:5]}")
        self.check(self.counts["requests"] > FEEDS, "hardly anything was fetched")

    # leases

    def require(self, held: ClusterLease) -> None:
        if self.cluster.leases[held.name].epoch != held.epoch:
            raise LeaseGone

    def acquire(self, name: str, holder: str, seconds: float) -> ClusterLease | None:
        current = self.cluster.leases.get(name, ClusterLease(name, "", 0, 0.0))
        taken = decide_lease(current, holder, self.now, seconds)
        if taken is not None:
            if taken.epoch != current.epoch:
                self.tell(f"{holder} takes {name}, epoch {taken.epoch}")
            self.cluster.leases[name] = taken
            before = self._holders.setdefault((name, taken.epoch), holder)
            self.check(before == holder, f"{before} and {holder} hold {name} in epoch {taken.epoch}")
        return taken

    def renew(self, held: ClusterLease, seconds: float) -> bool:
        current = self.cluster.leases[held.name]
        if (current.holder, current.epoch) != (held.holder, held.epoch):
            return False
        self.cluster.leases[held.name] = ClusterLease(held.name, held.holder, held.epoch, self.now + seconds)
        return True

    def share(self, holder: str, drained: Mapping[int, int]) -> Grant:
        """Renew the partitions of a terminal, as `share_partitions` does by SQL."""
        self.cluster.members[holder] = self.now
        members = sum(seen > self.now - LEASE for seen in self.cluster.members.values())
        leases = self.cluster.leases
        for partition, epoch in drained.items():
            name = f"partition/{partition}"
            if (leases[name].holder, leases[name].epoch) == (holder, epoch):
                leases[name] = ClusterLease(name, holder, epoch, 0.0)
        mine: dict[int, int] = {}
        for wants_free in (False, True):
            for partition in range(PARTITIONS):
                name = f"partition/{partition}"
                there = leases.get(name, ClusterLease(name, "", 0, 0.0))
                is_mine = there.holder == holder and there.until > 0
                if is_mine != wants_free and (is_mine or len(mine) < compute_fair_share(PARTITIONS, members)):
                    taken = self.acquire(name, holder, LEASE) if is_mine or there.until < self.now else None
                    if taken is not None:
                        mine[partition] = taken.epoch
        share = divide_share(mine, PARTITIONS, members)
        leader = leases.get("controller")
        epoch = 0 if leader is None else leader.epoch
        return Grant(share.partitions, share.surplus, LEASE, epoch, self.now, lacking=share.lacking)

    # hosts

    def arrive(self, job: Job, machine: Machine) -> tuple[int, int]:
        host = int((job.way.at if job.way is not None else job.url).split("/")[2][1:].split(".")[0])
        self.tell(f"{machine.name} asks host {host} for feed {job.feed_id}, generation {job.generation & 0xFFFFFFFF}")
        self.check(host not in self._busy, f"host {host} is asked by two at once")
        self._busy[host] = number = next(self._requests)
        self.arrivals.append(self.now)
        self.counts["requests"] += 1
        recent = sum(at > self.now - 60.0 for at in self.arrivals[-self.cap - 5 :])
        self.check(recent <= self.cap, f"{recent} requests within sixty seconds, the cap is {self.cap}")
        return host, number

    def leave(self, host: int, number: int) -> None:
        if self._busy.get(host) == number:
            del self._busy[host]

    def answer(self, job: Job, started: float) -> Outcome | Handover:
        if job.feed_id in self.redirects and job.way is None:
            target = f"https://h{(job.feed_id + 1) % HOSTS}.example/{job.feed_id}"
            return Handover(job.url, target, started, 0.1, False, 1, 0, 0.1)
        if job.errand is not None:
            return Outcome(Ending.CHANGED, job.url, job.url, started, 0.1, 200)
        shown = self.published[job.feed_id][-WINDOW:]
        self.served.update((job.feed_id, identity) for identity in shown)
        entries = tuple(Entry(id=one, title=one, content=Markup(one)) for one in reversed(shown))
        document = Document[Markup]("rss 2.0", title="A feed", items=entries)
        return Outcome(Ending.CHANGED, job.url, job.url, started, 0.1, 200, document, bytes=100)


class Machine:
    """A process with its clocks. A crash ends all its tasks and loses its memory; it starts again soon."""

    def __init__(self, simulation: Simulation, name: str, work: Callable[[Machine], Process]) -> None:
        self.simulation = simulation
        self.name = name
        self._work = work
        self.life = 0
        self.skew = simulation.random.uniform(-20.0, 20.0)
        self._paused_until = 0.0
        self._cut_until = 0.0
        self._connections: list[Callable[[], None]] = []  # close each request in progress

    @property
    def random(self) -> random.Random:
        return self.simulation.random

    def boot_clock(self) -> float:
        return self.simulation.now - 900.0

    def wall_clock(self) -> float:
        return self.simulation.now + self.skew

    def start(self) -> None:
        self.life += 1
        self.spawn(self._work(self))

    def spawn(self, process: Process) -> None:
        self._resume(process, None, None, self.life)

    def crash(self) -> None:
        self.simulation.counts["crashes"] += 1
        self.simulation.tell(f"{self.name} crashes")
        self.life += 1
        for close in self._connections:
            close()
        self._connections.clear()
        self.simulation.at(self.simulation.now + self.random.uniform(0.1, LEASE), partial(self._restart, self.life))

    def _restart(self, life: int) -> None:
        if life == self.life:  # else it crashed again while it was down, and starts later
            self.start()

    def pause(self, seconds: float) -> None:
        self.simulation.counts["pauses"] += 1
        self.simulation.tell(f"{self.name} is paused for {seconds:.1f} s")
        self._paused_until = self.simulation.now + seconds

    def cut_off(self, seconds: float) -> None:
        self.simulation.tell(f"{self.name} is cut off for {seconds:.1f} s")
        self._cut_until = self.simulation.now + seconds

    def _resume(self, process: Process, result: Any, error: Exception | None, life: int) -> None:
        if life != self.life:
            return
        if self.simulation.now < self._paused_until:
            again = partial(self._resume, process, result, error, life)
            self.simulation.at(self._paused_until + self.random.uniform(0, 0.01), again)
            return
        try:
            action = process.send(result) if error is None else process.throw(error)
        except StopIteration:
            return
        self._act(process, action, life)

    def _later(self, seconds: float, process: Process, result: Any, error: Exception | None, life: int) -> None:
        self.simulation.at(self.simulation.now + seconds, partial(self._resume, process, result, error, life))

    def _act(self, process: Process, action: Any, life: int) -> None:
        if isinstance(action, Sleep):
            self._later(action.seconds, process, None, None, life)
        elif isinstance(action, HostRequest):
            self._fetch(process, action, life)
        else:
            self._call(process, action, life)

    def _call(self, process: Process, call: Call, life: int) -> None:
        """Run the effect of a call after a while, perhaps twice or not at all, and resume with its result."""
        simulation, chance = self.simulation, self.random.random()
        delay = (
            self.random.expovariate(1 / 0.02) if chance > 0.03 or not simulation.faulty else self.random.uniform(0, 3)
        )
        is_cut = simulation.now < self._cut_until
        lost = simulation.faulty and (is_cut or self.random.random() < 0.02)
        if lost and (is_cut or self.random.random() < 0.5):
            simulation.counts["lost"] += 1
            self._later(1.0, process, None, CallLost(), life)
            return

        def arrive() -> None:
            result, error = None, None
            try:
                result = call.effect()
            except (CallLost, LeaseGone) as raised:
                error = raised
            if lost:
                simulation.counts["lost"] += 1
                self._later(1.0, process, None, CallLost(), life)
            else:
                self._later(delay, process, result, error, life)

        simulation.at(simulation.now + delay, arrive)  # also if the caller crashes meanwhile

    def _fetch(self, process: Process, fetch: HostRequest, life: int) -> None:
        """Travel, be served, and answer; a request that would outlast its lease is cut, as `cancel_late` does."""
        simulation = self.simulation
        mean = CROWDED_SERVING_SECONDS if simulation.is_crowded else SERVING_SECONDS
        travel, serving = self.random.uniform(0.01, 0.6), self.random.expovariate(1 / mean)
        last = simulation.now + max(fetch.until - self.boot_clock(), 0.0)
        serving = min(serving, TIMING.fetch_seconds - travel)

        def arrive() -> None:
            if life != self.life or simulation.now >= last:  # the connection was closed before
                self._later(0.0, process, None, None, life)
                return
            host, number = simulation.arrive(fetch.job, self)
            close = partial(simulation.leave, host, number)
            self._connections.append(close)
            answer = simulation.answer(fetch.job, simulation.now)

            def end() -> None:
                close()
                if close in self._connections:
                    self._connections.remove(close)
                woken = max(simulation.now, self._paused_until)
                self._resume(process, answer if woken < last else None, None, life)

            simulation.at(min(simulation.now + serving, last), end)

        simulation.at(simulation.now + travel, arrive)


# the processes


def run_now(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise RuntimeError("the coroutine waits")


class BrokerView:
    """The leader's view of the broker, for `AdoptedJobs`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def list_in_flight(self) -> set[int]:
        return {feed for _, feed in self._cluster.jobs if feed >= 0}

    async def find_newest_result(self) -> int:
        return self._cluster.newest_result

    async def is_stored_up_to(self, number: int) -> bool:
        return all(one.number > number for one in self._cluster.results)


@dataclass
class Term:
    """The time for which a process holds a seat; its tasks end before it takes the seat again."""

    held: ClusterLease
    watch: LeaseTerm
    is_over: bool = False
    tasks: int = 0


def run_elected(machine: Machine, seat: str, begin: Callable[[Machine, Term], Process]) -> Process:
    """Take a lease and work, as `Election` does."""
    simulation, seconds = machine.simulation, TIMING.leader_seconds
    while True:
        asked = machine.boot_clock()
        held = None
        with suppress(CallLost):
            held = yield Call(partial(simulation.acquire, seat, machine.name, seconds))
        if held is None:
            yield Sleep(seconds / 5)
            continue
        term = Term(held, LeaseTerm(seconds, asked))
        machine.spawn(renew_lease(machine, term))
        try:
            work = begin(machine, term)
            action = next(work)
            while not term.is_over:
                try:
                    result = yield action
                except CallLost as error:
                    action = work.throw(error)
                else:
                    action = work.send(result)
        except (LeaseGone, StopIteration):
            pass
        term.is_over = True
        while term.tasks:
            yield Sleep(0.05)


def renew_lease(machine: Machine, term: Term) -> Process:
    simulation, seconds = machine.simulation, TIMING.leader_seconds
    while not term.is_over:
        yield Sleep(seconds / 4)
        asked = machine.boot_clock()
        try:
            kept = yield Call(partial(simulation.renew, term.held, seconds))
        except CallLost:
            term.is_over = term.is_over or term.watch.is_hopeless(machine.boot_clock())
            continue
        if kept:
            term.watch.renew(asked)
        else:
            term.is_over = True


def run_controller(machine: Machine) -> Process:
    return run_elected(machine, "controller", lead)


def lead(machine: Machine, term: Term) -> Process:
    """One term of a leader, in the order of `Leader.run_term` and `Dispatcher.step`."""
    held, watch = term.held, term.watch
    simulation, cluster = machine.simulation, machine.simulation.cluster
    simulation.counts["leaders"] += 1
    budget = BudgetAccount(RequestCap(simulation.cap))
    ledger = JobLedger(budget, held.epoch, TIMING.in_flight_seconds)
    grants = GrantLedger(budget)
    adopted = AdoptedJobs(BrokerView(cluster))  # type: ignore[arg-type]

    def fenced(effect: Callable[[], Any]) -> Call:
        def run() -> Any:
            simulation.require(held)
            return effect()

        return Call(run)

    def load() -> tuple[BudgetRecord, float]:
        record, saved = cluster.record or (BudgetRecord(), simulation.now)
        return record, simulation.now - saved

    def save(record: BudgetRecord) -> float:
        cluster.record = (record, simulation.now)
        return simulation.now

    feeds = yield from persist(fenced(lambda: run_now(adopted.adopt())))
    record, age = yield from persist(fenced(load))
    ledger.inherit(record, age, TIMING.begin_seconds + LEASE, machine.boot_clock())
    for feed in feeds:
        ledger.adopt_job(feed, machine.boot_clock())
    saving: set[bool] = set()

    def save_record() -> Generator[Any, Any, float]:
        """Save the record, one at a time, as `SpendingLog` does."""
        while saving:
            yield Sleep(0.02)
        saving.add(True)
        try:
            saved: float = yield fenced(partial(save, budget.make_record(machine.boot_clock())))
            return saved
        finally:
            saving.clear()

    yield from persist(fenced(lambda: save(budget.make_record(machine.boot_clock()))))
    machine.spawn(keep_desk(machine, term, fenced, grants, save_record))
    due = dict.fromkeys(range(FEEDS), 0.0)
    ways: dict[int, Handover] = {}

    def take_lessons() -> list[tuple[FetchResult, bool]]:
        taken, cluster.lessons = cluster.lessons, []
        return taken

    def land(lessons: Iterable[tuple[FetchResult, bool]]) -> None:
        now = machine.boot_clock()
        for result, late in lessons:
            feed, generation = result.feed_id, result.job.generation
            if result.unbegun:
                ledger.cancel_jobs([feed], now)
            elif result.way is not None:
                ledger.land_job(feed, generation, None, feed % HOSTS, now)
                ways[feed] = result.way
            elif not late:
                ledger.land_job(feed, generation, 100, feed % HOSTS, now)
                due[feed] = now + INTERVAL

    while True:
        try:
            land((yield fenced(take_lessons)))
            ended = yield fenced(lambda: run_now(adopted.pop_ended()))
            if ended:
                land((yield fenced(take_lessons)))
                ledger.cancel_jobs([feed for feed in ended if feed in ledger.in_flight], machine.boot_clock())
            late = ledger.list_overdue(machine.boot_clock())
            if late and not (yield Call(lambda: len(cluster.results))):
                ledger.cancel_jobs(late, machine.boot_clock())
            if (yield fenced(lambda: run_now(adopted.has_unstored_results()))):
                yield Sleep(0.25)
                continue
            now = machine.boot_clock()
            jobs, hosts = [], {feed % HOSTS for feed in ledger.in_flight}
            ready = sorted(
                (feed for feed in range(FEEDS) if due[feed] <= now), key=lambda feed: (feed not in ways, due[feed])
            )
            for feed in ready[: 2 * budget.count_available(now)]:
                if feed not in ledger.in_flight and feed % HOSTS not in hosts and budget.count_available(now):
                    hosts.add(feed % HOSTS)
                    generation = ledger.number_job()
                    ledger.begin_job(feed, generation, feed % HOSTS, now, now)
                    way = ways.pop(feed, None)
                    url = cluster.known[feed].url
                    at = url if way is None else way.at
                    partition = int(at.split("/")[2][1:].split(".")[0]) % PARTITIONS
                    jobs.append(Job(feed, partition, generation, url, "due", way=way))
            if jobs:
                granted = yield from save_record()
                if not watch.is_valid(machine.boot_clock()):
                    ledger.cancel_jobs([job.feed_id for job in jobs], machine.boot_clock())
                    jobs = []
            for job in jobs:
                taken = False
                try:
                    taken = yield Call(
                        partial(offer, simulation, replace(job, begin_by=granted + TIMING.begin_seconds))
                    )
                except CallLost:  # the job may have been published
                    continue
                if not taken:
                    ledger.cancel_jobs([job.feed_id], machine.boot_clock())
                    ledger.adopt_job(job.feed_id, machine.boot_clock())
        except CallLost:
            pass
        yield Sleep(0.5)


def keep_desk(
    machine: Machine,
    term: Term,
    fenced: Callable[[Callable[[], Any]], Call],
    grants: GrantLedger,
    save_record: Callable[[], Generator[Any, Any, float]],
) -> Process:
    """Grant people's requests, in the order of `GrantDesk.step`, until the term is over."""
    simulation, cluster = machine.simulation, machine.simulation.cluster

    def list_rows() -> list[GrantRow]:
        return [make_grant_row(id, wish, simulation.now) for id, wish in sorted(cluster.wishes.items())]

    def remove(over: Iterable[int]) -> None:
        for id in over:
            cluster.wishes.pop(id, None)

    def give(given: Iterable[int]) -> None:
        for id in given:
            if id in cluster.wishes:
                cluster.wishes[id].granted = simulation.now
                simulation.counts["granted"] += 1

    term.tasks += 1
    while not term.is_over:
        try:
            rows = yield fenced(list_rows)
            over = [row.id for row in rows if row.is_over]
            if over:
                yield fenced(partial(remove, over))
            grants.end_grants(rows, machine.boot_clock())
            given = grants.choose_wishes(rows, machine.boot_clock())
            if given:
                yield from save_record()
                yield fenced(partial(give, given))
        except CallLost:
            pass
        except LeaseGone:
            break
        yield Sleep(0.25)
    term.tasks -= 1


def make_grant_row(id: int, wish: QueuedWish, now: float) -> GrantRow:
    """Read a wish, as `list_grants` does by SQL."""
    begun = wish.asked + ASK_SECONDS if wish.granted is None else wish.granted + GRANT_SECONDS
    return GrantRow(id, wish.granted is not None, wish.ended is not None or begun < now)


def run_web(machine: Machine) -> Process:
    """People open pages that need a request."""
    crowded = machine.simulation.is_crowded
    pause, hosts = (CROWDED_PERSON_SECONDS, HOSTS // 4) if crowded else (PERSON_SECONDS, HOSTS)
    while True:
        yield Sleep(machine.random.expovariate(1 / pause))
        if machine.simulation.faulty:
            machine.spawn(ask_for_person(machine, machine.random.randrange(hosts)))


def ask_for_person(machine: Machine, host: int) -> Process:
    """Wait for a grant, have a terminal send the request, and end the grant with the answer, as `GrantedProxy` does."""
    simulation, cluster = machine.simulation, machine.simulation.cluster

    def ask() -> int:
        cluster.newest_wish += 1
        cluster.wishes[cluster.newest_wish] = QueuedWish(simulation.now)
        return cluster.newest_wish

    def find(id: int) -> float | None:
        return None if id not in cluster.wishes else cluster.wishes[id].granted

    def end(id: int) -> None:
        if id in cluster.wishes:
            cluster.wishes[id].ended = simulation.now

    with suppress(CallLost):
        id = yield Call(ask)
        deadline = machine.boot_clock() + PATIENCE
        while (granted := (yield Call(partial(find, id)))) is None:
            if machine.boot_clock() > deadline:
                yield Call(partial(end, id))
                return
            yield Sleep(0.3)
        url = f"https://h{host}.example/page"
        errand = ProxiedRequest(RemoteRequest(url, {}), f"{id}")
        begin_by = granted + min(BEGIN_SECONDS, TIMING.begin_seconds)
        yield Call(
            partial(offer, simulation, Job(-id, host % PARTITIONS, 0, url, "", errand=errand, begin_by=begin_by))
        )
        deadline = machine.boot_clock() + REPLY_SECONDS
        while not (yield Call(lambda: -id in cluster.replies)):
            if machine.boot_clock() > deadline:
                return
            yield Sleep(0.3)
        simulation.counts["answered"] += 1
        yield Call(partial(end, id))


def persist(call: Call) -> Generator[Any, Any, Any]:
    """Repeat a call until it is answered."""
    while True:
        try:
            return (yield call)
        except CallLost:
            yield Sleep(0.2)


def offer(simulation: Simulation, job: Job) -> bool:
    """Publish a job; the broker refuses a second one for a feed."""
    key = (job.partition, job.feed_id)
    if key in simulation.cluster.jobs:
        return False
    simulation.cluster.jobs[key] = StreamMessage(job, simulation.now)
    return True


def run_terminal(machine: Machine) -> Process:
    simulation, holdings = machine.simulation, LeasedHoldings(TIMING.fetch_seconds)
    clock = DatabaseClock(machine.wall_clock)
    machine.spawn(keep_partitions(machine, holdings, clock))
    busy: set[int] = set()  # hosts that this process talks to, as its `HostGate` knows
    while True:
        mine = holdings.list_open(machine.boot_clock())
        received: list[StreamMessage] = []
        if mine:
            with suppress(CallLost):
                received = yield Call(partial(take_jobs, simulation, mine))
        for message in received:
            holdings.note_leader(message.body.epoch, machine.boot_clock())
            holdings.begin_job(message.body.partition)
            machine.spawn(fetch_job(machine, holdings, clock, message, busy))
        yield Sleep(0.4)


def take_jobs(simulation: Simulation, partitions: Collection[int]) -> list[StreamMessage]:
    """Deliver the jobs of partitions; each is delivered again unless it is acknowledged in time."""
    taken = []
    for (partition, _), message in simulation.cluster.jobs.items():
        if partition in partitions and message.visible_at <= simulation.now and message.deliveries < MAX_DELIVERIES:
            message.deliveries += 1
            if message.deliveries > 1:
                simulation.counts["repeated"] += 1
            message.visible_at = simulation.now + TIMING.ack_seconds
            taken.append(message)
    return taken


def keep_partitions(machine: Machine, holdings: LeasedHoldings, clock: DatabaseClock) -> Process:
    """Renew, as `PartitionKeeper` does."""
    while True:
        asked, wall = machine.boot_clock(), machine.wall_clock()
        drained = holdings.release_drained()
        try:
            grant = yield Call(partial(machine.simulation.share, machine.name, dict(drained)))
        except CallLost:
            grant = None
        if grant is not None:
            holdings.apply_grant(grant, asked, machine.boot_clock())
            clock.correct(grant.clock, wall, machine.wall_clock())
        yield Sleep(TIMING.heartbeat_seconds / (4 if holdings.is_moving else 1))


def fetch_job(
    machine: Machine, holdings: LeasedHoldings, clock: DatabaseClock, message: StreamMessage, busy: set[int]
) -> Process:
    """Fetch one job, in the order of `FetchPool._run_job`."""
    simulation, cluster, job = machine.simulation, machine.simulation.cluster, message.body
    host = int((job.way.at if job.way is not None else job.url).split("/")[2][1:].split(".")[0])
    key = (job.partition, job.feed_id)

    def remove() -> None:
        if cluster.jobs.get(key) is message:
            del cluster.jobs[key]

    def give_back() -> None:
        message.visible_at = simulation.now + 0.5

    try:
        decision, epoch = decide_job(job, holdings, machine.boot_clock(), clock.now())
        if decision in (JobDecision.DROP, JobDecision.GIVE_BACK):
            yield Call(remove if decision is JobDecision.DROP else give_back)
            return
        nothing = Outcome(Ending.CONNECTION, job.url, job.url, clock.now(), 0.0)
        if decision is JobDecision.TOO_LATE:
            simulation.counts["unbegun"] += 1
            if job.errand is not None:
                yield from answer_person(simulation, job, remove)
                return
            result = FetchResult(job, nothing, machine.name, epoch, unasked=True, unbegun=True)
        else:
            until = holdings.until  # as `LeasedFetch` notes it
            while host in busy:  # its turn comes in the client, after the decision
                yield Sleep(0.05)
            busy.add(host)
            try:
                found = yield HostRequest(job, until)
            finally:
                busy.discard(host)
            if found is None:
                yield Call(give_back)
                return
            if job.errand is not None:
                yield from answer_person(simulation, job, remove)
                return
            if isinstance(found, Handover):
                result = FetchResult(job, nothing, machine.name, epoch, unasked=True, way=found)
            else:
                result = FetchResult(job, found, machine.name, epoch)
        yield from persist(Call(partial(hand_in, simulation, result)))
        yield Call(remove)
    except CallLost:
        pass  # an acknowledgement: the job is delivered again
    finally:
        holdings.end_job(job.partition)


def answer_person(simulation: Simulation, job: Job, remove: Callable[[], None]) -> Process:
    yield Call(partial(simulation.cluster.replies.add, job.feed_id))
    yield Call(remove)


def hand_in(simulation: Simulation, result: FetchResult) -> None:
    simulation.cluster.newest_result += 1
    message = StreamMessage(result, simulation.now, number=simulation.cluster.newest_result)
    simulation.cluster.results.append(message)


def run_storer(machine: Machine) -> Process:
    """Store results, acknowledged after the transaction, as `Ingest` does."""
    simulation, cluster = machine.simulation, machine.simulation.cluster

    def take() -> StreamMessage | None:
        for message in cluster.results:
            if message.visible_at <= simulation.now:
                message.visible_at = simulation.now + LEASE
                return message
        return None

    def remove(message: StreamMessage) -> None:
        if message in cluster.results:
            cluster.results.remove(message)

    while True:
        try:
            message = yield Call(take)
            if message is None:
                yield Sleep(0.4)
                continue
            yield from persist(Call(partial(store_result, simulation, message)))
            yield Call(partial(remove, message))
        except CallLost:
            yield Sleep(0.2)


def store_result(simulation: Simulation, message: StreamMessage) -> None:
    """One transaction: the feed's state, its new items with their outbox entries, and the lesson."""
    result: FetchResult = message.body
    cluster, feed = simulation.cluster, result.feed_id
    simulation.seen_results.add(message.number)
    epochs = {p: lease.epoch for p in range(PARTITIONS) if (lease := cluster.leases.get(f"partition/{p}")) is not None}
    late = is_late(result, epochs)
    if result.unasked:
        if not late:
            cluster.lessons.append((result, True))
        return
    known = cluster.known[feed]
    seen = {one: "" for one in find_unknown_identities(known, result.outcome) if (feed, one) in cluster.stored}
    verdict = judge(known, result.outcome, seen, reason=result.job.reason)
    for item in verdict.new:
        key = (feed, item.identity)
        if key not in cluster.stored:  # the key of the table: a late result may have brought it
            cluster.stored.add(key)
            cluster.outbox.append(key)
    if late:
        simulation.counts["late"] += 1
    else:
        cluster.known[feed] = verdict.known
    if known.last_refresh != verdict.refresh.at:
        cluster.lessons.append((result, late))


def run_processor(machine: Machine) -> Process:
    return run_elected(machine, "processor", match_items)


def match_items(machine: Machine, term: Term) -> Process:
    """Match the outbox: hits, deliveries and the checkpoint in one fenced transaction."""
    simulation, cluster = machine.simulation, machine.simulation.cluster

    def read() -> tuple[int, list[tuple[int, str]]]:
        return cluster.checkpoint, cluster.outbox[cluster.checkpoint : cluster.checkpoint + 10]

    def match(since: int, items: list[tuple[int, str]]) -> None:
        simulation.require(term.held)
        done = cluster.checkpoint  # a write of the same term may have arrived late: what it matched is skipped
        for key in items[max(done - since, 0) :]:
            simulation.check(key not in cluster.deliveries, f"{key} is matched a second time")
            cluster.deliveries[key] = PlannedDelivery(simulation.now)
        cluster.checkpoint = max(done, since + len(items))

    while True:
        try:
            since, items = yield Call(read)
            if items:
                yield Call(partial(match, since, items))
        except CallLost:
            pass
        yield Sleep(0.5)


def run_publisher(machine: Machine) -> Process:
    """Claim due deliveries, send them under a stable id, and mark them as done."""
    simulation, cluster = machine.simulation, machine.simulation.cluster

    def claim() -> list[tuple[int, str]]:
        due = [key for key, one in cluster.deliveries.items() if not one.done and one.due <= simulation.now][:3]
        for key in due:
            cluster.deliveries[key].due = simulation.now + LEASE
        return due

    def send(key: tuple[int, str]) -> None:
        simulation.received[key] = simulation.received.get(key, 0) + 1  # the receiver knows ids that it has seen

    def finish(key: tuple[int, str]) -> None:
        cluster.deliveries[key].done = True

    while True:
        try:
            for key in (yield Call(claim)):
                yield Call(partial(send, key))
                yield Call(partial(finish, key))
        except CallLost:
            pass
        yield Sleep(0.5)


def simulate(seed: int) -> Simulation:
    """Run one seed. Raises InvariantBroken, which tells the last events and how to repeat them."""
    simulation = Simulation(seed)
    with capture_logs():  # warnings about wrong clocks
        try:
            return simulation.run()
        except InvariantBroken as broken:
            broken.add_note("\n".join(simulation.trace))
            broken.add_note(f"Repeat it: cd tests && python -m support.cluster_simulation {seed}")
            raise


if __name__ == "__main__":
    sys.stdout.write(f"{simulate(int(sys.argv[1])).counts}\n")
