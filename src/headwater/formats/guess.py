"""Which encoding bytes are in when nobody says: the one in which they come out as the usual characters of a language.

The table says of each encoding which characters its language uses most, and which share of its text they are about.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import islice

_SAMPLE = 20_000  # characters beyond ASCII that are looked at; the first few dozen decide
_MIN_CHARACTERS = 8
_MIN_SHARE = 0.6  # of the share the language has in ordinary text
_HIGH = re.compile(rb"[\x80-\xff]+")
# Encodings whose characters may end in an ASCII byte. In the others foreign words are runs of bytes beyond ASCII, while
# the languages in Latin letters have single ones between others.
_MIXED = frozenset({"cp932", "big5hkscs"})

# Usual characters are letters themselves, or rows of a double-byte table (its first bytes): the commoner half of the
# Chinese characters, all syllables of Hangul, kana.
_CYRILLIC, _PUNCTUATION = "оеаинтсрвлкмдпу", "，。、：；「」！？"
LANGUAGE_ENCODINGS: tuple[tuple[str, str | range, float], ...] = (
    ("euc_jp", range(0xA4, 0xA6), 0.5),
    ("cp932", range(0x82, 0x84), 0.5),
    ("cp949", range(0xB0, 0xC9), 0.93),
    ("gb18030", range(0xB0, 0xD8), 0.95),
    ("big5hkscs", range(0xA4, 0xC7), 0.95),
    ("koi8_r", _CYRILLIC, 0.75),
    ("cp1251", _CYRILLIC, 0.75),
    ("cp1253", "αοιετσνηυρπκμλς", 0.75),
    ("cp1255", "יוהלאתמרבשנעדקפ", 0.85),
    ("cp1256", "اليمونرتبةعدسفهكق", 0.8),
    ("cp874", "านรอกเงมยลวดทส่้ีิัตค", 0.7),
)


def guess_encoding(body: bytes) -> str | None:
    """The codec of bytes that are no UTF-8 and say nothing; None when no language of the table shows.

    >>> guess_encoding("<title>Новости города</title>".encode("koi8-r"))
    'koi8_r'
    """
    runs = [len(run) for run in islice(_HIGH.findall(body), _SAMPLE)]
    foreign = sum(runs) >= 2 * len(runs)
    best, chosen = _MIN_SHARE, None
    for codec, usual, share in LANGUAGE_ENCODINGS:
        if not foreign and codec not in _MIXED:
            continue
        try:
            text = body.decode(codec)
        except UnicodeDecodeError:
            continue
        seen = list(islice((char for char in text if char > "\x7f"), _SAMPLE))
        characters = _list_usual_characters(codec, usual)
        found = sum(char in characters for char in seen) / max(len(seen), 1) / share
        if len(seen) >= _MIN_CHARACTERS and found > best:
            best, chosen = found, codec
    return chosen


@cache
def _list_usual_characters(codec: str, usual: str | range) -> frozenset[str]:
    """The usual characters themselves."""
    if isinstance(usual, str):
        return frozenset(usual)
    row = (bytes((first, second)).decode(codec, "ignore") for first in usual for second in range(0x40, 0xFF))
    return frozenset(char for char in row if len(char) == 1 and char > "\x7f").union(_PUNCTUATION)
