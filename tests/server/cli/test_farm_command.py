"""`headwater farm` as a process prints its address, serves, and stops on request."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headwater.cli.main import main


def headwater(*arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "headwater", *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "NO_COLOR": "1"}
    )


@contextmanager
def running(*arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, object]]]:
    with headwater("farm", "--port", "0", "--json", *arguments) as process:
        assert process.stdout is not None
        try:
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_farm_serves_until_a_signal_stops_it(number: signal.Signals) -> None:
    with running("--feeds", "7", "--hosts", "2", "--speed", "60", "--prepare") as (process, line):
        assert (line["event"], line["feeds"], line["speed"]) == ("listening", 7, 60.0)
        with urllib.request.urlopen(str(line["opml"])) as answer:
            assert answer.read().count(b"xmlUrl=") == 7
        process.send_signal(number)
        output, errors = process.communicate(timeout=60)
        assert (process.returncode, output, errors) == (0, b"", b"")


def test_a_port_in_use_gives_one_sentence() -> None:
    with running() as (_, line), headwater("farm", "--port", str(line["port"])) as second:
        output, errors = second.communicate(timeout=60)
        assert second.returncode == 1
        assert output == b""
        assert errors.decode().strip().splitlines() == [
            f"error: The farm cannot listen on 127.0.0.1:{line['port']}: the port is in use. Choose another --port."
        ]


@pytest.mark.parametrize(
    "arguments", [("--faults", "sloww"), ("--rates", "many"), ("--speed", "-1"), ("--feeds", "0"), ("--format", "cdf")]
)
def test_bad_options_give_one_sentence(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["headwater", "farm", "--port", "0", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith("error: ")
