"""The benchmark of reading runs."""

from __future__ import annotations

import pytest
from bench.read import made_up, main, measure


def test_the_small_size_prints_both_ratios(capsys: pytest.CaptureFixture[str]) -> None:
    main(small=True)
    shown = capsys.readouterr().out
    assert "× a bare lxml parse" in shown
    assert "× faster than feedparser" in shown


def test_reading_is_faster_than_feedparser() -> None:
    seconds = measure(made_up()[:3])
    assert seconds["headwater"] < seconds["feedparser"]
