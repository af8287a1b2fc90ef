"""Packs items as compressed JSON, for versions that must stay as they were."""

from __future__ import annotations

import zlib

import msgspec

from headwater.model import Item

_decode_item = msgspec.json.Decoder(Item).decode  # made here: two threads that make the first one at once crash


def pack_item(value: Item) -> bytes:
    """Return an item as compressed JSON."""
    return zlib.compress(msgspec.json.encode(value), 1)


def unpack_item(blob: bytes) -> Item:
    """Return an item packed by `pack_item`."""
    return _decode_item(zlib.decompress(blob))
