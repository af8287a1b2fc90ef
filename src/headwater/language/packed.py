"""The packed form of a statement that has been read, which a store keeps beside its text.

Reading a text takes thirty times as long, and a start may have a hundred thousand of them. The text stays the truth: a
form of another version, of another text, or one that cannot be understood, is none.

    version  1 byte │ CRC-32 of the text  4 bytes │ the statement without its text, MessagePack
"""

from __future__ import annotations

from functools import cache
from zlib import crc32

import msgspec

from headwater.language.ast import Create

VERSION = 1  # raised whenever the values of `ast` change, or what the parser makes of a text
HEAD = 5


def pack(create: Create) -> bytes:
    return _head(create.text) + msgspec.msgpack.encode(msgspec.structs.replace(create, text=""))


def unpack(form: bytes | None, text: str) -> Create | None:
    """The statement that was packed; None where its text must be read again."""
    if form is None or form[:HEAD] != _head(text):
        return None
    try:
        said = _decoder().decode(memoryview(form)[HEAD:])
    except msgspec.MsgspecError:
        return None
    return Create(said.name, said.query, said.replace, said.pos, text, said.comments)


def _head(text: str) -> bytes:
    return (VERSION << 32 | crc32(text.encode(errors="surrogatepass"))).to_bytes(HEAD, "big")


@cache
def _decoder() -> msgspec.msgpack.Decoder[Create]:
    return msgspec.msgpack.Decoder(Create)
