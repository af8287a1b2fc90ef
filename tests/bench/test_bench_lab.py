"""The lab's benchmark runs at its small size and prints ratios."""

from __future__ import annotations

import pytest
from bench.lab import main


def test_the_small_benchmark_prints_its_ratios(capsys: pytest.CaptureFixture[str]) -> None:
    main(small=True)
    printed = capsys.readouterr().out
    assert printed.count("× the bare loop") == 2
    assert "value" in printed
