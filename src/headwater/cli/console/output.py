"""Prints results, errors and progress: for people on a terminal, as JSON for programs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from datetime import datetime
from typing import Any, NoReturn

import msgspec
import orjson
from rich.console import Console
from rich.text import Text

from headwater.cli.console.options import wants_json
from headwater.errors import HeadwaterError, NotFound

EXIT_MALFORMED = 2  # the exit code for a mistake in an argument or a script, and for a name that does not exist
EXIT_STOPPED = 130  # the exit code after Ctrl-C, as in shells
MAX_INTEGER = 2**63 - 1  # the largest number that databases accept

out = Console(soft_wrap=True)
err = Console(stderr=True, soft_wrap=True)

ShowProgress = Callable[[int, int | None], None]
ShowStepProgress = Callable[[str, int, int, str], None]


def print_json(value: Any) -> None:
    options = orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
    sys.stdout.buffer.write(orjson.dumps(value, default=to_plain_value, option=options) + b"\n")
    sys.stdout.buffer.flush()


def format_local_time(at: float | None) -> str:
    """Write a time in the time zone of the terminal."""
    if at is None:
        return "never"
    try:
        return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
    except (ValueError, OverflowError, OSError):  # beyond the calendar
        return str(at)


def to_plain_value(value: Any) -> Any:
    """Turn a dataclass or struct into a dictionary, for orjson."""
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def print_undo_hint(numbers: Sequence[int]) -> None:
    """After a removal: print the command that restores it."""
    if numbers:
        out.print(f"To restore within a day: headwater removed undo {' '.join(map(str, numbers))}")


def fail(message: str, code: int = 1) -> NoReturn:
    """Print an error on standard error, with --json also as JSON on standard output, and exit with `code`."""
    if wants_json():
        print_json({"error": message})
    err.print("[red]error:[/red]" if err.is_terminal else "error:", Text(message))
    raise SystemExit(code)


def find_exit_code(error: HeadwaterError) -> int:
    """Return the exit code for an error: a name that does not exist is a mistake in an argument."""
    return EXIT_MALFORMED if isinstance(error, NotFound) else 1


def format_count(number: int, noun: str) -> str:
    """Write a number with its noun.

    >>> format_count(1, "feed"), format_count(2000, "feed")
    ('1 feed', '2,000 feeds')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


@contextmanager
def show_progress_by_step() -> Iterator[ShowStepProgress]:
    """Show a progress bar for each step; yields a function that takes the step, done, total and a label."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    hidden = wants_json() or not err.is_terminal
    with Progress(*columns, console=err, transient=True, disable=hidden) as progress:
        bars: dict[str, Any] = {}

        def show(step: str, done: int, total: int, label: str) -> None:
            if step not in bars:
                bars[step] = progress.add_task(label)
            progress.update(bars[step], description=label, completed=done, total=total)

        yield show


@contextmanager
def show_progress(label: str, *, unit: str = "", enabled: bool = True) -> Iterator[ShowProgress]:
    """Show a progress bar on standard error if it is a terminal; yields a function that takes done and total."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), *((TextColumn(unit),) if unit else ()))
    hidden = not enabled or wants_json() or not err.is_terminal
    with Progress(*columns, TimeElapsedColumn(), console=err, transient=True, disable=hidden) as progress:
        bar = progress.add_task(label, total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total)
