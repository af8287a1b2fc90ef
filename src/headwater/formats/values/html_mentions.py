"""Escapes elements that a text only mentions (“the <path> element”), which a cleaner would remove with the text behind.

A tag is a mention if it has no attributes, its element is not one that HTML shows, and no end tag follows.
"""

from __future__ import annotations

import re

# A tag other than those by which most texts are written: one without attributes, or of a picture or a formula.
_TOKEN = re.compile(
    r"<(?:(?P<foreign>/?(?:svg|math|SVG|MATH))(?=[\s/>])|(?!(?:p|a|br|li|b|i|em|strong|img|div|span|code|h[1-6]|ul|ol|td|"
    r"tr|pre|blockquote|figure|hr|table|tbody|th|sup|u)[\s/>])(?P<name>[A-Za-z][A-Za-z0-9]{0,20})>)"
)
_END_TAG = re.compile(r"</([a-z][a-z0-9]{0,20})", re.IGNORECASE)
# Elements whose content a browser shows, or which it ignores without their content being lost.
_SHOWN = frozenset("""
    a abbr acronym address area article aside b base basefont bdi bdo bgsound big blink blockquote body br caption
    center cite code col colgroup data dd del details dfn dir div dl dt em embed figcaption figure font footer frame h1
    h2 h3 h4 h5 h6 head header hgroup hr html i image img input ins isindex kbd keygen label legend li link main mark
    menu menuitem meta nav nobr ol option p param pre q rb rp rt rtc ruby s samp search section small source span strike
    strong sub summary sup table tbody td tfoot th thead time tr track tt u ul var wbr
""".split())  # noqa: SIM905 - shorter # fmt: skip
# Their content is text for a parser, so that tags inside them show that they are only mentioned.
_TEXT_ONLY = frozenset({"title", "textarea"})
_CODE = frozenset({"script", "style"})
_NEAR = 4_000  # characters
_END_OF_TEXT = re.compile(r"\s*\Z")  # behind the start tag of code that is broken off


def escape_mentions(text: str) -> str:
    """Return markup in which elements that are only mentioned are text.

    >>> escape_mentions("<p>The <path> and the <title> element")
    '<p>The &lt;path> and the &lt;title> element'
    """
    if _TOKEN.search(text) is None:
        return text
    parts: list[str] = []
    copied, foreign = 0, ""
    ends = _LastEnds(text)
    for found in _TOKEN.finditer(text):
        if found["foreign"] is not None:
            name = found["foreign"].lower()
            if foreign:
                foreign = "" if name == f"/{foreign}" else foreign
            elif name[0] != "/" and ends.has_end(name, found.end()):
                foreign = name
            elif name[0] != "/" and text[found.end() : found.end() + 1] == ">":
                parts += (text[copied : found.start()], "&lt;")
                copied = found.start() + 1
            continue
        name = found["name"].lower()
        if foreign or name in _SHOWN or (name in _CODE and _END_OF_TEXT.match(text, found.end())):
            continue
        if not ends.has_end(name, found.end()) or (name in _TEXT_ONLY and _is_discussed(text, found.end(), name)):
            parts += (text[copied : found.start()], "&lt;")
            copied = found.start() + 1
    return "".join((*parts, text[copied:])) if parts else text


class _LastEnds:
    """Knows where the last end tag of each element stands; looks at the near text first, where most ends are."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._places: dict[str, int] | None = None

    def has_end(self, name: str, start: int) -> bool:
        if self._text.find(f"</{name}", start, start + _NEAR) >= 0:
            return True
        if self._places is None:
            self._places = {found[1].lower(): found.start() for found in _END_TAG.finditer(self._text)}
        return self._places.get(name, -1) >= start


def _is_discussed(text: str, start: int, name: str) -> bool:
    """Say whether tags stand between the tags of a text-only element outside of a page's head."""
    following = text.find("<", start)
    is_end = text[following + 1 : following + 2 + len(name)].lower() == f"/{name}"
    return not is_end and "<head" not in text[max(0, start - 2_000) : start].lower()
