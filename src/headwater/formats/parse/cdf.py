"""Reads Channel Definition Format (Internet Explorer 4, 1997)."""

from __future__ import annotations

from lxml import etree

from headwater.formats.parse.context import ReadContext
from headwater.formats.parse.element_names import ElementNames
from headwater.formats.parse.text_constructs import read_html, read_text, read_title
from headwater.formats.values.dates import parse_date
from headwater.formats.values.links import resolve_url
from headwater.model import Document, Entry


def is_cdf(root: etree._Element, names: ElementNames) -> bool:
    """Say whether the root is a CDF channel: it, or one of its items, has an HREF."""
    if root.tag.isupper() or _get_attribute(root, "href") or _get_attribute(root, "base"):
        return True
    return any(names[child.tag] == "item" and _get_attribute(child, "href") for child in root)


def read_cdf(root: etree._Element, context: ReadContext) -> Document:
    context.base = resolve_url(_get_attribute(root, "base"), context.base) or context.base
    items: list[Entry] = []
    for element in root.iter(etree.Element):
        if element is not root and context.names[element.tag] == "item" and len(items) < 5_000:
            items.append(_read_item(element, context))
    children = _index_children(root, context)
    return Document(
        format="cdf",
        link=resolve_url(_get_attribute(root, "href"), context.base),
        updated=parse_date(_get_attribute(root, "lastmod")),
        title=read_title(children["title"], context) if "title" in children else None,
        subtitle=read_html(children["abstract"], context) if "abstract" in children else None,
        icon=resolve_url(_get_attribute(children["logo"], "href"), context.base) if "logo" in children else None,
        items=tuple(items),
    )


def _read_item(element: etree._Element, context: ReadContext) -> Entry:
    children = _index_children(element, context)
    link = resolve_url(_get_attribute(element, "href"), context.base)
    if link is None and "a" in children:
        link = resolve_url(_get_attribute(children["a"], "href"), context.base)
    changed = parse_date(_get_attribute(element, "lastmod"))
    title = read_title(children["title"], context) if "title" in children else None
    if title is None and "a" in children:
        title = read_text(children["a"])
    return Entry(
        link=link,
        title=title,
        summary=read_html(children["abstract"], context) if "abstract" in children else None,
        published=changed,
        updated=changed,
    )


def _index_children(element: etree._Element, context: ReadContext) -> dict[str, etree._Element]:
    children: dict[str, etree._Element] = {}
    for child in element:
        children.setdefault(context.names[child.tag].rpartition(":")[2], child)
    return children


def _get_attribute(element: etree._Element, name: str) -> str | None:
    """Return an attribute whatever its case."""
    found = element.get(name) or element.get(name.upper())
    if found is not None:
        return found
    return next((str(value) for key, value in element.attrib.items() if str(key).lower() == name), None)
