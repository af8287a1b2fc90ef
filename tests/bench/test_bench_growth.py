"""The benchmark of growth runs at its small size and measures what it says."""

from __future__ import annotations

import pytest

from bench import growth


def test_the_small_run_compares_a_refresh_in_a_larger_store_with_one_in_a_small_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ratios = growth.main(small=True)
    assert set(ratios) == {f"{size}: {kind}" for size in growth.SMALL for kind in (growth.NEWS, growth.NO_NEWS)}
    assert all(ratio > 0 for ratio in ratios.values())
    assert "one new item" in capsys.readouterr().out
