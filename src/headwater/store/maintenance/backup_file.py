"""Reads and writes backup files: one zstd stream of a manifest, blocks of rows and a seal.

Each record is its length (four bytes, big-endian) and MessagePack, which keeps bytes, long integers and every double as
they are. The manifest comes first, so that a reader knows what to expect. The seal comes last, with the number of rows
and the SHA-256 of everything before it, so that a truncated or changed file is recognised. The file appears under its
name only when it is complete.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import msgspec
import zstandard

from headwater.errors import InputError, StoreError

FORMAT = 1
LEVEL = 6  # half again as small as level 1, and still faster than the rows come out of the database
BLOCK_ROWS, BLOCK_BYTES = 1000, 1 << 20
_PIECE = 1 << 20
_ZSTD = b"\x28\xb5\x2f\xfd"


class Manifest(msgspec.Struct, frozen=True, tag="headwater backup"):
    """The first record: describes the contents of the file."""

    format: int
    version: str  # of the program that wrote it
    tables: str  # the version of the tables
    taken: float
    database: str  # sqlite or postgresql
    columns: dict[str, list[str]]  # of each table, in the order of the file
    counts: dict[str, int]
    numbers: dict[str, int]  # the last id given out in each table that numbers its rows: none is given twice


class Rows(msgspec.Struct, frozen=True, tag="rows"):
    table: str
    rows: list[list[Any]]


class Seal(msgspec.Struct, frozen=True, tag="seal"):
    counts: dict[str, int]
    sha256: str


class _PackedRows(msgspec.Struct, frozen=True, tag="rows"):
    table: str
    rows: list[msgspec.Raw]


_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Manifest | Rows | Seal] = msgspec.msgpack.Decoder(Manifest | Rows | Seal)


class BackupWriter:
    """Writes the records in their order; `manifest` once, then `row` for each row, then `seal`."""

    def __init__(self, stream: IO[bytes], file: Path) -> None:
        self._stream = stream
        self._file = file
        self._sum = hashlib.sha256()
        self._counts: dict[str, int] = {}
        self._table = ""
        self._waiting: list[msgspec.Raw] = []
        self._bytes = 0

    def write_manifest(self, manifest: Manifest) -> None:
        self._counts = dict.fromkeys(manifest.columns, 0)
        self._write_record(_encode(manifest))

    def write_row(self, table: str, row: tuple[Any, ...]) -> None:
        if table != self._table:
            self._flush()
            self._table = table
        packed = msgspec.Raw(_encode(row))
        self._waiting.append(packed)
        self._bytes += len(packed)
        self._counts[table] += 1
        if len(self._waiting) >= BLOCK_ROWS or self._bytes >= BLOCK_BYTES:
            self._flush()

    def write_seal(self) -> Seal:
        self._flush()
        seal = Seal(self._counts, self._sum.hexdigest())
        self._write_record(_encode(seal))
        return seal

    def _flush(self) -> None:
        if self._waiting:
            self._write_record(_encode(_PackedRows(self._table, self._waiting)))
            self._waiting, self._bytes = [], 0

    def _write_record(self, record: bytes) -> None:
        for part in (len(record).to_bytes(4, "big"), record):
            self._sum.update(part)
            with _translate_disk_errors(self._file):
                self._stream.write(part)


class BackupReader:
    """Reads a backup from its beginning; what is no whole backup is an InputError that says so."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream = stream
        self._name = name
        self._sum = hashlib.sha256()
        self.manifest = self._read_manifest()

    def read_blocks(self) -> Iterator[Rows]:
        """Yield all rows in the order of the file. The last step checks numbers and checksum."""
        counts = dict.fromkeys(self.manifest.columns, 0)
        while True:
            before = self._sum.hexdigest()
            record = self._read_record()
            if isinstance(record, Seal):
                if record.sha256 != before or record.counts != counts or self._read_piece(1):
                    raise self._damage_error("its checksum or its number of rows is not what was written")
                return
            if not isinstance(record, Rows) or record.table not in counts:
                raise self._damage_error("something unknown stands between the rows")
            width = len(self.manifest.columns[record.table])
            if any(len(row) != width for row in record.rows):
                raise self._damage_error(f"rows of {record.table} do not have their columns")
            counts[record.table] += len(record.rows)
            yield record

    def _read_manifest(self) -> Manifest:
        try:
            record = self._read_record()
        except InputError:
            record = None
        if not isinstance(record, Manifest):
            raise InputError(
                f"{self._name} is no backup of Headwater, or damaged from its beginning on. "
                "Give a file that headwater backup has written."
            )
        if record.format > FORMAT:
            raise InputError(f"{self._name} was written by a newer Headwater ({record.version}). Install that version.")
        return record

    def _read_record(self) -> Manifest | Rows | Seal:
        length = int.from_bytes(self._read(4), "big")
        try:
            return _decoder.decode(self._read(length))
        except (msgspec.MsgspecError, ValueError) as error:  # text that is no UTF-8 is a ValueError
            raise self._damage_error("a part of it cannot be read") from error

    def _read(self, length: int) -> bytes:
        """Piece by piece, so that a damaged length does not ask for memory that nothing will fill."""
        pieces = []
        while length:
            piece = self._read_piece(min(length, _PIECE))
            if not piece:
                raise self._damage_error("it ends too early")
            self._sum.update(piece)
            pieces.append(piece)
            length -= len(piece)
        return b"".join(pieces)

    def _read_piece(self, most: int) -> bytes:
        try:
            return self._stream.read(most)
        except zstandard.ZstdError as error:
            raise self._damage_error("a part of it cannot be unpacked") from error

    def _damage_error(self, how: str) -> InputError:
        return InputError(f"The backup {self._name} is damaged: {how}. Nothing was restored from it; use another one.")


@contextmanager
def open_backup_writer(file: Path, *, replace: bool = False) -> Iterator[BackupWriter]:
    """A backup that appears under its name when the block ends, or not at all."""
    with _translate_disk_errors(file):
        if file.exists() and not replace:
            raise InputError(f"{file} is there already. Choose another name, or replace it by --force.")
    part = file.with_name(f"{file.name}.part")
    try:
        with _translate_disk_errors(file), part.open("wb") as raw:
            part.chmod(0o600)  # password hashes and private feeds are inside
            with zstandard.ZstdCompressor(LEVEL, write_checksum=True).stream_writer(raw, closefd=False) as stream:
                yield BackupWriter(stream, file)
            raw.flush()
            os.fsync(raw.fileno())
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _translate_disk_errors(file: Path) -> Iterator[None]:
    """Turn disk errors into sentences about the backup file; further out they would look like errors of the
    database."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        reason = "the disk is full" if full else error.strerror or str(error)
        raise StoreError(f"The backup {file} cannot be written: {reason}. Nothing was kept of it.") from error


@contextmanager
def open_backup_reader(file: Path) -> Iterator[BackupReader]:
    try:
        with file.open("rb") as raw:
            if raw.read(4) != _ZSTD:
                raise InputError(f"{file} is no backup of Headwater. Give a file that headwater backup has written.")
            raw.seek(0)
            with zstandard.ZstdDecompressor().stream_reader(raw) as stream:
                yield BackupReader(stream, str(file))
    except OSError as error:
        raise InputError(f"The backup {file} cannot be read: {error.strerror or error}.") from error
