"""Recovers documents that are not well formed item by item, so that damage stays within the item it hits.

The tags of items are found in the text, without a tree. Each item is parsed by itself; if it is not well formed, the
fields that it should have are found in the same way, and markup inside them becomes text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from itertools import islice

from lxml import etree

from headwater.formats.parse.elements import ELEMENTS
from headwater.formats.parse.xml_parsers import parse_strictly, parse_with_recovery

_ITEM_TOKEN = re.compile(
    r"<!\[CDATA\[|\]\]>|<!--|-->|<(?P<slash>/?)(?:[\w.-]{1,30}:)?(?P<name>item|entry)(?=[\s/<>]|\Z)[^<>]*>?",
    re.IGNORECASE,
)
# A tag that follows the end of a real item. Inside a CDATA section or a comment it shows that their own end is missing.
_BEHIND_ITEM = re.compile(r"\s*</?(?:[\w.-]{1,30}:)?(?:item|entry|channel|rss|rdf|feed)[\s>]", re.IGNORECASE)
_FIELD_TAG = re.compile(r"""<(?P<slash>/?)(?P<name>[A-Za-z_][\w.:-]{0,60})(?P<rest>(?:[^<>"']|"[^"<]*"|'[^'<]*')*)>""")
_ANY_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_ITEM_PARENT = re.compile(r"(?:\{[^}]*\})?(?:rss|channel|rdf|feed|items|entries|item|entry)", re.IGNORECASE)
_NAMESPACE = re.compile(r"""\sxmlns(?::[\w.-]{1,30})?\s*=\s*(?:"[^"<>]{0,200}"|'[^'<>]{0,200}')""")
_FEED_TAG = re.compile(r"<(?:[\w.-]{1,30}:)?(?:rss|rdf|feed|channel)(?=[\s>])[^<>]*>", re.IGNORECASE)
_FEED_END = re.compile(r"</(?:[\w.-]{1,30}:)?(?:rss|rdf|feed|channel)\s*>", re.IGNORECASE)
_FEED_NAME = re.compile(r"(?:\{[^}]*\}|[\w.-]+:)?(?:rss|rdf|feed|channel)", re.IGNORECASE)
_MAX_TAG = 10_000  # characters in which namespaces are declared
MAX_ITEMS = 5_000  # of a document

_FIELDS = frozenset(ELEMENTS) - {"item", "entry"}
_UNENDED_TAG = re.compile(rf"</({'|'.join(map(re.escape, sorted(_FIELDS)))})\s*(?=<|\Z)", re.IGNORECASE)
_HTML_FIELDS = frozenset({
    "title", "description", "summary", "content", "content:encoded", "encoded", "fullitem", "dc:description",
    "itunes:summary", "media:description",
})  # fmt: skip
_CONTAINERS = frozenset({
    "author", "source", "image", "categories", "media:group", "media:content", "dc:creator", "itunes:category",
    "podcast:alternateenclosure",
})  # fmt: skip
# Fields that stand inside other fields, or whose names HTML uses, too: they end no open field but a short one.
_INNER_FIELDS = frozenset({
    "title", "link", "source", "summary", "image", "url", "body", "content", "id", "author", "category",
    "itunes:category",
})  # fmt: skip


def count_item_tags(text: str) -> int:
    """Return how many items the tags of a document announce.

    >>> count_item_tags("<rss><item><title>a</title></item><item></rss>")
    2
    """
    starts = ends = 0
    for found in _iterate_item_tags(text):
        starts += not found["slash"]
        ends += bool(found["slash"]) or found[0].endswith("/>")
    return max(starts, ends)


def count_items(root: etree._Element) -> int:
    """Return how many items a tree has that are not empty: in a feed, or in an item whose end tag is missing."""
    parents = (found.getparent() for found in root.iter("{*}item", "{*}entry") if len(found) or found.attrib)
    return sum(parent is None or _ITEM_PARENT.fullmatch(parent.tag) is not None for parent in parents)


def _iterate_item_tags(text: str) -> Iterator[re.Match[str]]:
    """Yield the tags of items outside of CDATA sections and comments."""
    closing = None
    for found in _ITEM_TOKEN.finditer(text):
        token = found[0]
        if closing is None:
            if found["name"] is not None:
                yield found
            elif token in ("<![CDATA[", "<!--"):
                closing = "]]>" if token == "<![CDATA[" else "-->"
        elif token == closing:
            closing = None
        elif found["slash"] and _BEHIND_ITEM.match(text, found.end()):
            closing = None
            yield found


def recover_items(text: str) -> etree._Element | None:
    """Return the root of a damaged document with the items that its tags announce; None if there are none."""
    name, first, end = "item", len(text), 0
    pieces: list[tuple[str, str]] = []  # start tag and inside of each item
    opened: re.Match[str] | None = None
    for found in islice(_iterate_item_tags(text), 2 * MAX_ITEMS):
        if opened is not None:
            pieces.append((opened[0], text[end : found.start()]))
        elif found["slash"] and pieces:  # the start tag is missing; before the first item, the text is the feed's own
            pieces.append((f"<{name}>", text[end : found.start()]))
        opened, end = None, found.end()
        if not found["slash"]:
            name, first = found["name"].lower(), min(first, found.start())
            if found[0].endswith("/>"):
                pieces.append((f"{found[0][:-2]}>", ""))
            else:
                opened = found
    if opened is not None:
        tail = _FEED_END.search(text, end)
        start, end = end, len(text) if tail is None else tail.start()
        pieces.append((opened[0], text[start:end]))
    if not pieces:
        return None
    root, feed, namespaces = _recover_feed_element(text[:first], text[end:], name)
    for tag, inner in pieces:
        item = _parse_item(tag if tag.endswith(">") else f"<{name}>", inner, namespaces)
        if item is not None:
            feed.append(item)
    return root


def _recover_feed_element(head: str, tail: str, name: str) -> tuple[etree._Element, etree._Element, str]:
    """Return the root and the feed element of what stands before and behind the items, and its namespaces."""
    tag = _FEED_TAG.search(head)
    if tag is not None and (root := parse_with_recovery(head + tail)) is not None:
        for found in root.iter(etree.Element):
            if _FEED_NAME.fullmatch(found.tag):
                return root, found, "".join(_NAMESPACE.findall(tag[0][:_MAX_TAG]))
    wrapper = "feed" if name == "entry" else "rss"
    root = parse_with_recovery(f"<{wrapper}>{head}{tail}</{wrapper}>")
    if root is None:
        root = etree.Element(wrapper)
    return root, root, ""


def _parse_item(tag: str, inner: str, namespaces: str) -> etree._Element | None:
    before, behind = f"<x{namespaces}>{tag}", f"</{tag[1:-1].split(None, 1)[0]}></x>"
    wrapper = parse_strictly(f"{before}{inner}{behind}")
    if wrapper is None and (mended := mend_item(inner)):
        wrapper = parse_with_recovery(f"{before}{mended}{behind}")
    item = wrapper[0] if wrapper is not None and len(wrapper) else None
    return item if item is not None and (len(item) or item.attrib) else None


def mend_item(inner: str) -> str:
    """Return the inside of a damaged item with its fields well formed.

    A field that was not closed ends where the next one begins; an end tag alone closes the text before it; markup
    inside a field becomes text.

    >>> mend_item("<title>a<link>/b</link><description>c<br>d</description>e</guid>")
    '<title>a</title><link>/b</link><description><![CDATA[c<br>d]]></description><guid>e</guid>'
    """
    inner = _UNENDED_TAG.sub(r"</\1>", _escape_cdata(inner))
    parts: list[str] = []
    opened: re.Match[str] | None = None
    since = 0  # the end of the last tag of a field
    for found in _FIELD_TAG.finditer(inner):
        name = found["name"].lower()
        if name not in _FIELDS:
            continue
        is_start = not found["slash"]
        if opened is not None:
            is_own_end = not is_start and name == opened["name"].lower()
            if not is_own_end and not (is_start and _ends_field(opened["name"].lower(), name)):
                continue  # markup inside the open field
            parts.append(_write_field(opened, inner[since : found.start()]))
            opened = None
        elif not is_start and (text := inner[since : found.start()].strip()):
            parts.append(f"<{found['name']}>{_escape_value(name, text, short=True)}</{found['name']}>")
        since = found.end()
        if is_start and found["rest"].endswith("/"):
            parts.append(found[0])
        elif is_start:
            opened = found
    if opened is not None:
        parts.append(_write_field(opened, inner[since:]))
    return "".join(parts)


def _escape_cdata(text: str) -> str:
    """Return text with the contents of CDATA sections escaped; a section without an end is markup."""
    parts: list[str] = []
    at, end = 0, -1
    while (start := text.find("<![CDATA[", at)) >= 0:
        if end < start:
            end = text.find("]]>", start)
            if end < 0:
                break
        following = text.find("<![CDATA[", start + 9, end)
        if following >= 0:
            parts.append(text[at:start])
            at = start + 9
        else:
            parts += (text[at:start], escape(text[start + 9 : end], quote=False))
            at = end + 3
    parts.append(text[at:].replace("<![CDATA[", ""))
    return "".join(parts).replace("]]>", "")


def _ends_field(opened: str, name: str) -> bool:
    """Say whether the start of a field ends the open one, whose own end tag is missing."""
    if opened in ("source", "image") or (opened in _HTML_FIELDS and opened != "title"):
        return name not in _INNER_FIELDS
    if opened.startswith("media:"):
        return not name.startswith("media:")
    return name != "url"


def _write_field(opened: re.Match[str], text: str) -> str:
    name = opened["name"]
    text = _mend_elements(text) if name.lower() in _CONTAINERS else _escape_value(name.lower(), text)
    return f"{opened[0]}{text}</{name}>"


def _mend_elements(text: str) -> str:
    """Return the inside of a container well formed: a tag that is missing there must not end the item."""
    root = parse_with_recovery(f"<x>{text}</x>")
    return "" if root is None else etree.tostring(root, encoding="unicode")[len("<x>") : -len("</x>")]


def _escape_value(name: str, text: str, short: bool = False) -> str:
    """Return the text of a field without markup that XML would parse; `short` takes only the text behind the last tag.

    Text that is partly escaped was meant as escaped HTML, other text with tags as HTML.
    """
    if name in _HTML_FIELDS and not (short and name == "title"):
        return text.replace("<", "&lt;") if "&lt;" in text or "<" not in text else f"<![CDATA[{text}]]>"
    text = text.rpartition(">")[2] if short else _ANY_TAG.sub("", text)
    return text.replace("<", "&lt;")
