"""Packs a parsed statement for the store, which keeps it beside the text.

Parsing takes thirty times as long as unpacking, and a server may start with a hundred thousand statements. The text is
authoritative: a form of another version or text, or a damaged one, is ignored.

    version  1 byte │ CRC-32 of the text  4 bytes │ the statement without its text, MessagePack
"""

from __future__ import annotations

from functools import cache
from threading import Lock
from zlib import crc32

import msgspec

from headwater.language.ast import CreateFeed

VERSION = 6  # raise it when classes or fields of `ast` change, or when the parser's result for a text does
HEADER_BYTES = 5

_build_lock = Lock()


def pack_statement(create: CreateFeed) -> bytes:
    return _make_header(create.text) + msgspec.msgpack.encode(msgspec.structs.replace(create, text=""))


def unpack_statement(form: bytes | None, text: str) -> CreateFeed | None:
    """Return the packed statement, or None if its text must be parsed again."""
    if form is None or form[:HEADER_BYTES] != _make_header(text):
        return None
    try:
        unpacked = _get_decoder().decode(memoryview(form)[HEADER_BYTES:])
    except msgspec.MsgspecError:
        return None
    return CreateFeed(unpacked.name, unpacked.query, unpacked.replace, unpacked.pos, text, unpacked.comments)


def _make_header(text: str) -> bytes:
    return (VERSION << 32 | crc32(text.encode(errors="surrogatepass"))).to_bytes(HEADER_BYTES, "big")


@cache
def _get_decoder() -> msgspec.msgpack.Decoder[CreateFeed]:
    # msgspec lets other threads use the description of a type that it is still building: they read a null pointer.
    with _build_lock:
        return msgspec.msgpack.Decoder(CreateFeed)
