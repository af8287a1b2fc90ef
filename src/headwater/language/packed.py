"""The packed form of a statement that has been read, which a store keeps beside its text.

Reading a text takes thirty times as long, and a start may have a hundred thousand of them. The text stays the truth: a
form of another version, or one that cannot be understood, is none.
"""

from __future__ import annotations

from functools import cache

import msgspec

from headwater.language.ast import Create

VERSION = 1  # raised whenever the values of `ast` change, or what the parser makes of a text


def pack(create: Create) -> bytes:
    """The form of a statement, without its text."""
    return bytes((VERSION,)) + msgspec.msgpack.encode(msgspec.structs.replace(create, text=""))


def unpack(form: bytes | None, text: str) -> Create | None:
    """The statement that was packed, which had this text; None where that must be read again."""
    if not form or form[0] != VERSION:
        return None
    try:
        said = _decoder().decode(memoryview(form)[1:])
    except msgspec.MsgspecError:
        return None
    return Create(said.name, said.query, said.replace, said.pos, text, said.comments)


@cache
def _decoder() -> msgspec.msgpack.Decoder[Create]:
    return msgspec.msgpack.Decoder(Create)
