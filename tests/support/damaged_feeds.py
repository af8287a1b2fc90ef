"""Damages feed documents by a seed: the recovery set, on which readers are compared."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from html import unescape

Damage = Callable[[bytes, random.Random], bytes | None]
"""Damages a document; None if it does not apply to it."""

_TAG = re.compile(rb"<[^<>]+>")
_FIELD = re.compile(rb"(<(description|summary|content|content:encoded)(?:\s[^>]*)?>)(.*?)(</\2\s*>)", re.DOTALL)
_VOID = re.compile(rb"<(br|hr|img|input|wbr)\b([^<>]*?)\s*/?>")


def expose_html(body: bytes, rng: random.Random) -> bytes | None:
    """Write the HTML of a document as if it were XML, with elements that have no end tag."""
    exposed = _FIELD.sub(_expose_field, body)
    return exposed if exposed != body and _VOID.search(exposed) else None


def _expose_field(found: re.Match[bytes]) -> bytes:
    inner = found[3].strip()
    if inner.startswith(b"<![CDATA["):
        inner = inner.removeprefix(b"<![CDATA[").removesuffix(b"]]>")
    else:
        inner = unescape(inner.decode("utf-8", "replace")).encode()
    return found[1] + _VOID.sub(rb"<\1\2>", inner) + found[4]


def drop_tags(count: int) -> Damage:
    """Return a damage that removes tags: anything between angle brackets."""

    def drop(body: bytes, rng: random.Random) -> bytes | None:
        tags = list(_TAG.finditer(body))
        if len(tags) <= count:
            return None
        for tag in sorted(rng.sample(tags, count), key=lambda tag: -tag.start()):
            body = body[: tag.start()] + body[tag.end() :]
        return body

    return drop


def flip_bits(count: int) -> Damage:
    """Return a damage that flips single bits anywhere."""

    def flip(body: bytes, rng: random.Random) -> bytes | None:
        changed = bytearray(body)
        for _ in range(count):
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        return bytes(changed)

    return flip


DAMAGES: dict[str, Damage] = {
    "unescaped HTML": expose_html,
    "3 tags dropped": drop_tags(3),
    "20 tags dropped": drop_tags(20),
    "30 bits flipped": flip_bits(30),
}
