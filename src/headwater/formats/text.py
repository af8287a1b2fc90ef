"""Strings made fit to keep: no NUL, no lone surrogates, no megabyte titles; plain text out of marked-up titles."""

from __future__ import annotations

import re
from html import escape, unescape

TITLE_LIMIT = 2_048  # bytes of UTF-8
CONTENT_LIMIT = 1_048_576

# What XML 1.0 §2.2 forbids, less tab and line ends; PostgreSQL refuses NUL and surrogates, readers dislike the rest.
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")

# Elements that publishers put into titles. Anything else in angle brackets is what the title is about.
_INLINE = (
    "a abbr acronym b bdi bdo big blink blockquote br center cite code del dfn div em embed font h1 h2 h3 h4 h5 h6 hr "
    "i iframe img ins kbd li mark nobr noscript object ol p pre q s samp script section small span strike strong style "
    "sub sup svg table tbody td textarea th tr tt u ul var wbr"
).replace(" ", "|")
_TAG = re.compile(rf"<(?:/?(?:{_INLINE})(?:[\s/][^<>]*)?|!--.*?--|[!?][^<>]*)>", re.IGNORECASE | re.DOTALL)
_HIDDEN = re.compile(r"<(script|style)(?:\s[^<>]*)?>[^<]*(?:</\1\s*>|$)", re.IGNORECASE)
_ANY_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_LINES = re.compile(r"[ ]*[\t\r\n][ \t\r\n]*")


def fit(text: str) -> str:
    """The text without characters that XML, JSON or a database refuses."""
    return _UNFIT.sub("\ufffd", text) if _UNFIT.search(text) else text


def cut(text: str, limit: int) -> str:
    """At most `limit` bytes of UTF-8, never half a character."""
    if len(text) * 4 <= limit or (len(text) <= limit and text.isascii()):
        return text
    raw = text.encode("utf-8", "replace")
    return text if len(raw) <= limit else raw[:limit].decode("utf-8", "ignore")


def one_line(text: str, limit: int = TITLE_LIMIT) -> str | None:
    """Plain text on one line, or None when nothing is left."""
    text = text.strip()
    if "\n" in text or "\t" in text or "\r" in text:
        text = _LINES.sub(" ", text)
    if len(text) > 500:
        text = cut(text, limit)
    return text or None


def from_html(text: str, limit: int = TITLE_LIMIT) -> str | None:
    """Plain text of a title that may hold markup and entities.

    >>> from_html("AT&amp;T <b>grows</b>, a < b")
    'AT&T grows, a < b'
    """
    if len(text) > limit * 8:
        text = text[: limit * 8]
    if "<" in text:
        text = _TAG.sub("", _HIDDEN.sub("", text))
    if "&" in text:
        text = fit(unescape(text))
    return one_line(text, limit)


def looks_like_html(text: str) -> bool:
    return "<" in text and _ANY_TAG.search(text) is not None


def to_html(text: str) -> str:
    """HTML of plain text."""
    return escape(text, quote=False) if "<" in text or "&" in text or ">" in text else text
