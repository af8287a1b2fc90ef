"""A terminal's tenancy: nothing is begun that may not be; however words are late or lost, no host sees two at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headwater.cluster.messages import Grant
from headwater.cluster.tenancy import Tenancy

LEASE, FETCH, PAUSE = 6.0, 3.0, 1.0
PARTITIONS = range(3)


def grant(partitions: Mapping[int, int], *surplus: int, lacking: bool = False, seconds: float = LEASE) -> Grant:
    return Grant(dict(partitions), surplus, seconds, 1, 0.0, lacking=lacking)


def holding(partitions: Mapping[int, int], *surplus: int) -> Tenancy:
    """Asked for at 10 and heard at 11."""
    tenancy = Tenancy(FETCH)
    tenancy.granted(grant(partitions, *surplus), 10.0, 11.0)
    return tenancy


def test_who_holds_nothing_begins_nothing_and_asks_often() -> None:
    tenancy = Tenancy(FETCH)
    assert (tenancy.open(0.0), tenancy.epoch(1, 0.0), tenancy.claimed) == ([], None, {})
    assert tenancy.moving


@given(st.floats(0.0, 30.0))
def test_a_fetch_begins_only_if_it_must_end_before_the_lease_counted_from_the_question(now: float) -> None:
    tenancy = holding({1: 5, 2: 8})
    in_time = now + FETCH <= 10.0 + LEASE
    assert tenancy.open(now) == ([1, 2] if in_time else [])
    assert tenancy.epoch(2, now) == (8 if in_time else None)
    assert tenancy.epoch(3, now) is None
    assert tenancy.left(now) == 16.0 - now


@given(st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9)), st.lists(st.integers(0, 9)))
def test_what_is_draining_is_let_go_as_soon_as_nothing_of_it_is_in_hand_and_not_before(
    held: set[int], surplus: set[int], under_way: list[int]
) -> None:
    tenancy = holding({p: 100 + p for p in held}, *(surplus := surplus & held))
    assert set(tenancy.open(12.0)) == held - surplus
    for p in under_way:
        tenancy.begin(p)
    early = surplus.difference(under_way)
    assert tenancy.let_go() == {p: 100 + p for p in early}
    assert set(tenancy.held) == held - early
    for p in under_way:
        tenancy.end(p)
    assert tenancy.let_go() == {p: 100 + p for p in surplus}
    assert set(tenancy.held) == held - surplus
    assert set(tenancy.claimed) == held  # until we are answered the landlord may not know
    assert all(tenancy.epoch(p, 12.0) is None for p in surplus)


def test_what_was_let_go_is_said_until_it_is_answered_and_begun_again_only_when_it_is_held_anew() -> None:
    tenancy = holding({1: 5, 2: 8}, 1)
    for _ in range(3):  # nobody answers
        assert tenancy.let_go() == {1: 5}
        assert tenancy.epoch(1, 12.0) is None
    assert tenancy.granted(grant({1: 6, 2: 8}), 12.0, 12.5) == {1}
    assert tenancy.epoch(1, 12.5) == 6
    assert tenancy.let_go() == {}


def test_hosts_are_left_alone_for_a_pause_after_their_partition_became_ours() -> None:
    tenancy = holding({1: 5})
    assert tenancy.quiet(1, PAUSE, 11.25) == 0.75
    assert tenancy.quiet(1, PAUSE, 12.0) == 0.0
    tenancy.granted(grant({1: 5}), 12.0, 13.0)  # as before
    assert tenancy.quiet(1, PAUSE, 13.0) == 0.0
    assert tenancy.granted(grant({1: 7}), 30.0, 31.0) == {1}  # while we hung somebody else had it
    assert tenancy.quiet(1, PAUSE, 31.0) == PAUSE


def test_while_partitions_move_the_landlord_is_asked_often() -> None:
    assert not holding({1: 5}).moving
    assert holding({1: 5, 2: 5}, 2).moving
    tenancy = holding({1: 5})
    tenancy.granted(grant({1: 5}, lacking=True), 12.0, 12.0)
    assert tenancy.moving
    tenancy.granted(grant({}), 13.0, 13.0)
    assert tenancy.moving


# several tenants and a landlord, between whom words are late or lost


@dataclass
class Lease:
    holder: str = ""
    epoch: int = 0
    until: float = 0.0


@dataclass
class Question:
    name: str
    at: float
    drained: Mapping[int, int]


@dataclass
class Fetch:
    name: str
    partition: int
    deadline: float  # at which it is broken off


class Tenants(RuleBasedStateMachine):
    """Leases as the store keeps them; whatever else a landlord may do by his own lights is drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        self.leases = {p: Lease() for p in PARTITIONS}
        self.tenants: dict[str, Tenancy] = {}
        self.asking: dict[str, Question] = {}  # what each waits for
        self.sent: list[Question] = []
        self.answers: list[tuple[Question, Grant]] = []
        self.fetches: list[Fetch] = []
        self.asked_last: dict[int, tuple[str, float]] = {}  # partition → by whom, when that ended
        for name in "abc":
            self.tenants[name] = Tenancy(FETCH)

    def ended(self, fetch: Fetch, at: float) -> None:
        self.fetches.remove(fetch)
        self.asked_last[fetch.partition] = fetch.name, at
        if fetch.name in self.tenants:
            self.tenants[fetch.name].end(fetch.partition)

    @rule(quarters=st.integers(1, 28))
    def time_goes_by(self, quarters: int) -> None:
        self.now += quarters / 4
        for fetch in [one for one in self.fetches if one.deadline <= self.now]:
            self.ended(fetch, fetch.deadline)

    @rule(data=st.data())
    def somebody_asks(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.tenants)))
        question = Question(name, self.now, self.tenants[name].let_go())
        self.asking[name] = question  # what was asked before is waited for no more
        self.sent.append(question)

    @precondition(lambda self: self.sent)
    @rule(data=st.data(), lost=st.booleans(), surplus=st.sets(st.sampled_from(PARTITIONS)))
    def the_landlord_hears(self, data: st.DataObject, lost: bool, surplus: set[int]) -> None:
        question = data.draw(st.sampled_from(self.sent))
        self.sent.remove(question)
        mine = {}
        for p, lease in self.leases.items():
            if (lease.holder, lease.epoch) == (question.name, question.drained.get(p)):
                lease.until = 0.0
            kept = lease.holder == question.name and lease.until > 0.0
            if not kept and lease.until < self.now and data.draw(st.booleans()):
                lease.epoch += lease.holder != question.name or lease.until == 0.0
                lease.holder, kept = question.name, True
            if kept:
                lease.until = self.now + LEASE
                mine[p] = lease.epoch
        if not lost:
            self.answers.append((question, grant(mine, *surplus.intersection(mine))))

    @precondition(lambda self: self.answers)
    @rule(data=st.data())
    def somebody_is_answered(self, data: st.DataObject) -> None:
        question, answer = data.draw(st.sampled_from(self.answers))
        self.answers.remove((question, answer))
        if self.asking.get(question.name) is question:
            del self.asking[question.name]
            self.tenants[question.name].granted(answer, question.at, self.now)

    @rule(data=st.data(), partition=st.sampled_from(PARTITIONS))
    def somebody_fetches(self, data: st.DataObject, partition: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.tenants)))
        tenancy = self.tenants[name]
        epoch = tenancy.epoch(partition, self.now)
        if epoch is None or tenancy.quiet(partition, PAUSE, self.now) > 0.0:
            return
        lease = self.leases[partition]
        assert (lease.holder, lease.epoch) == (name, epoch)
        assert lease.until >= self.now + FETCH
        by, at = self.asked_last.get(partition, (name, 0.0))
        assert by == name or self.now >= at + PAUSE  # its own pauses are kept elsewhere
        tenancy.begin(partition)
        self.fetches.append(Fetch(name, partition, self.now + tenancy.left(self.now)))

    @precondition(lambda self: self.fetches)
    @rule(data=st.data())
    def a_fetch_ends(self, data: st.DataObject) -> None:
        self.ended(data.draw(st.sampled_from(self.fetches)), self.now)

    @rule(data=st.data())
    def somebody_dies_and_another_comes(self, data: st.DataObject) -> None:
        """What is under way at a host goes on there."""
        name = data.draw(st.sampled_from(sorted(self.tenants)))
        del self.tenants[name]
        self.asking.pop(name, None)
        self.tenants[f"{name}'"] = Tenancy(FETCH)

    @invariant()
    def no_host_sees_two_and_nobody_works_past_its_lease(self) -> None:
        for fetch in self.fetches:
            assert self.leases[fetch.partition].holder == fetch.name
            assert self.leases[fetch.partition].until >= fetch.deadline
            assert all(one.name == fetch.name for one in self.fetches if one.partition == fetch.partition)

    @invariant()
    def what_is_let_go_is_not_begun(self) -> None:
        for tenancy in self.tenants.values():
            gone = tenancy.claimed.keys() - tenancy.held.keys()
            assert not [p for p in gone if tenancy.epoch(p, self.now) is not None]
            assert not gone.intersection(tenancy.open(self.now))


TestTenants = Tenants.TestCase
TestTenants.settings = settings(max_examples=25, stateful_step_count=50, deadline=None)
