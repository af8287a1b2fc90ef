"""Simulated clusters keep their promises whatever fails; and the simulation finds clusters that do not."""

from __future__ import annotations

import pytest

from headwater.schedule.budget import RequestBudget
from headwater.store.cluster_leases import ClusterLease
from support import cluster_simulation
from support.cluster_simulation import InvariantBroken, simulate

SEEDS = 50
SOAK_SEEDS = 3000

# Seeds that once found a defect, each under a name that says which.
KEPT = {
    # A restarted processor keeps its lease; the last write of its former self arrives after it has read the checkpoint.
    "write-outlives-its-process": 1376,
    "write-outlives-its-process-after-ninety-seconds": 1412,
    "write-outlives-a-paused-processor": 1646,
}


@pytest.mark.parametrize("seed", [*range(SEEDS), *(pytest.param(seed, id=name) for name, seed in KEPT.items())])
def test_a_cluster_keeps_its_promises_whatever_fails(seed: int) -> None:
    simulate(seed)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_thousands_of_clusters_keep_their_promises(request: pytest.FixtureRequest) -> None:
    first = SEEDS + 1_000_000 * (request.config.getoption("--hypothesis-seed") or 0)
    for seed in range(int(first), int(first) + SOAK_SEEDS):
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
