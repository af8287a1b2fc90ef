"""Escapes markup that a text only mentions (“the <path> element”), which a cleaner would remove with the text behind.

A tag is a mention if its attributes have no values, its element is not one that HTML shows, and no end tag follows
(`<path>`, `<your name>`). Texts that no element can be called (`<https://…>`, `<K, V>`), tags and comments that do not
end (`x<y for all`) and a declaration inside a text (`<!DOCTYPE`, `<?php`, `</3`) are mentions, too.
"""

from __future__ import annotations

import re
from io import StringIO

# A tag other than those by which most texts are written: one without values, or of a picture or a formula; or the signs
# that begin a comment or a declaration. Elements of one letter are also variables: `a<b and c<d`.
_UNENDED = r"[^<>=]*(?:=(?!\s*[\"'])[^<>=]*)*(?:<|\Z)"  # without the values of attributes
_TOKEN = re.compile(
    r"<(?!/?(?:p|a|br|li|b|i|em|strong|img|div|span|code|h[1-6]|ul|ol|td|tr|pre|blockquote|figure|hr|table|tbody|th|"
    r"sup|u)(?:[/>]|\s(?!\w++\s)))"
    r"(?:(?P<declaration>[!?]|/(?![A-Za-z>]))|(?P<foreign>/?(?:svg|math|SVG|MATH))(?=[\s/>])|"
    rf"(?P<unended>[A-Za-z][A-Za-z0-9-]{{0,20}})(?=\s{_UNENDED})|"
    r"(?P<name>[A-Za-z][A-Za-z0-9-]{0,20})(?:>|[\s/]+(?=[\w|&][^<>=\"']{0,60}(?<!/)>))|"
    r"(?P<text>[A-Za-z][\w-]{0,60}(?:[].,;@+*|(){}&%$!?^~[]|(?=<)|:(?=//|\s))))"  # what no element can be called
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
# Of these, those that show nothing by themselves: behind a word or within code they are mentioned.
_UNSEEN = frozenset("area base body embed frame head html input label link meta param".split())  # noqa: SIM905
# Their content is text for a parser, so that tags inside them show that they are only mentioned.
_TEXT_ONLY = frozenset({"title", "textarea"})
_CODE = frozenset({"script", "style"})
_NOT_NESTED = frozenset({"noscript", "template"})  # a cleaner removes their content
_END_OF_TEXT = re.compile(r"\s*\Z")
_BARE_TAG = re.compile(r"(?<!^)<([A-Za-z][A-Za-z0-9]{0,20})(?:\s[^<>=\"']{0,60})?>")
_ENDLESS = frozenset("br embed hr img li link meta p td tr wbr".split())  # noqa: SIM905 - shorter # often without end tag
_NEAR = 4_000  # characters
# Declarations that word processors and templates leave in a text, and comments of theirs that were broken off.
_LEFT_OVER = re.compile(r"<(?:!\[(?:if|endif)\b|\?xml\b|!--(?:\[if\b|\s*/?wp:))", re.IGNORECASE)
_DOCTYPE = re.compile(r"<!doctype\s[^<>]*>", re.IGNORECASE)
_COMMENT_END = re.compile(r"-->|--!>")


def escape_mentions(text: str) -> str:
    """Return markup in which elements that are only mentioned are text.

    >>> escape_mentions("<p>The <path> and the <title> element")
    '<p>The &lt;path> and the &lt;title> element'
    """
    first = _TOKEN.search(text)
    if first is None:
        return text
    whole, text = text, _unwrap_cdata(text.lstrip())
    start = first.start() if len(text) == len(whole) else 0
    written = StringIO()  # a list of parts would take fifty bytes for each
    copied, foreign, passed = 0, "", 0
    ends = _LastEnds(text)
    for found in _TOKEN.finditer(text, start):
        if found.start() < passed:  # inside a comment
            continue
        if found["text"] is not None or found["unended"] is not None:
            if not foreign and (found["text"] or _is_no_element(found["unended"])):
                written.writelines((text[copied : found.start()], "&lt;"))
                copied = found.start() + 1
        elif found["declaration"] is not None:
            passed = ends.find_declaration_end(found.start())
            if passed < 0:
                written.writelines((text[copied : found.start()], "&lt;"))
                copied = found.start() + 1
        elif found["foreign"] is not None:
            name = found["foreign"].lower()
            if foreign:
                foreign = "" if name == f"/{foreign}" else foreign
            elif name[0] != "/" and ends.has_end(name, found.end()):
                foreign = name
            elif name[0] != "/" and text[found.end() : found.end() + 1] == ">":
                written.writelines((text[copied : found.start()], "&lt;"))
                copied = found.start() + 1
        elif foreign or _is_shown(text, found, name := found["name"].lower()) or _is_broken_off(text, found, name):
            continue
        elif (
            not ends.has_end(name, found.end())
            or (name in _NOT_NESTED and _begins_again(text, found.end(), name))
            or (name in _TEXT_ONLY and _is_discussed(text, found.end(), name))
        ):
            written.writelines((text[copied : found.start()], "&lt;"))
            copied = found.start() + 1
    return written.getvalue() + text[copied:] if copied else text


def _is_no_element(name: str) -> bool:
    """Say whether a name behind `<` is hardly that of an element: unknown, or rather a variable."""
    return len(name) == 1 or name.lower() not in _SHOWN


def _is_shown(text: str, tag: re.Match[str], name: str) -> bool:
    if len(name) == 1 and tag[0][-1] != ">" and text[tag.start() - 1 : tag.start()].isalnum():
        return False  # `if a<b then c>d` compares variables
    if name not in _SHOWN or name not in _UNSEEN:
        return name in _SHOWN
    before = text[max(tag.start() - 20, 0) : tag.start()].rstrip()
    return before[-1:] in ("", ">") and not text.startswith("</code>", tag.end())


def _is_broken_off(text: str, tag: re.Match[str], name: str) -> bool:
    """Say whether a text ends with the start of code behind other markup; behind a word, code is mentioned."""
    return (
        name in _CODE and text[tag.start() - 1 : tag.start()] == ">" and _END_OF_TEXT.match(text, tag.end()) is not None
    )


def escape_title_mentions(text: str) -> str:
    """Return a title in which elements that are only mentioned are text; there also those whose content HTML shows.

    >>> escape_title_mentions("<b>Center</b> a <div> at last")
    '<b>Center</b> a &lt;div> at last'
    """
    text = escape_mentions(text)
    ends = _LastEnds(text)

    def escape_bare(found: re.Match[str]) -> str:
        name = found[1].lower()
        return found[0] if name in _ENDLESS or ends.has_end(name, found.end()) else f"&lt;{found[0][1:]}"

    return _BARE_TAG.sub(escape_bare, text)


def _unwrap_cdata(text: str) -> str:
    """Return the content of a CDATA section that a publisher wrapped as text once more."""
    is_wrapped = text.startswith("<![CDATA[") and text.rstrip().endswith("]]>")
    return text.rstrip()[9:-3] if is_wrapped else text


class _LastEnds:
    """Knows where comments and elements end; looks for an end tag in the near text first, where most are."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._places: dict[str, int] | None = None
        self._last_comment_end: int | None = None

    def find_declaration_end(self, start: int) -> int:
        """Return the end of a comment or declaration that a browser hides, or -1 for one that is only mentioned."""
        text = self._text
        if text.startswith("<!--", start):
            if text.startswith((">", "->"), start + 4):
                return text.find(">", start) + 1
            if self._last_comment_end is None:  # texts full of unclosed comments must not be searched for each
                self._last_comment_end = max(text.rfind("-->"), text.rfind("--!>"))
            if start + 4 <= self._last_comment_end and (ended := _COMMENT_END.search(text, start + 4)) is not None:
                return ended.end()
            if text[start - 1 : start].isalnum():  # broken off: a mention stands apart from the word before it
                return start
        elif start == 0 and (doctype := _DOCTYPE.match(text)) is not None:
            return doctype.end()
        return start if _LEFT_OVER.match(text, start) else -1

    def has_end(self, name: str, start: int) -> bool:
        if self._text.find(f"</{name}", start, start + _NEAR) >= 0:
            return True
        if self._places is None:
            self._places = {found[1].lower(): found.start() for found in _END_TAG.finditer(self._text)}
        return self._places.get(name, -1) >= start


def _begins_again(text: str, start: int, name: str) -> bool:
    """Say whether an element begins a second time before it ends: the first tag is a mention of it."""
    again = text.find(f"<{name}", start)
    return again >= 0 and text.find(f"</{name}", start, again) < 0


def _is_discussed(text: str, start: int, name: str) -> bool:
    """Say whether tags stand between the tags of a text-only element outside of a page's head."""
    following = text.find("<", start)
    is_end = text[following + 1 : following + 2 + len(name)].lower() == f"/{name}"
    return not is_end and "<head" not in text[max(0, start - 2_000) : start].lower()
