"""Reads TUDCS1, the data set of Urbansky et al., as their program Palladian writes it: a CSV file for each feed.

The files lie in folders of folders. They have no header; a line is one item, the newest first:

    TIMESTAMP;"TITLE";"LINK";BYTES OF THE ITEM;BYTES OF THE REST OF THE DOCUMENT;WINDOW

Times are milliseconds. A line of the word MISS says that a poll shared no item with the one before it. Their program
skips damaged lines of its own files, and so does this reader.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import TraceError

BEGIN, END = (
    1285632000.0,
    1288137600.0,
)  # the crawl, 28 September to 26 October 2010; older items are from first windows
_SEMICOLON, _UNTITLED = "putSemicolonHere", "###NO_TITLE###"  # Palladian's own marks in titles


@dataclass(frozen=True, slots=True)
class FeedHistory:
    """The items of one feed within the crawl, oldest first, and the size of its last window."""

    name: str
    times: list[float]
    titles: list[str]
    window: int


def read_histories(folder: Path) -> list[FeedHistory]:
    """Read all feeds of a folder. Raises TraceError for a file without a line of this layout, and if there is none."""
    files = sorted(folder.rglob("*.csv"))
    if not files:
        raise TraceError(f"The folder {folder.name} has no CSV files of TUDCS1; give a trace as one file.")
    return [history for file in files if (history := _read_history(file)) is not None]


def _read_history(file: Path) -> FeedHistory | None:
    """Read one file; None if it has no item at all."""
    items: list[tuple[float, str]] = []
    window, damaged = 0, 0
    for line, row in _read_rows(file):
        try:
            moment, title, _, _, _, shown = row
            at, size = int(moment) / 1000.0, int(shown)
        except ValueError:  # also for another number of columns
            damaged = damaged or line
            continue
        window = window or max(size, 1)  # the newest item is the first
        items.append((at, "" if title == _UNTITLED else title.replace(_SEMICOLON, ";")))
    if not items and damaged:
        raise TraceError(
            f"Line {damaged} of {file.name} is not of TUDCS1; its lines are "
            'MILLISECONDS;"TITLE";"LINK";BYTES;BYTES;WINDOW.'
        )
    if not items:
        return None
    within = sorted(item for item in items if BEGIN <= item[0] < END)
    return FeedHistory(file.stem, [at for at, _ in within], [title for _, title in within], window)


def _read_rows(file: Path) -> Iterator[tuple[int, list[str]]]:
    with file.open(encoding="utf-8", errors="replace", newline="") as opened:
        lines = csv.reader(opened, delimiter=";")
        try:
            for row in lines:
                if row and row[0] != "MISS":
                    yield lines.line_num, row
        except csv.Error as error:
            raise TraceError(f"{file.name} cannot be read as CSV: {error}.") from error
