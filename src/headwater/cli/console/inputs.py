"""Reads files and standard input, writes files, and turns their errors into sentences."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from headwater.errors import InputError
from headwater.private_files import open_private_file

T = TypeVar("T")

MAX_BYTES = 64 * 1024 * 1024


def read_bytes(file: str, max_bytes: int = MAX_BYTES) -> bytes:
    """Read a file, or standard input for “-”. Raises InputError."""
    try:
        if file == "-":
            data = sys.stdin.buffer.read(max_bytes + 1)
        else:
            with Path(file).open("rb") as opened:
                data = opened.read(max_bytes + 1)
    except IsADirectoryError as error:
        raise InputError(f"{file} is a folder. Name a file in it.") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{file} cannot be read: {_find_reason(error)}.") from error
    if len(data) > max_bytes:
        raise InputError(f"{file} is larger than {max_bytes // 1024 // 1024} MiB.")
    return data


class NotText(InputError):
    """A file is not valid UTF-8."""


def read_text(file: str) -> str:
    """Read a file or standard input as UTF-8. Raises InputError, NotText if it is not valid."""
    try:
        return read_bytes(file).decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise NotText(f"{file} is not valid UTF-8: byte {error.start} cannot be decoded.") from error


def decode_json_lines(data: bytes, name: str, kind: type[T], expected: str) -> Iterator[tuple[int, T]]:
    """Yield each line's number and value; `expected` completes “Each line is one item as a JSON object”.

    Blank lines are skipped. Raises InputError, which names the line.
    """
    decoder = msgspec.json.Decoder(kind)
    for number, text in enumerate(data.splitlines(), 1):
        if text.strip():
            try:
                yield number, decoder.decode(text)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                message = f"{name}, line {number}: {error}. Each line is one item as a JSON object{expected}."
                raise InputError(message) from error


def write_bytes(file: str, body: bytes) -> None:
    try:
        with open_private_file(Path(file)) as stream:  # lists of feeds and queries hold keys
            stream.write(body)
    except (OSError, ValueError) as error:
        raise InputError(f"{file} cannot be written: {_find_reason(error)}.") from error


def _find_reason(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error)
