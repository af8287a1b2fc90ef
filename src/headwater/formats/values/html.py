"""Sanitises HTML with nh3 (ammonia) and resolves its relative links."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import lru_cache
from html import escape, unescape
from typing import Any, Protocol
from urllib.parse import unquote
from zlib import crc32

import nh3
from lxml import etree

from headwater.formats.values.html_limits import limit_html
from headwater.formats.values.html_media import rewrite_media
from headwater.formats.values.html_mentions import escape_mentions
from headwater.formats.values.text import (
    CONTENT_LIMIT,
    decode_references,
    repair_mojibake,
    replace_forbidden,
    truncate_utf8,
)
from headwater.model import Markup, SafeHtml

_ALMOST_LIMIT = CONTENT_LIMIT - 4_096  # bytes; leaves room for the end tags of open elements
_SURELY_WITHIN_LIMIT = CONTENT_LIMIT // 4  # characters; certainly within the limit of bytes

_TAGS = nh3.ALLOWED_TAGS | {
    "address", "audio", "big", "figcaption", "figure", "font", "main", "menu", "meter", "picture", "progress",
    "section", "source", "tfoot", "track", "video",
}  # fmt: skip
# MathML Core without elements that may contain HTML other than text.
MATHML_TAGS = {
    "math", "menclose", "merror", "mfrac", "mi", "mmultiscripts", "mn", "mo", "mover", "mpadded", "mphantom",
    "mprescripts", "mroot", "mrow", "ms", "mspace", "msqrt", "mstyle", "msub", "msubsup", "msup", "mtable", "mtd",
    "mtext", "mtr", "munder", "munderover", "none", "semantics",
}  # fmt: skip
MATHML_ATTRIBUTES = {tag: {"href"} for tag in MATHML_TAGS}
MATHML_ATTRIBUTES["math"].add("display")
MATHML_ATTRIBUTES["mi"].add("mathvariant")
MATHML_ATTRIBUTES["mo"].update(("stretchy", "fence", "separator"))
MATHML_ATTRIBUTES["mfrac"].add("linethickness")
MATHML_ATTRIBUTES["mtable"].add("columnalign")
_TAGS |= MATHML_TAGS
_ATTRIBUTES = {tag: set(names) for tag, names in nh3.ALLOWED_ATTRIBUTES.items()}
for _tag, _names in {
    "*": {"dir", "id", "lang", "title"},
    "audio": {"src", "controls", "preload", "loop", "muted"},
    "video": {"src", "controls", "preload", "loop", "muted", "poster", "width", "height"},
    "source": {"src", "type", "media"},
    "track": {"src", "kind", "srclang", "label"},
    "a": {"name"},
    "img": {"align", "alt", "height", "src", "width"},
    "font": {"color"},
    "ol": {"start", "type"},
    **MATHML_ATTRIBUTES,
}.items():
    _ATTRIBUTES.setdefault(_tag, set()).update(_names)
_ATTRIBUTES_WITHOUT_IDS = {**_ATTRIBUTES, "*": _ATTRIBUTES["*"] - {"id"}, "a": _ATTRIBUTES["a"] - {"name"}}
_REMOVED_WITH_CONTENT = {"script", "style", "title", "textarea", "noscript", "template", "annotation", "annotation-xml"}


# Finds attributes whose address may be relative. A false match only costs time.
_RELATIVE = re.compile(
    r"""=(?:(?<=[\s/]=)|(?<=[hH][rR][eE][fF]=)|(?<=[sS][rR][cC]=)|(?<=[cC][iI][tT][eE]=)|(?<=[sS][tT][eE][rR]=))"""
    r"""(?!["']?(?:https?://|mailto:))"""
)


# In what nh3 writes, every attribute has a value in double quotes, which are escaped within it. A tag must be read
# attribute by attribute: ` id="` may also be the end of a value.
ID_PREFIX = "hw-"
_TAG = re.compile(r'<[a-z][a-z0-9]*(?: [^\s"=<>]+="[^"]*")+>')
_ATTRIBUTE = re.compile(r' ([^\s"=<>]+)="([^"]*)"')
_TAG_WITH_ID = re.compile(r'(<[a-z][a-z0-9]*(?: [^\s"=<>]+="[^"]*")*?) id="([^"]*)"')
_FRAGMENT = re.compile(r"""=(?<=[fF\s]=)\s*(?:"[^"#]{0,2000}#|'[^'#]{0,2000}#|[^\s"'>#]{0,500}#)""")  # of an href
_NUMBERED = re.compile(r"#(?<=&#)")  # a reference; to look for both signs at once takes five times as long
_ANCHOR = re.compile(r'<a(?: [^\s"=<>]+="[^"]*")+>')
_LOCAL_LINK = re.compile(r' href="([^"#]*)#([^"]*)"')
_PICTURE = re.compile(r"<img [^>]*>")
_SOURCE = re.compile(r' src="(https?://[^"]+)"')
_SIDE = re.compile(r' (?:width|height)="([0-9]{1,5})(?:px)?"')
_ICON = 48  # pixels


class HtmlReader(Protocol):
    """Turns the texts of a document into HTML: cleaned, or kept as published."""

    def read_html(self, text: str | None, base: str | None) -> Any: ...

    def read_plain_text(self, text: str | None) -> Any: ...


class CleanHtmlReader:
    """Returns safe HTML."""

    def read_html(self, text: str | None, base: str | None) -> SafeHtml | None:
        text = _repair(text)
        return clean_html(text, base) if text else None

    def read_plain_text(self, text: str | None) -> SafeHtml | None:
        return _escape_plain_text(text)


class PublishedHtmlReader:
    """Returns HTML as published, for callers who clean it themselves."""

    def read_html(self, text: str | None, base: str | None) -> str | None:
        return _repair(text)

    def read_plain_text(self, text: str | None) -> str | None:
        return _escape_plain_text(text)


class MarkupReader:
    """Returns `Markup`, which is cleaned when it is known to be new."""

    def read_html(self, text: str | None, base: str | None) -> Markup | None:
        text = _repair(text)
        return Markup(text, base) if text else None

    def read_plain_text(self, text: str | None) -> Markup | None:
        return wrap_clean_html(_escape_plain_text(text))


def _repair(text: str | None) -> str | None:
    if not text:
        return None
    if not text.isascii():
        text = repair_mojibake(text)
    return text if len(text) < _SURELY_WITHIN_LIMIT else truncate_utf8(text, CONTENT_LIMIT)


def _escape_plain_text(text: str | None) -> SafeHtml | None:
    return SafeHtml(truncate_utf8(escape(repair_mojibake(text), quote=False), CONTENT_LIMIT)) if text else None


def clean_html(text: str, base: str | None) -> SafeHtml | None:
    """Return safe HTML, its relative links resolved against `base`; None when nothing is left."""
    if "<" in text:
        has_numbers = _NUMBERED.search(text) is not None
        text = rewrite_media(escape_mentions(text))
        base = base if _RELATIVE.search(text) else None
        may_link = "#" in text and _FRAGMENT.search(text) is not None
        text = get_nh3_cleaner(base, ids=may_link).clean(limit_html(text))
        if may_link:
            if ' name="' in text:
                text = _ANCHOR.sub(_write_name_as_id, text)
            if ' id="' in text:
                text = _prefix_ids(text, base)
        if has_numbers:  # nh3 writes the characters that references name, forbidden ones too
            text = repair_mojibake(replace_forbidden(text))
    elif "&" in text:
        text = escape(repair_mojibake(decode_references(text)), quote=False)
    if len(text) >= _SURELY_WITHIN_LIMIT and len(cut := truncate_utf8(text, _ALMOST_LIMIT)) < len(text):
        text = get_nh3_cleaner(None).clean(cut)  # it may end within a tag
    return SafeHtml(text.strip()) or None


def _write_name_as_id(anchor: re.Match[str]) -> str:
    """Return the tag of an anchor with its name, the older way to mark a place, as its id."""
    tag = anchor[0]
    has_id = any(name == "id" for name, _ in _ATTRIBUTE.findall(tag))

    def write_attribute(found: re.Match[str]) -> str:
        return found[0] if found[1] != "name" else "" if has_id else f' id="{found[2]}"'

    return _ATTRIBUTE.sub(write_attribute, tag)


def _prefix_ids(text: str, base: str | None) -> str:
    """Keep the ids that links of the same text name, such as footnotes, with a prefix; remove all others.

    A page is that of the text if links to it name two of the text's ids: publishers write whole addresses, too.
    """
    ids = {unescape(name) for _, name in _TAG_WITH_ID.findall(text)}
    named: defaultdict[str, set[str]] = defaultdict(set)
    for start, fragment in _LOCAL_LINK.findall(text):
        if (name := unquote(unescape(fragment))) in ids:
            named[unescape(start)].add(name)
    pages = {"", (base or "").partition("#")[0], *(page for page, names in named.items() if len(names) > 1)}
    linked = {name for page in pages & named.keys() for name in named[page]}
    if not linked:
        return _TAG_WITH_ID.sub(r"\1", text)

    def write_attribute(found: re.Match[str]) -> str:
        attribute, value = found.groups()
        if attribute == "id":
            name = unescape(value)
            return f' id="{_add_prefix(name)}"' if name in linked else ""
        if attribute == "href" and "#" in value:
            start, _, fragment = value.partition("#")
            name = unquote(unescape(fragment))
            if name in linked and unescape(start) in pages:
                return f' href="#{_add_prefix(name)}"'
        return found[0]

    def write_tag(found: re.Match[str]) -> str:
        tag = found[0]
        return _ATTRIBUTE.sub(write_attribute, tag) if "#" in tag or ' id="' in tag else tag

    return _TAG.sub(write_tag, text)


def _add_prefix(name: str) -> str:
    return escape(name if name.startswith(ID_PREFIX) else f"{ID_PREFIX}{name}")


def find_first_picture(html: str | Markup | None) -> str | None:
    """Return the address of the first picture in safe HTML that is not an icon; None for markup not yet cleaned."""
    if not isinstance(html, str) or "<img" not in html:
        return None
    for found in _PICTURE.finditer(html):
        tag = found[0]
        address, sizes = _SOURCE.search(tag), [int(size) for size in _SIDE.findall(tag)]
        if address is not None and all(size > _ICON for size in sizes):
            return decode_references(address[1])
    return None


def clean_markup(markup: Markup | None) -> SafeHtml | None:
    """Return the safe HTML of markup, or None when nothing is left.

    >>> clean_markup(Markup("<p onclick='x()'>Hi <a href='/a'>there</a></p>", "https://example.org/feed"))
    '<p>Hi <a href="https://example.org/a" rel="noopener noreferrer">there</a></p>'
    """
    if markup is None:
        return None
    return clean_html(markup.text, markup.base) if markup.raw_hash is None else markup.clean


def clean_early(markup: Markup | None) -> Markup | None:
    """Clean markup without waiting whether it is new, as for a document that may be hostile."""
    if markup is None or markup.raw_hash is not None:
        return markup
    return Markup("", None, clean_html(markup.text, markup.base), hash_markup(markup))


def wrap_clean_html(html: SafeHtml | None) -> Markup | None:
    """Return markup of HTML that is known to be safe."""
    return Markup("", None, html, _hash_text(html)) if html else None


def hash_markup(markup: Markup | None) -> str:
    """Return a hash of the text as published, the same before and after cleaning."""
    if markup is None:
        return ""
    return _hash_text(markup.text) if markup.raw_hash is None else markup.raw_hash


def measure_markup(markup: Markup | None) -> int:
    """Return the length of markup in characters."""
    return 0 if markup is None else len(markup.text) + len(markup.clean or "")


def shorten_markup(markup: Markup | None, length: int) -> Markup | None:
    """Return the first characters of markup. They are cleaned (again), because they may end within a tag."""
    return None if markup is None else Markup((markup.clean or markup.text)[:length], markup.base)


def _hash_text(text: str) -> str:
    return f"{crc32(text.encode('utf-8', 'replace')):08x}"


@lru_cache(maxsize=128)
def get_nh3_cleaner(base: str | None, *, ids: bool = True) -> nh3.Cleaner:
    """Return a cleaner for markup with this base. Building one costs more than cleaning most items.

    Without `ids` it removes those that nothing in the markup links to.
    """
    relative = ("rewrite_with_base", base) if base and base.startswith(("http://", "https://")) else None
    attributes = _ATTRIBUTES if ids else _ATTRIBUTES_WITHOUT_IDS
    try:
        return _build_nh3_cleaner(relative, attributes)
    except ValueError:  # not a valid URL
        return _build_nh3_cleaner(None, attributes)


def _build_nh3_cleaner(relative: tuple[str, str] | None, attributes: dict[str, set[str]]) -> nh3.Cleaner:
    return nh3.Cleaner(
        tags=_TAGS,
        attributes=attributes,
        clean_content_tags=_REMOVED_WITH_CONTENT,
        set_tag_attribute_values={"audio": {"controls": ""}, "video": {"controls": ""}},  # autoplay is not allowed
        url_relative=relative,  # type: ignore[arg-type]
    )


def serialise_inner_html(element: etree._Element) -> str:
    """Return the markup inside an element (an XHTML construct) as HTML without namespaces.

    libxml2 knows HTML's elements without an end (`<br>`) only without their namespace; `</br>` is another line break.
    """
    for child in element.iter(etree.Element):
        if child is not element and ("}" in child.tag or ":" in child.tag):
            try:
                child.tag = child.tag.rpartition("}")[2].rpartition(":")[2]
            except ValueError:  # recovery invents names such as `x:`; cleaning drops them
                continue
    parts = [escape(element.text, quote=False)] if element.text else []
    parts += [etree.tostring(child, encoding="unicode", method="html") for child in element]
    return "".join(parts).replace(' xmlns="http://www.w3.org/1999/xhtml"', "").strip()
