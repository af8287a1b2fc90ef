"""Traces are read from Parquet and CSV alike, and every damage is reported in one sentence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from headwater.errors import TraceError
from headwater.lab.simulation.replay import ReplaySettings, replay_trace
from headwater.lab.traces.trace import Trace, load_trace
from headwater.lab.traces.trace_files import rename_columns
from headwater.lab.traces.trace_queries import find_subjects
from headwater.schedule.strategies.round_robin import Uniform
from headwater.schedule.strategy import Table

GOOD = {
    "source": ["b", "a", "b", "c"],
    "published_at": [10, 11, 12, 12],
    "title": ["one", None, "three", "four"],
    "categories": ["x;y", "", "x", "z"],
}


def write(folder: Path, columns: dict[str, object], name: str = "t.parquet") -> Path:
    path = folder / name
    table = pa.table(columns)
    if name.endswith(".csv"):
        csv.write_csv(table, path)
    else:
        parquet.write_table(table, path)
    return path


@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
def test_both_formats_give_the_same_arrays(tmp_path: Path, name: str) -> None:
    trace = load_trace(write(tmp_path, GOOD, name), text=True)
    assert dict(zip(trace.names, trace.counts.tolist(), strict=True)) == {"a": 1, "b": 2, "c": 1}
    b = trace.names.index("b")
    assert trace.feed_times(b).tolist() == [10.0, 12.0]
    assert trace.titles is not None
    assert trace.titles[trace.offsets[b] + 1] == "three"
    assert trace.categories is not None
    assert trace.categories[trace.offsets[trace.names.index("a")]] == ""


def test_timestamps_of_any_unit_are_seconds(tmp_path: Path) -> None:
    times = pa.array([10_000, 11_000, 12_000, 12_500], type=pa.timestamp("ms"))
    trace = load_trace(write(tmp_path, {**GOOD, "published_at": times}))
    assert sorted(trace.times.tolist()) == [10.0, 11.0, 12.0, 12.5]


DAYS = [1_577_836_800.0, 1_577_923_200.0, 1_578_009_600.0, 1_578_009_600.0]


@pytest.mark.parametrize(
    "written",
    [
        pa.array([18_262, 18_263, 18_264, 18_264], type=pa.date32()),
        pa.array([int(t * 1e9) + 1 for t in DAYS], type=pa.timestamp("ns")),
        pa.array([int(t) for t in DAYS], type=pa.timestamp("s", "Asia/Tokyo")),
        [str(t) for t in DAYS],
        pa.array([f"{t:.0f}" for t in DAYS]).dictionary_encode(),
        ["2020-01-01", "2020-01-02T01:00:00+01:00", "Fri, 03 Jan 2020 00:00:00 GMT", "2020-01-03T00:00:00Z"],
        pa.array(DAYS, type=pa.float32()).cast(pa.float64()),
        pa.array([int(t) for t in DAYS]).cast(pa.decimal128(24, 2)),
    ],
    ids=["dates", "nanoseconds", "zones", "seconds as text", "in a dictionary", "dates as text", "floats", "decimals"],
)
def test_dates_of_every_type_are_utc_seconds(tmp_path: Path, written: object) -> None:
    trace = load_trace(write(tmp_path, {**GOOD, "published_at": written}))
    assert sorted(trace.times.tolist()) == pytest.approx(DAYS, abs=64)  # float32 precision


def test_a_csv_is_read_whatever_its_first_rows_look_like(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_text(
        'id,categories,published_at,title,source\r\n1,,10,7,1\r\n2,x,11.5,"two\nlines",1\r\n3,,12,"a ""b""",c\r\n'
    )
    trace = load_trace(path, text=True)
    assert dict(zip(trace.names, trace.counts.tolist(), strict=True)) == {"1": 2, "c": 1}
    assert trace.times.tolist() == [10.0, 11.5, 12.0]
    assert trace.titles == ("7", "two\nlines", 'a "b"')


def test_only_an_export_is_sorted_by_the_reader(tmp_path: Path) -> None:
    late = {"source": ["a", "a"], "published_at": [20.0, 10.0], "title": ["late", "early"]}
    with pytest.raises(TraceError, match="not sorted"):
        load_trace(write(tmp_path, late))
    exported = late | {"id": [1, 2], "identity": ["x", "y"], "first_seen": [21.0, 22.0]}
    trace = load_trace(write(tmp_path, exported), text=True)
    assert (trace.times.tolist(), trace.titles) == ([10.0, 20.0], ("early", "late"))


def test_categories_of_feeds_are_gathered_from_their_rows(tmp_path: Path) -> None:
    columns = GOOD | {"feed_categories": ["sport", None, "news", ""], "categories": ["", "", "", "hotel"]}
    trace = load_trace(write(tmp_path, columns), text=True)
    assert dict(zip(trace.names, trace.feed_categories or (), strict=True)) == {"a": "", "b": "sport; news", "c": ""}
    assert trace.select_feeds(np.array([0])).feed_categories == ("sport; news",)
    subjects = find_subjects(trace)
    found = {name: [trace.names[k] for k in np.flatnonzero(subjects[name])] for name in ("sport", "travel")}
    assert found == {"sport": ["b"], "travel": ["c"]}


HISTORY = """1287000000000;"third; still";"http://a/3";900;700;5
MISS;MISS;MISS;MISS;MISS;MISS
1286900000000;"secondputSemicolonHere 'quoted'";"http://a/2;x";900;700;5
1286900000000;"two
lines";"http://a/2b";900;700;4
1286890000000;"###NO_TITLE###";"http://a/0";900;700;4
1286880000000;"a damaged line";900
1100000000000;"from before the crawl";"http://a/1";900;700;4
"""


def test_a_folder_of_tudcs1_is_a_trace_of_its_feeds_with_their_windows(tmp_path: Path) -> None:
    for name, text in (
        ("0/7/7_a_com_feed", HISTORY),
        ("0/8/8_silent", HISTORY.splitlines()[-1]),
        ("1/1001/1001_b", ""),
    ):
        file = tmp_path / f"{name}.csv"
        file.parent.mkdir(parents=True)
        file.write_text(text)
    trace = load_trace(tmp_path, text=True)
    assert trace.names == ("7_a_com_feed", "8_silent")
    assert trace.counts.tolist() == [4, 0]
    assert trace.times.tolist() == [1286890000.0, 1286900000.0, 1286900000.0, 1287000000.0]
    assert trace.titles == ("", "second; 'quoted'", "two\nlines", "third; still")
    assert trace.windows is not None
    assert trace.windows.tolist() == [5, 4]
    assert load_trace(tmp_path).titles is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('1287000000000;1287000001000;hash;"title";"link";5;\n', "Line 1 of 1_x.csv is not of TUDCS1"),
        ('12h;"title";"link";9;9;5\n', "Line 1 of 1_x.csv is not of TUDCS1"),
        (f'1287000000000;"{"x" * 200_000}";"link";9;9;5\n', "cannot be read as CSV: field larger"),
        ('1100000000000;"old";"link";9;9;5\n', "The trace has no items"),
    ],
)
def test_a_folder_of_another_layout_is_refused_with_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "1_x.csv").write_text(text)
    with pytest.raises(TraceError, match=sentence):
        load_trace(tmp_path)


def test_a_folder_without_histories_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="has no CSV files of TUDCS1"):
        load_trace(tmp_path)
    with pytest.raises(TraceError, match="--columns names the columns of one file"):
        rename_columns(tmp_path, "source=feed", tmp_path)


def test_categories_may_be_a_list(tmp_path: Path) -> None:
    trace = load_trace(write(tmp_path, {**GOOD, "categories": [["x", "y"], [], None, ["z"]]}), text=True)
    assert sorted(trace.categories or ()) == ["", "", "x; y", "z"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"published_at": [10, 11, 9, 12]}, "not sorted: row 3 of “b”"),
        ({"published_at": [1.6e12, 1.6e12, 1.6e12, 1.6e12]}, "milliseconds"),
        ({"published_at": [1.6e15] * 4}, "microseconds; give UTC seconds: divide by 10⁶"),
        ({"published_at": ["1", "2", "2026-13-40", "q"]}, "Row 1 of t.parquet: “1” is neither a number nor a date"),
        ({"published_at": ["10", "11", " ", "12"]}, "1 rows without published_at"),
        ({"published_at": [True, False, True, True]}, "holds bool instead of dates"),
        ({"source": [["a"], ["b"], ["b"], ["c"]]}, "holds list<.*> instead of names"),
        ({"published_at": [10.0, None, 12.0, 13.0]}, "1 rows without published_at"),
        ({"published_at": [10.0, float("inf"), 12.0, 13.0]}, "not finite"),
        ({"source": ["b", "", "b", "c"]}, "source is empty"),
        ({"source": ["b", None, "b", "c"]}, "without a source"),
    ],
)
def test_a_damaged_trace_is_refused_with_one_sentence(tmp_path: Path, change: dict[str, object], sentence: str) -> None:
    with pytest.raises(TraceError, match=sentence):
        load_trace(write(tmp_path, {**GOOD, **change}))


def test_missing_columns_files_and_rows_are_refused_with_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no column “published_at”"):
        load_trace(write(tmp_path, {"source": ["a"]}))
    with pytest.raises(TraceError, match="no items"):
        load_trace(write(tmp_path, {"source": pa.array([], pa.string()), "published_at": pa.array([], pa.int64())}))
    with pytest.raises(TraceError, match="There is no trace"):
        load_trace(tmp_path / "absent.parquet")
    for name, text, sentence in (
        ("items.json", "{}", "neither Parquet, CSV nor JSON lines"),
        ("empty.csv", "", "cannot be read as CSV"),
        ("header.csv", "source,published_at\n", "no items"),
        ("other.csv", "source;published_at\na;1\n", "no column “source”"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(TraceError, match=sentence):
            load_trace(tmp_path / name)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(TraceError, match="cannot be read as Parquet"):
        load_trace(tmp_path / "broken.parquet")


def test_parts_of_a_trace_keep_its_feeds_apart() -> None:
    trace = Trace.from_lists([[1.0, 5.0], [], [2.0, 6.0, 7.0]])
    assert trace.select_feeds(np.array([2, 0])).feed_times(0).tolist() == [2.0, 6.0, 7.0]
    part = trace.select_period(2.0, 7.0)
    assert [part.feed_times(k).tolist() for k in range(3)] == [[5.0], [], [2.0, 6.0]]


def test_the_open_traces_load(shared_data: Path) -> None:
    news = load_trace(shared_data / "traces" / "news.parquet")
    assert (news.feeds, len(news.times)) == (6977, 588_793)
    assert int((news.times >= news.start + 21 * 86_400).sum()) == 475_363


def test_readers_and_costs_of_a_trace_reach_the_strategy() -> None:
    trace = replace(Trace.from_lists([[0.0], [1.0], [2.0]]), readers=np.array([0.0, 5.0, 3.0]), costs=np.ones(3) * 2)
    table = Table.of(2)
    trace.select_feeds(np.array([1, 0])).fill_table(table)
    assert table.subscribers.tolist() == [5, 0]
    assert table.weight.round(3).tolist() == [1.667, 0.333]  # per mean number of readers, at least one per feed
    assert table.cost.tolist() == [2, 2]
    seen = []

    class Looking(Uniform):
        name = "looking"

        def choose(self, table, now, budget, candidates=None):  # type: ignore[no-untyped-def]
            seen.append(table.subscribers.tolist())
            return super().choose(table, now, budget, candidates)

    replay_trace(Looking(), trace, ReplaySettings(window=1, history_days=0, warmup_days=0, tick=0.5), 1e5)
    assert seen[0] == [0, 5, 3]
