"""What was compiled does what the sources do, and is not used for other sources than those it was made of."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from headwater import native

ROOT = Path(__file__).resolve().parent.parent
FORMATS = ROOT / "src" / "headwater" / "formats"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One whose source has just been compiled."""
    monkeypatch.delenv(native.VARIABLE, raising=False)
    (tmp_path / "module.py").write_text("answer = 42\n")
    (tmp_path / native.FOLDER).mkdir()
    (tmp_path / native.FOLDER / native.SOURCES).write_text(native.digest(tmp_path))
    return tmp_path


def test_what_was_compiled_is_found_before_its_sources(package: Path) -> None:
    assert native.before([str(package)]) == [str(package / native.FOLDER), str(package)]


@pytest.mark.parametrize("change", ["one changed", "one more", "one less", "one renamed"])
def test_other_sources_run_as_they_are_written(package: Path, change: str) -> None:
    if change == "one changed":
        (package / "module.py").write_text("answer = 43\n")
    elif change == "one more":
        (package / "another.py").write_text("question = None\n")
    elif change == "one renamed":
        (package / "module.py").rename(package / "another.py")
    else:
        (package / "module.py").unlink()
    assert native.before([str(package)]) == [str(package)]


def test_what_another_python_compiled_is_left_alone(package: Path) -> None:
    (package / native.FOLDER / native.SOURCES).rename(package / native.FOLDER / "sources.cpython-27.so.digest")
    assert native.before([str(package)]) == [str(package)]


def test_python_alone_can_be_asked_for(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(native.VARIABLE, "no")
    assert native.before([str(package)]) == [str(package)]


def compiled(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Python with the reading of documents as compiled."""
    if not native.is_at_hand(FORMATS):
        pytest.skip("reading is not compiled here: there was no C compiler when Headwater was installed")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment[native.VARIABLE] = "yes"
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_reading_is_what_was_compiled() -> None:
    done = compiled("-c", "import headwater.formats.entry as it; print(it.__spec__.origin)")
    assert done.stdout.strip().endswith(EXTENSION_SUFFIXES[0]), done.stderr


@pytest.mark.parametrize("tests", ["tests/formats", "tests/fetch"])
def test_what_was_compiled_passes_the_tests_of_its_sources(tests: str) -> None:
    done = compiled("-m", "pytest", "-q", "-m", "not soak", "-p", "no:xdist", "-p", "no:cacheprovider", tests)
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout
