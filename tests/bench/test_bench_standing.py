"""The benchmark of a server with many queries runs, and says what it is there to say."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from bench import standing


def test_a_server_with_queries_starts_and_items_come_through_while_more_are_added(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workload = standing.Workload()
    place = asyncio.run(standing.filled(tmp_path, 60, workload))
    asyncio.run(standing.start(place, 60, workload, 0, settling=0.0))
    asyncio.run(standing.add(place, 60, 60, 10, workload))
    shown = capsys.readouterr().out
    assert float(re.findall(r"seconds +([\d.]+)", shown)[0]) > 0
    assert float(re.findall(r"memory +([\d.]+) MiB", shown)[0]) > 50
    for line in ("nothing comes", "one query comes", "60 queries come"):
        assert line in shown
