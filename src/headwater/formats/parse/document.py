"""Finds the feed element in a tree, recognises its format and walks its elements once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lxml import etree
from msgspec.structs import replace

from headwater.errors import NotAFeed
from headwater.formats.parse import cdf
from headwater.formats.parse.channel import ChannelDraft, add_rdf_about, add_relation, read_channel_element
from headwater.formats.parse.context import XML_BASE, XML_LANG, ReadContext, ReadOptions
from headwater.formats.parse.element_names import STANDARD_NAMES, ElementNames, find_prefix, get_local_name
from headwater.formats.parse.entry import FeedDefaults, get_handler_table, read_entry
from headwater.formats.parse.recovery import MAX_ITEMS
from headwater.formats.parse.xml_tree import parse_xml
from headwater.formats.values.languages import normalise_language
from headwater.formats.values.links import is_web_url, join_base, resolve_url
from headwater.model import Document, Entry

_FEED_ELEMENTS = frozenset({"rss", "rdf", "feed", "entry", "channel", "item"})
_ITEM_ELEMENTS = frozenset({"item", "entry"})
_CLOSING_TAG = re.compile(rb"</(?:[\w.-]+:)?(?:rss|feed|rdf|channel)\s*(?:>|\Z)", re.IGNORECASE)
_INHERITED = re.compile(rb"xml:(?:base|lang)")
# Whether an element below the root has the attribute. An attribute of the root applies to all.
_HAS_BASE = etree.XPath("boolean(/*/descendant::*/@xml:base)")
_HAS_LANG = etree.XPath("boolean(/*/descendant::*/@xml:lang)")


def read_xml(
    body: bytes, charset: str | None, base: str | None, headers: Mapping[str, str], options: ReadOptions
) -> Document:
    """Read an XML document."""
    parsed = parse_xml(body, charset)
    root = _find_feed_element(parsed.root, body)
    kind = get_local_name(root.tag)
    namespace = root.tag.rpartition("}")[0][1:]
    core = namespace if kind != "rdf" else root.nsmap.get(None)  # RDF has a namespace of its own
    if not core and parsed.announced:  # the declarations in a damaged tag are lost, those of recovered items are not
        core = next((etree.QName(item).namespace for item in root.iter("{*}item", "{*}entry")), None)
    names = ElementNames(core) if core and find_prefix(core) == "?" else STANDARD_NAMES
    # Most documents have neither attribute, which the bytes of UTF-8 show faster than the tree.
    may_inherit = parsed.encoding != "utf-8" or _INHERITED.search(body) is not None
    has_base = may_inherit and bool(_HAS_BASE(parsed.root))
    context = ReadContext(
        names=names,
        options=options,
        base=base if has_base else join_base(base, root.get(XML_BASE)),
        has_base=has_base,
        has_lang=may_inherit and bool(_HAS_LANG(parsed.root)),
        atom=kind in ("feed", "entry"),
        modes=kind in ("feed", "entry") and not namespace.endswith("2005/Atom"),
        rdf=kind == "rdf",
    )
    if kind == "channel" and cdf.is_cdf(root, names):
        return replace(cdf.read_cdf(root, context), encoding=parsed.encoding, problems=parsed.problems)
    context.problems.extend(parsed.problems)
    document = _read_document(root, kind, context, headers, parsed.encoding)
    if not parsed.problems:
        return document
    return count_missing(_drop_truncated_item(document, body), parsed.announced)


def read_rss_elements(
    root: etree._Element, base: str | None, options: ReadOptions, encoding: str, problems: tuple[str, ...]
) -> Document:
    """Read RSS elements that were not written as XML."""
    context = ReadContext(STANDARD_NAMES, options, base)
    context.problems.extend(problems)
    return _read_document(root, "rss", context, {}, encoding)


def _drop_truncated_item(document: Document, body: bytes) -> Document:
    """Drop the last item of a truncated document if nothing of it is left. Raises NotAFeed without any item."""
    if _CLOSING_TAG.search(body.replace(b"\0", b"")):
        return document
    items = document.items
    if items and not (items[-1].id or items[-1].link or items[-1].title or items[-1].summary or items[-1].content):
        items = items[:-1]
    if not items:
        raise NotAFeed("The document is truncated: it breaks off before its first item.", "truncated")
    return replace(document, items=items)


def count_missing(document: Document, announced: int) -> Document:
    """Add how many of the items that the tags of a damaged document announce could not be read."""
    missing = announced - len(document.items)
    if missing <= 0:
        return document
    document = replace(document, missing=missing)
    return replace(document, problems=(*document.problems, document.describe_missing()))


def _find_feed_element(root: etree._Element, body: bytes) -> etree._Element:
    """Return the feed's element: the root, or the first one inside it."""
    if get_local_name(root.tag) in _FEED_ELEMENTS:
        return root
    for element in root.iter(etree.Element):
        if get_local_name(element.tag) in ("rss", "rdf", "feed", "channel"):
            return element
    raise explain_not_a_feed(get_local_name(root.tag), body)


def explain_not_a_feed(root: str, body: bytes) -> NotAFeed:
    """Return the error that names the kind of a document without a feed."""
    head = body[:50_000].lower()
    if root in ("html", "head", "body", "div", "p", "meta", "script", "!doctype") or b"<html" in head:
        if b'type="password"' in head or b"type='password'" in head or b"type=password" in head:
            return NotAFeed("This is a login page, not a feed. The address can only be read after signing in.", "login")
        return NotAFeed("This is an HTML page, not a feed. Look there for a link to its feed.", "html")
    if root == "opml":
        return NotAFeed("This is an OPML list of feeds, not a feed. Import it instead.", "opml")
    if root in ("urlset", "sitemapindex"):
        return NotAFeed("This is a sitemap, not a feed.", "sitemap")
    if root == "error":
        return NotAFeed("This is an error message from the server, not a feed.", "error")
    return NotAFeed(f"This is an XML document of another kind (its root is <{root[:60]}>), not a feed.", "xml")


def _read_document(
    root: etree._Element, kind: str, context: ReadContext, headers: Mapping[str, str], encoding: str
) -> Document:
    draft = ChannelDraft()
    elements: list[etree._Element] = []
    if kind in _ITEM_ELEMENTS:  # a document of one entry (RFC 4287 §2)
        elements.append(root)
    else:
        _collect_elements(root, draft, elements, context)
    if not elements and context.problems:  # damaged: an element before the first item was not closed
        elements += (element for element in root.iter(etree.Element) if context.names[element.tag] in _ITEM_ELEMENTS)
    for relation, address in _parse_link_header(headers):
        add_relation(draft, relation, resolve_url(address, context.base))
    spoken = (
        normalise_language(root.get(XML_LANG))
        or context.find_language(root)
        or _find_channel_language(root, context)
        or normalise_language(headers.get("content-language"))
    )
    if spoken:
        draft.offer("language", 2, spoken.partition(",")[0].strip())
    fields = draft.to_document_fields()
    if len(elements) > MAX_ITEMS:
        context.problems.append(f"only the first {MAX_ITEMS} of {len(elements)} items were read")
    inherited = FeedDefaults(fields.get("language"), tuple(draft.list_writers()))
    table = get_handler_table(context.names)
    items = [read_entry(element, context, inherited, table) for element in elements[:MAX_ITEMS]]
    while context.nested and len(items) < MAX_ITEMS:
        items.append(read_entry(context.nested.pop(0), context, inherited, table))
    if context.base is None:
        items = _resolve_item_links(items, fields)
    return Document(
        format=_name_format(root, kind),
        items=tuple(items),
        encoding=encoding,
        problems=tuple(context.problems),
        **fields,
    )


def _resolve_item_links(items: list[Entry], fields: Mapping[str, Any]) -> list[Entry]:
    """Resolve relative links against the feed's own `self` or `link` if the document's address is unknown."""
    base = next((link for link in (fields.get("self"), fields.get("link")) if is_web_url(link)), None)
    if base is None:
        return items
    return [item if is_web_url(item.link) else replace(item, link=resolve_url(item.link, base)) for item in items]


def _collect_elements(
    root: etree._Element, draft: ChannelDraft, items: list[etree._Element], context: ReadContext
) -> None:
    """Add the elements of the feed to `draft` and its items to `items`; look inside channels and wrappers."""
    names = context.names
    pending = [root]
    while pending:
        parent = pending.pop()
        for child in parent:
            name = names[child.tag]
            if name in _ITEM_ELEMENTS:
                items.append(child)
            elif name in ("channel", "items", "entries", "rdf:rdf", "rss", "feed"):
                if name == "channel":
                    add_rdf_about(draft, child, context)
                pending.insert(0, child)
            else:
                read_channel_element(draft, child, context)


def _find_channel_language(root: etree._Element, context: ReadContext) -> str | None:
    if context.has_lang:
        for child in root:
            if context.names[child.tag] == "channel" and (found := child.get(XML_LANG)):
                return normalise_language(found)
    return None


def _name_format(root: etree._Element, kind: str) -> str:
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


def _parse_link_header(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return relation and address of each link in a Link header (RFC 8288 §3)."""
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


def find_base_url(url: str | None, headers: Mapping[str, str]) -> str | None:
    """Return the base address of a document: its own, changed by Content-Location (RFC 9110 §8.7)."""
    return join_base(url, headers.get("content-location")) if headers.get("content-location") else url
