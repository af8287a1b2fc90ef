"""A terminal begins only fetches that its leases cover, even if messages are late or lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.cluster.leases.holdings import LeasedHoldings
from headwater.cluster.transport.wire_messages import Grant

LEASE, FETCH, PAUSE = 6.0, 3.0, 1.0
P = 7  # any partition


def grant(partitions: Mapping[int, int], *surplus: int, lacking: bool = False, seconds: float = LEASE) -> Grant:
    return Grant(dict(partitions), surplus, seconds, 1, 0.0, lacking=lacking)


def holding(partitions: Mapping[int, int], *surplus: int) -> LeasedHoldings:
    """Make holdings with partitions that were requested at 10 and granted at 11."""
    tenancy = LeasedHoldings(FETCH)
    tenancy.apply_grant(grant(partitions, *surplus), 10.0, 11.0)
    return tenancy


def test_who_holds_nothing_begins_nothing_and_asks_often() -> None:
    tenancy = LeasedHoldings(FETCH)
    assert (tenancy.list_open(0.0), tenancy.find_epoch(1, 0.0), tenancy.claimed) == ([], None, {})
    assert tenancy.is_moving


@given(st.floats(0.0, 30.0))
def test_a_fetch_begins_only_if_it_must_end_before_the_lease_counted_from_the_question(now: float) -> None:
    tenancy = holding({1: 5, 2: 8})
    in_time = now + FETCH <= 10.0 + LEASE
    assert tenancy.list_open(now) == ([1, 2] if in_time else [])
    assert tenancy.find_epoch(2, now) == (8 if in_time else None)
    assert tenancy.find_epoch(3, now) is None
    assert tenancy.seconds_left(now) == 16.0 - now


@given(st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9)), st.lists(st.integers(0, 9)))
def test_what_is_draining_is_let_go_as_soon_as_nothing_of_it_is_in_hand_and_not_before(
    held: set[int], surplus: set[int], under_way: list[int]
) -> None:
    tenancy = holding({p: 100 + p for p in held}, *(surplus := surplus & held))
    assert set(tenancy.list_open(12.0)) == held - surplus
    for p in under_way:
        tenancy.begin_job(p)
    early = surplus.difference(under_way)
    assert tenancy.release_drained() == {p: 100 + p for p in early}
    assert set(tenancy.held) == held - early
    for p in under_way:
        tenancy.end_job(p)
    assert tenancy.release_drained() == {p: 100 + p for p in surplus}
    assert set(tenancy.held) == held - surplus
    assert set(tenancy.claimed) == held  # until an answer arrives, the leader may not know
    assert all(tenancy.find_epoch(p, 12.0) is None for p in surplus)


def test_a_partition_let_go_is_reported_until_that_is_answered_and_begun_again_only_when_held_anew() -> None:
    tenancy = holding({1: 5, 2: 8}, 1)
    for _ in range(3):  # no answer comes
        assert tenancy.release_drained() == {1: 5}
        assert tenancy.find_epoch(1, 12.0) is None
    assert tenancy.apply_grant(grant({1: 6, 2: 8}), 12.0, 12.5) == {1}
    assert tenancy.find_epoch(1, 12.5) == 6
    assert tenancy.release_drained() == {}


def test_hosts_are_left_alone_for_a_pause_after_their_partition_became_ours() -> None:
    tenancy = holding({1: 5})
    assert tenancy.quiet_seconds(1, PAUSE, 11.25) == 0.75
    assert tenancy.quiet_seconds(1, PAUSE, 12.0) == 0.0
    tenancy.apply_grant(grant({1: 5}), 12.0, 13.0)  # renewed
    assert tenancy.quiet_seconds(1, PAUSE, 13.0) == 0.0
    assert tenancy.apply_grant(grant({1: 7}), 30.0, 31.0) == {1}  # another terminal held it during the hang
    assert tenancy.quiet_seconds(1, PAUSE, 31.0) == PAUSE


def test_while_partitions_move_the_landlord_is_asked_often() -> None:
    assert not holding({1: 5}).is_moving
    assert holding({1: 5, 2: 5}, 2).is_moving
    tenancy = holding({1: 5})
    tenancy.apply_grant(grant({1: 5}, lacking=True), 12.0, 12.0)
    assert tenancy.is_moving
    tenancy.apply_grant(grant({}), 13.0, 13.0)
    assert tenancy.is_moving


# Two terminals, one partition and a leader; their messages may be late or lost.


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
class HeldFetch:
    name: str
    deadline: float  # when it is cancelled


class Tenants:
    """Two terminals and the stored lease; events, delays and losses are random."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.now = 100.0
        self.lease = Lease()
        self.names = ["a", "b"]
        self.tenants = {name: LeasedHoldings(FETCH) for name in self.names}
        self.asking: dict[str, Question] = {}  # the open request of each
        self.sent: list[Question] = []
        self.answers: list[tuple[Question, Grant]] = []
        self.fetches: list[HeldFetch] = []
        self.begun = 0
        self.asked_last = "", 0.0  # the last fetcher, and when it ended

    def step(self) -> None:
        happens = (
            *(self.time_goes_by, self.somebody_asks, self.the_landlord_hears, self.somebody_is_answered),
            *(self.somebody_fetches, self.a_fetch_ends, self.somebody_dies_and_another_comes),
        )
        [one] = self.chance.choices(happens, (6, 4, 4, 4, 8, 1, 0.2))
        one()
        self.no_host_sees_two_and_nobody_works_past_its_lease()
        self.what_is_let_go_or_to_be_let_go_is_not_begun()

    def time_goes_by(self) -> None:
        self.now += self.chance.choices([0.1, PAUSE, FETCH, LEASE + 0.1], (8, 4, 1, 0.5))[0]
        for fetch in [one for one in self.fetches if one.deadline <= self.now]:
            self.ended(fetch, fetch.deadline)

    def somebody_asks(self) -> None:
        name = self.chance.choice(self.names)
        question = Question(name, self.now, self.tenants[name].release_drained())
        self.asking[name] = question  # replaces the earlier request
        self.sent.append(question)

    def the_landlord_hears(self) -> None:
        if self.sent:
            question = self.sent.pop(self.late(len(self.sent)))
            answer = self.granted(question)
            if self.chance.random() < 0.8:
                self.answers.append((question, answer))

    def late(self, words: int) -> int:
        """Choose the message that arrives: mostly the last, sometimes any."""
        return words - 1 if self.chance.random() < 0.7 else self.chance.randrange(words)

    def granted(self, question: Question) -> Grant:
        lease = self.lease
        if (lease.holder, lease.epoch) == (question.name, question.drained.get(P)):
            lease.until = 0.0
        kept = lease.holder == question.name and lease.until > 0.0
        if not kept and lease.until < self.now and self.chance.random() < 0.7:
            lease.epoch += lease.holder != question.name or lease.until == 0.0
            lease.holder, kept = question.name, True
        if not kept:
            return grant({})
        lease.until = self.now + LEASE
        return grant({P: lease.epoch}, *[P] * (self.chance.random() < 0.3))

    def somebody_is_answered(self) -> None:
        if self.answers:
            question, answer = self.answers.pop(self.late(len(self.answers)))
            if self.asking.get(question.name) is question:
                del self.asking[question.name]
                self.tenants[question.name].apply_grant(answer, question.at, self.now)

    def somebody_fetches(self) -> None:
        name = self.chance.choice(self.names)
        tenancy = self.tenants[name]
        epoch = tenancy.find_epoch(P, self.now)
        if epoch is None or tenancy.quiet_seconds(P, PAUSE, self.now) > 0.0:
            return
        assert (self.lease.holder, self.lease.epoch) == (name, epoch)
        assert self.lease.until >= self.now + FETCH
        by, at = self.asked_last
        assert by == name or self.now >= at + PAUSE  # its own pauses are enforced elsewhere
        tenancy.begin_job(P)
        self.begun += 1
        self.fetches.append(HeldFetch(name, self.now + tenancy.seconds_left(self.now)))

    def a_fetch_ends(self) -> None:
        if self.fetches:
            self.ended(self.chance.choice(self.fetches), self.now)

    def ended(self, fetch: HeldFetch, at: float) -> None:
        self.fetches.remove(fetch)
        self.asked_last = fetch.name, at
        if fetch.name in self.tenants:
            self.tenants[fetch.name].end_job(P)

    def somebody_dies_and_another_comes(self) -> None:
        """Replace a terminal; its requests at hosts go on."""
        who = self.chance.randrange(2)
        old, new = self.names[who], f"{self.names[who]}'"
        del self.tenants[old]
        self.asking.pop(old, None)
        self.names[who], self.tenants[new] = new, LeasedHoldings(FETCH)

    def no_host_sees_two_and_nobody_works_past_its_lease(self) -> None:
        for fetch in self.fetches:
            assert self.lease.holder == fetch.name
            assert self.lease.until >= fetch.deadline
        assert len({fetch.name for fetch in self.fetches}) <= 1

    def what_is_let_go_or_to_be_let_go_is_not_begun(self) -> None:
        for tenancy in self.tenants.values():
            closed = (tenancy.claimed.keys() - tenancy.held.keys()) | tenancy.draining
            assert not [p for p in closed if tenancy.find_epoch(p, self.now) is not None]
            assert not closed.intersection(tenancy.list_open(self.now))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 32))
def test_however_words_are_late_or_lost_a_host_sees_one_tenant_at_a_time_with_a_pause_between_two(seed: int) -> None:
    tenants = Tenants(Random(seed))
    for _ in range(100_000):
        tenants.step()
        if tenants.begun == 80:
            return
    pytest.fail("hardly anything is ever begun")


def test_a_grant_corrects_the_epoch_that_a_forged_job_claimed() -> None:
    holdings = LeasedHoldings(10.0)
    holdings.apply_grant(Grant({1: 1}, (), 60.0, 4, 0.0), 0.0, 1.0)
    holdings.note_leader(1000, 5.0)
    assert holdings.is_outdated(4)
    holdings.apply_grant(Grant({1: 1}, (), 60.0, 4, 0.0), 4.0, 6.0)  # asked before: the leader may be new
    assert holdings.is_outdated(4)
    holdings.apply_grant(Grant({1: 1}, (), 60.0, 4, 0.0), 7.0, 8.0)
    assert not holdings.is_outdated(4)
    assert holdings.is_outdated(3)
    holdings.note_leader(5, 9.0)  # a real one
    holdings.apply_grant(Grant({1: 1}, (), 60.0, 5, 0.0), 10.0, 11.0)
    assert holdings.is_outdated(4)
