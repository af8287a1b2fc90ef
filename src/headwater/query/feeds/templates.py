"""SET: fields of an item written anew from templates. The item keeps its identity."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from headwater.language.ast import Assignment, Field
from headwater.query.items.analysed_item import AnalysedItem
from headwater.query.items.tokens import strip_markup
from headwater.times import format_instant

_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([a-z]+)\}")
_MARKUP_PLACEHOLDERS = frozenset({"content", "description"})
_ITEM_ATTRIBUTES = {
    Field.TITLE: "title",
    Field.CONTENT: "content",
    Field.DESCRIPTION: "summary",
    Field.AUTHOR: "authors",
    Field.CATEGORY: "categories",
    Field.LINK: "link",
    Field.LANGUAGE: "language",
}
_LIST_FIELDS = frozenset({Field.AUTHOR, Field.CATEGORY})


def rewrite_item(seen: AnalysedItem, settings: Iterable[Assignment]) -> AnalysedItem:
    """The item after SET. Every template sees the item as it was before, so the order of the settings is no matter."""
    settings = tuple(settings)
    if not settings:
        return seen
    values = _template_values(seen)
    changes: dict[str, Any] = {}
    for setting in settings:
        name = _ITEM_ATTRIBUTES[setting.field]
        text = fill_template(setting.template, values, markup=setting.field in (Field.CONTENT, Field.DESCRIPTION))
        old = changes.get(name, getattr(seen.item, name))
        if setting.field in _LIST_FIELDS:
            kept = old if setting.append else ()
            changes[name] = kept if text in kept or not text else (*kept, text)
        else:
            changes[name] = ((old or "") + text if setting.append else text) or None
    return seen.with_item(replace(seen.item, **changes))


def _template_values(seen: AnalysedItem) -> dict[str, str]:
    item = seen.item
    return {
        "title": item.title or "",
        "content": item.content or item.summary or "",
        "description": item.summary or item.content or "",
        "author": ", ".join(item.authors),
        "category": ", ".join(item.categories),
        "link": item.link or "",
        "language": ", ".join(seen.field_texts(Field.LANGUAGE)),
        "source": seen.origin.label,
        "published": format_instant(item.published),
        "updated": format_instant(seen.field_date(Field.UPDATED)),
    }


def fill_template(template: str, values: dict[str, str], markup: bool = False) -> str:
    """The template with its places filled. Plain text goes into markup escaped, markup into plain text stripped.

    >>> fill_template("[{source}] {title} {{}}", {"source": "blog", "title": "a < b"})
    '[blog] a < b {}'
    >>> fill_template("<b>{title}</b>", {"title": "a < b"}, markup=True)
    '<b>a &lt; b</b>'
    """

    def place(found: re.Match[str]) -> str:
        name = found[1]
        if name is None:
            return found[0][0]
        value = values.get(name, "")
        if name in _MARKUP_PLACEHOLDERS:
            return value if markup else " ".join(strip_markup(value).split())
        return html.escape(value, quote=True) if markup else value

    return _PLACEHOLDER.sub(place, template)
