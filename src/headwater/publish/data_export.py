"""Exports: items, refreshes or what a query feed has let out, as rows for Parquet, CSV or JSON Lines.

An export goes on where the last one into the same file ended, also one that was killed: a text file is cut back to the
last rows known to be whole, a Parquet file is made of pieces that are joined at the end. Items have the columns that
the lab reads as a trace: `source`, `published_at`, `title`, `categories`.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from headwater.errors import InputError
from headwater.model import Feed, Item, Refresh
from headwater.store.store import Store
from headwater.store.values import DataSlice

FORMATS = ("parquet", "csv", "jsonl")
_META = b"headwater"


@dataclass(frozen=True, slots=True)
class ExportState:
    """What a file holds: of which export, up to which id, how many rows and bytes; `new` rows came just now."""

    about: str
    last: int = 0
    rows: int = 0
    bytes: int = 0
    new: int = 0


class ExportFile(ABC):
    """A file that is being written."""

    def __init__(self, path: Path, kept: ExportState, columns: Mapping[str, str]) -> None:
        self._path = path
        self._state_so_far = kept
        self._columns = columns

    @property
    def last(self) -> int:
        return self._state_so_far.last

    @abstractmethod
    def write(self, rows: Sequence[Mapping[str, Any]], last: int) -> None:
        """Add rows, whole or not at all; the last has this id."""

    @abstractmethod
    def close(self) -> ExportState:
        """Make the file what was asked for."""

    def _count_rows(self, rows: Sequence[Mapping[str, Any]], last: int, size: int = 0) -> None:
        kept = self._state_so_far
        self._state_so_far = replace(kept, last=last, rows=kept.rows + len(rows), bytes=size, new=kept.new + len(rows))


class LinesFile(ExportFile):
    """CSV or JSON Lines. `FILE.state` says how much of it is whole; what is behind it is cut off."""

    def __init__(self, path: Path, about: str, columns: Mapping[str, str], format: str) -> None:
        self._state = path.with_name(path.name + ".state")
        kept = _parse_state(self._state.read_bytes()) if self._state.exists() else None
        super().__init__(path, _check_same_export(path, kept, about), columns)
        self._csv = format == "csv"
        self._file = path.open("r+b" if path.exists() else "w+b")
        self._file.truncate(self._state_so_far.bytes)
        self._file.seek(self._state_so_far.bytes)
        if not self._state_so_far.bytes and self._csv:
            self._file.write((",".join(columns) + "\r\n").encode())

    def write(self, rows: Sequence[Mapping[str, Any]], last: int) -> None:
        if self._csv:
            text = io.StringIO()
            csv.DictWriter(text, list(self._columns)).writerows(rows)
            self._file.write(text.getvalue().encode("utf-8", "replace"))
        else:
            self._file.writelines(orjson.dumps(row) + b"\n" for row in rows)
        self._file.flush()
        os.fsync(self._file.fileno())
        self._count_rows(rows, last, self._file.tell())
        self._save_state()

    def close(self) -> ExportState:
        self._file.close()
        if not self._state.exists():  # nothing to write yet: the next export must know its own file
            self._save_state()
        return self._state_so_far

    def _save_state(self) -> None:
        _replace_file(self._state, orjson.dumps(asdict(replace(self._state_so_far, new=0))))


class ParquetFile(ExportFile):
    """Pieces beside the file, named by their last id, joined to one file in the order of source and time at the end."""

    def __init__(self, path: Path, about: str, columns: Mapping[str, str], order: Sequence[str]) -> None:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError as error:
            raise InputError("Parquet needs pyarrow: install headwater[lab], or export csv or jsonl.") from error
        self._arrow, self._parquet = pyarrow, pyarrow.parquet
        self._schema = pyarrow.schema([(name, _arrow_type(pyarrow, kind)) for name, kind in columns.items()])
        self._order = [(name, "ascending") for name in order]
        self._folder = path.with_name(path.name + ".parts")
        kept = None
        if path.exists():
            try:
                stored = pyarrow.parquet.read_schema(path).metadata or {}
            except (OSError, pyarrow.lib.ArrowException) as error:
                raise InputError(f"{path} is there and is no Parquet file. Choose another name.") from error
            kept = _parse_state(stored[_META]) if _META in stored else None
        kept = _check_same_export(path, kept, about)
        of = self._folder / "about"
        if self._folder.exists() and of.exists() and of.read_text() != about:
            shutil.rmtree(self._folder)  # pieces of another export into this file, never finished
        self._folder.mkdir(exist_ok=True)
        of.write_text(about)
        for piece in self._folder.glob("*.tmp"):
            piece.unlink()
        pieces = [piece for piece in self._pieces() if int(piece.stem) > kept.last]
        rows = sum(pyarrow.parquet.read_metadata(piece).num_rows for piece in pieces)
        last = int(pieces[-1].stem) if pieces else kept.last
        self._joined = kept.last
        super().__init__(path, replace(kept, last=last, rows=kept.rows + rows, new=rows), columns)

    def _pieces(self) -> list[Path]:
        return sorted(self._folder.glob("*.parquet"), key=lambda piece: int(piece.stem))

    def write(self, rows: Sequence[Mapping[str, Any]], last: int) -> None:
        table = self._arrow.Table.from_pylist(list(rows), schema=self._schema)
        made = self._folder / f"{last}.tmp"
        self._parquet.write_table(table, made, compression="zstd")
        made.rename(self._folder / f"{last}.parquet")
        self._count_rows(rows, last)

    def close(self) -> ExportState:
        pieces = [piece for piece in self._pieces() if int(piece.stem) > self._joined]
        if pieces or not self._path.exists():
            tables = [self._parquet.read_table(piece) for piece in pieces]
            tables += [self._parquet.read_table(self._path)] if self._path.exists() else []
            whole = self._arrow.concat_tables([self._schema.empty_table(), *tables]).sort_by(self._order)
            meta = {_META: orjson.dumps(asdict(replace(self._state_so_far, new=0)))}
            made = self._path.with_name(self._path.name + ".tmp")
            self._parquet.write_table(whole.replace_schema_metadata(meta), made, compression="zstd")
            made.replace(self._path)
        shutil.rmtree(self._folder)
        return self._state_so_far


@contextmanager
def open_export(
    path: str, format: str, about: str, columns: Mapping[str, str], order: Sequence[str]
) -> Iterator[ExportFile]:
    """The file of an export, where it left off."""
    if format not in FORMATS:
        raise InputError(f"There is no format “{format}”; there are {', '.join(FORMATS)}.")
    try:
        given = Path(path)
        if format == "parquet":
            yield ParquetFile(given, about, columns, order)
            return
        with closing(LinesFile(given, about, columns, format)) as lines:  # also where the export is broken off
            yield lines
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}.") from error


def _check_same_export(path: Path, kept: ExportState | None, about: str) -> ExportState:
    if kept is None and path.exists() and path.stat().st_size:
        raise InputError(f"{path} is there and was not made by an export. Choose another name, or remove it.")
    if kept is not None and kept.about != about:
        raise InputError(f"{path} holds another export ({kept.about}). Choose another name, or remove it.")
    return ExportState(about) if kept is None else kept


def _parse_state(stored: bytes) -> ExportState:
    return ExportState(**orjson.loads(stored))


def _replace_file(path: Path, content: bytes) -> None:
    made = path.with_name(path.name + ".tmp")
    made.write_bytes(content)
    made.replace(path)


def _arrow_type(arrow: Any, kind: str) -> Any:
    return {"string": arrow.string(), "float64": arrow.float64(), "int64": arrow.int64(), "bool": arrow.bool_()}[kind]


CHUNK_ROWS = 2_000
KINDS = ("items", "refreshes")
Row = dict[str, Any]
Chunk = tuple[int, list[Row]]  # the last id, and the rows

ITEM_COLUMNS = {
    "id": "int64",
    "source": "string",
    "published_at": "float64",
    "title": "string",
    "categories": "string",
    "link": "string",
    "identity": "string",
    "first_seen": "float64",
    "updated": "float64",
    "version": "int64",
    "authors": "string",
    "language": "string",
    "summary": "string",
    "content": "string",
}
REFRESH_COLUMNS = {
    "id": "int64",
    "source": "string",
    "at": "float64",
    "ending": "string",
    "status": "int64",
    "elapsed": "float64",
    "bytes": "int64",
    "new": "int64",
    "updated": "int64",
    "window": "int64",
    "overlap": "int64",
    "saturated": "bool",
    "lost": "float64",
    "reason": "string",
    "message": "string",
}


async def export_rows(
    store: Store,
    what: str,
    part: DataSlice,
    path: str,
    format: str,
    *,
    query: str | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> ExportState:
    """Write what is not yet in the file; tells how many rows were written and are there.

    `progress(done, total)` is called after each piece.
    """
    query_id = None if query is None else (await store.queries.find(query)).id
    about = f"{what if query is None else f'query {query.casefold()}'} {part}"
    columns, order = (REFRESH_COLUMNS, "at") if what == "refreshes" else (ITEM_COLUMNS, "published_at")
    with open_export(path, format, about, columns, ["source", order]) as file:
        total = await store.publishing.count_archive(what, query_id, file.last, part)
        done = 0
        progress(done, total)
        async for last, rows in _read_chunks(store, what, query_id, file.last, part):
            file.write(rows, last)
            done += len(rows)
            progress(done, max(total, done))
        return file.close()


async def _read_chunks(
    store: Store, what: str, query_id: int | None, after: int, part: DataSlice
) -> AsyncIterator[Chunk]:
    if what not in KINDS:
        raise InputError(f"There is no export of “{what}”; there are {', '.join(KINDS)} and queries.")
    while True:
        found = await _read_chunk(store, what, query_id, after, part)
        if found is None:
            return
        after = found[0]
        yield found


async def _read_chunk(store: Store, what: str, query_id: int | None, after: int, part: DataSlice) -> Chunk | None:
    if query_id is None and what == "refreshes":
        log = await store.publishing.archive_refreshes(after, part, CHUNK_ROWS)
        feeds = await store.feeds_by_id({one.feed_id for _, one in log})
        return (log[-1][0], [refresh_row(id, one, feeds.get(one.feed_id)) for id, one in log]) if log else None
    if query_id is not None:
        hits = await store.publishing.archive_hits(query_id, after, part, CHUNK_ROWS)
        items, last = [hit.item for hit in hits], hits[-1].id if hits else 0
    else:
        items = await store.publishing.archive_items(after, part, CHUNK_ROWS)
        last = (items[-1].id or 0) if items else 0
    feeds = await store.feeds_by_id({item.feed_id for item in items})
    return (last, [item_row(item, feeds.get(item.feed_id)) for item in items]) if items else None


def item_row(item: Item, feed: Feed | None) -> Row:
    return {
        "id": item.id,
        "source": _name_source(item.feed_id, feed),
        "published_at": item.published,
        "title": item.title,
        "categories": "; ".join(item.categories),
        "link": item.link,
        "identity": item.identity,
        "first_seen": item.first_seen,
        "updated": item.updated,
        "version": item.version,
        "authors": "; ".join(item.authors),
        "language": item.language,
        "summary": item.summary,
        "content": item.content,
    }


def refresh_row(id: int, one: Refresh, feed: Feed | None) -> Row:
    row: Row = {name: getattr(one, name) for name in REFRESH_COLUMNS if name not in ("id", "source", "ending")}
    return {"id": id, "source": _name_source(one.feed_id, feed), "ending": one.ending.value} | row


def _name_source(feed_id: int, feed: Feed | None) -> str:
    return feed.url if feed is not None else f"feed:{feed_id}"
