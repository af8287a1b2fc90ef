"""What the lab's tests share: the command line as a person runs it."""

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
