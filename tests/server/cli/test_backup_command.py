"""An operator backs up and restores with `headwater backup` and `restore` while a server keeps working."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwater.store.content.verdicts import save_refreshes
from headwater.store.opening import open_store
from support.running_server import server
from support.store_samples import a_verdict, an_item, one_feed


def health(url: str) -> Any:
    with urllib.request.urlopen(f"{url}health", timeout=20) as answer:
        return json.load(answer)


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))


def test_a_backup_of_a_running_server_makes_another_server(headwater: Callable[..., Any], tmp_path: Path) -> None:
    data, new, file = tmp_path / "data", tmp_path / "new", tmp_path / "backup"
    with server("demo", "--feeds", "12", "--days", "0.5", "--data", str(data)) as url:
        while health(url)["items"] < 50:
            time.sleep(0.1)
        made = headwater("backup", str(file), "--json")
        assert made.code == 0, made.err
        counts = made.json["counts"]
        assert counts["feed"] == 12
        assert counts["item"] >= 50
        assert health(url)["status"] == "ok"
    assert headwater("restore", str(file), "--check", "--json").json["counts"] == counts
    back = headwater("restore", str(file), "--data", str(new))
    assert back.code == 0, back.err
    assert f"{counts['item']:,} items" in back.out
    with sqlite3.connect(new / "headwater.sqlite") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("SELECT count(*) FROM item").fetchone() == (counts["item"],)
    connection.close()
    with server("serve", "--data", str(new)) as url:
        assert health(url)["feeds"] == 12
        assert health(url)["items"] == counts["item"]
    with server("demo", "--feeds", "12", "--days", "0.5", "--data", str(data)) as url:
        assert health(url)["feeds"] == 12, "the feeds of the first demo publish again where they did"
    again = headwater("restore", str(file), "--data", str(new))
    assert again.code == 1
    assert "already" in again.err


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["restore", "nothing-here", "--data", "x"], "cannot be read"),
        (["restore", __file__, "--data", "x"], "not a backup of Headwater"),
        (["backup", "/nowhere/at/all"], "There is no database"),
    ],
)
def test_bad_wishes_are_refused_with_a_sentence(headwater: Callable[..., Any], arguments: list[str], word: str) -> None:
    answer = headwater(*arguments)
    assert answer.code != 0
    assert word in answer.err


def test_restoring_wants_to_be_told_where(headwater: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-m", "headwater", "restore", "x"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "Say where to restore to" in done.stderr


async def hard_to_compress(data: Path) -> None:
    async with await open_store(f"sqlite:///{data}/headwater.sqlite") as store:
        feed = await one_feed(store)
        new = [an_item(feed.id, str(n), content=os.urandom(500).hex()) for n in range(300)]
        await save_refreshes(store, [a_verdict(feed, *new)])


def test_a_full_disk_is_reported_and_leaves_nothing(headwater: Callable[..., Any], tmp_path: Path) -> None:
    asyncio.run(hard_to_compress(tmp_path / "data"))
    for arguments, says in (
        (["backup", str(tmp_path / "b"), "--data", str(tmp_path / "data")], "The disk"),
        (["restore", str(tmp_path / "whole"), "--data", str(tmp_path / "new")], "the disk is full"),
    ):
        if arguments[0] == "restore":
            assert headwater("backup", str(tmp_path / "whole")).code == 0
        command = [sys.executable, "-m", "headwater", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, preexec_fn=limited)
        assert done.returncode == 1, done.stderr
        assert says in done.stderr
        assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("b*"))
    assert not list((tmp_path / "new").glob("*"))
