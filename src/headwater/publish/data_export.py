"""Exports items, refreshes or hits of a query feed as CSV, JSON Lines or Parquet.

An export continues where the last one into the same file ended, even if that was killed: a text file is truncated to
the last complete rows, and a Parquet file is merged from pieces at the end. Items have the columns that the lab reads
as a trace: `source`, `published_at`, `title`, `categories`. As JSON Lines they also have the fields of the table that
`headwater query eval` reads.
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
from msgspec import to_builtins

from headwater.errors import InputError
from headwater.model import Feed, Item, Refresh
from headwater.private_files import make_private_folder, open_private_file, touch_private_file
from headwater.query.items.origin import Origin
from headwater.store.content.feeds import find_feeds
from headwater.store.content.items import DataSlice, count_item_slice, list_item_slice
from headwater.store.content.refreshes import count_refresh_slice, list_refresh_slice
from headwater.store.queries.document_hits import load_item_origins
from headwater.store.queries.hits import count_hit_slice, list_hit_slice
from headwater.store.queries.query_feeds import find_query_feed
from headwater.store.store import Store

FORMATS = ("parquet", "csv", "jsonl")
_META = b"headwater"


@dataclass(frozen=True, slots=True)
class ExportState:
    """The state of an export file: its export, last id, rows and bytes. `new` counts the rows of this run."""

    about: str
    last: int = 0
    rows: int = 0
    bytes: int = 0
    new: int = 0


class ExportFile(ABC):
    """A file of an export that is being written."""

    def __init__(self, path: Path, state: ExportState, columns: Mapping[str, str]) -> None:
        self._path = path
        self._progress = state
        self._columns = columns

    @property
    def last(self) -> int:
        return self._progress.last

    @abstractmethod
    def write(self, rows: Sequence[Mapping[str, Any]], last: int) -> None:
        """Add rows atomically; `last` is the id of the last row."""

    @abstractmethod
    def close(self) -> ExportState:
        """Complete the file and return its state."""

    def _count_rows(self, rows: Sequence[Mapping[str, Any]], last: int, size: int = 0) -> None:
        state = self._progress
        self._progress = replace(state, last=last, rows=state.rows + len(rows), bytes=size, new=state.new + len(rows))


class LinesFile(ExportFile):
    """CSV or JSON Lines. `FILE.state` holds the length of the complete part; the rest is truncated."""

    def __init__(self, path: Path, about: str, columns: Mapping[str, str], format: str) -> None:
        self._state = path.with_name(path.name + ".state")
        state = _parse_state(self._state.read_bytes()) if self._state.exists() else None
        super().__init__(path, _check_same_export(path, state, about), columns)
        self._csv = format == "csv"
        touch_private_file(path)
        self._file = path.open("r+b")
        self._file.truncate(self._progress.bytes)
        self._file.seek(self._progress.bytes)
        if not self._progress.bytes and self._csv:
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
        if not self._state.exists():  # without rows, too, so that the next run recognises the file
            self._save_state()
        return self._progress

    def _save_state(self) -> None:
        _replace_file(self._state, orjson.dumps(asdict(replace(self._progress, new=0))))


class ParquetFile(ExportFile):
    """Writes pieces beside the file, named by their last id, and merges them at the end, sorted by source and time."""

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
        state = None
        if path.exists():
            try:
                stored = pyarrow.parquet.read_schema(path).metadata or {}
            except (OSError, pyarrow.lib.ArrowException) as error:
                raise InputError(f"{path} exists and is not a Parquet file. Choose another name.") from error
            state = _parse_state(stored[_META]) if _META in stored else None
        state = _check_same_export(path, state, about)
        of = self._folder / "about"
        if self._folder.exists() and of.exists() and of.read_text() != about:
            shutil.rmtree(self._folder)  # pieces of another, unfinished export into this file
        make_private_folder(self._folder)
        _replace_file(of, about.encode())
        for piece in self._folder.glob("*.tmp"):
            piece.unlink()
        pieces = [piece for piece in self._pieces() if int(piece.stem) > state.last]
        rows = sum(pyarrow.parquet.read_metadata(piece).num_rows for piece in pieces)
        last = int(pieces[-1].stem) if pieces else state.last
        self._merged_up_to = state.last
        super().__init__(path, replace(state, last=last, rows=state.rows + rows, new=rows), columns)

    def _pieces(self) -> list[Path]:
        return sorted(self._folder.glob("*.parquet"), key=lambda piece: int(piece.stem))

    def write(self, rows: Sequence[Mapping[str, Any]], last: int) -> None:
        table = self._arrow.Table.from_pylist(list(rows), schema=self._schema)
        temporary = self._folder / f"{last}.tmp"
        self._write_table(table, temporary)
        temporary.rename(self._folder / f"{last}.parquet")
        self._count_rows(rows, last)

    def close(self) -> ExportState:
        pieces = [piece for piece in self._pieces() if int(piece.stem) > self._merged_up_to]
        if pieces or not self._path.exists():
            tables = [self._parquet.read_table(piece) for piece in pieces]
            tables += [self._parquet.read_table(self._path)] if self._path.exists() else []
            whole = self._arrow.concat_tables([self._schema.empty_table(), *tables]).sort_by(self._order)
            meta = {_META: orjson.dumps(asdict(replace(self._progress, new=0)))}
            temporary = self._path.with_name(self._path.name + ".tmp")
            self._write_table(whole.replace_schema_metadata(meta), temporary)
            temporary.replace(self._path)
        shutil.rmtree(self._folder)
        return self._progress

    def _write_table(self, table: Any, path: Path) -> None:
        with open_private_file(path) as stream:  # by its name, pyarrow could take the file for an address
            self._parquet.write_table(table, stream, compression="zstd")


@contextmanager
def open_export(
    path: str, format: str, about: str, columns: Mapping[str, str], order: Sequence[str]
) -> Iterator[ExportFile]:
    """Open the file of an export for appending."""
    if format not in FORMATS:
        raise InputError(f"Unknown format “{format}”. Use {', '.join(FORMATS)}.")
    try:
        given = Path(path)
        if format == "parquet":
            yield ParquetFile(given, about, columns, order)
            return
        with closing(LinesFile(given, about, columns, format)) as lines:  # also if the export is interrupted
            yield lines
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}.") from error


def _check_same_export(path: Path, state: ExportState | None, about: str) -> ExportState:
    if state is None and path.exists() and path.stat().st_size:
        raise InputError(f"{path} exists and was not written by an export. Choose another name, or remove it.")
    if state is not None and state.about != about:
        raise InputError(f"{path} holds another export ({state.about}). Choose another name, or remove it.")
    return ExportState(about) if state is None else state


def _parse_state(stored: bytes) -> ExportState:
    return ExportState(**orjson.loads(stored))


def _replace_file(path: Path, content: bytes) -> None:
    temporary = path.with_name(path.name + ".tmp")
    with open_private_file(temporary) as stream:
        stream.write(content)
    temporary.replace(path)


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
    "duplicates": "int64",
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
    """Add the missing rows to the file and return its state.

    `progress(done, total)` is called after each chunk.
    """
    query_id = None if query is None else (await store.read(find_query_feed, query)).id
    about = f"{what if query is None else f'query {query.casefold()}'} {part}"
    columns, order = (REFRESH_COLUMNS, "at") if what == "refreshes" else (ITEM_COLUMNS, "published_at")
    with open_export(path, format, about, columns, ["source", order]) as file:
        if query_id is not None:
            total = await store.read(count_hit_slice, query_id, file.last, part)
        else:
            count = count_refresh_slice if what == "refreshes" else count_item_slice
            total = await store.read(count, file.last, part)
        done = 0
        progress(done, total)
        async for last, rows in _read_chunks(store, what, query_id, file.last, part, for_table=format == "jsonl"):
            file.write(rows, last)
            done += len(rows)
            progress(done, max(total, done))
        return file.close()


async def _read_chunks(
    store: Store, what: str, query_id: int | None, after: int, part: DataSlice, *, for_table: bool
) -> AsyncIterator[Chunk]:
    if what not in KINDS:
        raise InputError(f"Unknown export “{what}”. Export {', '.join(KINDS)} or a query.")
    while True:
        found = await _read_chunk(store, what, query_id, after, part, for_table)
        if found is None:
            return
        after = found[0]
        yield found


async def _read_chunk(
    store: Store, what: str, query_id: int | None, after: int, part: DataSlice, for_table: bool
) -> Chunk | None:
    if query_id is None and what == "refreshes":
        log = await store.read(list_refresh_slice, after, part, CHUNK_ROWS)
        feeds = await store.read(find_feeds, {one.feed_id for _, one in log})
        return (log[-1][0], [refresh_row(id, one, feeds.get(one.feed_id)) for id, one in log]) if log else None
    if query_id is not None:
        hits = await store.read(list_hit_slice, query_id, after, part, CHUNK_ROWS)
        items, last = [hit.item for hit in hits], hits[-1].id if hits else 0
    else:
        items = await store.read(list_item_slice, after, part, CHUNK_ROWS)
        last = (items[-1].id or 0) if items else 0
    feeds = await store.read(find_feeds, {item.feed_id for item in items})
    rows = [item_row(item, feeds.get(item.feed_id)) for item in items]
    if for_table:
        origins = await store.read(load_item_origins, feeds.keys())
        for row, item in zip(rows, items, strict=True):
            row |= _table_fields(item, origins.get(item.feed_id))
    return (last, rows) if items else None


def item_row(item: Item, feed: Feed | None) -> Row:
    """Return the columns of an exported item."""
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


def _table_fields(item: Item, origin: Origin | None) -> Row:
    """Return the further fields of an item in a table for `headwater query eval`."""
    if origin is None:  # its feed is being removed
        origin = Origin(None, f"feed:{item.feed_id}", registered=False)
    return {
        "feed": origin.name or origin.url,
        "feed_url": origin.url,
        "feed_title": origin.title,
        "tags": origin.tags,
        "registered": origin.registered,
        "published": item.published,
        "arrived": item.first_seen,
        "dated": item.dated,
        "enclosures": to_builtins(item.enclosures),
        "origin": to_builtins(item.source),
    }


def refresh_row(id: int, one: Refresh, feed: Feed | None) -> Row:
    """Return the columns of an exported refresh."""
    row: Row = {name: getattr(one, name) for name in REFRESH_COLUMNS if name not in ("id", "source", "ending")}
    return {"id": id, "source": _name_source(one.feed_id, feed), "ending": one.ending.value} | row


def _name_source(feed_id: int, feed: Feed | None) -> str:
    return feed.url if feed is not None else f"feed:{feed_id}"
