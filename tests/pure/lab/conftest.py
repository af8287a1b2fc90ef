"""Fixtures of the lab's tests: the command line in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

Ended = subprocess.CompletedProcess[str]


@pytest.fixture(scope="session")
def headwater() -> Callable[..., Ended]:
    """Run `headwater …` in a process of its own."""

    def call(*arguments: str) -> Ended:
        line = [sys.executable, "-m", "headwater", *arguments]
        return subprocess.run(line, capture_output=True, text=True, timeout=250, check=False)

    return call
