"""What holds for a whole document while it is read: names, base address, language, cleaning."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import msgspec
from lxml import etree

from headwater.formats.parse.element_names import ElementNames
from headwater.formats.values.html import HtmlReader
from headwater.formats.values.languages import normalise_language
from headwater.formats.values.links import join_base

XML_BASE: Final = "{http://www.w3.org/XML/1998/namespace}base"
XML_LANG: Final = "{http://www.w3.org/XML/1998/namespace}lang"


class ReadOptions(msgspec.Struct, frozen=True):
    """What a caller wants of a document: its HTML cleaned or not, and content for the summary that an item lacks."""

    html: HtmlReader
    summaries: bool = True


@dataclass(slots=True)
class ReadContext:
    """What can be known beforehand is, because asking an element for an attribute costs more than reading its text:
    `has_base` and `has_lang` say whether any xml:base or xml:lang is in there below the root, `modes` whether text
    constructs may have a `mode` (Atom .3), `rdf` whether elements may have an rdf:about.
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
        """The base address in force at an element (XML Base §4)."""
        if not self.has_base:
            return self.base
        found: list[str | None] = [element.get(XML_BASE), *(above.get(XML_BASE) for above in element.iterancestors())]
        base = self.base
        for further in reversed(found):
            if further is not None:
                base = join_base(base, further)
        return base

    def find_language(self, element: etree._Element) -> str | None:
        """The xml:lang in force at an element; "" where one says that none is (XML 1.0 §2.12)."""
        if not self.has_lang:
            return None
        found = element.get(XML_LANG)
        if found is None:
            for above in element.iterancestors():
                found = above.get(XML_LANG)
                if found is not None:
                    break
        return normalise_language(found) or (None if found is None else "")
