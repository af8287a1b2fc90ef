"""Mends JSON that is damaged: commas before brackets, text behind the document, items that were cut off."""

from __future__ import annotations

import re
from typing import NamedTuple

# A string (also one that does not end), a comma before a closing bracket, or a bracket.
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*(?:"|\\?\Z)|,(?=\s*[\]}])|[\[\]{}]', re.DOTALL)
_CLOSING = {"{": "}", "[": "]"}
_IN_ITEMS = 2  # open brackets: of the document and of its items


class MendedJson(NamedTuple):
    """A mended document, and whether its end was missing."""

    text: str
    truncated: bool


def mend_json(text: str) -> MendedJson:
    """Return JSON without needless commas and text behind its end; it ends with its last complete item if cut off.

    >>> mend_json('{"items": [{"id": 1,},]} <!-- cached -->').text
    '{"items": [{"id": 1}]}'
    >>> mend_json('{"items": [{"id": 1}, {"id": "2')
    MendedJson(text='{"items": [{"id": 1}]}', truncated=True)
    """
    parts: list[str] = []
    copied, complete, end = 0, 0, ""  # `complete` parts and `end` make a document of the complete items
    closing: list[str] = []  # brackets of the open objects and arrays
    for found in _TOKEN.finditer(text):
        sign = found[0]
        if sign == ",":
            parts.append(text[copied : found.start()])
            copied = found.end()
        elif sign in _CLOSING:
            closing.append(_CLOSING[sign])
        elif closing and sign == closing[-1]:
            closing.pop()
            if not closing:
                return MendedJson("".join((*parts, text[copied : found.end()])), truncated=False)
            if len(closing) == _IN_ITEMS:
                parts.append(text[copied : found.end()])
                copied = found.end()
                complete, end = len(parts), "".join(reversed(closing))
    return MendedJson("".join((*parts[:complete], end)), truncated=True)
