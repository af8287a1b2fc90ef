"""Exports are complete, incremental, resumable, and readable by the lab."""

from __future__ import annotations

import csv
from pathlib import Path

import orjson
import pyarrow.parquet
import pytest

from headwater.errors import InputError
from headwater.lab.traces.trace import load_trace
from headwater.node.queries.processor import QueryProcessor
from headwater.publish import data_export
from headwater.store.content.feeds import find_feed
from headwater.store.content.items import DataSlice
from headwater.store.content.verdicts import save_refreshes
from headwater.store.queries.query_scripts import run_script
from headwater.store.store import Store
from support.store_samples import NOW, a_verdict, an_item, one_feed

FORMATS = ("parquet", "csv", "jsonl")


async def fill(store: Store, start: int, count: int) -> None:
    """Store items of two feeds; later arrivals have earlier dates."""
    for name in "ab":
        feed = await one_feed(store, f"https://{name}.example/feed")
        items = [
            an_item(feed.id, f"{name}{n}", published=NOW - n, categories=("x", "y, z"), title=f'{name} "{n}",\n…')
            for n in range(start, start + count)
        ]
        await save_refreshes(store, [a_verdict(feed, *items, at=NOW + start)])


def rows(path: Path) -> list[dict[str, object]]:
    if path.suffix == ".parquet":
        return list(pyarrow.parquet.read_table(path).to_pylist())
    if path.suffix == ".csv":
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize("format", FORMATS)
async def test_an_export_has_every_row_once_and_grows_with_new_rows(
    store: Store, tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_export, "CHUNK_ROWS", 7)
    out = tmp_path / f"items.{format}"
    await fill(store, 0, 20)
    assert (await data_export.export_rows(store, "items", DataSlice(), str(out), format)).new == 40
    await fill(store, 20, 5)
    again = await data_export.export_rows(store, "items", DataSlice(), str(out), format)
    assert (again.new, again.rows) == (10, 50)
    assert (await data_export.export_rows(store, "items", DataSlice(), str(out), format)).new == 0
    found = rows(out)
    assert sorted(str(row["identity"]) for row in found) == sorted(f"{name}{n}" for name in "ab" for n in range(25))
    assert {row["title"] for row in found} == {f'{name} "{n}",\n…' for name in "ab" for n in range(25)}
    assert not (tmp_path / f"items.{format}.parts").exists()


@pytest.mark.parametrize("format", FORMATS)
async def test_an_empty_export_can_be_continued(store: Store, tmp_path: Path, format: str) -> None:
    out = tmp_path / f"items.{format}"
    assert (await data_export.export_rows(store, "items", DataSlice(), str(out), format)).rows == 0
    await fill(store, 0, 3)
    assert (await data_export.export_rows(store, "items", DataSlice(), str(out), format)).new == 6
    assert len(rows(out)) == 6


class InterruptedExportError(Exception):
    pass


@pytest.mark.parametrize("format", FORMATS)
async def test_an_interrupted_export_continues(
    store: Store, tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_export, "CHUNK_ROWS", 7)
    await fill(store, 0, 20)
    out = tmp_path / f"items.{format}"

    def stop(done: int, total: int) -> None:
        assert total == 40
        if done > 20:
            raise InterruptedExportError

    with pytest.raises(InterruptedExportError):
        await data_export.export_rows(store, "items", DataSlice(), str(out), format, progress=stop)
    if format != "parquet":
        with out.open("ab") as file:
            file.write(b"half a row, as a crash leaves it")
    kept = await data_export.export_rows(store, "items", DataSlice(), str(out), format)
    assert kept.rows == 40
    assert len({row["id"] for row in rows(out)}) == len(rows(out)) == 40


async def test_the_lab_reads_an_export_as_a_trace(store: Store, tmp_path: Path) -> None:
    await fill(store, 0, 20)
    out = tmp_path / "items.parquet"
    await data_export.export_rows(store, "items", DataSlice(), str(out), "parquet")
    await fill(store, 20, 5)  # dates before the stored ones
    await data_export.export_rows(store, "items", DataSlice(), str(out), "parquet")
    trace = load_trace(out, text=True)
    assert trace.names == ("https://a.example/feed", "https://b.example/feed")
    assert trace.counts.tolist() == [25, 25]
    assert trace.categories is not None
    assert set(trace.categories) == {"x; y, z"}


async def test_an_export_can_be_limited_by_time_feed_and_query(store: Store, tmp_path: Path) -> None:
    await store.write(run_script, 'CREATE FEED some AS RETURN ALL WHERE TITLE CONTAINS "a"', NOW)
    await fill(store, 0, 10)
    processor = QueryProcessor(store)
    await processor.load()
    while await processor.step():
        pass
    feed = await store.read(find_feed, "https://a.example/feed")
    by_time = await data_export.export_rows(
        store, "items", DataSlice(NOW - 4, NOW - 1), str(tmp_path / "1.jsonl"), "jsonl"
    )
    by_feed = await data_export.export_rows(
        store, "items", DataSlice(feed_id=feed.id), str(tmp_path / "2.jsonl"), "jsonl"
    )
    by_query = await data_export.export_rows(store, "items", DataSlice(), str(tmp_path / "3.csv"), "csv", query="SOME")
    log = await data_export.export_rows(store, "refreshes", DataSlice(), str(tmp_path / "4.parquet"), "parquet")
    assert (by_time.rows, by_feed.rows, by_query.rows, log.rows) == (6, 10, 10, 2)
    assert {row["source"] for row in rows(tmp_path / "3.csv")} == {"https://a.example/feed"}
    assert {row["ending"] for row in rows(tmp_path / "4.parquet")} == {"changed"}


@pytest.mark.parametrize("format", FORMATS)
async def test_a_file_with_other_content_is_not_overwritten(store: Store, tmp_path: Path, format: str) -> None:
    await fill(store, 0, 3)
    out = tmp_path / f"x.{format}"
    out.write_text("mine")
    with pytest.raises(InputError, match="exists and"):
        await data_export.export_rows(store, "items", DataSlice(), str(out), format)
    assert out.read_text() == "mine"
    out.unlink()
    await data_export.export_rows(store, "items", DataSlice(), str(out), format)
    with pytest.raises(InputError, match="another export"):
        await data_export.export_rows(store, "refreshes", DataSlice(), str(out), format)
