"""The history of quality is stored by the minute, later every ten minutes, and deleted after two weeks."""

from __future__ import annotations

import itertools
from pathlib import Path

from headwater.node.quality.quality_monitor import QualityHistory, QualityPoint, load_history, save_history
from headwater.store.opening import open_store

DAY = 86_400.0


def line(at: float) -> QualityPoint:
    return QualityPoint(at, 0.9, 0.8, 60.0, 10.0, 60.0, 0.1, 0.0)


def test_old_lines_become_fewer_and_very_old_ones_go() -> None:
    history = QualityHistory()
    for minute in range(0, 20 * 1440, 7):
        history.append(line(minute * 60.0))
    now = (20 * 1440 - 7) * 60.0
    lines = history.list_since(0)
    assert lines[0].at >= now - 14 * DAY
    assert all(later.at > earlier.at for earlier, later in itertools.pairwise(lines))
    young = history.list_since(now - 2 * 3600)
    assert {round(b.at - a.at) for a, b in itertools.pairwise(young)} == {420}
    assert len(lines) <= 14 * 144 + 30


async def test_the_history_survives_in_the_store(tmp_path: Path) -> None:
    async with await open_store(f"sqlite:///{tmp_path / 'h.sqlite'}") as store:
        assert (await load_history(store)).list_since(0) == []
        history = QualityHistory()
        history.append(line(100.0))
        await save_history(store, history, 100.0)
        assert (await load_history(store)).list_since(0) == [line(100.0)]
