"""Runs a real server in a separate process, for tests of its behaviour under an operator's hands."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def server(*arguments: str) -> Iterator[str]:
    """Start a real server in a separate process; yield its address."""
    command = [sys.executable, "-m", "headwater", *arguments, "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        said = ""
        while not said.endswith("}\n"):
            said += process.stdout.readline()
        try:
            yield json.loads(said)["url"]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(20)
