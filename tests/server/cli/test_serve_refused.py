"""`headwater serve` and `demo` explain in one sentence why they cannot start, and end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.store.database.sqlite import lock_database_file


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--log-level", "loud"), "There is no log level “loud”. Use one of debug, info, warning, error."),
        (("--budget", "0"), "The budget is 0 requests per minute, which allows no refresh"),
        (("--strategy", "valeu"), "There is no strategy called “valeu”. Did you mean value"),
        (("--estimator", "bays"), "There is no estimator called “bays”. Did you mean bayes"),
        (("--strategy", "no.such.module:Name"), "cannot be imported"),
        (("--target-completeness", "1.2"), "A completeness of 1.2 cannot be a target"),
    ],
)
def test_impossible_options_are_reported_before_anything_starts(
    headwater, arguments: tuple[str, ...], says: str
) -> None:
    answer = headwater("serve", "--port", "0", *arguments)
    assert answer.code == 1
    assert says in answer.err


def test_a_data_folder_that_cannot_be_made_is_named(headwater, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for command in ("serve", "demo"):
        answer = headwater(command, "--port", "0", "--data", str(tmp_path / "file" / "data"))
        assert (answer.code, "cannot be created" in answer.err) == (1, True), answer.err


def test_a_port_in_use_is_named(headwater) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        answer = headwater("serve", "--port", str(port))
    assert (answer.code, f"Cannot listen on 127.0.0.1:{port}" in answer.err) == (1, True)


def test_a_second_server_on_one_file_is_refused_until_the_first_is_gone(headwater, tmp_path: Path) -> None:
    data = tmp_path / "data"
    first = [sys.executable, "-m", "headwater", "serve", "--port", "0", "--json", "--data", str(data)]
    with subprocess.Popen(first, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline().startswith("{")
        for command in ("serve", "demo"):
            answer = headwater(command, "--port", "0", "--data", str(data))
            assert (answer.code, f"runs on this database already (process {running.pid})" in answer.err) == (1, True)
        assert headwater("feeds", "list", "--data", str(data)).code == 0  # other commands still work
        running.send_signal(signal.SIGKILL)
    with lock_database_file(f"sqlite:///{data / 'headwater.sqlite'}"):  # its lock has been released
        assert (data / "headwater.sqlite-server").read_text() == f"{os.getpid()}\n"


def test_only_files_have_one_server() -> None:
    for url in ("postgresql:///name", "postgresql://host/name", "nonsense", "sqlite://", "sqlite:////no/such/folder/x"):
        with lock_database_file(url):
            pass
    assert not Path("name-server").exists()
