"""Runs `headwater …` inside the process of the test."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from typer.testing import CliRunner

from headwater.cli.console.output import find_exit_code
from headwater.cli.main import build_app
from headwater.errors import HeadwaterError


@dataclass(frozen=True)
class Answer:
    """The exit status of a command and its output."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run_command(*args: str, input: str | bytes | None = None, env: dict[str, str] | None = None) -> Answer:
    """Run a command; `env` adds to the environment. Errors that are not the program's own are raised."""
    result = CliRunner().invoke(build_app(args), list(args), input=input, env=env)
    if isinstance(result.exception, HeadwaterError):  # main() prints these as a sentence
        return Answer(find_exit_code(result.exception), result.stdout, f"error: {result.exception}")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Answer(result.exit_code, result.stdout, result.stderr)
