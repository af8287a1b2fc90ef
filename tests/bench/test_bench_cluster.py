"""The benchmark of clusters runs at its small size and measures what it says."""

from __future__ import annotations

import pytest

from bench import cluster


@pytest.mark.soak  # a minute of CPU: two clusters are started
def test_the_small_run_compares_every_rung_with_rung_0(capsys: pytest.CaptureFixture[str]) -> None:
    ratios = cluster.main(small=True)
    assert {"rung 1 cold", "rung 2, 1 terminal cold", "rung 2, 1 terminal warm", "rung 2, 1 terminal mixed"} <= set(
        ratios
    )
    assert all(ratio > 0.3 for ratio in ratios.values())
    said = capsys.readouterr().out
    assert "SKIP LOCKED" in said
    assert "take-over with" in said
