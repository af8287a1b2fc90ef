"""`python -m bench [--small] [NAME…]`: run the benchmarks one after the other, each in a process of its own."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

NOT_BENCHMARKS = {"__init__", "__main__"}


def names() -> list[str]:
    found = (path.stem for path in Path(__file__).parent.glob("*.py"))
    return sorted(name for name in found if name not in NOT_BENCHMARKS and not name.startswith("_"))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of: {', '.join(names())}")
    parser.add_argument("--small", action="store_true", help="sizes that finish in seconds")
    given = parser.parse_args()
    if unknown := set(given.names) - set(names()):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(names())}")
    failed = 0
    for name in given.names or names():
        print(f"\n== {name}", flush=True)
        command = [sys.executable, "-m", f"bench.{name}", *(["--small"] if given.small else [])]
        failed += subprocess.run(command, check=False).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
