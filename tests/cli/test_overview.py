"""`headwater --help`: the overview says of every command what the command says of itself, without loading it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import typer

from headwater.cli.main import SAYING, build


def test_every_command_is_in_the_overview_with_its_own_words() -> None:
    everything = typer.main.get_command(build())
    assert isinstance(everything, typer.core.TyperGroup)
    assert {name: one.get_short_help_str(200) for name, one in everything.commands.items()} == SAYING


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


def test_listing_feeds_loads_neither_the_client_nor_numbers(tmp_path: Path) -> None:
    code = f"""
import sys
from headwater.cli.main import main
sys.argv = ["headwater", "--data", {str(tmp_path)!r}, "feeds", "list"]
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
print(sorted({{"aiohttp", "numpy"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
