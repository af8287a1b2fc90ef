"""The README's commands work as printed, in order; only addresses and files are replaced."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

import headwater
from support import ROOT

README = ROOT / "README.md"
FEED = "<rss version='2.0'><channel><title>A feed</title><item><title>One</title></item></channel></rss>"


def commands(heading: str) -> list[str]:
    """Return the indented `headwater` lines of a section without their comments."""
    section = README.read_text(encoding="utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return [line.partition("  # ")[0].strip() for line in re.findall(r"^    (headwater .+)$", section, re.MULTILINE)]


class Shell:
    """Runs commands as a new user would: `headwater` on the path, in an empty folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "bin").mkdir()
        program = folder / "bin" / "headwater"
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m headwater "$@"\n')
        program.chmod(0o755)
        self.environment = os.environ | {
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(Path(headwater.__file__).parents[1]),
            "HEADWATER_ALLOW_PRIVATE": "1",
            "HEADWATER_PORT": "0",
        }

    def start(self, line: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(["bash", "-c", f"exec {line}"], cwd=self._folder, env=self.environment, text=True,
                                stdout=pipe, stderr=pipe)  # fmt: skip

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["bash", "-c", line], cwd=self._folder, env=self.environment, text=True, check=False,
                              capture_output=True, timeout=120)  # fmt: skip


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_the_first_five_minutes(shell: Shell, tmp_path: Path) -> None:
    demo, *others = commands("The first five minutes")
    assert demo == "headwater demo"
    with shell.start(demo) as running:
        assert running.stderr is not None
        assert "14 days in the life of 30 feeds" in running.stderr.readline()
        # A busy machine says in between that it polled less often.
        farm = next(found for line in running.stderr if (found := re.search(r"feeds publish at (http://\S+)", line)))
        assert "Headwater runs at http://" in running.stderr.readline()
        with urllib.request.urlopen(f"{farm[1]}opml") as answer:
            (tmp_path / "subscriptions.opml").write_bytes(answer.read())
        (tmp_path / "feed.xml").write_text(FEED)
        for line in others:
            done = shell.run(line.replace("https://example.org/", f"{farm[1]}feeds/3.html"))
            if line == "headwater quality":  # no server runs in this folder
                assert (done.returncode, "Start one with headwater serve" in done.stderr) == (1, True)
            else:
                assert done.returncode == 0, (line, done.stderr)
        running.send_signal(signal.SIGINT)
    listed = shell.run("headwater feeds list")
    # the header, the feed of the page, and the imported list, whose feeds have other hosts
    assert len(listed.stdout.splitlines()) == 1 + 1 + 30
    assert "Volcanoes" in shell.run("headwater query list").stdout


def test_the_lab(shell: Shell, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra headwater[lab] is not installed")
    (tmp_path / "feed.csv").write_text("source,published_at\n" + "".join(f"a,{3600 * k}\n" for k in range(60)))
    for line in commands("The lab"):
        small = line.replace("two-steps", "two-steps --seeds 1").replace("trace.parquet", "feed.csv")
        done = shell.run(small)
        assert done.returncode == 0, (line, done.stderr)
    assert (tmp_path / "table2.png").stat().st_size > 10_000
