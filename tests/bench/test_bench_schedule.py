"""The benchmark runs at its small size, and a decision costs what it promises in memory and growth."""

from __future__ import annotations

import pytest
from bench.schedule import main

from headwater.estimate.models.smoothing import PeriodicRate


def test_the_benchmark_runs(capsys: pytest.CaptureFixture[str]) -> None:
    lines = main(small=True)
    assert {line.what for line in lines} == {"advarss", "top_utility", "two_steps", "only_tau", "value", "manners"}
    assert all(line.seconds > 0 and line.floor > 0 for line in lines)
    assert "ratio" in capsys.readouterr().out


def test_a_million_feeds_with_168_slots_fit_into_a_gigabyte() -> None:
    assert PeriodicRate(10, slots=168).bytes_per_feed * 1_000_000 < 1e9
