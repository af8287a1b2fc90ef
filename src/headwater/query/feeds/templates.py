"""Rewrites fields of an item by the templates of SET. The item keeps its identity."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from headwater.formats.values.links import resolve_url
from headwater.formats.write.addresses import public_address
from headwater.language.ast import Assignment, Field
from headwater.query.items.analysed_item import AnalysedItem
from headwater.query.items.tokens import strip_markup
from headwater.times import format_instant

_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([a-z]+(?:\.[a-z]+)?)\}")
_TAG_START = re.compile(r"<(?=[a-zA-Z/!?{])")  # of a tag that a template leaves open, or that a value would name
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
NO_VALUES: Mapping[str, str] = {}


def rewrite_item(
    analysed: AnalysedItem, settings: Iterable[Assignment], more: Mapping[str, str] = NO_VALUES
) -> AnalysedItem:
    """Return the item after SET. All templates see the original item, so the order of assignments does not matter.

    `more` are values of placeholders that the item does not have itself.
    """
    settings = tuple(settings)
    if not settings:
        return analysed
    values = {**_template_values(analysed), **more}
    changes: dict[str, Any] = {}
    for assignment in settings:
        name = _ITEM_ATTRIBUTES[assignment.field]
        markup = assignment.field in (Field.CONTENT, Field.DESCRIPTION)
        template = assignment.template
        if not markup and "<" in template:  # plain text, but some readers take tags in a title for markup
            template = _TAG_START.sub("< ", strip_markup(template))
        text = fill_template(template, values, markup=markup)
        old = changes.get(name, getattr(analysed.told, name))
        if assignment.field in _LIST_FIELDS:
            kept, text = old if assignment.append else (), text.strip()
            changes[name] = kept if text in kept or not text else (*kept, text)
        else:
            if assignment.append:
                text = (old or "" if markup else _end_plain_text(old or "")) + text
            changes[name] = _make_safe(assignment.field, text, analysed)
    return analysed.with_item(replace(analysed.item, **changes))


def _make_safe(field: Field, text: str, analysed: AnalysedItem) -> str | None:
    """Return the new value as it may be published: no script in markup, no javascript: address; None if nothing is
    left."""
    if field in (Field.CONTENT, Field.DESCRIPTION):
        from headwater.formats.values.html import clean_html  # loads nh3, which few queries need

        return clean_html(text, analysed.told.link or public_address(analysed.origin.url, analysed.origin.link))
    if field is Field.LINK:
        return resolve_url(text, analysed.told.link or public_address(analysed.origin.url, analysed.origin.link))
    return text.strip() or None


def _end_plain_text(value: str) -> str:
    """Return a value that makes no tag of the text behind it."""
    return f"{value} " if value.endswith("<") else value


def _template_values(analysed: AnalysedItem) -> dict[str, str]:
    item = analysed.told
    return {
        "title": item.title or "",
        "content": item.content or item.summary or "",
        "description": item.summary or item.content or "",
        "author": ", ".join(item.authors),
        "category": ", ".join(item.categories),
        "link": item.link or "",
        "language": ", ".join(analysed.field_texts(Field.LANGUAGE)),
        "source": analysed.origin.label,
        "published": format_instant(item.published),
        "updated": format_instant(analysed.field_date(Field.UPDATED)),
    }


def fill_template(template: str, values: dict[str, str], markup: bool = False) -> str:
    """Replace the placeholders of a template. Escape plain text in markup, and strip markup in plain text.

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
        if markup:
            return value if name in _MARKUP_PLACEHOLDERS else html.escape(value, quote=True)
        if name in _MARKUP_PLACEHOLDERS:  # a tag that is shown as text there must not become one here
            value = _TAG_START.sub("< ", " ".join(strip_markup(value).split()))
        return _end_plain_text(value)

    return _PLACEHOLDER.sub(place, template)
