"""Parses XML into an element tree, and repairs or recovers documents that are not well formed."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from html.entities import html5

import msgspec
from lxml import etree

from headwater.errors import NotAFeed
from headwater.formats.parse.recovery import count_item_tags, count_items, recover_items
from headwater.formats.parse.xml_parsers import OPTIONS, UTF8_PARSER, parse_strictly, parse_with_recovery
from headwater.formats.values import encodings
from headwater.formats.values.text import WINDOWS_1252, replace_forbidden

_ENTITY = re.compile(r"&([A-Za-z][A-Za-z0-9]{0,31});?")
_PREDEFINED = frozenset({"amp", "lt", "gt", "quot", "apos"})
_BARE_AMPERSAND = re.compile(r"&(?!#[0-9]{1,7};|#[xX][0-9a-fA-F]{1,6};|(?:amp|lt|gt|quot|apos);)")
_DOCTYPE = re.compile(r"<!DOCTYPE[^\[>]*(?:\[.*?\]\s*)?>", re.DOTALL | re.IGNORECASE)
# Entities that a document may declare: plain text or one character reference. Nested ones are how bombs are built.
_SAFE_ENTITY = re.compile(
    r"""<!ENTITY\s+(\w{1,64})\s+(?:"(&#\w{1,8};|[^&"%<]{0,500})"|'(&#\w{1,8};|[^&'%<]{0,500})')\s*>"""
)
_CHARACTER = re.compile(r"&#(?:[xX]([0-9a-fA-F]+)|([0-9]+));?")
_TRUNCATED_CDATA = re.compile(r"<!\[?[A-Z]{0,5}\Z")  # a CDATA section that breaks off at its start
_LARGE = 200_000
_BYTES_PER_ATTRIBUTE = 20  # a document with more attributes may have a tag with very many
_LONG_TAG = re.compile(rb"<[A-Za-z_][^<]{10000,}")
_FIRST_ATTRIBUTES = re.compile(rb"""<[^\s<>/]+(?:\s+[^\s=<>]+\s*=\s*(?:"[^"]*"|'[^']*')){100}""")
_XML_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")


class ParsedXml(msgspec.Struct, frozen=True):
    """The root element, the encoding, the repairs that were needed, and how many items a damaged document announces."""

    root: etree._Element
    encoding: str
    problems: tuple[str, ...] = ()
    announced: int = 0


def parse_xml(body: bytes, charset: str | None = None) -> ParsedXml:
    """Parse a document. Raises NotAFeed if nothing can be recovered."""
    if len(body) > _LARGE and body.count(b"=") * _BYTES_PER_ATTRIBUTE > len(body):
        body = _LONG_TAG.sub(_limit_attributes, body)
    head = body[:4096]
    declared = encodings.find_declared_encoding(head)
    if b"\0" not in head[:4] and b"<!DOCTYPE" not in head:
        if (declared or "utf-8") == "utf-8" and (charset or "utf-8") == "utf-8":
            try:
                root = etree.fromstring(body, UTF8_PARSER)
            except (etree.XMLSyntaxError, ValueError):
                pass
            else:
                sections = body.count(b"<![CDATA[")
                if sections == 0 or sections <= body.count(b"]]>"):  # else one without an end may contain items
                    return ParsedXml(root, "utf-8")
        if not declared and not charset and b"encoding" in head[:64]:
            try:  # libxml2 knows some encodings that Python does not, such as TCVN and VISCII
                root = etree.fromstring(body, etree.XMLParser(**OPTIONS))  # type: ignore[arg-type]
                return ParsedXml(root, root.getroottree().docinfo.encoding or "utf-8")
            except (etree.XMLSyntaxError, ValueError):
                pass
    return _decode_and_parse(body, charset or declared)


def _limit_attributes(found: re.Match[bytes]) -> bytes:
    """Return a long tag with its first attributes only: a tree needs thirty times the memory of a short attribute."""
    kept = _FIRST_ATTRIBUTES.match(found[0])
    return found[0] if kept is None else kept[0] + found[0][found[0].find(b">", kept.end()) :]


def _decode_and_parse(body: bytes, charset: str | None) -> ParsedXml:
    text, codec, problem = encodings.decode_document(body, charset)
    problems = [problem] if problem else []
    text = strip_prolog(text)
    root = parse_strictly(text)
    if root is None:
        text = repair_xml(text)
        root = parse_strictly(text)
        problems.append("the XML is not well formed and was recovered")
    announced = 0
    if root is None or text.count("<![CDATA[") > text.count("]]>"):
        announced = count_item_tags(text)
        if root is not None and announced > count_items(root):
            root = None
            problems.append("a CDATA section without an end reached into the next items and was recovered")
        if root is None:
            root = _recover(text, announced)
    if root is None:
        raise NotAFeed("The document is not XML, or too damaged to be read.", "unknown")
    return ParsedXml(root, codec, tuple(problems), announced)


def _recover(text: str, announced: int) -> etree._Element | None:
    """Return the fuller of two recoveries: item by item, or of the whole document."""
    pieces = recover_items(text) if announced else None
    if pieces is not None and count_items(pieces) >= announced:
        return pieces
    whole = parse_with_recovery(text)
    if pieces is None or (whole is not None and count_items(whole) > count_items(pieces)):
        return whole
    return pieces


def strip_prolog(text: str) -> str:
    """Return the text from its first element on, with the entities of its document type resolved."""
    text = _XML_DECLARATION.sub("", text.lstrip("\ufeff \t\r\n\0"), count=1).lstrip()
    text, entities = _remove_doctype(text[max(text.find("<"), 0) :])
    return _resolve_entities(text, entities) if entities and "&" in text else text


def _remove_doctype(text: str) -> tuple[str, dict[str, str]]:
    """Return the text without its document type, and the safe entities declared there."""
    start = _find_prolog_end(text)
    found = _DOCTYPE.match(text[: start + 200_000], start)
    if found is None:
        return text, {}
    entities = {
        name: _resolve_entity_value(double or single) for name, double, single in _SAFE_ENTITY.findall(found[0])
    }
    entities.setdefault("nbsp", "\u00a0")  # a DOCTYPE usually means that HTML's entities are used
    return text[: found.start()] + text[found.end() :], entities


def _find_prolog_end(text: str) -> int:
    """Return the position behind the comments, instructions and white space at the start of a document."""
    at = 0
    while True:
        while text[at : at + 1].isspace():
            at += 1
        closing = "-->" if text.startswith("<!--", at) else "?>" if text.startswith("<?", at) else None
        if closing is None:
            return at
        end = text.find(closing, at + 2)
        if end < 0:
            return at
        at = end + len(closing)


def _resolve_entity_value(value: str) -> str:
    found = _CHARACTER.fullmatch(value)
    if found is None:
        return value
    code = int(found[1], 16) if found[1] else int(found[2])
    return replace_forbidden(chr(code)) if code < 0x110000 else "\ufffd"


def repair_xml(text: str) -> str:
    """Replace what libxml2 would stumble over: control characters, HTML's entities, bare ampersands."""
    text = _TRUNCATED_CDATA.sub("", replace_forbidden(text))
    if "&" in text:
        text = _change_outside_cdata(text, lambda part: _BARE_AMPERSAND.sub("&amp;", _resolve_references(part, {})))
    return text


def _resolve_entities(text: str, entities: dict[str, str]) -> str:
    return _change_outside_cdata(text, lambda part: _resolve_references(part, entities))


def _change_outside_cdata(text: str, change: Callable[[str], str]) -> str:
    if "<![CDATA[" not in text:
        return change(text)
    parts: list[str] = []
    at = 0
    while (start := text.find("<![CDATA[", at)) >= 0 and (end := text.find("]]>", start)) >= 0:
        parts += (change(text[at:start]), text[start : end + 3])
        at = end + 3
    parts.append(change(text[at:]))
    return "".join(parts)


@lru_cache(maxsize=256)  # a text full of one reference shares its replacement
def _escape_reference(found: str) -> str:
    return f"&amp;{found[1:]}"


def _resolve_references(text: str, entities: dict[str, str]) -> str:
    """Replace HTML's and the document's own entities by their characters, and escape what is neither.

    Long entities may add a quarter to the text: those used very often are how bombs are built, too.
    """
    spare = len(text) // 4 + 200  # characters

    @cache
    def resolve(found: str) -> str:
        name = found[1:].removesuffix(";")
        if name in _PREDEFINED:
            return f"&{name};"
        value = entities.get(name) or html5.get(f"{name};")
        if value is None or found[-1] != ";":
            return _escape_reference(found)
        return value.replace("&", "&amp;").replace("<", "&lt;")

    def character(found: re.Match[str]) -> str:
        nonlocal spare
        written, escaped = resolve(found[0]), len(found[0]) + len("amp;")
        spare -= len(written)
        return written if spare >= 0 or len(written) <= escaped else _escape_reference(found[0])

    def reference(found: re.Match[str]) -> str:
        code = int(found[1][:8], 16) if found[1] else int(found[2][:8])
        if 0x80 <= code < 0xA0:
            return WINDOWS_1252[code]  # windows-1252 numbers meant as characters, as browsers read them
        allowed = code in (9, 10, 13) or 0x20 <= code < 0xD800 or 0xE000 <= code < 0xFFFE or 0x10000 <= code < 0x110000
        return f"&#{code};" if allowed else "\ufffd"  # XML 1.0 §2.2

    return _CHARACTER.sub(reference, _ENTITY.sub(character, text))
