"""Decides the encoding of a document by byte order mark, header, declaration and statistics, in this order.

Any of the first three may be wrong, so a declared encoding counts only if the bytes are valid in it. Bytes that are
valid UTF-8 beyond ASCII are UTF-8 even if a Latin encoding is declared: that does not happen by accident. A few bad
bytes do not turn a UTF-8 document into windows-1252; each is read or replaced by itself.
"""

from __future__ import annotations

import codecs
import re
from functools import cache, lru_cache
from itertools import islice

_SAMPLE = 20_000  # characters beyond ASCII
_MIN_CHARACTERS = 8
_MIN_SHARE = 0.6  # of the share that they have in ordinary text
_HIGH = re.compile(rb"[\x80-\xff]+")
# Encodings whose characters may end in an ASCII byte. In the others, words are runs of bytes beyond ASCII; languages in
# Latin letters have single ones.
_MIXED = frozenset({"cp932", "big5hkscs"})

# The usual characters of a language are letters, or rows of a double-byte table given by their first bytes: the
# commoner half of the Chinese characters, all Hangul syllables, kana. The number is their share of ordinary text.
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
    """Guess the codec of bytes that are not UTF-8 and declare none; None if no language fits.

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
    """Return the usual characters of a language."""
    if isinstance(usual, str):
        return frozenset(usual)
    row = (bytes((first, second)).decode(codec, "ignore") for first in usual for second in range(0x40, 0xFF))
    return frozenset(char for char in row if len(char) == 1 and char > "\x7f").union(_PUNCTUATION)


_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# The first characters of a document in wide encodings: `<` or `{`.
_WIDE = (
    (b"<\0\0\0", "utf-32-le"),
    (b"\0\0\0<", "utf-32-be"),
    (b"<\0", "utf-16-le"),
    (b"\0<", "utf-16-be"),
    (b"{\0", "utf-16-le"),
    (b"\0{", "utf-16-be"),
)
# Publishers use characters beyond these encodings; the WHATWG encoding standard maps them the same way.
_SUPERSETS = {
    "iso8859-1": "cp1252",
    "ascii": "cp1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
    "shift_jis": "cp932",
    "tis-620": "cp874",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
}
_ALIASES = {
    "csmacintosh": "mac-roman",
    "mac": "mac-roman",
    "ms-cyrl": "cp1251",
    "x-sjis": "shift_jis",
    "x-gbk": "gbk",
    "unicode-1-1-utf-8": "utf-8",
    "unicode": "utf-16",
    "ks_c_5601-1987": "euc_kr",
    "dos-874": "cp874",
    "ibm039": "cp037",
}
_LATIN = frozenset({"cp1252", "iso8859-15", "cp1250", "iso8859-2", "cp1254", "iso8859-3", "mac-roman", "cp037"})
EBCDIC = b"\x4c\x6f\xa7\x94"  # `<?xm`
_DECLARATION = re.compile(rb"""^\s*<\?xml[^>]*?encoding\s*=\s*["']\s*([A-Za-z0-9._:\- ]+?)\s*["']""")
_CHARSET = re.compile(r"""charset\s*=\s*["']?\s*([^\s"';,]+)""", re.IGNORECASE)
# Letters and quotation marks in UTF-8 that are nonsense in windows-1252 (`Ã¸`, `â€™`).
_UTF8_LETTER = re.compile(rb"\xc3[\x80-\xbf]|\xc2[\xa0-\xbf]|\xe2\x80[\x90-\xbf]")
_MAX_BAD_SEQUENCES = 20  # beyond this, and one in a hundred good ones, a document is not UTF-8


@lru_cache(maxsize=256)
def find_header_encoding(content_type: str | None) -> str | None:
    """Return the codec named by a Content-Type header, or None."""
    found = _CHARSET.search(content_type) if content_type else None
    return _find_codec(found[1]) if found else None


def find_declared_encoding(body: bytes) -> str | None:
    """Return the codec named by the XML declaration, or None."""
    head = body[:512]
    if head.startswith(EBCDIC):
        head = head.decode("cp037").encode("ascii", "replace")
    found = _DECLARATION.match(head)
    return _find_codec(found[1].decode("ascii")) if found else None


def decode_document(body: bytes, claimed: str | None) -> tuple[str, str, str | None]:
    """Return the text, its encoding, and the problem with it (or None)."""
    for mark, name in _BOMS:
        if body.startswith(mark):
            return _decode_with(body[len(mark) :], name)
    for start, name in _WIDE:
        if body.startswith(start):
            return _decode_with(body, name)
    if body.startswith(EBCDIC):
        return _decode_with(body, find_declared_encoding(body) or "cp037")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        pass
    else:
        return _decode_valid_utf8(body, text, claimed)
    return _decode_other(body, claimed)


def _decode_valid_utf8(body: bytes, text: str, claimed: str | None) -> tuple[str, str, str | None]:
    """Decode valid UTF-8, which may also be ISO-2022, HZ, UTF-7, or ASCII declared as something else."""
    for name in (claimed, find_declared_encoding(body)):
        if name and name != "utf-8" and (body.isascii() or name not in _LATIN):
            try:
                read = body.decode(name)
            except (UnicodeDecodeError, LookupError):
                continue
            if _is_plausible(body, read):
                return read, name, None
    if b"\x1b$" in body:  # XML forbids this character, and only ISO-2022-JP uses it
        try:
            return body.decode("iso2022_jp_ext"), "iso2022_jp_ext", None
        except UnicodeDecodeError:
            pass
    return text, "utf-8", None


def _decode_other(body: bytes, claimed: str | None) -> tuple[str, str, str | None]:
    declared = [name for name in (claimed, find_declared_encoding(body)) if name]
    for name in declared:
        if name != "utf-8":
            try:
                read = _decode_windows_1252(body) if name == "cp1252" else body.decode(name)
            except (UnicodeDecodeError, LookupError):
                continue
            if _is_plausible(body, read):
                return read, name, None
    replaced = body.decode("utf-8", "replace")
    bad = replaced.count("\ufffd") - body.count(b"\xef\xbf\xbd")
    good = len(replaced) - len(replaced.encode("ascii", "ignore")) - bad
    like = guess_encoding(body) if good < bad and not any(one != "utf-8" for one in declared) else None
    if like is not None:
        return body.decode(like), like, f"the bytes are not UTF-8 and were read as {like}, a guess"
    if good > bad * 100 or (bad <= _MAX_BAD_SEQUENCES and _has_utf8_sequence(body)):
        return body.decode("utf-8", _LATIN_BYTES), "utf-8", f"{bad} bytes were not UTF-8 and have been replaced"
    for name in declared:
        if name not in ("utf-8", "cp1252") and _is_plausible(body, read := body.decode(name, "replace")):
            return read, name, f"some bytes were not {name} and have been replaced"
    return (
        _decode_windows_1252(body),
        "cp1252",
        "the bytes are not UTF-8 and were read as windows-1252" if not declared else None,
    )


def _replace_bad_bytes(error: UnicodeError) -> tuple[str, int]:
    """Read a byte that cannot belong to a UTF-8 sequence as windows-1252; replace sequences that were cut off."""
    assert isinstance(error, UnicodeDecodeError)
    bad, following = error.object[error.start : error.end], error.object[error.end : error.end + 1]
    is_alone = len(bad) == 1 and (bad < b"\xc0" or following.isalpha())
    return (bad.decode("cp1252", "replace") if is_alone else "\ufffd"), error.end


_LATIN_BYTES = "headwater.latin_bytes"
codecs.register_error(_LATIN_BYTES, _replace_bad_bytes)


def _is_plausible(body: bytes, text: str) -> bool:
    """Say whether decoded markup still has tags: UTF-16 and EBCDIC decode any bytes into nonsense."""
    return "<" in text[:1_000] or b"<" not in body[:1_000]


def _has_utf8_sequence(body: bytes) -> bool:
    """Say whether there is a multi-byte UTF-8 sequence, so that single bad bytes are accidents, not Latin letters."""
    return re.search(rb"[\xc3-\xf4][\x80-\xbf]+", body) is not None


def _decode_windows_1252(body: bytes) -> str:
    """Decode windows-1252 as browsers do, with its five undefined bytes, and single letters in UTF-8."""
    body = _UTF8_LETTER.sub(_recode_utf8_letter, body)
    try:
        return body.decode("cp1252")
    except UnicodeDecodeError:
        return "".join(bytes((b,)).decode("cp1252", "ignore") or chr(b) for b in body)


def _recode_utf8_letter(found: re.Match[bytes]) -> bytes:
    return found[0].decode("utf-8").encode("cp1252", "ignore") or found[0]


def _decode_with(body: bytes, name: str) -> tuple[str, str, str | None]:
    try:
        return body.decode(name), name, None
    except UnicodeDecodeError:
        return body.decode(name, "replace"), name, f"some bytes were not {name} and have been replaced"


@lru_cache(maxsize=256)
def _find_codec(name: str) -> str | None:
    """Return Python's name of a codec, or that of its usual superset; None if it is unknown."""
    name = name.strip().lower().replace(" ", "")
    if name in ("x-user-defined", "none", "binary", "undefined", "idna", "punycode", "unicode_escape", "mbcs", "oem"):
        return None
    try:
        found = codecs.lookup(_ALIASES.get(name, name))
    except (LookupError, ValueError):
        return None
    if not found._is_text_encoding:
        return None
    return _SUPERSETS.get(found.name, found.name)
