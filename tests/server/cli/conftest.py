"""Fixtures: the command as a user runs it, and a farm in a separate process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.commands import Answer, run_command


@pytest.fixture
def headwater(tmp_path: Path) -> Callable[..., Answer]:
    """Run `headwater …` on a separate data folder; `env` adds to the environment."""

    def run(*args: str, input: str | bytes | None = None, env: dict[str, str] | None = None) -> Answer:
        given = {"HEADWATER_DATA": str(tmp_path / "data"), "HEADWATER_ALLOW_PRIVATE": "1", "COLUMNS": "200"}
        return run_command(*args, input=input, env=given | (env or {}))

    return run


@pytest.fixture(scope="session")
def farm_url() -> Iterator[str]:
    """Run a farm of ten feeds: 8 is gone, 9 refuses with Retry-After."""
    command = [sys.executable, "-m", "headwater", "farm", "--feeds", "10", "--port", "0", "--hosts", "10", "--json"]
    command += ["--speed", "100", "--faults", "410@8,429:600@9"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"]
        process.terminate()
