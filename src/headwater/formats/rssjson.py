"""RSS in JSON, `{"rss": {"channel": {"item": […]}}}` → the elements it stands for, which the reader of RSS then reads.

A value is an element's text; an object its attributes, with the text under `#value`; a list the element several times.
"""

from __future__ import annotations

from typing import Any

from lxml import etree

from headwater.formats.names import NAMESPACES
from headwater.formats.text import replace_forbidden

_MAX_REPEATS = 5_000  # of one name in one element: more items are not read anyway
_MAX_DEPTH = 20
_NAMESPACE_OF_PREFIX = {prefix: space for space, prefix in NAMESPACES.items() if prefix}


def is_rss_in_json(value: Any) -> bool:
    """Whether a JSON document is RSS in JSON."""
    rss = value.get("rss") if isinstance(value, dict) else None
    return isinstance(rss, dict) and isinstance(rss.get("channel"), dict)


def build_rss_elements(value: dict[str, Any]) -> etree._Element:
    """The `rss` element of such a document."""
    root = etree.Element("rss", version=str(value["rss"].get("version", ""))[:8])
    _fill_element(etree.SubElement(root, "channel"), value["rss"]["channel"], 0)
    return root


def _fill_element(element: etree._Element, given: dict[str, Any], depth: int) -> None:
    """`depth` is 0 for the channel, 1 for what is in it; what an object below an item holds are attributes."""
    for name, value in given.items():
        for one in (value if isinstance(value, list) else [value])[:_MAX_REPEATS]:
            if name == "#value":
                element.text = _to_text(one)
            elif depth < 2 or isinstance(one, dict):
                _add_child(element, name, one, depth)
            elif (text := _to_text(one)) is not None and name.isidentifier():
                element.set(name, text)


def _add_child(element: etree._Element, name: str, value: Any, depth: int) -> None:
    prefix, colon, local = name.rpartition(":")
    if not local.isidentifier() or (colon and prefix.lower() not in _NAMESPACE_OF_PREFIX):
        return
    child = etree.SubElement(element, f"{{{_NAMESPACE_OF_PREFIX[prefix.lower()]}}}{local}" if colon else local)
    if not isinstance(value, dict):
        child.text = _to_text(value)
    elif depth < _MAX_DEPTH:
        _fill_element(child, value, depth + 1)


def _to_text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return replace_forbidden(str(value)) if isinstance(value, str | int | float) else None
