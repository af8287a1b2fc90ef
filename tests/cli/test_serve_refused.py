"""`headwater serve` and `demo` say in one sentence what keeps them from starting, and end."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--log-level", "loud"), "There is no log level “loud”; there are debug, info, warning, error."),
        (("--budget", "0"), "A budget of 0 requests per minute refreshes nothing"),
        (("--strategy", "valeu"), "There is no strategy called “valeu”. Did you mean value"),
        (("--estimator", "bays"), "There is no estimator called “bays”. Did you mean bayes"),
        (("--strategy", "no.such.module:Name"), "cannot be imported"),
        (("--target-completeness", "1.2"), "A completeness of 1.2 cannot be a target"),
    ],
)
def test_what_cannot_be_is_said_before_anything_starts(headwater, arguments: tuple[str, ...], says: str) -> None:
    answer = headwater("serve", "--port", "0", *arguments)
    assert answer.code == 1
    assert says in answer.err


def test_a_data_folder_that_cannot_be_made_is_named(headwater, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for command in ("serve", "demo"):
        answer = headwater(command, "--port", "0", "--data", str(tmp_path / "file" / "data"))
        assert (answer.code, "cannot be made" in answer.err) == (1, True), answer.err


def test_a_port_in_use_is_named(headwater) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        answer = headwater("serve", "--port", str(port))
    assert (answer.code, f"Cannot listen on 127.0.0.1:{port}" in answer.err) == (1, True)
