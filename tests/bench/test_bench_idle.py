"""The benchmark of an idle server runs at its small size and measures every figure it has a limit for."""

from __future__ import annotations

import pytest

from bench import idle


def test_the_small_run_compares_every_figure_with_its_limit(capsys: pytest.CaptureFixture[str]) -> None:
    figures = idle.main(small=True)
    assert set(figures) == set(idle.LIMITS)
    assert all(figure >= 0 for figure in figures.values())
    assert figures["empty server, MB"] > 30  # a Python process with SQLAlchemy is never smaller
    assert "× of it" in capsys.readouterr().out
