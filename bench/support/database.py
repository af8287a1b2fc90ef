"""Runs a benchmark on a SQLite file, or on a PostgreSQL server of its own."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from headwater.cluster.demo.servers import postgres_server

Figures = dict[str, float]


def measure_on_database(
    measure: Callable[[bool, str, Callable[[], float]], Awaitable[Figures]], small: bool, postgres: bool
) -> Figures:
    """Call `measure` with the size, the address of a new database and the clock: wall time where a server works too."""

    async def run(url: str, clock: Callable[[], float]) -> Figures:
        return await measure(small, url, clock)

    with tempfile.TemporaryDirectory() as folder:
        if not postgres:
            return asyncio.run(run(f"sqlite:///{folder}/bench.sqlite", time.process_time))
        with postgres_server(Path(folder) / "postgres") as url:
            return asyncio.run(run(url, time.perf_counter))


def run_from_command_line(main: Callable[[bool, bool], Figures], description: str | None) -> None:
    """Run `main` with the options --small and --postgres."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a size that finishes in seconds")
    parser.add_argument("--postgres", action="store_true", help="on a PostgreSQL server of its own, not SQLite")
    given = parser.parse_args()
    main(given.small, given.postgres)
