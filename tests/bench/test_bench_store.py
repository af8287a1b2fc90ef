"""The store's benchmark runs at its small size and measures what it says."""

from __future__ import annotations

import pytest

from bench import store


def test_the_small_run_compares_the_store_with_bare_sqlite(capsys: pytest.CaptureFixture[str]) -> None:
    figures = store.main(small=True)
    assert {"save / bare", "index / bare", "both / both bare"} < set(figures)
    assert len(figures) == 3 + len(store.SMALL)
    assert all(figure > 0 for figure in figures.values())
    assert "bare executemany" in capsys.readouterr().out
