"""What holds for a whole document while it is read: names, base address, language, cleaning."""

from __future__ import annotations

from dataclasses import dataclass, field

from lxml import etree

from headwater.formats.html import Cleaner
from headwater.formats.languages import language
from headwater.formats.links import absolute
from headwater.formats.names import Names

XML_BASE = "{http://www.w3.org/XML/1998/namespace}base"
XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"


@dataclass(slots=True)
class Context:
    """What can be known beforehand is, because asking an element for an attribute costs more than reading its text:
    `has_base` and `has_lang` say whether any xml:base or xml:lang is in there below the root, `modes` whether text
    constructs may have a `mode` (Atom .3), `rdf` whether elements may have an rdf:about. `summaries`: whether an item
    that has none shall have its content as one.
    """

    names: Names
    cleaner: Cleaner
    base: str | None = None
    has_base: bool = False
    has_lang: bool = False
    atom: bool = False
    modes: bool = False
    rdf: bool = False
    summaries: bool = True
    nested: list[etree._Element] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def base_of(self, element: etree._Element) -> str | None:
        """The base address in force at an element (XML Base §4)."""
        if not self.has_base:
            return self.base
        found = [element.get(XML_BASE), *(above.get(XML_BASE) for above in element.iterancestors())]
        base = self.base
        for further in reversed(found):
            if further is not None:
                base = absolute(base, further)
        return base

    def language_of(self, element: etree._Element) -> str | None:
        """The xml:lang in force at an element; "" where one says that none is (XML 1.0 §2.12)."""
        if not self.has_lang:
            return None
        found = element.get(XML_LANG)
        if found is None:
            for above in element.iterancestors():
                found = above.get(XML_LANG)
                if found is not None:
                    break
        return language(found) or (None if found is None else "")
