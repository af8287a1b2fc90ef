"""Runs the benchmarks one after the other, each in a process of its own: `python -m bench [--small] [NAME…]`."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path


def list_benchmarks() -> list[str]:
    """Name the benchmarks: the modules of this folder."""
    return sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py"))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of: {', '.join(list_benchmarks())}")
    parser.add_argument("--small", action="store_true", help="sizes that finish in seconds")
    given = parser.parse_args()
    if unknown := set(given.names) - set(list_benchmarks()):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(list_benchmarks())}")
    failed = 0
    for name in given.names or list_benchmarks():
        print(f"\n== {name}", flush=True)
        command = [sys.executable, "-m", f"bench.{name}", *(["--small"] if given.small else [])]
        failed += subprocess.run(command, check=False).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
