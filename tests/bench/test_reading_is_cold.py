"""The benchmark of reading reads with cold caches."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from bench import read


def test_a_process_reads_each_document_once(tmp_path: Path) -> None:
    bodies = read.load_documents(tmp_path / "no-archive", small=False)
    times_read: Counter[bytes] = Counter()
    read.time_reading(lambda body: times_read.update([body]), bodies)
    assert len(times_read) == len(bodies) + 1  # the warm-up document is not one of them
    assert set(times_read.values()) == {1}


def test_readers_take_turns() -> None:
    turns: list[str] = []

    def time_reader(name: str) -> float:
        turns.append(name)
        return float(len(turns))

    seconds = read.measure(["floor", "headwater"], 2, time_reader)
    assert turns == ["floor", "headwater", "floor", "headwater"]
    assert seconds == {"floor": [1.0, 3.0], "headwater": [2.0, 4.0]}


def test_a_ratio_is_the_median_of_the_ratios_of_each_round() -> None:
    seconds = {"floor": [1.0, 2.0, 10.0], "headwater": [2.0, 6.0, 40.0]}
    assert read.compare(seconds, "headwater", "floor") == 3.0  # of 2, 3 and 4
