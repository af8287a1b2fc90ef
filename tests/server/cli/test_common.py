"""The options every command takes are understood before and after its name, and from the environment."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from headwater.cli.console.command import add_command, current_settings, make_group, wants_json


@pytest.fixture
def run():  # type: ignore[no-untyped-def]
    app = make_group("a")
    sub = make_group("b")
    app.add_typer(sub, name="sub")

    @add_command(sub, "show")
    def show() -> None:
        print(current_settings().data, current_settings().allow_private, wants_json())  # noqa: T201 - what the test reads

    return lambda *args, **env: CliRunner().invoke(app, args, env=env).output.strip()


def test_shared_options_stand_before_or_after_the_command(run) -> None:  # type: ignore[no-untyped-def]
    assert run("sub", "show") == "data False False"
    assert run("sub", "show", "--data", "x", "--json") == "x False True"
    assert run("--allow-private", "sub", "--data", "x", "show") == "x True False"


def test_environment_fills_what_was_not_given(run) -> None:  # type: ignore[no-untyped-def]
    assert run("sub", "show", HEADWATER_DATA="y", HEADWATER_ALLOW_PRIVATE="1") == "y True False"
    assert run("sub", "show", "--data", "x", HEADWATER_DATA="y") == "x False False"
