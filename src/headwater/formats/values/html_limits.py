"""Limits depth, attributes and formatting elements of HTML, so that cleaning takes time in proportion to its length.

A parser of HTML 5 searches the open elements for many tags, compares each attribute with all others of its tag, and
opens unclosed formatting elements (`<font>`, `<b>`) again in every block. Ordinary markup stays far below the limits.
"""

from __future__ import annotations

import re
from collections import Counter

MAX_DEPTH = 200
MAX_ATTRIBUTES = 64
MAX_ELEMENTS = 20_000  # a parser needs 200 bytes for an empty one, 500 for a picture
_MAX_FORMATTING = 16  # formatting elements open at once
# Markup with fewer and shorter tags needs no limits. At most three equal formatting elements are opened again (“Noah's
# Ark clause”), so that only those with attributes can be many.
_FEW_TAGS, _MANY_TAGS, _SHORT_TAG, _FEW_STYLED = 300, 4_000, 4_000, 60
_LONG_TEXT = 65_536  # in which a hostile tag can hide its length by signs inside attributes
_LONG_TAG = re.compile(rf"<[^<]{{{_SHORT_TAG}}}")
_BARE_SIGNS = re.compile(r"<+(?=<)|<(?![A-Za-z!?/])")  # a row at once: a substitution takes sixteen bytes
_STYLED = re.compile(  # ignoring case would take four times as long
    r"<(?:[biusBIUS]|em|tt|big|code|font|nobr|small|strike|strong|EM|TT|BIG|CODE|FONT|NOBR|SMALL|STRIKE|STRONG|"
    r"[A-Z][a-z]+|[a-z]+[A-Z])[\s/]"
)

# A tag as most are written, else the sign that begins any other markup.
_PLAIN_TAG = re.compile(r"""<(?:(/?)([A-Za-z][A-Za-z0-9]{0,20})((?:\s+[A-Za-z-]{1,30}="[^"<>]*")*)\s*/?>)?""")
_SHORT_ATTRIBUTES = 4 * MAX_ATTRIBUTES
_TAG = re.compile(r"<(/?)([A-Za-z][^\s/>]*)")
_ATTRIBUTE = re.compile(r"""[\s/]*[^\s/>][^\s/>=]*(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s>"'][^\s>]*)?)?""")
_COMMENT_END = re.compile(r"--!?>")
_FORMATTING = frozenset("a b big code em font i nobr s small strike strong tt u".split())  # noqa: SIM905 - shorter
_VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())  # noqa: SIM905
# A start tag of the same name ends them, if only such elements are open inside them.
_SELF_ENDING = frozenset("p li dt dd tr td th tbody thead tfoot option rt rp".split())  # noqa: SIM905
_IN_RUBY = frozenset({"rt", "rp"})  # outside of `ruby` they nest
_MADE_BY_END = frozenset({"p", "br"})  # a parser makes an element of an end tag without a start
_RAW_TEXT = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE)
    for name in ("script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes", "noscript")
}


def limit_html(text: str) -> str:
    """Return markup without the tags and attributes that exceed the limits; text is kept.

    >>> limit_html("<div>" * 5_000 + "text") == "<div>" * MAX_DEPTH + "text"
    True
    """
    tags = text.count("<")
    if len(text) <= _SHORT_TAG and tags <= _FEW_TAGS:
        return text
    if tags > _MANY_TAGS:  # the parser notes an error for each sign that begins no tag, which takes eighty bytes
        text = _BARE_SIGNS.sub(lambda found: "&lt;" * (found.end() - found.start()), text)
    if tags > _MANY_TAGS or len(text) > _LONG_TEXT or _LONG_TAG.search(text) is not None:
        return _Limiter(text).run()
    return _Limiter(text).run() if tags > _FEW_TAGS and len(_STYLED.findall(text)) > _FEW_STYLED else text


class _Limiter:
    """Copies markup tag by tag and keeps account of the elements that a browser would have open."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._parts: list[str] = []
        self._copied = 0  # the position up to which the text is in `_parts`
        self._open: list[str] = []
        self._open_names: Counter[str] = Counter()
        self._formatting: Counter[str] = Counter()
        self._open_formatting = 0
        self._max_formatting = _MAX_FORMATTING
        self._elements = 0
        self._spare = 1_000  # how often formatting elements may still be opened again

    def run(self) -> str:
        text, at = self._text, 0
        while (found := _PLAIN_TAG.search(text, at)) is not None:
            name = found[2]
            if name is None or len(found[3]) > _SHORT_ATTRIBUTES:
                at = self._pass_other_markup(found.start())
                continue
            at = found.end()
            name = name.lower()
            if found[1]:
                self._note_end(name, found.start(), at)
            elif self._note_start(name, found.start(), at) and name in _RAW_TEXT:
                at = self._find_raw_text_end(name, at)
        self._replace(len(text), len(text))
        return "".join(self._parts)

    def _replace(self, start: int, end: int, by: str = "") -> None:
        """Copy the text up to `start` and continue at `end`, with something else between them."""
        if self._copied < start or by:
            self._parts.append(self._text[self._copied : start] + by)
        self._copied = end

    def _pass_other_markup(self, start: int) -> int:
        """Keep, shorten or drop a tag with unusual attributes, or pass a comment; return the position behind it."""
        text = self._text
        found = _TAG.match(text, start)
        if found is None:
            return self._find_end_of_comment(start)
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
        is_kept = True
        if found[1]:
            self._note_end(name, start, end)
        else:
            is_kept = self._note_start(name, start, end)
        if kept < at and self._copied <= start:
            self._replace(kept, end - 1)
        return self._find_raw_text_end(name, end) if is_kept and not found[1] and name in _RAW_TEXT else end

    def _find_raw_text_end(self, name: str, start: int) -> int:
        found = _RAW_TEXT[name].search(self._text, start)
        return len(self._text) if found is None else found.start()

    def _find_end_of_comment(self, start: int) -> int:
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

    def _note_start(self, name: str, start: int, end: int) -> bool:
        """Note an element that begins and say whether its tag is kept: it is dropped if there are too many elements."""
        self._elements += 1
        is_formatting = name in _FORMATTING
        open_elements, most = (
            (self._open_formatting, self._max_formatting) if is_formatting else (len(self._open), MAX_DEPTH)
        )
        if self._elements > MAX_ELEMENTS or (name not in _VOID and open_elements >= most):
            self._replace(start, end)
            return False
        if is_formatting:
            self._formatting[name] += 1
            self._open_formatting += 1
        elif name not in _VOID:
            self._note_block(name, start)
        return True

    def _note_block(self, name: str, start: int) -> None:
        """Note an element that contains others."""
        if name in _SELF_ENDING and (name not in _IN_RUBY or self._open_names["ruby"]):
            self._end_same(name)
        self._open.append(name)
        self._open_names[name] += 1
        self._spare += 2 - self._open_formatting
        if self._spare < 0:
            self._close_formatting(start)

    def _note_end(self, name: str, start: int, end: int) -> None:
        if name in _MADE_BY_END and not self._open_names[name]:
            self._elements += 1
            if self._elements > MAX_ELEMENTS:
                self._replace(start, end)
        if name in _FORMATTING:
            if self._formatting[name]:
                self._formatting[name] -= 1
                self._open_formatting -= 1
            return
        while self._open_names[name]:
            last = self._open.pop()
            self._open_names[last] -= 1
            if last == name:
                break

    def _end_same(self, name: str) -> None:
        """End the open element of the same name, unless another kind of element is open inside it."""
        for depth in range(len(self._open) - 1, max(len(self._open) - 10, -1), -1):
            if self._open[depth] not in _SELF_ENDING:
                return
            if self._open[depth] == name:
                for ended in self._open[depth:]:
                    self._open_names[ended] -= 1
                del self._open[depth:]
                return

    def _close_formatting(self, at: int) -> None:
        """Close all formatting elements, which would be opened again too often, and admit no more."""
        self._replace(at, at, "".join(f"</{name}>" for name in self._formatting.elements()))
        self._formatting.clear()
        self._open_formatting = self._max_formatting = self._spare = 0
