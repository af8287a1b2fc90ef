"""The fetcher's benchmark runs at its small size and measures what it says."""

from __future__ import annotations

import pytest

from bench import fetch


def test_the_small_run_compares_the_fetcher_with_bare_aiohttp(capsys: pytest.CaptureFixture[str]) -> None:
    ratios = fetch.main(small=True)
    assert set(ratios) == {"200", "304"}
    assert all(0 < ratio < 3 for ratio in ratios.values())
    assert "bare aiohttp" in capsys.readouterr().out
