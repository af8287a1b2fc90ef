"""`headwater lab` answers bad input with one sentence and prints results as text and as JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


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
        (("run", "two-steps", "--warmup-days", "-1"), "--warmup-days is -1; it cannot be negative."),
        (
            ("run", "two-steps", "--plot", "x.gif"),
            "The plot cannot be written to x.gif: its name must end in .png or .svg.",
        ),
    ],
)
def test_bad_input_is_answered_with_one_sentence(
    headwater: Callable[..., Any], arguments: tuple[str, ...], sentence: str
) -> None:
    ended = headwater("lab", *arguments)
    assert ended.returncode == 1
    assert ended.stderr.strip() == f"error: {sentence}"
    assert ended.stdout == ""


def test_an_option_the_experiment_does_not_heed_is_refused_by_name(headwater: Callable[..., Any]) -> None:
    ended = headwater("lab", "run", "tau", "--trace", "x.csv")
    assert ended.returncode == 1
    assert "tau has no use for --trace; it heeds --budget, --seeds" in ended.stderr
