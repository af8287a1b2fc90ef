"""Holds the names, base address, language and options that the elements of one document share."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
from lxml import etree

from headwater.formats.parse.element_names import ElementNames
from headwater.formats.values.html import HtmlReader
from headwater.formats.values.languages import normalise_language
from headwater.formats.values.links import join_base

XML_BASE = "{http://www.w3.org/XML/1998/namespace}base"
XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"


class ReadOptions(msgspec.Struct, frozen=True):
    """The wishes of a caller: HTML cleaned or not, and the content taken as the summary of an item without one."""

    html: HtmlReader
    summaries: bool = True


@dataclass(slots=True)
class ReadContext:
    """The document being read.

    Looking up an attribute costs more than reading an element's text, so some facts are found once: `has_base` and
    `has_lang` (an element below the root has xml:base or xml:lang), `modes` (text constructs may have a `mode`, as in
    Atom .3) and `rdf` (elements may have rdf:about). `nested` collects items inside items.
    """

    names: ElementNames
    options: ReadOptions
    base: str | None = None
    has_base: bool = False
    has_lang: bool = False
    atom: bool = False
    modes: bool = False
    rdf: bool = False
    nested: list[etree._Element] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def find_base(self, element: etree._Element) -> str | None:
        """Return the base address of an element (XML Base §4)."""
        if not self.has_base:
            return self.base
        found: list[str | None] = [element.get(XML_BASE), *(above.get(XML_BASE) for above in element.iterancestors())]
        base = self.base
        for further in reversed(found):
            if further is not None:
                base = join_base(base, further)
        return base

    def find_language(self, element: etree._Element) -> str | None:
        """Return the language of an element, "" if an empty xml:lang unsets it (XML 1.0 §2.12)."""
        if not self.has_lang:
            return None
        found = element.get(XML_LANG)
        if found is None:
            for above in element.iterancestors():
                found = above.get(XML_LANG)
                if found is not None:
                    break
        return normalise_language(found) or (None if found is None else "")
