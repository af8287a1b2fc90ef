"""Channel Definition Format (Internet Explorer 4, 1997): what is still found of it."""

from __future__ import annotations

from lxml import etree

from headwater.formats.constructs import html_of, text_of, title_of
from headwater.formats.context import Context
from headwater.formats.dates import parse_date
from headwater.formats.links import resolve
from headwater.formats.names import Names
from headwater.model import Document, Entry


def is_cdf(root: etree._Element, names: Names) -> bool:
    """A channel at the root with an HREF, or with items that have one."""
    if root.tag.isupper() or _get(root, "href") or _get(root, "base"):
        return True
    return any(names[child.tag] == "item" and _get(child, "href") for child in root)


def read_cdf(root: etree._Element, context: Context) -> Document:
    context.base = resolve(_get(root, "base"), context.base) or context.base
    items: list[Entry] = []
    for element in root.iter(etree.Element):
        if element is not root and context.names[element.tag] == "item" and len(items) < 5_000:
            items.append(_item(element, context))
    said = _said(root, context)
    return Document(
        format="cdf",
        link=resolve(_get(root, "href"), context.base),
        updated=parse_date(_get(root, "lastmod")),
        title=title_of(said["title"], context) if "title" in said else None,
        subtitle=html_of(said["abstract"], context) if "abstract" in said else None,
        icon=resolve(_get(said["logo"], "href"), context.base) if "logo" in said else None,
        items=tuple(items),
    )


def _item(element: etree._Element, context: Context) -> Entry:
    said = _said(element, context)
    link = resolve(_get(element, "href"), context.base)
    if link is None and "a" in said:
        link = resolve(_get(said["a"], "href"), context.base)
    changed = parse_date(_get(element, "lastmod"))
    title = title_of(said["title"], context) if "title" in said else None
    if title is None and "a" in said:
        title = text_of(said["a"])
    return Entry(
        link=link,
        title=title,
        summary=html_of(said["abstract"], context) if "abstract" in said else None,
        published=changed,
        updated=changed,
    )


def _said(element: etree._Element, context: Context) -> dict[str, etree._Element]:
    said: dict[str, etree._Element] = {}
    for child in element:
        said.setdefault(context.names[child.tag].rpartition(":")[2], child)
    return said


def _get(element: etree._Element, name: str) -> str | None:
    """An attribute in any case of letters."""
    found = element.get(name) or element.get(name.upper())
    if found is not None:
        return found
    return next((str(value) for key, value in element.attrib.items() if str(key).lower() == name), None)
