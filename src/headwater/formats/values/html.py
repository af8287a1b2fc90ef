"""HTML made safe when it is read, with its relative addresses resolved; nh3 (ammonia) does the cleaning."""

from __future__ import annotations

import re
from functools import lru_cache
from html import escape
from typing import Final

import nh3
from lxml import etree

from headwater.formats.values.text import (
    CONTENT_LIMIT,
    decode_references,
    repair_mojibake,
    replace_forbidden,
    truncate_utf8,
)

_SURELY_WITHIN_LIMIT: Final = CONTENT_LIMIT // 4  # characters: certain to be within the limit of bytes
XHTML: Final = "{http://www.w3.org/1999/xhtml}"

_TAGS: Final = nh3.ALLOWED_TAGS | {
    "address", "audio", "big", "figcaption", "figure", "font", "main", "menu", "meter", "picture", "progress",
    "section", "source", "tfoot", "track", "video",
}  # fmt: skip
_ATTRIBUTES: Final = {tag: set(names) for tag, names in nh3.ALLOWED_ATTRIBUTES.items()}
for _tag, _names in {
    "*": {"dir", "lang", "title"},
    "audio": {"src", "controls", "preload", "loop", "muted"},
    "video": {"src", "controls", "preload", "loop", "muted", "poster", "width", "height"},
    "source": {"src", "type", "media"},
    "track": {"src", "kind", "srclang", "label"},
    "img": {"align", "alt", "height", "src", "width"},
    "font": {"color"},
    "ol": {"start", "type"},
}.items():
    _ATTRIBUTES.setdefault(_tag, set()).update(_names)
_REMOVED_WITH_CONTENT: Final = {"script", "style", "title", "textarea", "noscript", "template"}


# Where an address may stand that is not complete and needs the base. Too much is found rather than too little.
_RELATIVE: Final = re.compile(
    r"""=(?:(?<=[\s/]=)|(?<=[hH][rR][eE][fF]=)|(?<=[sS][rR][cC]=)|(?<=[cC][iI][tT][eE]=)|(?<=[sS][tT][eE][rR]=))"""
    r"""(?!["']?(?:https?://|mailto:))"""
)


class HtmlCleaner:
    """Cleans the HTML of one document; with `clean` off it hands HTML through as published."""

    def __init__(self, clean: bool) -> None:
        self.on = clean

    def clean_html(self, text: str | None, base: str | None) -> str | None:
        """Safe HTML of HTML."""
        if not text:
            return None
        if not text.isascii():
            text = repair_mojibake(text)
        if not self.on:
            return text if len(text) < _SURELY_WITHIN_LIMIT else truncate_utf8(text, CONTENT_LIMIT)
        if "<" in text:
            if len(text) >= _SURELY_WITHIN_LIMIT:
                text = truncate_utf8(text, CONTENT_LIMIT)
            has_numbers = "&#" in text
            text = get_nh3_cleaner(base if _RELATIVE.search(text) else None).clean(text)
            if has_numbers:
                text = replace_forbidden(text)  # nh3 writes the characters that references name, forbidden ones too
        elif "&" in text:
            text = escape(decode_references(text), quote=False)
        if len(text) >= _SURELY_WITHIN_LIMIT:
            text = truncate_utf8(text, CONTENT_LIMIT)
        return text.strip() or None

    def escape_plain_text(self, text: str | None) -> str | None:
        """HTML of plain text, which needs no cleaning."""
        return truncate_utf8(escape(text, quote=False), CONTENT_LIMIT) if text else None


@lru_cache(maxsize=64)
def get_nh3_cleaner(base: str | None) -> nh3.Cleaner:
    """An nh3 cleaner for markup with this base; kept, since building one costs more than cleaning most items."""
    relative = ("rewrite_with_base", base) if base and base.startswith(("http://", "https://")) else None
    try:
        return _build_nh3_cleaner(relative)
    except ValueError:  # a base no URL parser takes
        return _build_nh3_cleaner(None)


def _build_nh3_cleaner(relative: tuple[str, str] | None) -> nh3.Cleaner:
    return nh3.Cleaner(
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        clean_content_tags=_REMOVED_WITH_CONTENT,
        url_relative=relative,  # type: ignore[arg-type]
    )


def serialise_inner_html(element: etree._Element) -> str:
    """The markup inside an element (an XHTML construct) as HTML without namespaces."""
    for child in element.iter(etree.Element):
        if child is not element and (child.prefix is not None or not child.tag.startswith(XHTML)):
            try:
                child.tag = child.tag.rpartition("}")[2].rpartition(":")[2]
            except ValueError:  # a name that recovery made up, such as `x:`; cleaning drops it
                continue
    parts = [escape(element.text, quote=False)] if element.text else []
    parts += [etree.tostring(child, encoding="unicode", method="html") for child in element]
    return "".join(parts).replace(' xmlns="http://www.w3.org/1999/xhtml"', "").strip()
