"""The benchmark of refreshing runs at its small size and measures what it says."""

from __future__ import annotations

import pytest

from bench import refresh


def test_the_small_run_compares_a_refresh_with_the_floor(capsys: pytest.CaptureFixture[str]) -> None:
    ratios = refresh.main(small=True)
    assert set(ratios) == {"cold", "warm"}
    assert all(ratio > 0.5 for ratio in ratios.values())  # nobody is twice as fast as the floor
    assert "the floor's CPU per feed" in capsys.readouterr().out
