"""OPML lists of feeds: nested folders become tags; what cannot be subscribed to is reported, not dropped silently.

Read as a stream of events rather than a tree, so that ten thousand levels cost no stack.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from xml.parsers import expat

from lxml import etree

from headwater.errors import InputError
from headwater.formats import encoding
from headwater.formats.links import is_web
from headwater.formats.text import from_html
from headwater.formats.xml import prepared, recovered, repaired

# A quotation mark inside an attribute: not after `=`, and not where the next attribute or the end of the tag follows.
_INNER_QUOTE = re.compile(r"""(?<!=)"(?!\s+[\w:.\-]+\s*=\s*["']|\s*[/?]?>)""")
# HTML in a description, never escaped: tags that are none of OPML's.
_INNER_TAG = re.compile(
    r"<(?!/?(?:opml|head|body|outline|title|date|owner|docs|expansion|vertScroll|window)|[!?])[^<>]*>?", re.IGNORECASE
)
_TAGS = 20  # of one feed; deeper folders add none


@dataclass(frozen=True, slots=True)
class Outline:
    """One feed of a list."""

    url: str
    title: str | None = None
    link: str | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """A list of feeds. `refused` are (address, reason) of those that are none we can poll."""

    feeds: tuple[Outline, ...]
    title: str | None = None
    duplicates: tuple[str, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    problems: tuple[str, ...] = ()


def joined(lists: Sequence[Subscriptions]) -> Subscriptions:
    """Several lists as one: a feed that stands in more than one is a duplicate and has the tags of all."""
    if len(lists) == 1:
        return lists[0]
    all = _Collector()
    for one in lists:
        for feed in one.feeds:
            all.add(feed.url, feed.title, feed.link, feed.tags)
        all.duplicates += one.duplicates
        all.refused += one.refused
    return all.result(tuple(problem for one in lists for problem in one.problems))


def read_opml(body: bytes) -> Subscriptions:
    """The feeds of an OPML list, or of plain text with an address on each line; raises InputError when it is none."""
    if not body.strip():
        raise InputError("The OPML file is empty.")
    text, _codec, problem = encoding.decode(body, encoding.declared(body))
    if "<" not in text[:10_000] and (lines := _lines(text)) is not None:
        return lines.result((problem,) if problem else ())
    text = prepared(text)
    problems = [problem] if problem else []
    collector = _parsed(text)
    if collector is None:
        problems.append("the XML is not well formed and was recovered")
        collector = _recovered(repaired(_INNER_QUOTE.sub("&quot;", _INNER_TAG.sub(_escaped, text))))
    if collector is None or not collector.outlines:
        what = "an OPML list without any outline" if collector and collector.opml else "no OPML list"
        raise InputError(f"The file is {what}: an export of subscriptions is needed.")
    if problems and not collector.feeds:
        raise InputError("The OPML file is damaged and no feed could be read from it: export the list again.")
    return collector.result(tuple(problems))


def _escaped(found: re.Match[str]) -> str:
    return escape(found[0])


def _lines(text: str) -> _Collector | None:
    """Addresses one below the other; lines that begin with # are comments. None when no line is an address."""
    collector = _Collector()
    for line in text.split("\n"):
        address = line.strip(" \t\r\ufeff")
        if address and not address.startswith("#"):
            collector.add(_address(address), None, None, ())
    return collector if collector.feeds else None


def _parsed(text: str) -> _Collector | None:
    """What expat sees: unlike libxml2 it has no limit on depth. Document types are gone by now, and bombs with them."""
    collector = _Collector()
    parser = expat.ParserCreate("utf-8")
    parser.StartElementHandler = collector.start
    parser.EndElementHandler = collector.end
    parser.CharacterDataHandler = collector.data
    try:
        parser.Parse(text.encode("utf-8", "replace"), True)
    except expat.ExpatError:
        return None
    return collector


def _recovered(text: str) -> _Collector | None:
    """What libxml2 can save of a damaged list."""
    root = recovered(text)
    if root is None:
        return None
    collector = _Collector()
    for event, element in etree.iterwalk(root, events=("start", "end")):
        if event == "start":
            collector.start(str(element.tag), {str(key): str(value) for key, value in element.attrib.items()})
            collector.data(element.text or "")
        else:
            collector.end(str(element.tag))
    return collector


@dataclass(slots=True)
class _Collector:
    """Parser target: keeps the folders above and the feeds seen."""

    opml: bool = False
    outlines: int = 0
    title: list[str] = field(default_factory=list)
    feeds: dict[str, Outline] = field(default_factory=dict)
    duplicates: list[str] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    _folders: list[str | None] = field(default_factory=list)
    _in_title: bool = False

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        name = tag.rpartition("}")[2].lower()
        if name == "outline":
            self.outlines += 1
            self._outline({key.lower(): value.strip() for key, value in attributes.items()})
        elif name == "opml":
            self.opml = True
        self._in_title = name == "title"

    def end(self, tag: str) -> None:
        self._in_title = False
        if tag.rpartition("}")[2].lower() == "outline" and self._folders:
            self._folders.pop()

    def data(self, text: str) -> None:
        if self._in_title and len(self.title) < 100:
            self.title.append(text)

    def _outline(self, said: dict[str, str]) -> None:
        title = from_html(said.get("title") or said.get("text") or "")
        address = said.get("xmlurl") or (said.get("url") if said.get("type") in ("rss", "atom", "feed") else None)
        if not address:
            self._folders.append(title)
            return
        tags = [folder for folder in self._folders[:_TAGS] if folder]
        tags += [tag.strip("/ ") for tag in said.get("category", "").split(",")]
        self._folders.append(None)
        self.add(
            _address(address), title, said.get("htmlurl"), tuple(dict.fromkeys(tag for tag in tags if tag))[:_TAGS]
        )

    def add(self, address: str, title: str | None, link: str | None, tags: tuple[str, ...]) -> None:
        if not is_web(address):
            self.refused.append((address[:500], "not an http or https address"))
            return
        known = self.feeds.get(address)
        if known is None:
            self.feeds[address] = Outline(address, title, link if is_web(link) else None, tags)
            return
        self.duplicates.append(address)
        merged = tuple(dict.fromkeys((*known.tags, *tags)))[:_TAGS]
        self.feeds[address] = Outline(address, known.title or title, known.link or link, merged)

    def result(self, problems: tuple[str, ...]) -> Subscriptions:
        return Subscriptions(
            feeds=tuple(self.feeds.values()),
            title=from_html("".join(self.title)),
            duplicates=tuple(self.duplicates),
            refused=tuple(self.refused),
            problems=problems,
        )


def _address(text: str) -> str:
    """`feed:` in its two forms is http with another name."""
    lowered = text.lower()
    if lowered.startswith("feed://"):
        return f"http://{text[7:]}"
    return text[5:] if lowered.startswith(("feed:http://", "feed:https://")) else text
