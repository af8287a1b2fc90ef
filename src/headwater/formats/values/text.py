"""Cleans plain text: forbidden characters, references, markup in titles, limits of length."""

from __future__ import annotations

import re
from html import unescape
from html.entities import html5

from headwater.formats.memo import Memo
from headwater.formats.values.html_mentions import escape_title_mentions

TITLE_LIMIT = 2_048  # bytes of UTF-8
LINE_LIMIT = 500
CONTENT_LIMIT = 1_048_576

# XML 1.0 §2.2 forbids them; PostgreSQL refuses NUL and surrogates, too.
_FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")

WINDOWS_1252 = {code: bytes((code,)).decode("cp1252", "replace") for code in range(0x80, 0xA0)}

# Elements that publishers put into titles. Anything else in angle brackets is text (`Using <vector>`).
_INLINE = (
    "a|abbr|acronym|b|bdi|bdo|big|blink|blockquote|body|br|center|cite|code|del|dfn|div|em|embed|font|h[1-6]|head|hr|"
    "html|i|iframe|img|ins|kbd|li|link|mark|meta|nobr|noscript|object|ol|p|pre|q|s|samp|script|section|small|span|"
    "strike|strong|style|sub|sup|svg|table|tbody|td|textarea|th|tr|tt|u|ul|var|wbr"
)
_REST = r"""(?:[^<>"']|"[^"]*"|'[^']*')*"""  # of a tag; attributes may contain angle brackets
_TAG = re.compile(rf"<(?:/?(?:{_INLINE})(?:[\s/]{_REST})?|!--.*?--|[!?][^<>]*)>|<!--.*", re.IGNORECASE | re.DOTALL)
_EVERY_TAG = re.compile(rf"<(?:/?[a-z]{_REST}|!--.*?--|[!?][^<>]*)>|<!--.*", re.IGNORECASE | re.DOTALL)
_CODE = re.compile(r"<(script|style)(?:\s[^<>]*)?>([^<]*)(?:</\1\s*>|$)", re.IGNORECASE)
_CODE_SIGN = re.compile(r"[=(){};]")
_ANY_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_MARKUP = re.compile(r"</[A-Za-z][A-Za-z0-9]*\s*>|<(?:br|hr|img|p)(?:[\s/][^<>]*)?>", re.IGNORECASE)
_REFERENCE = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_NUMBERED = re.compile(r"&#(?:[0-9]+|[xX][0-9a-fA-F]+)")
_QUERY = re.compile(r"&(?=[A-Za-z0-9_]+=)")  # `&copy=2` belongs to the query of a URL
# UTF-8 that was read as Latin-1 or windows-1252. A sequence with a control character is never meant as it stands.
# Without one, only quotation marks and dashes (`â€™`) and the letters behind Ã and Â are mended: `café »` must stay. A
# capital before Ã belongs to a word in capitals (`AMANHÃ”`) unless a small letter follows (`SÃ£o`), and « may have its
# » behind one. Of the signs of windows-1252, those that end a sentence are mended only at the start of a word (`Ã–l`).
# `Ã` between blanks is `à`, whose second byte became a blank. Three pairs of Ð or Ñ and a sign are letters of Cyrillic.
_C1_BYTES = re.compile(rb"\xc2[\x80-\x9f]")
_MOJIBAKE = re.compile(
    "[\xc2-\xdf][\x80-\x9f]|[\xe0-\xef](?:[\x80-\x9f][\x80-\xbf]|[\xa0-\xbf][\x80-\x9f])"
    "|[\xf0-\xf4](?:[\x80-\x9f][\x80-\xbf]{2}|[\xa0-\xbf][\x80-\x9f][\x80-\xbf])|â[€\x80].|(?<![A-ZÀ-Þ])[ÂÃ][\xa0-\xbf]"
    "|(?<=[A-ZÀ-Þ])Ã[\xa1-\xbf](?=[a-z])|(?<!\\w)Ã (?= )|(?:[ÐÑ][\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]){3,}"
    "|Ã[€‚ƒ†‡ˆ‰ŠŒŽšœžŸ]|(?<![^\\W\\d_])Ã[‘’“”•–—…˜™](?=[a-z])",
    re.DOTALL,
)
_LINES = re.compile(r"[ ]*[\t\r\n][ \t\r\n]*")


def replace_forbidden(text: str) -> str:
    """Replace the characters that XML, JSON or a database refuses by U+FFFD."""
    if text.isprintable():  # most texts are, and this check takes a fifth of the search
        return text
    return _FORBIDDEN.sub("\ufffd", text) if _FORBIDDEN.search(text) else text


def repair_mojibake(text: str) -> str:
    """Replace UTF-8 that was read as Latin-1 or windows-1252, and characters U+0080–9F, by the intended characters.

    >>> repair_mojibake("caf\xc3\xa9 \x97 \xe2\u20ac\x9d"), repair_mojibake("café\xa0» AMANHÃ»")
    ('café — ”', 'café\xa0» AMANHÃ»')
    """
    if text.isascii():
        return text
    raw = text.encode("utf-8", "replace")  # this search is five times as fast in bytes
    has_controls = b"\xc2" in raw and _C1_BYTES.search(raw) is not None
    if not has_controls and "Ã" not in text and "Â" not in text and "â€" not in text and "Ð" not in text:
        return text
    mended = _MOJIBAKE.sub(_decode_utf8_bytes, text)
    text = _MOJIBAKE.sub(_decode_utf8_bytes, mended) if "Ãƒ" in text or "Ã‚" in text else mended  # it happened twice
    return text.translate(WINDOWS_1252) if has_controls else text


def _decode_utf8_bytes(found: re.Match[str]) -> str:
    """Decode a sequence; the five bytes that windows-1252 does not define are written as control characters."""
    if found[0] in ("Ã»", "Â»") and "«" in found.string:
        return found[0]
    if found[0] == "Ã ":
        return "à"
    try:
        return b"".join(_encode_windows_1252(char) for char in found[0]).decode("utf-8")
    except (UnicodeEncodeError, UnicodeDecodeError):
        return found[0]


def _encode_windows_1252(char: str) -> bytes:
    return char.encode("latin-1") if "\x80" <= char <= "\xff" else char.encode("cp1252")


def truncate_utf8(text: str, limit: int) -> str:
    """Return at most `limit` bytes of UTF-8 without cutting a character."""
    if len(text) * 4 <= limit or (len(text) <= limit and text.isascii()):
        return text
    raw = text.encode("utf-8", "replace")
    return text if len(raw) <= limit else raw[:limit].decode("utf-8", "ignore")


def to_one_line(text: str, limit: int = TITLE_LIMIT) -> str | None:
    """Return plain text on one line, or None if it is empty."""
    text = text.strip()
    if not text.isascii():
        text = repair_mojibake(text)
    if not text.isprintable():  # a line end, maybe
        text = _LINES.sub(" ", text)
    if len(text) > 500:
        text = truncate_utf8(text, limit)
    return text or None


def _to_short_line(text: str) -> str | None:
    return to_one_line(text, LINE_LIMIT)


SHORT_LINES = Memo(_to_short_line, max_size=4_096, max_length=80)  # of short texts that recur, such as categories


def html_to_text(text: str, limit: int = TITLE_LIMIT, sure: bool = False) -> str | None:
    """Return the plain text of a title that may contain markup and entities. `sure` removes every tag.

    >>> html_to_text("AT&amp;T <b>grows</b>, a < b, no <style> here")
    'AT&T grows, a < b, no <style> here'
    """
    if len(text) > limit * 8:
        text = text[: limit * 8]
    if "<" in text:
        text = (_EVERY_TAG if sure else _TAG).sub("", _CODE.sub(_drop_code, escape_title_mentions(text)))
    if "&" in text:
        text = decode_references(_QUERY.sub("&amp;", text))
    return to_one_line(text, limit)


def _drop_code(found: re.Match[str]) -> str:
    """Drop a script or style with its content, unless that is prose between two mentions."""
    return "" if _CODE_SIGN.search(found[2]) else found[2]


def decode_references(text: str) -> str:
    """Decode references as HTML 5 does, but leave those to numbers without a character as they are.

    >>> decode_references("caf&eacute; &#1114112;")
    'café &#1114112;'
    """
    try:
        found = unescape(text)
    except ValueError:  # more digits than Python converts
        return replace_forbidden(unescape(_NUMBERED.sub(_escape_impossible_reference, text)))
    if "\ufffd" in found and "\ufffd" not in text:
        found = unescape(_NUMBERED.sub(_escape_impossible_reference, text))
    return replace_forbidden(found)


def _escape_impossible_reference(found: re.Match[str]) -> str:
    number = found[0][2:]
    code = 0 if len(number) > 11 else int(number[1:], 16) if number[0] in "xX" else int(number)
    return found[0] if 0 < code < 0xD800 or 0xE000 <= code < 0x110000 else f"&amp;{found[0][1:]}"


def clean_plain_title(text: str, limit: int = TITLE_LIMIT) -> str | None:
    """Return a title that should be plain text, with the references decoded that publishers leave in it.

    >>> clean_plain_title("men&#39;s souls <b> &copy")
    "men's souls <b> &copy"
    """
    return to_one_line(_REFERENCE.sub(_decode_reference, text) if has_reference(text) else text, limit)


def _decode_reference(found: re.Match[str]) -> str:
    return decode_references(found[0]) if found[0][1] == "#" else html5.get(found[0][1:], found[0])


def looks_like_html(text: str) -> bool:
    return "<" in text and _ANY_TAG.search(text) is not None


def has_reference(text: str) -> bool:
    """Say whether the text contains a character reference; a bare `&` is none."""
    return "&" in text and _REFERENCE.search(text) is not None


def is_markup(text: str) -> bool:
    """Say whether text that should be plain is HTML: it closes an element, or has one that needs no end tag.

    >>> is_markup("the <blink> tag"), is_markup("<i>the</i> tag")
    (False, True)
    """
    return "<" in text and (_MARKUP.search(text) is not None or (has_reference(text) and looks_like_html(text)))
