"""Reads trace files (Parquet, CSV, JSON lines) into arrays of times and sources.

Only the columns of a trace are read, in any order and beside any others. Dates may be UTC seconds, Parquet's dates and
timestamps (UTC where they have no zone), or text: seconds again, or dates of any form that feeds have. Every problem
with a file is a TraceError of one sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Floats
from headwater.errors import TraceError
from headwater.formats.values.dates import parse_date

REQUIRED_COLUMNS = ("source", "published_at")
TEXT_COLUMNS = ("title", "categories", "feed_categories")
# Columns of `headwater export`, whose rows are in order of arrival, not of the publishers' dates.
_EXPORTED = frozenset({"id", "identity", "first_seen"})
_BLOCK = 1 << 26  # bytes of CSV parsed at a time; a row with a whole article must fit
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_JSON_LINES = (".jsonl", ".ndjson")
_PACKED = (".gz", ".bz2", ".zst")
_PARQUET = b"PAR1"  # its first bytes
# As seconds this is the year 5138; as milliseconds, March 1973. The finer units follow by a factor of a thousand each.
_UNITS = ((1e17, "nanoseconds", "10⁹"), (1e14, "microseconds", "10⁶"), (1e11, "milliseconds", "1000"))


def read_columns(path: Path, text: bool) -> tuple[Any, bool]:
    """Return the table of a trace's columns, and whether the file is an export and needs sorting."""
    table, names = _read_table(path, lambda names: _choose_columns(names, text, path.name))
    if table.num_rows == 0:
        raise TraceError(f"The trace {path.name} has no items; give one with at least one row.")
    return table, set(names) >= _EXPORTED


def _read_table(path: Path, choose: Callable[[list[str]], list[str]]) -> tuple[Any, list[str]]:
    """Read those columns of a file that `choose` picks from its columns; return them and the names of all."""
    try:
        from pyarrow import csv, lib, parquet
        from pyarrow import json as json_lines
    except ImportError as error:
        raise TraceError("Reading traces needs pyarrow; install headwater[lab].") from error
    try:
        there = path.is_file()
    except OSError as error:  # for example a name that is too long
        raise TraceError(f"The trace {path} cannot be read: {error.strerror}.") from error
    if not there:
        raise TraceError(f"There is no trace {path}; give the path of a Parquet, CSV or JSON lines file.")
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in _PACKED][-1:]
    if suffixes and suffixes[0] in (".json", ".xlsx", ".db", ".sqlite"):
        raise TraceError(
            f"The trace {path.name} is neither Parquet, CSV nor JSON lines. `headwater export FILE.parquet` writes one."
        )
    delimiter = _DELIMITERS.get(suffixes[0]) if suffixes else None
    lines = bool(suffixes) and suffixes[0] in _JSON_LINES
    kind = "JSON lines" if lines else "Parquet" if delimiter is None else "CSV"
    try:
        with path.open("rb") as opened:
            if opened.read(len(_PARQUET)) == _PARQUET:  # whatever its name
                kind = "Parquet"
        if kind == "JSON lines":
            table = json_lines.read_json(path, json_lines.ReadOptions(block_size=_BLOCK))
            names = list(table.column_names)
            table = table.select(choose(names))
        elif kind == "Parquet":
            file = parquet.ParquetFile(path)
            names = list(file.schema_arrow.names)
            table = file.read(columns=choose(names))
        else:
            parsing = csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
            reading = csv.ReadOptions(block_size=_BLOCK)
            with csv.open_csv(path, reading, parsing) as opened:
                names = list(opened.schema.names)
            wanted = choose(names)
            # As text: the first rows of a column say nothing about the type of the others.
            types = dict.fromkeys(wanted, lib.string())
            table = csv.read_csv(path, reading, parsing, csv.ConvertOptions(column_types=types, include_columns=wanted))
    except (lib.ArrowException, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise TraceError(f"The trace {path.name} cannot be read as {kind}: {reason}.") from error
    return table, names


def _choose_columns(names: Sequence[str], text: bool, file: str) -> list[str]:
    wanted = [*REQUIRED_COLUMNS, *(TEXT_COLUMNS if text else ())]
    for name in wanted:
        if names.count(name) > 1:
            raise TraceError(f"The trace {file} has {names.count(name)} columns “{name}”; remove all but one.")
    for name in REQUIRED_COLUMNS:
        if name not in names:
            raise TraceError(
                f"The trace {file} has no column “{name}”; it needs {' and '.join(REQUIRED_COLUMNS)}, "
                f"and has {', '.join(names) or 'none'}."
            )
    return [name for name in wanted if name in names]


def parse_times(column: Any, name: str) -> Floats:
    """Return the column published_at as UTC seconds."""
    import pyarrow as pa

    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _check_range(_parse_texts(column.to_pylist(), name), name)
    if column.null_count:
        raise _missing_dates(column.null_count, name)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        # safe=False: nanoseconds may be lost. A zone is only for display, the value is UTC.
        moments = column.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False).cast(pa.int64(), safe=False)
        return np.asarray(moments.to_numpy() / 1e6, dtype=np.float64)
    if pa.types.is_boolean(kind) or not (pa.types.is_primitive(kind) or pa.types.is_decimal(kind)):
        raise TraceError(
            f"The column published_at of {name} holds {kind} instead of dates; give UTC seconds since 1970."
        )
    return _check_range(np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64), name)


def _parse_texts(texts: list[str | None], name: str) -> Floats:
    """Parse seconds or dates written as text."""
    missing = sum(not (text or "").strip() for text in texts)
    if missing:
        raise _missing_dates(missing, name)
    try:
        return np.array(texts, dtype=np.float64)
    except ValueError:
        pass
    found = np.empty(len(texts))
    for row, text in enumerate(texts):
        when = parse_date(str(text).strip())
        if when is None:
            raise TraceError(
                f"Row {row + 1} of {name}: “{str(text)[:60]}” is neither a number nor a date; give UTC seconds since "
                "1970, or dates like 2026-11-01T07:30:00Z."
            )
        found[row] = when
    return found


def _missing_dates(rows: int, name: str) -> TraceError:
    return TraceError(f"The trace {name} has {rows} rows without published_at; remove them.")


def _check_range(times: Floats, name: str) -> Floats:
    if not np.isfinite(times).all():
        raise TraceError(f"The column published_at of {name} holds values that are not finite; remove those rows.")
    for least, unit, factor in _UNITS:
        if np.abs(times).max() > least:
            raise TraceError(f"The dates of {name} look like {unit}; give UTC seconds: divide by {factor}.")
    return times


def encode_sources(column: Any, name: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return the column source as numbers, and the name of each number."""
    import pyarrow as pa

    if column.null_count:
        raise TraceError(f"The trace {name} has {column.null_count} rows without a source; remove them.")
    if not pa.types.is_dictionary(column.type):
        try:
            column = column.cast(pa.string()).dictionary_encode()
        except pa.ArrowException as error:
            raise TraceError(f"The column source of {name} holds {column.type} instead of names; give text.") from error
    chunk = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    if isinstance(chunk, pa.ChunkedArray):
        chunk = chunk.unify_dictionaries().combine_chunks()
    labels = chunk.dictionary.to_pylist()
    used, codes = np.unique(np.asarray(chunk.indices), return_inverse=True)
    names = tuple(str(labels[k]) if labels[k] is not None else "" for k in used)
    if any(not label.strip() for label in names):
        raise TraceError(f"The trace {name} has rows whose source is empty; name every source.")
    return codes, names


def read_strings(table: Any, column: str, order: NDArray[np.intp], empty: str | None) -> tuple[Any, ...] | None:
    """Return a column as text in this order; lists are joined with semicolons."""
    if column not in table.column_names:
        return None
    values = table[column].to_pylist()
    return tuple(empty if values[k] is None else _format_value(values[k]) for k in order)


def _format_value(value: Any) -> str:
    if isinstance(value, list):
        return "; ".join(str(each) for each in value if each is not None)
    return value if isinstance(value, str) else str(value)


def rename_columns(path: Path, pairs: str, folder: Path) -> Path:
    """Write a copy of a file in `folder`, as Parquet under the same name, with the columns of a trace; `pairs` is like
    “source=feed,published_at=date”.

    Raises TraceError for a name that a trace does not have or a column that the file does not have.
    """
    known = (*REQUIRED_COLUMNS, *TEXT_COLUMNS)
    if path.is_dir():
        raise TraceError("--columns names the columns of one file; a folder of TUDCS1 is read as it is.")
    chosen = dict(part.strip().partition("=")[::2] for part in pairs.split(","))
    for name, column in chosen.items():
        if name not in known or not column:
            raise TraceError(f"--columns must be like source=feed,published_at=date; the names are {', '.join(known)}.")

    def choose(names: list[str]) -> list[str]:
        for column in chosen.values():
            if column not in names:
                raise TraceError(f"The trace {path.name} has no column “{column}”; it has {', '.join(names)}.")
        return list(dict.fromkeys(chosen.get(name, name) for name in known if name in chosen or name in names))

    table, names = _read_table(path, choose)
    kept = [name for name in known if name in chosen or name in names]
    renamed = table.select([chosen.get(name, name) for name in kept]).rename_columns(kept)

    from pyarrow import parquet

    copy = folder / path.name
    parquet.write_table(renamed, copy)
    return copy
