"""`headwater --help` describes every command with the command's own summary, without loading it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

import headwater
from headwater import __version__
from headwater.cli.console import output
from headwater.cli.console.command import command, make_group
from headwater.cli.main import COMMANDS, build_app, main


def environment() -> dict[str, str]:
    """Return an environment in which a command in another folder finds the package."""
    return {**os.environ, "PYTHONPATH": str(Path(headwater.__file__).parents[1])}


def test_every_command_is_in_the_overview_with_its_own_words() -> None:
    everything = typer.main.get_command(build_app())
    assert isinstance(everything, typer.core.TyperGroup)
    assert {name: one.get_short_help_str(200) for name, one in everything.commands.items()} == {
        "version": "Print the version.",
        **{name: summary for name, (_, summary) in COMMANDS.items()},
    }


def test_a_folder_may_be_called_like_a_command(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "headwater", "--data", "lab", "feeds", "list", "--json"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment())
    assert (done.returncode, done.stdout) == (0, "[]\n")
    assert (tmp_path / "lab").is_dir()


def test_the_version_is_json_where_that_is_asked_for() -> None:
    done = CliRunner().invoke(build_app(["version"]), ["version", "--json"])
    assert json.loads(done.stdout) == {"version": __version__, "compiled": False}


def test_a_sentence_with_brackets_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(output, "err", Console(file=screen, force_terminal=True, no_color=True, soft_wrap=True))
    with pytest.raises(SystemExit):
        output.fail("There is no feed [/b] here, nor [bold].")
    assert screen.getvalue().strip() == "error: There is no feed [/b] here, nor [bold]."


@pytest.mark.parametrize("given", [["--json"], []])
def test_for_machines_what_is_wrong_is_json_too(given: list[str], tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["headwater", "feeds", "show", "7", "--data", str(tmp_path), *given])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    assert ended.value.code == 2
    assert said.err == "error: There is no feed 7. “headwater feeds list” shows all.\n"
    assert not given or json.loads(said.out) == {"error": "There is no feed 7. “headwater feeds list” shows all."}
    assert given or said.out == ""


@pytest.mark.parametrize(
    ("words", "named"),
    [(["nonsense"], "nonsense"), (["feeds", "show"], "feed"), (["feeds", "list", "--many"], "--many")],
)
def test_for_machines_wrong_words_are_json_too(words: list[str], named: str, monkeypatch, capsys) -> None:
    for given in ([], ["--json"]):
        monkeypatch.setattr(sys, "argv", ["headwater", *given, *words])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert ended.value.code == 2
        assert named in said.err.casefold()  # the sentence is Typer's
        assert said.out == "" if not given else named in json.loads(said.out)["error"].casefold()


def test_what_is_stopped_says_so() -> None:
    app = make_group("a")

    @command(app, "long")
    def long() -> None:
        raise KeyboardInterrupt

    done = CliRunner().invoke(app, ["long"])
    assert (done.exit_code, done.stderr) == (130, "error: Stopped.\n")


def test_ctrl_c_while_modules_are_imported_says_so_too() -> None:
    program = """
import sys

class Interruption:
    def find_spec(self, name, path, target=None):
        if name == "headwater.cli.main":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interruption())
from headwater.__main__ import run
run()
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "error: Stopped.\n")


def test_the_version_is_an_option_too(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["headwater", "--version"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, capsys.readouterr().out) == (0, f"{__version__}\n")


def test_the_overview_loads_neither_the_database_nor_the_client_nor_numbers() -> None:
    code = """
import sys
from headwater.cli.main import main
sys.argv = ["headwater", "--help"]
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
print(sorted({"sqlalchemy", "aiohttp", "numpy", "lxml"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "feeds" in done.stdout


LISTS = {
    "feeds list": {"headwater.language", "headwater.formats.sniff", "lxml"},
    "query list": {"headwater.query.engine", "headwater.formats.sniff", "lxml"},
    "users list": {"headwater.language", "headwater.formats.sniff", "lxml"},
    "deliveries list": {"headwater.publish", "headwater.formats.sniff", "jinja2"},
    "quality": {"headwater.schedule.promise", "headwater.estimate.estimator", "lxml"},
}
LARGE = {"aiohttp", "numpy", "numba", "structlog", "sqlalchemy.dialects.postgresql"}


@pytest.mark.parametrize("words", LISTS)
def test_a_list_loads_only_what_it_needs(words: str, sqlite_folder: Path) -> None:
    code = f"""
import sys
from headwater.cli.main import main
sys.argv = ["headwater", "--data", {str(sqlite_folder)!r}, *{words.split()!r}]
try:
    main()
except SystemExit as ended:
    assert not ended.code or {words == "quality"}, ended.code  # there is no report yet
print(sorted({LARGE | LISTS[words]!r} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.fixture(scope="module")
def sqlite_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with a database; the first command creates it."""
    folder = tmp_path_factory.mktemp("data")
    subprocess.run([sys.executable, "-m", "headwater", "--data", str(folder), "feeds", "list"], check=True)
    return folder
