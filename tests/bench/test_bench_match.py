"""The matching and joining benchmarks run, and say what they are there to say."""

from __future__ import annotations

import re

import pytest

from bench import join, match


def test_the_matching_benchmark_shows_ratios_memory_and_peers(capsys: pytest.CaptureFixture[str]) -> None:
    match.main(small=True, sizes=[500])
    shown = capsys.readouterr().out
    for line in ("and matching", "candidates per hit", "bytes a query", "add", "drop", "brute force", "SQLite FTS5"):
        assert line in shown
    ratios = re.findall(r"ratio +([\d.]+)", shown)
    assert len(ratios) == 3  # plain, compiled, and with every hit read
    assert all(float(ratio) > 0 for ratio in ratios)


def test_the_joining_benchmark_finds_the_copies(capsys: pytest.CaptureFixture[str]) -> None:
    join.measure("CONTENT", 150, 60, join.Workload())
    found = re.search(r"recall +([\d.]+) of (\d+)", capsys.readouterr().out)
    assert found is not None
    assert int(found[2]) > 0
    assert float(found[1]) >= 0.98
