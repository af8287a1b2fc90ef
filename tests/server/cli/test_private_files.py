"""Files with secrets are readable by their owner only, also under a careless umask."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.publish.data_export import open_export
from headwater.store.opening import open_store
from headwater.web.tls import load_certificate
from support.store_samples import one_feed


@pytest.fixture
def careless() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> str:
    return oct(path.stat().st_mode & 0o777)


async def test_the_database_its_log_and_its_folder_are_private(careless: None, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    async with await open_store(f"sqlite:///{folder / 'headwater.sqlite'}") as store:
        await one_feed(store)
        assert mode(folder) == "0o700"
        files = sorted(folder.iterdir())
        assert {file.name.partition("sqlite")[2] for file in files} == {"", "-wal", "-shm"}
        assert {mode(file) for file in files} == {"0o600"}


def test_backups_and_exports_are_private(careless: None, headwater, tmp_path: Path) -> None:
    headwater("feeds", "import", "-", input="http://127.0.0.1:9/feed?key=secret\n")
    files = [tmp_path / name for name in ("all.backup", "feeds.opml", "items.jsonl", "items.parquet")]
    headwater("backup", str(files[0]))
    headwater("feeds", "export", str(files[1]))
    headwater("export", str(files[2]))
    headwater("export", str(files[3]))
    assert {mode(file) for file in files} == {"0o600"}


def test_the_pieces_of_an_unfinished_export_are_private(careless: None, tmp_path: Path) -> None:
    (tmp_path / "items.parquet.parts").mkdir()  # by hand, for everybody
    with open_export(str(tmp_path / "items.parquet"), "parquet", "items", {"id": "int64"}, ["id"]) as export:
        export.write([{"id": 7}], 7)
        pieces = {file.name: mode(file) for file in (tmp_path / "items.parquet.parts").iterdir()}
        assert pieces == {"about": "0o600", "7.parquet": "0o600"}


def test_restored_and_moved_databases_are_private(careless: None, headwater, tmp_path: Path) -> None:
    headwater("feeds", "import", "-", input="http://127.0.0.1:9/feed?key=secret\n")
    headwater("backup", str(tmp_path / "all.backup"))
    restored, moved = (tmp_path / name / "headwater.sqlite" for name in ("restored", "moved"))
    headwater("restore", str(tmp_path / "all.backup"), "--database", f"sqlite:///{restored}")
    headwater("db", "move", f"sqlite:///{restored}", f"sqlite:///{moved}")
    for database in (restored, moved):
        assert (mode(database.parent), {mode(file) for file in database.parent.iterdir()}) == ("0o700", {"0o600"})


def test_the_certificate_and_its_key_are_private(careless: None, tmp_path: Path) -> None:
    made = load_certificate(None, None, tmp_path / "data", ["localhost"])
    assert {mode(file) for file in (made.file, made.key)} == {"0o600"}
    assert mode(made.file.parent) == "0o700"
