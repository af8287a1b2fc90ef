"""Measures an idle server: its CPU and memory, and the CPU of starting a command.

`python -m bench.idle [--small] [--seconds N]`. Real processes: `headwater serve` without feeds, then with 1,000 feeds
of a feed farm that have just been refreshed and are not due for a day, so that only waiting is left. CPU is counted
over a minute by default and extrapolated to an hour; memory is that of the server and its workers together.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

LIMITS = {
    "empty server, CPU s per hour": 5.0,
    "idle server with feeds, CPU s per hour": 10.0,
    "empty server, MB": 100.0,
    "refresh of all feeds, MB at most": 180.0,
    "headwater --help, CPU s": 0.5,
    "headwater version, CPU s": 0.5,
    "headwater feeds list, CPU s": 0.5,
    "headwater users list, CPU s": 0.5,
}
SETTLE = 10.0  # seconds in which a server that is calm uses less than BUSY of a processor
BUSY = 0.05
LONGEST = 300.0  # seconds until the feeds must have been refreshed
# Every feed at once, then none for a day.
REFRESH_ALL = {
    "HEADWATER_BUDGET": "100000",
    "HEADWATER_LEAST_INTERVAL": "86400",
    "HEADWATER_HOST_PAUSE": "0",
    "HEADWATER_ALLOW_PRIVATE": "true",
}


@contextlib.contextmanager
def run_headwater(*arguments: str, **environment: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Run a command that listens; yield the id of its process and the line it prints when it is ready."""
    command = [sys.executable, "-m", "headwater", *arguments, "--port", "0", "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=os.environ | environment
    ) as process:
        assert process.stdout is not None
        printed = ""
        while not printed.endswith("}\n"):
            line = process.stdout.readline()
            if not line:
                raise SystemExit(f"`headwater {' '.join(arguments)}` ended before it listened")
            printed += line
        try:
            yield process.pid, json.loads(printed)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def list_processes(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    found = [pid]
    for known in found:
        with contextlib.suppress(OSError):  # it ended in between
            for task in Path(f"/proc/{known}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return found


def count_cpu(pid: int) -> float:
    """Return the CPU seconds of a process and its descendants so far, ended ones included."""
    total = 0.0
    for each in list_processes(pid):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return total


def measure_memory(pid: int, what: str = "VmRSS") -> float:
    """Return the MB that a process and its descendants hold, or held at most (`VmHWM`)."""
    total = 0
    for each in list_processes(pid):
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{each}/status").read_text().splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith(what))
    return total * 1024 / 1e6


def measure_hourly_cpu(pid: int, seconds: float) -> float:
    """Count CPU over a while and extrapolate to an hour."""
    before, began = count_cpu(pid), time.monotonic()
    time.sleep(seconds)
    return (count_cpu(pid) - before) / (time.monotonic() - began) * 3600


def wait_until(is_done: Callable[[], bool], problem: str = "the feeds were not refreshed") -> None:
    """Wait for a state; `problem` says what is wrong if it does not come."""
    until = time.monotonic() + LONGEST
    while not is_done():
        if time.monotonic() > until:
            raise SystemExit(f"{problem} within {LONGEST:g} seconds")
        time.sleep(0.2)


def wait_until_calm(pid: int, settle: float) -> None:
    """Wait until the work of starting or refreshing is over, also on a machine with other work."""

    def is_calm() -> bool:
        before = count_cpu(pid)
        time.sleep(settle)
        return count_cpu(pid) - before < BUSY * settle

    wait_until(is_calm, "the server did not come to rest")


def count_answers(farm_url: str) -> int:
    """Return how many documents the farm has sent."""
    with urllib.request.urlopen(f"{farm_url}/stats") as answer:
        return int(json.load(answer)["statuses"].get("200", 0))


def measure_command(*arguments: str, runs: int) -> float:
    """Return the CPU seconds of a command: the median of several runs.

    The first run does not count: it writes the compiled modules, as an installation does.
    """
    seconds = []
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(1 + runs):
        process = subprocess.Popen(
            [sys.executable, "-m", "headwater", *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"`headwater {' '.join(arguments)}` failed")
        seconds.append(usage.ru_utime + usage.ru_stime)
    return statistics.median(seconds[1:])


def measure_empty_server(folder: Path, seconds: float, settle: float) -> dict[str, float]:
    """Measure CPU and memory of a server without feeds."""
    with run_headwater("serve", "--data", str(folder), "--log-level", "error") as (pid, _):
        wait_until_calm(pid, settle)
        return {
            "empty server, CPU s per hour": measure_hourly_cpu(pid, seconds),
            "empty server, MB": measure_memory(pid),
        }


def measure_server_with_feeds(folder: Path, feeds: int, seconds: float, settle: float) -> dict[str, float]:
    """Refresh all feeds of a farm once, then let the server wait."""
    farm_options = ("--feeds", str(feeds), "--hosts", "50", "--rates", "0.1-10", "--no-hints")
    with run_headwater("farm", *farm_options) as (_, farm):
        listed = folder / "feeds.opml"
        with urllib.request.urlopen(farm["opml"]) as answer:
            listed.write_bytes(answer.read())
        importing = [sys.executable, "-m", "headwater", "feeds", "import", str(listed), "--data", str(folder)]
        subprocess.run(importing, check=True, stdout=subprocess.DEVNULL, env=os.environ | REFRESH_ALL)
        already = count_answers(farm["url"])
        with run_headwater("serve", "--data", str(folder), "--log-level", "error", **REFRESH_ALL) as (pid, _):
            wait_until(lambda: count_answers(farm["url"]) - already >= feeds)
            wait_until_calm(pid, settle)
            return {
                "refresh of all feeds, MB at most": measure_memory(pid, "VmHWM"),
                "idle server with feeds, CPU s per hour": measure_hourly_cpu(pid, seconds),
            }


def measure_commands(folder: Path, runs: int) -> dict[str, float]:
    """Measure the CPU of commands."""
    data = ["--data", str(folder)]
    commands = {"--help": [], "version": [], "feeds list": data, "users list": data}
    return {
        f"headwater {name}, CPU s": measure_command(*name.split(), *options, runs=runs)
        for name, options in commands.items()
    }


def main(small: bool = False, seconds: float | None = None) -> dict[str, float]:
    """Measure everything, print the figures beside their limits, and return them."""
    feeds = 20 if small else 1_000
    seconds = seconds or (2.0 if small else 60.0)
    settle, runs = (1.0, 1) if small else (SETTLE, 5)
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as empty, tempfile.TemporaryDirectory() as full:
        figures = measure_empty_server(Path(empty), seconds, settle)
        figures |= measure_commands(Path(empty), runs)
        figures |= measure_server_with_feeds(Path(full), feeds, seconds, settle)
    print(f"{feeds:,} feeds; CPU over {seconds:g} s, extrapolated to an hour; commands: median of {runs}")
    for name, limit in LIMITS.items():
        print(f"{name:40} {figures[name]:8.2f}   limit {limit:g}, {figures[name] / limit:.2f} × of it")
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="20 feeds and a few seconds")
    parser.add_argument("--seconds", type=float, metavar="N", help="how long CPU is counted (60)")
    given = parser.parse_args()
    main(given.small, given.seconds)
