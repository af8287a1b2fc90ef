"""Simulated clusters keep their invariants whatever fails, and the simulation finds clusters that break them."""

from __future__ import annotations

import math

import pytest

from headwater.cluster.leases.holdings import LeasedHoldings
from headwater.node.crawl.job_ledger import GrantLedger
from headwater.schedule.budget import RequestBudget
from headwater.store.cluster_leases import ClusterLease
from headwater.store.request_grants import GrantRow
from support import cluster_simulation
from support.cluster_simulation import InvariantBroken, simulate

SEEDS = 50
SOAK_SEEDS = 3000

# Seeds that once found a defect, each under a name that says which. A change of the simulation makes other runs
# of them.
KEPT = {
    "an-older-record-replaces-a-newer-one": 102,
    "a-desk-outlives-its-term": 835,
    "a-crashed-process-crashes-again-before-it-starts": 119,
}


@pytest.mark.parametrize("seed", [*range(SEEDS), *(pytest.param(seed, id=name) for name, seed in KEPT.items())])
def test_a_cluster_keeps_its_promises_whatever_fails(seed: int) -> None:
    simulate(seed)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_thousands_of_clusters_keep_their_promises(request: pytest.FixtureRequest) -> None:
    first = SEEDS + 1_000_000 * int(request.config.getoption("--hypothesis-seed") or 0)
    for seed in range(first, first + SOAK_SEEDS):
        simulate(seed)


def find_broken_promise(seeds: range) -> str:
    for seed in seeds:
        try:
            simulate(seed)
        except InvariantBroken as broken:
            return str(broken)
    return "every promise was kept"


def test_a_leader_that_inherits_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RequestBudget, "inherit", lambda *given: None)
    assert "within sixty seconds" in find_broken_promise(range(20))


def test_two_holders_of_one_lease_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def decide(current: ClusterLease, holder: str, now: float, seconds: float) -> ClusterLease:
        return ClusterLease(current.name, holder, current.epoch, now + seconds)

    monkeypatch.setattr(cluster_simulation, "decide_lease", decide)
    assert "hold controller in epoch" in find_broken_promise(range(3))


def test_grants_without_a_reservation_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def choose(self: GrantLedger, rows: list[GrantRow], now: float) -> list[int]:
        return [row.id for row in rows if not (row.is_over or row.is_granted)]

    monkeypatch.setattr(GrantLedger, "choose_wishes", choose)
    assert "within sixty seconds" in find_broken_promise(range(5))


def test_requests_that_outlive_their_lease_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LeasedHoldings, "until", property(lambda self: math.inf))
    monkeypatch.setattr(LeasedHoldings, "seconds_left", lambda self, now: math.inf)
    assert "is asked by two at once" in find_broken_promise(range(1, 20, 2))  # hosts are busy in those with odd numbers
