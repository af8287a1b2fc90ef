"""Decodes gzip, deflate, brotli and zstd up to a size limit, against decompression bombs."""

from __future__ import annotations

import zlib

import brotli
import zstandard

ACCEPTED_ENCODINGS = "gzip, deflate, br, zstd"

_PLAIN = frozenset(
    {"", "identity", "none", "binary", "8bit", "7bit", "utf-8", "utf8"}
)  # values that servers send for no encoding
_GZIP_MAGIC = b"\x1f\x8b\x08"
_MAX_MEMBERS = 64  # each member copies the rest of the body, so thousands of them would be quadratic
_ZSTD_WINDOW = 1 << 23  # RFC 9659 §3
_ZSTD_END = zstandard.ZstdCompressor().compress(b"complete")


class BodyTooLarge(Exception):
    """The body decodes to more than the cap."""


class BodyDamaged(Exception):
    """The body cannot be decoded; the message says why."""


def decode_body(body: bytes, encoding: str, cap: int) -> bytes:
    """Decode a body. Raises BodyTooLarge beyond `cap` bytes, BodyDamaged for a broken encoding.

    >>> import gzip
    >>> decode_body(gzip.compress(b"<rss/>"), "gzip", 100)
    b'<rss/>'
    """
    name = encoding.strip().lower()
    if name in _PLAIN:
        # Files that are stored compressed (feed.xml.gz) are sent without the header.
        name = "gzip" if body.startswith(_GZIP_MAGIC) else ""
    elif name in ("gzip", "x-gzip") and not body.startswith(_GZIP_MAGIC):
        name = ""  # labelled but not compressed: a common mistake of plugins
    if not name or not body:
        if len(body) > cap:
            raise BodyTooLarge
        return body
    if "," in name:
        raise BodyDamaged(f"it is encoded more than once ({name[:40]})")
    try:
        return _DECODERS[name](body, cap)
    except KeyError:
        raise BodyDamaged(f"its encoding {name[:40]!r} is unknown") from None
    except (zlib.error, brotli.error, zstandard.ZstdError) as error:
        raise BodyDamaged("it is corrupt") from error


def _decode_gzip(body: bytes, cap: int) -> bytes:
    parts: list[bytes] = []
    room = cap
    for _ in range(_MAX_MEMBERS):
        engine = zlib.decompressobj(31)
        part = engine.decompress(body, room + 1)
        room -= len(part)
        if room < 0:
            raise BodyTooLarge
        parts.append(part)
        if not engine.eof:
            raise BodyDamaged("it is truncated")
        body = engine.unused_data
        if not body.startswith(_GZIP_MAGIC):
            return b"".join(parts)
    raise BodyDamaged("it has too many gzip members")


def _decode_deflate(body: bytes, cap: int) -> bytes:
    # RFC 9110 §8.4.1.2 means zlib's format; many servers send raw deflate.
    engine = zlib.decompressobj(15 if body[0] & 0x0F == 8 and int.from_bytes(body[:2], "big") % 31 == 0 else -15)
    decoded = engine.decompress(body, cap + 1)
    if len(decoded) > cap:
        raise BodyTooLarge
    if not engine.eof:
        raise BodyDamaged("it is truncated")
    return decoded


def _decode_brotli(body: bytes, cap: int) -> bytes:
    engine = brotli.Decompressor()
    parts: list[bytes] = []
    room = cap
    while not engine.is_finished():
        part = engine.process(body, output_buffer_limit=min(room + 1, 1 << 20))
        room -= len(part)
        if room < 0:
            raise BodyTooLarge
        parts.append(part)
        if not part and engine.can_accept_more_data() and not engine.is_finished():
            raise BodyDamaged("it is truncated")
        body = b""
    return b"".join(parts)


def _decode_zstd(body: bytes, cap: int) -> bytes:
    # The reader does not report an incomplete last frame. A frame of our own after it makes that visible.
    reader = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).stream_reader(
        body + _ZSTD_END, read_across_frames=True
    )
    decoded = reader.read(cap + len(b"complete") + 1)
    if len(decoded) > cap + len(b"complete"):
        raise BodyTooLarge
    if not decoded.endswith(b"complete") or reader.read(1):
        raise BodyDamaged("it is truncated")
    return decoded[: -len(b"complete")]


_DECODERS = {
    "gzip": _decode_gzip,
    "x-gzip": _decode_gzip,
    "deflate": _decode_deflate,
    "br": _decode_brotli,
    "zstd": _decode_zstd,
}
