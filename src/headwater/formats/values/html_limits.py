"""Limits depth, attributes and formatting elements of HTML, so that cleaning takes time in proportion to its length.

A parser of HTML 5 searches the open elements for many tags, compares each attribute with all others of its tag, and
opens unclosed formatting elements (`<font>`, `<b>`) again in every block. Ordinary markup stays far below the limits.
"""

from __future__ import annotations

import re
from collections import Counter

MAX_DEPTH = 200
MAX_ATTRIBUTES = 64
_MAX_FORMATTING = 16  # formatting elements open at once
_FEW_TAGS, _SHORT_TAG = 300, 4_000  # markup with fewer and shorter tags needs no limits

_TAG = re.compile(r"<(/?)([A-Za-z][^\s/>]*)")
_ATTRIBUTE = re.compile(r"""[\s/]*[^\s/>][^\s/>=]*(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s>"'][^\s>]*)?)?""")
_COMMENT_END = re.compile(r"--!?>")
_FORMATTING = frozenset("a b big code em font i nobr s small strike strong tt u".split())  # noqa: SIM905 - shorter
_VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())  # noqa: SIM905
# A start tag of the same name ends them, if only such elements are open inside them.
_SELF_ENDING = frozenset("p li dt dd tr td th tbody thead tfoot option rt rp".split())  # noqa: SIM905
_RAW_TEXT = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE)
    for name in ("script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes", "noscript")
}


def limit_html(text: str) -> str:
    """Return markup without the tags and attributes that exceed the limits; text is kept.

    >>> limit_html("<div>" * 1_000 + "text") == "<div>" * MAX_DEPTH + "text"
    True
    """
    pieces = text.split("<")
    if len(pieces) <= _FEW_TAGS and max(map(len, pieces)) <= _SHORT_TAG:
        return text
    return _Limiter(text).run()


class _Limiter:
    """Copies markup tag by tag and keeps account of the elements that a browser would have open."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._parts: list[str] = []
        self._copied = 0  # the position up to which the text is in `_parts`
        self._open: list[str] = []
        self._names: Counter[str] = Counter()
        self._formatting: Counter[str] = Counter()
        self._formatting_limit = _MAX_FORMATTING
        self._spare = 1_000  # how often formatting elements may still be opened again

    def run(self) -> str:
        at = 0
        while (start := self._text.find("<", at)) >= 0:
            at = self._pass_markup(start)
        self._replace(len(self._text), len(self._text))
        return "".join(self._parts)

    def _replace(self, start: int, end: int, by: str = "") -> None:
        """Copy the text up to `start` and continue at `end`, with something else between them."""
        if self._copied < start or by:
            self._parts.append(self._text[self._copied : start] + by)
        self._copied = end

    def _pass_markup(self, start: int) -> int:
        """Keep, shorten or drop the tag, comment or sign at `start`; return the position behind it."""
        text = self._text
        found = _TAG.match(text, start)
        if found is None:
            return self._find_end_of_other(start)
        name, at, attributes = found[2].lower(), found.end(), 0
        kept = at
        while (attribute := _ATTRIBUTE.match(text, at)) is not None:
            at = attribute.end()
            attributes += 1
            if attributes <= MAX_ATTRIBUTES:
                kept = at
        end = text.find(">", at) + 1
        if end == 0:  # the tag does not end: browsers drop the rest
            self._replace(start, len(text))
            return len(text)
        if found[1]:
            self._note_end(name)
        elif not self._admits_start(name):
            self._replace(start, end)
        elif self._spare < 0:
            self._close_formatting(start)
        if kept < at and self._copied <= start:
            self._replace(kept, end - 1)
        if not found[1] and name in _RAW_TEXT:
            closing = _RAW_TEXT[name].search(text, end)
            return len(text) if closing is None else closing.start()
        return end

    def _find_end_of_other(self, start: int) -> int:
        """Return the end of a comment, declaration or instruction, or of a sign that begins none of them."""
        text = self._text
        if text.startswith("<!--", start):
            if text.startswith((">", "->"), start + 4):
                return text.find(">", start) + 1
            found = _COMMENT_END.search(text, start + 4)
            return len(text) if found is None else found.end()
        if text[start + 1 : start + 2] in ("!", "?", "/"):
            end = text.find(">", start)
            return len(text) if end < 0 else end + 1
        return start + 1

    def _admits_start(self, name: str) -> bool:
        if name in _VOID:
            return True
        if name in _FORMATTING:
            if self._formatting.total() >= self._formatting_limit:
                return False
            self._formatting[name] += 1
            return True
        if len(self._open) >= MAX_DEPTH:
            return False
        if name in _SELF_ENDING:
            self._end_same(name)
        self._open.append(name)
        self._names[name] += 1
        self._spare += 2 - self._formatting.total()
        return True

    def _note_end(self, name: str) -> None:
        if name in _FORMATTING:
            self._formatting[name] -= self._formatting[name] > 0
            return
        while self._names[name]:
            last = self._open.pop()
            self._names[last] -= 1
            if last == name:
                break

    def _end_same(self, name: str) -> None:
        """End the open element of the same name, unless another kind of element is open inside it."""
        for depth in range(len(self._open) - 1, max(len(self._open) - 10, -1), -1):
            if self._open[depth] not in _SELF_ENDING:
                return
            if self._open[depth] == name:
                for ended in self._open[depth:]:
                    self._names[ended] -= 1
                del self._open[depth:]
                return

    def _close_formatting(self, at: int) -> None:
        """Close all formatting elements, which would be opened again too often, and admit no more."""
        self._replace(at, at, "".join(f"</{name}>" for name in self._formatting.elements()))
        self._formatting.clear()
        self._formatting_limit = self._spare = 0
