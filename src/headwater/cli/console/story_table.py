"""Reads the items that `headwater query stories` groups: a trace, or JSON lines, in the order of arrival."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from headwater.cli.console.inputs import decode_json_lines, read_bytes
from headwater.errors import InputError
from headwater.formats.values.dates import parse_date
from headwater.formats.values.links import normalise_url
from headwater.query.stories.story_items import StoryItem

MAX_BYTES = 1024 * 1024 * 1024
TRACE_SUFFIXES = (".parquet", ".csv", ".tsv")


class _StoryLine(msgspec.Struct):
    id: int | str
    source: Annotated[str, msgspec.Meta(min_length=1)]
    published_at: float | str
    title: str | None = None
    link: str | None = None


def read_story_items(file: str) -> list[StoryItem]:
    """Read a trace (Parquet, CSV) or JSON lines. The rows of a trace are called NAME:ROW, after the file."""
    items = _read_trace(Path(file)) if _is_trace(file) else _read_lines(read_bytes(file, MAX_BYTES), file)
    return sorted(items, key=lambda item: item.arrived)


def _is_trace(file: str) -> bool:
    return any(suffix.lower() in TRACE_SUFFIXES for suffix in Path(file).suffixes)


def _read_trace(path: Path) -> Iterator[StoryItem]:
    from headwater.lab.traces.trace_files import encode_sources, parse_times, read_columns, read_strings

    table, _ = read_columns(path, text=True)
    times = parse_times(table["published_at"], path.name)
    codes, names = encode_sources(table["source"], path.name)
    titles = read_strings(table, "title", np.arange(len(times)), None)
    if titles is None:
        raise InputError(f"The trace {path.name} has no column “title”, and stories are grouped by titles.")
    name = path.name.partition(".")[0]
    for row, (code, at, title) in enumerate(zip(codes, times, titles, strict=True)):
        source = names[code]
        yield StoryItem(f"{name}:{row}", source, source, title, float(at))


def _read_lines(data: bytes, name: str) -> Iterator[StoryItem]:
    for number, line in decode_json_lines(data, name, _StoryLine, " with id, source, published_at and title"):
        at = parse_date(line.published_at) if isinstance(line.published_at, str) else line.published_at
        if at is None:
            raise InputError(
                f"{name}, line {number}: “{line.published_at}” is not a date; give UTC seconds since 1970, or a date "
                "like 2026-11-01T07:30:00Z."
            )
        link = normalise_url(line.link) if line.link else None
        yield StoryItem(line.id, line.source, line.source, line.title, at, link)
