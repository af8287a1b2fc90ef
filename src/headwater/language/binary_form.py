"""The packed form of a statement that has been read, which a store keeps beside its text.

Reading a text takes thirty times as long, and a start may have a hundred thousand of them. The text stays the truth: a
form of another version, of another text, or one that cannot be understood, is none.

    version  1 byte │ CRC-32 of the text  4 bytes │ the statement without its text, MessagePack
"""

from __future__ import annotations

from functools import cache
from zlib import crc32

import msgspec

from headwater.language.ast import CreateFeed

VERSION = 2  # raised whenever the values of `ast` change, or what the parser makes of a text
HEADER_BYTES = 5


def pack_statement(create: CreateFeed) -> bytes:
    return _make_header(create.text) + msgspec.msgpack.encode(msgspec.structs.replace(create, text=""))


def unpack_statement(form: bytes | None, text: str) -> CreateFeed | None:
    """The statement that was packed; None where its text must be read again."""
    if form is None or form[:HEADER_BYTES] != _make_header(text):
        return None
    try:
        said = _get_decoder().decode(memoryview(form)[HEADER_BYTES:])
    except msgspec.MsgspecError:
        return None
    return CreateFeed(said.name, said.query, said.replace, said.pos, text, said.comments)


def _make_header(text: str) -> bytes:
    return (VERSION << 32 | crc32(text.encode(errors="surrogatepass"))).to_bytes(HEADER_BYTES, "big")


@cache
def _get_decoder() -> msgspec.msgpack.Decoder[CreateFeed]:
    return msgspec.msgpack.Decoder(CreateFeed)
