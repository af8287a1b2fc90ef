"""Reads titles, summaries and contents by their declared type.

Atom declares it (`type`, in Atom .3 also `mode`). RSS does not; its texts are HTML.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from lxml import etree

from headwater.formats.parse.context import XML_BASE, ReadContext
from headwater.formats.values.html import serialise_inner_html
from headwater.formats.values.links import resolve_url
from headwater.formats.values.text import (
    decode_references,
    has_reference,
    html_to_text,
    is_markup,
    looks_like_html,
    to_one_line,
)

_MARKUP_TYPES = frozenset({"html", "text/html", "xhtml", "application/xhtml+xml", "text/x-html"})

_BINARY_TYPES = frozenset({"application/octet-stream", "application/pdf", "application/zip", "application/gzip"})


def read_text(element: etree._Element) -> str | None:
    """Return the text of an element and of all elements inside it."""
    text = element.text if len(element) == 0 else "".join(map(str, element.itertext("*")))
    return text.strip() or None if text else None


def read_construct(element: etree._Element, context: ReadContext) -> tuple[str | None, str]:
    """Return the text of an element and its type: `text`, `html`, or `undeclared`."""
    if len(element):
        return _serialise_markup(element), "html"
    text = element.text
    if text is None or not (text := text.strip()):
        return None, "text"
    kind = element.get("type")
    mode = element.get("mode") if context.modes else None
    if mode is None and kind in ("html", "text", None):
        return text, kind or "undeclared"
    kind = (kind or "").strip().lower()
    if mode == "base64" or (_is_binary(kind) and not looks_like_html(text)):
        text = _decode_base64(text, _is_binary(kind))
        return text, "html" if text and looks_like_html(text) else "text"
    if kind in _MARKUP_TYPES:
        return text, "html"
    if kind in ("text", "text/plain"):
        # Publishers declare HTML as text/plain, so only Atom's own word `text` is believed.
        return text, "text" if kind == "text" or mode != "escaped" else "undeclared"
    return text, "undeclared"


def read_title(element: etree._Element, context: ReadContext) -> str | None:
    """Return a title as plain text."""
    if len(element) == 0 and not (context.atom and element.attrib):
        text = element.text
        if text is None:
            return None
        if "<" not in text and "&" not in text:
            return to_one_line(text)
        plain = context.atom and "}" in element.tag and not has_reference(text)
        return to_one_line(text) if plain else html_to_text(text)
    text, kind = read_construct(element, context)
    if text is None:
        return None
    return to_one_line(text) if kind == "text" else html_to_text(text, sure=kind == "html")


def read_html(element: etree._Element, context: ReadContext) -> Any:
    """Return a summary, description or content as HTML."""
    base = context.find_base(element) if context.has_base else context.base
    if not context.atom and len(element) == 0:
        text = element.text
        return context.options.html.read_html(text.strip(), base) if text is not None else None
    text, kind = read_construct(element, context)
    if text is None:
        return None
    if kind == "html":
        if context.has_base and len(element) == 1 and element[0].get(XML_BASE):
            base = context.find_base(element[0])
        return context.options.html.read_html(text, base)
    if kind == "text":
        return context.options.html.read_plain_text(text)
    if context.atom and "}" in element.tag and not is_markup(text):
        return context.options.html.read_plain_text(decode_references(text) if "&" in text else text)
    return context.options.html.read_html(text, base)


def _serialise_markup(element: etree._Element) -> str | None:
    """Return markup written as elements, without the `div` that Atom requires around it (RFC 4287 §3.1.1.3)."""
    only = element[0]
    if len(element) == 1 and isinstance(only.tag, str) and only.tag.rpartition("}")[2] == "div":
        outside = f"{element.text or ''}{only.tail or ''}".strip()
        if not outside and len(only) == 0 and element.get("type") == "html":
            return (only.text or "").strip() or None  # escaped markup inside a div, against §3.1.1.2
        if not outside:
            return serialise_inner_html(only) or None
    return serialise_inner_html(element) or None


def _is_binary(kind: str) -> bool:
    """Say whether a type is known to be binary: publishers give text unknown types, and much text is valid base64."""
    is_media = kind.startswith(("image/", "audio/", "video/", "font/")) and not kind.endswith("xml")
    return is_media or kind in _BINARY_TYPES


def _decode_base64(text: str, binary: bool) -> str | None:
    """Decode text. Returns None for pictures and other binary content."""
    try:
        raw = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return text
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return None if binary else raw.decode("utf-8", "replace")


def read_address(element: etree._Element, context: ReadContext) -> str | None:
    """Return the address in an element's text or in one of the usual attributes."""
    for name in ("href", "url", "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}resource", "rdf:resource"):
        if found := element.get(name):
            return resolve_url(found, context.find_base(element))
    return resolve_url(read_text(element), context.find_base(element))
