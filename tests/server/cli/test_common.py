"""Options of all commands are accepted before and after the command's name, and from the environment."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from headwater.cli.console.command import command, make_group
from headwater.cli.console.options import current_settings, wants_json
from headwater.settings import Settings


@pytest.fixture
def run():  # type: ignore[no-untyped-def]
    app = make_group("a")
    sub = make_group("b")
    app.add_typer(sub, name="sub")

    @command(sub, "show")
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


def test_a_command_gets_its_settings_and_prints_its_value_by_its_view_or_as_json() -> None:
    app = make_group("a")

    @command(app, "budget", view=lambda value: print(f"{value['budget']:g} a minute"), settings_options=("budget",))  # noqa: T201
    async def show_budget(settings: Settings, budget: float | None = None) -> dict[str, float]:
        """Show the budget."""
        return {"budget": settings.budget}

    @command(app, "other", view=lambda _: None, exit_code=lambda value: value)
    def fail_with(code: int) -> int:
        return code

    invoke = CliRunner().invoke
    assert invoke(app, ["budget", "--budget", "5"]).output == "5 a minute\n"
    assert invoke(app, ["budget", "--json"]).output == '{\n  "budget": 60.0\n}\n'
    assert "--budget" in invoke(app, ["budget", "--help"]).output
    assert "settings" not in invoke(app, ["budget", "--help"]).output
    assert invoke(app, ["other", "3"]).exit_code == 3
