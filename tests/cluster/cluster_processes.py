"""Real processes of a cluster, started and killed by tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SETTINGS: dict[str, Any] = {
    "ALLOW_PRIVATE": "1",
    "LEAST_INTERVAL": "0.2",
    "PER_HOST": "1",
    "BUDGET": "100000",
    "STRATEGY": "top_utility",
    "CLUSTER_LEASE": "9",
    "CONCURRENCY": "16",
}


class Processes:
    """The processes that a test has started; they end with the test, and their output is shown if it fails."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self._folder = folder
        self._settings = {**SETTINGS, **settings}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *arguments: str, **settings: Any) -> subprocess.Popen[bytes]:
        """Start `headwater ARGUMENTS` as the member `name`."""
        env = {key: value for key, value in os.environ.items() if not key.startswith("HEADWATER_")}
        given = {**self._settings, "MEMBER": name, **settings}
        env |= {f"HEADWATER_{key}": str(value) for key, value in given.items() if key != "FAIL_AT"}
        if "FAIL_AT" in given:
            env["HEADWATER_FAIL_AT"] = given["FAIL_AT"]
        with (self._folder / f"{name}.log").open("ab") as log:
            command = [sys.executable, "-m", "headwater", *arguments]
            process = subprocess.Popen(command, stdout=log, stderr=log, env=env, start_new_session=True)
        self._running[name] = process
        return process

    def kill(self, name: str) -> None:
        process = self._running.pop(name)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self, name: str, seconds: float = 60.0) -> int:
        """Terminate a process; return its exit code."""
        process = self._running.pop(name)
        process.terminate()
        return process.wait(seconds)

    def signal(self, name: str, number: int) -> None:
        os.killpg(self._running[name].pid, number)

    def alive(self, name: str) -> bool:
        return self._running[name].poll() is None

    def read_log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text(errors="replace")

    def describe(self, name: str) -> str:
        process = self._running.get(name)
        code = None if process is None else process.poll()
        return "(ended by the test)" if process is None else "(running)" if code is None else f"(exit code {code})"

    def end(self) -> None:
        for name in list(self._running):
            with_pid = self._running[name]
            if with_pid.poll() is None:
                os.killpg(with_pid.pid, signal.SIGCONT)
            self.kill(name)


@contextmanager
def processes(**settings: Any) -> Iterator[Processes]:
    with tempfile.TemporaryDirectory(prefix="headwater-cluster-") as folder:
        running = Processes(Path(folder), **settings)
        try:
            yield running
        except BaseException:
            for file in sorted(Path(folder).glob("*.log")):
                lines = file.read_text(errors="replace").splitlines()
                lines = [line for line in lines if "refreshed" not in line]
                sys.stderr.write(f"--- {file.name} {running.describe(file.stem)}\n" + "\n".join(lines[-25:]) + "\n")
            raise
        finally:
            running.end()
