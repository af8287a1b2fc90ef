"""The demo with random kills loses nothing."""

from __future__ import annotations

import pytest

from headwater.cluster.demo.demo import DemoPlan, run_demo


@pytest.mark.soak
@pytest.mark.timeout(0)
async def test_eight_terminals_and_random_kills_lose_nothing_and_spare_every_host() -> None:
    verdict = await run_demo(DemoPlan(terminals=8, chaos=True, seconds=600.0, feeds=200, seed=7))
    assert verdict.ok, verdict
    assert verdict.kills > 50
    assert verdict.reckoning.at_once == 1


@pytest.mark.soak
@pytest.mark.timeout(0)
async def test_a_short_run_with_three_terminals_and_kills() -> None:
    verdict = await run_demo(DemoPlan(terminals=3, chaos=True, seconds=45.0, feeds=30, seed=2))
    assert verdict.ok, verdict
    assert verdict.kills > 2
