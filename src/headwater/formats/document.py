"""An element tree → Document: finds the feed in it, says which format it is, walks its elements once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from lxml import etree

from headwater.errors import NotAFeed
from headwater.formats import cdf
from headwater.formats.context import XML_BASE, XML_LANG, Context, Wanted
from headwater.formats.entry import Inherited, read_entry, table_of
from headwater.formats.feed import FeedDraft, about, read_feed_element, relate
from headwater.formats.languages import language
from headwater.formats.links import absolute, is_web, resolve
from headwater.formats.names import USUAL, Names, local_name, prefix_of
from headwater.formats.xml import parse
from headwater.model import Document, Entry

ITEM_LIMIT: Final = 5_000
_ROOTS: Final = frozenset({"rss", "rdf", "feed", "entry", "channel", "item"})
_ITEMS: Final = frozenset({"item", "entry"})
_CLOSED: Final = re.compile(rb"</(?:[\w.-]+:)?(?:rss|feed|rdf|channel)\s*(?:>|\Z)", re.IGNORECASE)
# Whether an element below the root has such an attribute. What only the root has holds for all.
_HAS_BASE: Final = etree.XPath("boolean(/*/descendant::*/@xml:base)")
_HAS_LANG: Final = etree.XPath("boolean(/*/descendant::*/@xml:lang)")


def read_xml(
    body: bytes, charset: str | None, base: str | None, headers: Mapping[str, str], wanted: Wanted
) -> Document:
    """The Document an XML body holds."""
    parsed = parse(body, charset)
    root = _find(parsed.root, body)
    kind = local_name(root.tag)
    namespace = root.tag.rpartition("}")[0][1:]
    names = Names(namespace) if namespace and prefix_of(namespace) == "?" else USUAL
    # Most documents have neither, and need not be searched for them.
    marked = b"xml:" in body or parsed.encoding != "utf-8"
    has_base = marked and bool(_HAS_BASE(parsed.root))
    context = Context(
        names=names,
        wanted=wanted,
        base=base if has_base else absolute(base, root.get(XML_BASE)),
        has_base=has_base,
        has_lang=marked and bool(_HAS_LANG(parsed.root)),
        atom=kind in ("feed", "entry"),
        modes=kind in ("feed", "entry") and not namespace.endswith("2005/Atom"),
        rdf=kind == "rdf",
    )
    if kind == "channel" and cdf.is_cdf(root, names):
        return replace(cdf.read_cdf(root, context), encoding=parsed.encoding, problems=parsed.problems)
    context.problems.extend(parsed.problems)
    document = _read(root, kind, context, headers, parsed.encoding)
    return _as_far_as_it_goes(document, body) if parsed.problems else document


def read_elements(
    root: etree._Element, base: str | None, wanted: Wanted, encoding: str, problems: tuple[str, ...]
) -> Document:
    """The Document that the elements of RSS say which did not come as XML."""
    context = Context(USUAL, wanted, base)
    context.problems.extend(problems)
    return _read(root, "rss", context, {}, encoding)


def _as_far_as_it_goes(document: Document, body: bytes) -> Document:
    """A document that breaks off: without the item of which only the start came, and no feed when nothing is left."""
    if _CLOSED.search(body.replace(b"\0", b"")):
        return document
    items = document.items
    if items and not (items[-1].id or items[-1].link or items[-1].title or items[-1].summary or items[-1].content):
        items = items[:-1]
    if not items:
        raise NotAFeed("The document is truncated: it breaks off before its first item.", "truncated")
    return replace(document, items=items)


def _find(root: etree._Element, body: bytes) -> etree._Element:
    """The feed's own element: the root, or the first that is one somewhere inside."""
    if local_name(root.tag) in _ROOTS:
        return root
    for element in root.iter(etree.Element):
        if local_name(element.tag) in ("rss", "rdf", "feed", "channel"):
            return element
    raise not_a_feed(local_name(root.tag), body)


def not_a_feed(root: str, body: bytes) -> NotAFeed:
    """What a document is that has no feed in it."""
    head = body[:50_000].lower()
    if root in ("html", "head", "body", "div", "p", "meta", "script", "!doctype") or b"<html" in head:
        if b'type="password"' in head or b"type='password'" in head or b"type=password" in head:
            return NotAFeed("This is a login page, not a feed: the address needs somebody signed in.", "login")
        return NotAFeed("This is an HTML page, not a feed: look there for a link to its feed.", "html")
    if root == "opml":
        return NotAFeed("This is an OPML list of feeds, not a feed: import it instead.", "opml")
    if root in ("urlset", "sitemapindex"):
        return NotAFeed("This is a sitemap, not a feed.", "sitemap")
    if root == "error":
        return NotAFeed("This is an error message of the server, not a feed.", "error")
    return NotAFeed(f"This is an XML document of another kind (its root is <{root[:60]}>), not a feed.", "xml")


def _read(root: etree._Element, kind: str, context: Context, headers: Mapping[str, str], encoding: str) -> Document:
    draft = FeedDraft()
    elements: list[etree._Element] = []
    if kind in _ITEMS:  # a document of one entry (RFC 4287 §2)
        elements.append(root)
    else:
        _walk(root, draft, elements, context)
    if not elements and context.problems:  # damaged: something before the first item was never closed
        elements += (element for element in root.iter(etree.Element) if context.names[element.tag] in _ITEMS)
    for relation, address in _header_links(headers):
        relate(draft, relation, resolve(address, context.base))
    spoken = (
        language(root.get(XML_LANG))
        or context.language_of(root)
        or _first_lang(root, context)
        or language(headers.get("content-language"))
    )
    if spoken:
        draft.offer("language", 2, spoken.partition(",")[0].strip())
    fields = draft.fields()
    if len(elements) > ITEM_LIMIT:
        context.problems.append(f"{len(elements)} items, of which the first {ITEM_LIMIT} were read")
    inherited = Inherited(fields.get("language"), fields["authors"])
    table = table_of(context.names)
    items = [read_entry(element, context, inherited, table) for element in elements[:ITEM_LIMIT]]
    while context.nested and len(items) < ITEM_LIMIT:
        items.append(read_entry(context.nested.pop(0), context, inherited, table))
    if context.base is None:
        items = _linked_from(items, fields)
    return Document(
        format=_format(root, kind),
        items=tuple(items),
        encoding=encoding,
        problems=tuple(context.problems),
        **fields,
    )


def _linked_from(items: list[Entry], fields: Mapping[str, Any]) -> list[Entry]:
    """Items of a document nobody said the address of: their links are relative to what it says itself about that."""
    base = next((link for link in (fields.get("self"), fields.get("link")) if is_web(link)), None)
    if base is None:
        return items
    return [item if is_web(item.link) else replace(item, link=resolve(item.link, base)) for item in items]


def _walk(root: etree._Element, draft: FeedDraft, items: list[etree._Element], context: Context) -> None:
    """Feed elements go into the draft, items into the list; channels and wrappers are looked into."""
    names = context.names
    pending = [root]
    while pending:
        parent = pending.pop()
        for child in parent:
            name = names[child.tag]
            if name in _ITEMS:
                items.append(child)
            elif name in ("channel", "items", "entries", "rdf:rdf", "rss", "feed"):
                if name == "channel":
                    about(draft, child, context)
                pending.insert(0, child)
            else:
                read_feed_element(draft, child, context)


def _first_lang(root: etree._Element, context: Context) -> str | None:
    if context.has_lang:
        for child in root:
            if context.names[child.tag] == "channel" and (found := child.get(XML_LANG)):
                return language(found)
    return None


def _format(root: etree._Element, kind: str) -> str:
    version = (root.get("version") or "").strip()
    namespace = root.tag.rpartition("}")[0][1:].lower()
    if kind == "rss":
        return f"rss {version[:8]}" if version else "rss"
    if kind in ("rdf", "channel", "item"):
        spaces = " ".join(value for value in root.nsmap.values() if value).lower()
        if "netscape.com/rdf/simple/0.9" in spaces:
            return "rdf 0.90"
        return "rdf 1.0" if kind == "rdf" else "rss"
    if "purl.org/atom" in namespace or version == "0.3":
        return "atom 0.3"
    return "atom 1.0" if "w3.org/2005/atom" in namespace else "atom"


def _header_links(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    """(relation, address) of each link in a Link header (RFC 8288 §3)."""
    value = headers.get("link")
    links: list[tuple[str, str]] = []
    for part in (value or "")[:8_192].split("<")[1:]:
        address, closed, parameters = part.partition(">")
        if not closed:
            continue
        for parameter in parameters.split(";"):
            name, _, relation = parameter.partition("=")
            if name.strip().lower() == "rel":
                links += [(one, address) for one in relation.strip(" ,\"'").lower().split()]
    return links


def base_from(url: str | None, headers: Mapping[str, str]) -> str | None:
    """The base address of a document: where it came from, moved by Content-Location (RFC 9110 §8.7)."""
    return absolute(url, headers.get("content-location")) if headers.get("content-location") else url
