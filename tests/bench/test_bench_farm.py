"""The farm's benchmark runs at its small size and measures what it says."""

from __future__ import annotations

import pytest

from bench import farm


def test_the_small_run_compares_the_farm_with_a_bare_protocol(capsys: pytest.CaptureFixture[str]) -> None:
    figures = farm.main(small=True)
    assert len(figures) == 4
    assert all(rate > 0 for rate in figures.values())
    assert figures["farm, 304"] > figures["farm, 200, document made"]
    assert "share of the limit" in capsys.readouterr().out
