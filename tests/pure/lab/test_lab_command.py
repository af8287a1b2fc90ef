"""`headwater lab` refuses bad input with one sentence and prints results as text and as JSON."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headwater.cli.main import build_app
from headwater.errors import HeadwaterError, NotFound, SettingsError
from headwater.lab.experiment import (
    OPTIONAL_SETTINGS,
    LabSettings,
    ignore_progress,
    list_experiments,
    load_experiment,
    option_name,
)
from support.commands import run_command


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("run", "two-step"), "There is no experiment two-step; did you mean two-steps?"),
        (("run", "zzz"), "There is no experiment zzz; `headwater lab list` names them all."),
        (("run", "two-steps", "--seeds", "0"), "--seeds is 0; it must be at least 1."),
        (("run", "two-steps", "--window", "0"), "--window is 0; it must be at least 1."),
        (("run", "two-steps", "--budget", "-3"), "--budget is -3; it must be a number above 0."),
        (("run", "two-steps", "--budget", "nan"), "--budget is nan; it must be a number above 0."),
        (
            ("run", "two-steps", "--budget", "3", "--per-day", "1"),
            "--per-day and --budget say the same thing in two ways; give one of them.",
        ),
        (
            ("describe",),
            "Missing --trace: give a Parquet or CSV file with the columns source and published_at.",
        ),
        (
            ("run", "two-steps", "--columns", "source=feed"),
            "--columns names the columns of a trace: give one by --trace, or leave it out.",
        ),
        (("run", "two-steps", "--warmup-days", "-1"), "--warmup-days is -1; it cannot be negative."),
        (
            ("run", "two-steps", "--plot", "x.gif"),
            "The plot cannot be written to x.gif: its name must end in .png or .svg.",
        ),
    ],
)
def test_bad_input_is_answered_with_one_sentence(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], sentence: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["headwater", "lab", *arguments])
    with pytest.raises(HeadwaterError) as raised:
        build_app(sys.argv[1:])(standalone_mode=False)
    assert str(raised.value) == sentence


def test_plots_without_matplotlib_are_refused_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(HeadwaterError, match="Plots need the extra"):
        build_app(["lab"])(["lab", "run", "two-steps", "--jobs", "1", "--plot", "x.png"], standalone_mode=False)


def test_a_warm_up_longer_than_the_trace_is_refused_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "short.csv"
    file.write_text("source,published_at\na,0\na,864000\n")
    monkeypatch.setattr(
        sys, "argv", ["headwater", "lab", "run", "fast-news", "--trace", str(file), "--warmup-days", "14"]
    )
    with pytest.raises(HeadwaterError, match=r"--warmup-days is 14, but the trace short.csv has only 10.0 days"):
        build_app(sys.argv[1:])(standalone_mode=False)


def test_an_error_ends_the_command_with_its_sentence_and_no_traceback() -> None:
    command = [sys.executable, "-m", "headwater", "lab", "run", "two-step"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert ended.returncode == 2
    assert ended.stderr.strip() == "error: There is no experiment two-step; did you mean two-steps?"
    assert ended.stdout == ""


@pytest.mark.parametrize(
    ("experiment", "option"),
    [("two-steps", ("--per-day", "1")), ("tau", ("--strategy", "uniform")), ("limit", ("--estimator", "single"))],
)
def test_options_that_an_experiment_cannot_use_are_refused(experiment: str, option: tuple[str, str]) -> None:
    answer = run_command("lab", "run", experiment, *option, "--seeds", "1")
    assert answer.code != 0
    assert f"The experiment {experiment} cannot use {option[0]}. It takes" in answer.err


GIVEN_VALUES: dict[str, Any] = {
    "seeds": 1,
    "trace": Path("x.csv"),
    "window": 5,
    "per_day": (1.0,),
    "budget": (1.0,),
    "warmup_days": 1.0,
    "strategies": ("uniform",),
    "estimators": ("single",),
    "query": "ITEM CONTAINS 'a'",
}
# Methods of LabSettings that read a setting.
READ_BY = {"single_rate": "per_day", "choose_strategies": "strategies", "add_estimators": "estimators"}


def read_settings_of(experiment: str) -> set[str]:
    """Name the optional settings that an experiment's module, and the parts it imports, read from a LabSettings."""
    module = importlib.import_module(f"headwater.lab.experiments.{experiment.replace('-', '_')}")
    parts = {vars(module)[name].__module__ for name in vars(module) if hasattr(vars(module)[name], "__module__")}
    names: set[str] = set()
    for part in {module.__name__, *(name for name in parts if name.startswith("headwater.lab.online"))}:
        for function in ast.walk(ast.parse(inspect.getsource(importlib.import_module(part)))):
            if not isinstance(function, ast.FunctionDef):
                continue
            given = {
                a.arg for a in function.args.args if a.annotation and ast.unparse(a.annotation).endswith("LabSettings")
            }
            for node in ast.walk(function):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in given:
                    names.add(READ_BY.get(node.attr, node.attr))
    return names & set(OPTIONAL_SETTINGS)


@pytest.mark.parametrize("experiment", list_experiments())
def test_every_option_is_read_or_refused(experiment: str) -> None:
    found = load_experiment(experiment)
    assert read_settings_of(experiment) == found.takes
    assert set(GIVEN_VALUES) == set(OPTIONAL_SETTINGS)
    for name, value in GIVEN_VALUES.items():
        trace = Path("x.csv") if "trace" in found.takes else None
        given = LabSettings(**{"trace": trace, name: value})
        if name in found.takes:
            found.refuse_unused(given)
        else:
            with pytest.raises(SettingsError, match=f"cannot use {option_name(name)}. It takes"):
                found.refuse_unused(given)


@pytest.mark.parametrize("name", ["Post Rate", "advarss", "allocation", "value"])
def test_strategies_with_times_of_their_own_are_refused_in_a_world_of_cycles(name: str) -> None:
    with pytest.raises(NotFound, match=r"There is no strategy called .* here\."):
        load_experiment("two-steps").run(LabSettings(seeds=1, strategies=(name,), jobs=1), ignore_progress)


def test_an_estimator_runs_in_every_strategy_that_forecasts() -> None:
    given = LabSettings(estimators=("single", "likelihood(observations=5)"))
    found = given.add_estimators(given.choose_strategies(("uniform", "two_steps(tau=2)")))
    assert found == (
        "two_steps(tau=2, estimator=single)",
        "two_steps(tau=2, estimator=likelihood(observations=5))",
    )
    named = LabSettings(strategies=("fix_1h",), estimators=("single",))
    with pytest.raises(SettingsError, match="The strategy fix_1h takes no estimator"):
        named.add_estimators(named.choose_strategies(()))
    assert given.add_estimators(("value", "two_steps")) == tuple(
        f"two_steps(estimator={name})" for name in given.estimators
    )  # value learns by bayes and forecast only
    assert LabSettings().add_estimators(("uniform",)) == ("uniform",)


def test_the_models_are_run_in_other_strategies_and_at_other_rates() -> None:
    line = (
        "--quick",
        "--seeds",
        "1",
        "--estimator",
        "single",
        "--strategy",
        "topKUtility",
        "--per-day",
        "4",
        "--jobs",
        "1",
    )
    answer = run_command("lab", "run", "online", *line, "--json")
    assert answer.code == 0, answer.err
    rows = [row for row in answer.json["rows"] if "completeness" in row]
    assert {row["strategy"].removesuffix(", equal cost") for row in rows} == {
        "top_utility, known",
        "top_utility, single",
    }
    assert {row["hours"] for row in rows} == {6.0}
    assert (
        "there is no strategy called “fix_1h” here"
        in run_command("lab", "run", "online", "--strategy", "fix_1h").err.lower()
    )


@pytest.mark.parametrize("experiment", ["fast-news", "generic-feeds", "peers", "forecast"])
def test_a_warm_up_is_refused_without_a_trace(experiment: str) -> None:
    with pytest.raises(SettingsError, match="--warmup-days needs a trace"):
        load_experiment(experiment).refuse_unused(LabSettings(warmup_days=3.0))


OWN = """
from headwater.schedule.strategies.learned_interval import Fix1d
from headwater.schedule.strategies.round_robin import Uniform

class Mine(Fix1d):
    name = "mine"

class Broken(Uniform):
    name = "broken"
    def choose(self, table, now, budget, candidates=None):
        raise ZeroDivisionError("no luck")
"""


def test_a_custom_strategy_runs_beside_the_others_and_is_named_if_it_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own_rules.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    trace = tmp_path / "t.csv"
    rows = [f"{source},{day * 86_400 + 3600 * k}" for k, source in enumerate("abc") for day in range(40)]
    trace.write_text("\n".join(["source,published_at", *rows]))
    line = ["lab", "run", "peers", "--trace", str(trace), "--per-day", "1", "--jobs", "1", "--json", "--strategy"]

    build_app(line)([*line, "own_rules:Mine,fix_1d"], standalone_mode=False)
    mine, theirs = json.loads(capfd.readouterr().out)["rows"]
    assert (mine["strategy"], theirs["strategy"]) == ("own_rules:Mine", "fix_1d")
    assert mine["mean_delay_s"] == theirs["mean_delay_s"]
    with pytest.raises(
        HeadwaterError, match=r"own_rules:Broken failed while it was run \(ZeroDivisionError: no luck\)"
    ):
        build_app(line)([*line, "own_rules:Broken"], standalone_mode=False)
    with pytest.raises(HeadwaterError, match="has no Absent"):
        build_app(line)([*line, "own_rules:Absent"], standalone_mode=False)


def test_retrieval_times_are_printed_and_drawn(tmp_path: Path) -> None:
    plot = tmp_path / "times.svg"
    answer = run_command("lab", "retrieval-times", "--pattern", "noon", "--retrievals", "1", "--plot", str(plot))
    assert answer.code == 0, answer.err
    assert "retrieve at 13:00" in answer.out
    assert "mean delay 30.0 min; at even intervals 720.0 min" in answer.out  # over all times to begin at
    assert plot.is_file()
    six = run_command("lab", "retrieval-times", "--json").json  # the paper's figure 5: six retrievals of a sine
    assert len(six["times_h"]) == 6
    assert six["mean_delay_h"] < six["even_mean_delay_h"]
    assert "--pattern must be" in run_command("lab", "retrieval-times", "--pattern", "noone").err


def test_traces_come_in_anybodys_columns_and_as_json_lines(tmp_path: Path) -> None:
    lines = tmp_path / "urbansky.jsonl"
    lines.write_text("".join(f'{{"feed": "{"ab"[k % 2]}", "date": {k * 1000}}}\n' for k in range(40)))
    csv = tmp_path / "other.csv"
    csv.write_text("feed,date\n" + "".join(f"{'ab'[k % 2]},{k * 1000}\n" for k in range(40)))
    for file in (lines, csv):
        columns = ("--columns", "source=feed,published_at=date")
        answer = run_command("lab", "describe", "--trace", str(file), *columns, "--json")
        assert answer.code == 0, answer.err
        assert (answer.json["feeds"], answer.json["items"]) == (2, 40)
    late = tmp_path / "late.csv"
    late.write_text("feed,date\na,1600000000000\n")
    told = run_command("lab", "describe", "--trace", str(late), *columns)
    assert "The dates of late.csv look like milliseconds" in told.err  # the file's own name, not that of a copy
    wrong = run_command("lab", "describe", "--trace", str(csv), "--columns", "name=feed")
    assert "--columns" in wrong.err


def test_a_run_over_a_trace_with_other_columns_is_saved_with_them(tmp_path: Path) -> None:
    trace, saved, page = tmp_path / "mine.csv", tmp_path / "postings.json", tmp_path / "page.html"
    trace.write_text("feed,date\n" + "".join(f"{name},{k * 3600 * 5}\n" for name in "ab" for k in range(200)))
    columns = ("--columns", "source=feed,published_at=date")
    answer = run_command("lab", "run", "postings", "--trace", str(trace), *columns, "--save", str(saved))
    assert answer.code == 0, answer.err
    command = "headwater lab run postings --trace mine.csv --columns source=feed,published_at=date"
    assert json.loads(saved.read_text())["command"] == command
    both = ("--only", "postings, describe", "--out", str(page))
    answer = run_command("lab", "report", "--trace", str(trace), *columns, *both)
    assert answer.code == 0, answer.err
    assert "statements hold" in answer.err  # “not run” without the columns
    assert command in page.read_text()
    assert f"headwater lab describe --trace mine.csv {' '.join(columns)}" in page.read_text()
    assert "give one by --trace" in run_command("lab", "report", "--only", "describe", "--out", str(page)).err
