"""The tests run the same on every machine: examples, time zone, locale and settings do not come from outside."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support import ROOT, isolation

EXAMPLES = """
import {modules}
from hypothesis import given
from hypothesis import strategies as st

@given(st.integers(), st.text(), st.floats(allow_nan=False))
def test_drawn(number, text, real):
    with open(__file__ + ".drawn", "a") as file:
        file.write(repr((number, text, real)) + "\\n")
"""


def draw_in_a_new_process(folder: Path, modules: str, *options: str) -> str:
    """Return the examples that a property test of ours would draw, with these modules imported."""
    folder.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "conftest.py").write_text("from support import isolation\nisolation.fix_examples()\n")
    (folder / "test_drawn.py").write_text(EXAMPLES.format(modules=modules))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "_hypothesis_pytestplugin", *options, str(folder)]
    paths = os.pathsep.join(["src", str(ROOT / "tests"), *sys.path])
    given = os.environ | {"PYTHONPATH": paths, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=given, check=False)
    assert done.returncode == 0, done.stdout
    return (folder / "test_drawn.py.drawn").read_text()


def test_examples_are_the_same_in_every_process_whatever_was_imported_before(tmp_path: Path) -> None:
    first = draw_in_a_new_process(tmp_path / "one", "headwater.model")
    assert len(first.splitlines()) >= 100
    assert (
        draw_in_a_new_process(tmp_path / "two", "headwater.formats.parse.element_names, headwater.schedule.strategy")
        == first
    )


def test_a_soak_draws_by_its_seed(tmp_path: Path) -> None:
    explore = ("--hypothesis-profile", "explore", "--hypothesis-seed")
    first = draw_in_a_new_process(tmp_path / "one", "os", *explore, "1")
    assert draw_in_a_new_process(tmp_path / "two", "os", *explore, "1") == first
    assert draw_in_a_new_process(tmp_path / "three", "os", *explore, "2") != first


def test_the_machine_s_time_zone_locale_and_settings_do_not_reach_the_tests() -> None:
    assert (time.tzname[0], os.environ["LC_ALL"]) == ("UTC", "C.UTF-8")
    assert {name for name in os.environ if name.startswith("HEADWATER_")} <= isolation.TESTS_OWN


def test_the_environment_is_cleared_of_what_changes_output(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HEADWATER_BUDGET", "FORCE_COLOR", "https_proxy"):
        monkeypatch.setenv(name, "1")
    isolation.isolate_environment()
    assert not {"HEADWATER_BUDGET", "FORCE_COLOR", "https_proxy"} & set(os.environ)
