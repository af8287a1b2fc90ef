"""Whatever arguments a command gets, it ends with a sentence and never with a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

import headwater as package
from headwater.cli.main import build_app

ODD = ("", "9" * 20, "[/b]", "x\x01y", "http://[::1", "a" * 5000)
STAYS = {"serve", "demo", "web", "controller", "terminal", "storer", "processor", "publisher", "farm", "cluster", "lab"}


def commands(group: typer.core.TyperGroup, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int]]:
    """Return every command that ends by itself, and how many arguments it takes."""
    for name, one in group.commands.items():
        if not path and name in STAYS:
            continue
        if isinstance(one, typer.core.TyperGroup):
            yield from commands(one, (*path, name))
        else:
            yield (*path, name), sum(each.param_type_name == "argument" for each in one.params)


def everything() -> list[tuple[tuple[str, ...], int]]:
    root = typer.main.get_command(build_app())
    assert isinstance(root, typer.core.TyperGroup)
    return [found for found in commands(root) if found[1]]


@pytest.mark.parametrize("odd", ODD, ids=["nothing", "digits", "markup", "control", "address", "long"])
def test_odd_words_end_in_a_sentence(headwater, odd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # some of them are names of files
    for path, words in everything():
        answer = headwater(*path, "--", *[odd] * words, input="")  # raises any other error
        assert answer.code in (0, 1, 2), path


def run(*words: bytes | str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    where = {**os.environ, "PYTHONPATH": str(Path(package.__file__).parents[1]), **environment}
    return subprocess.run([sys.executable, "-m", "headwater", *words], capture_output=True, check=False, env=where)


def test_bytes_that_are_not_text_are_refused(tmp_path: Path) -> None:
    done = run("query", "show", b"\xff", "--data", str(tmp_path))
    assert (done.returncode, done.stderr) == (2, b"error: An argument is not valid UTF-8.\n")


def test_a_terminal_of_another_encoding_gets_what_it_can_show(tmp_path: Path) -> None:
    feed = "<rss><channel><title>北 News</title><item><title>x</title></item></channel></rss>"
    (tmp_path / "feed.xml").write_text(feed, encoding="utf-8")
    done = run("read", str(tmp_path / "feed.xml"), PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert done.stdout.startswith(b"? News")
