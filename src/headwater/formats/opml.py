"""Reads lists of feeds: OPML, in which nested folders become tags, and plain text.

OPML is read as a stream of events, not as a tree, so that ten thousand levels need no stack.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from xml.parsers import expat

from lxml import etree

from headwater.errors import InputError
from headwater.formats.parse.xml_parsers import parse_with_recovery
from headwater.formats.parse.xml_tree import repair_xml, strip_prolog
from headwater.formats.values import encodings
from headwater.formats.values.links import has_host, is_web_url
from headwater.formats.values.text import html_to_text

# A quotation mark inside an attribute: not after `=`, and not before another attribute or the end of the tag.
_INNER_QUOTE = re.compile(r"""(?<!=)"(?!\s+[\w:.\-]+\s*=\s*["']|\s*[/?]?>)""")
# Unescaped HTML in a description: tags that are not OPML's.
_INNER_TAG = re.compile(
    r"<(?!/?(?:opml|head|body|outline|title|date|owner|docs|expansion|vertScroll|window)|[!?])[^<>]*>?", re.IGNORECASE
)
_MAX_TAGS = 20  # of one feed; deeper folders are ignored


@dataclass(frozen=True, slots=True)
class Outline:
    """One feed of a list."""

    url: str
    title: str | None = None
    link: str | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FeedList:
    """A list of feeds. `refused` are pairs of address and reason."""

    feeds: tuple[Outline, ...]
    title: str | None = None
    duplicates: tuple[str, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    problems: tuple[str, ...] = ()


Subscriptions = FeedList  # the name before 0.2


def merge_lists(lists: Sequence[FeedList]) -> FeedList:
    """Merge lists. A feed in several of them is a duplicate and gets all its tags."""
    if len(lists) == 1:
        return lists[0]
    all = _OutlineCollector()
    for one in lists:
        for feed in one.feeds:
            all.add_feed(feed.url, feed.title, feed.link, feed.tags)
        all.duplicates += one.duplicates
        all.refused += one.refused
    return all.build_list(tuple(problem for one in lists for problem in one.problems))


joined = merge_lists  # the name before 0.2


def read_opml(body: bytes) -> FeedList:
    """Read an OPML list, or plain text with one address per line. Raises InputError if it is neither."""
    if not body.strip():
        raise InputError("The OPML file is empty.")
    text, _codec, problem = encodings.decode_document(body, encodings.find_declared_encoding(body))
    if "<" not in text[:10_000] and (lines := _read_address_lines(text)) is not None:
        return lines.build_list((problem,) if problem else ())
    text = strip_prolog(text)
    problems = [problem] if problem else []
    collector = _parse_outlines(text)
    if collector is None:
        problems.append("the XML is not well formed and was recovered")
        collector = _recover_outlines(repair_xml(_INNER_QUOTE.sub("&quot;", _INNER_TAG.sub(_escape_match, text))))
    if collector is None or not collector.outlines:
        problem = "is an OPML list without outlines" if collector and collector.opml else "is not an OPML list"
        raise InputError(f"The file {problem}. Export your subscriptions as OPML.")
    if problems and not collector.feeds:
        raise InputError("The OPML file is damaged and contains no readable feed. Export the list again.")
    return collector.build_list(tuple(problems))


def _escape_match(found: re.Match[str]) -> str:
    return escape(found[0])


def _read_address_lines(text: str) -> _OutlineCollector | None:
    """Read one address per line; lines that begin with # are comments. Returns None without any address."""
    collector = _OutlineCollector()
    for line in text.split("\n"):
        address = line.strip(" \t\r\ufeff")
        if address and not address.startswith("#"):
            collector.add_feed(_replace_feed_scheme(address), None, None, ())
    return collector if collector.feeds else None


def _parse_outlines(text: str) -> _OutlineCollector | None:
    """Parse with expat, which has no limit on depth. The document type, and any bomb in it, is removed already."""
    collector = _OutlineCollector()
    parser = expat.ParserCreate("utf-8")
    parser.StartElementHandler = collector.start_element
    parser.EndElementHandler = collector.end_element
    parser.CharacterDataHandler = collector.add_text
    try:
        parser.Parse(text.encode("utf-8", "replace"), True)
    except expat.ExpatError:
        return None
    return collector


def _recover_outlines(text: str) -> _OutlineCollector | None:
    """Recover a damaged list with libxml2."""
    root = parse_with_recovery(text)
    if root is None:
        return None
    collector = _OutlineCollector()
    for event, element in etree.iterwalk(root, events=("start", "end")):
        if event == "start":
            collector.start_element(str(element.tag), {str(key): str(value) for key, value in element.attrib.items()})
            collector.add_text(element.text or "")
        else:
            collector.end_element(str(element.tag))
    return collector


@dataclass(slots=True)
class _OutlineCollector:
    """Collects feeds and the folders around them from the events of a parser."""

    opml: bool = False
    outlines: int = 0
    title: list[str] = field(default_factory=list)
    feeds: dict[str, Outline] = field(default_factory=dict)
    duplicates: list[str] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    _folders: list[str | None] = field(default_factory=list)
    _in_title: bool = False

    def start_element(self, tag: str, attributes: Mapping[str, str]) -> None:
        name = tag.rpartition("}")[2].lower()
        if name == "outline":
            self.outlines += 1
            self._add_outline({key.lower(): value.strip() for key, value in attributes.items()})
        elif name == "opml":
            self.opml = True
        self._in_title = name == "title"

    def end_element(self, tag: str) -> None:
        self._in_title = False
        if tag.rpartition("}")[2].lower() == "outline" and self._folders:
            self._folders.pop()

    def add_text(self, text: str) -> None:
        if self._in_title and len(self.title) < 100:
            self.title.append(text)

    def _add_outline(self, given: dict[str, str]) -> None:
        title = html_to_text(given.get("title") or given.get("text") or "")
        address = given.get("xmlurl") or (given.get("url") if given.get("type") in ("rss", "atom", "feed") else None)
        if not address:
            self._folders.append(title)
            return
        tags = [folder for folder in self._folders[:_MAX_TAGS] if folder]
        tags += [tag.strip("/ ") for tag in given.get("category", "").split(",")]
        self._folders.append(None)
        self.add_feed(
            _replace_feed_scheme(address),
            title,
            given.get("htmlurl"),
            tuple(dict.fromkeys(tag for tag in tags if tag))[:_MAX_TAGS],
        )

    def add_feed(self, address: str, title: str | None, link: str | None, tags: tuple[str, ...]) -> None:
        if not is_web_url(address):
            self.refused.append((address[:500], "not an http or https address"))
            return
        if not has_host(address):
            self.refused.append((address[:500], "the address has no valid host"))
            return
        known = self.feeds.get(address)
        if known is None:
            self.feeds[address] = Outline(address, title, link if is_web_url(link) else None, tags)
            return
        self.duplicates.append(address)
        merged = tuple(dict.fromkeys((*known.tags, *tags)))[:_MAX_TAGS]
        self.feeds[address] = Outline(address, known.title or title, known.link or link, merged)

    def build_list(self, problems: tuple[str, ...]) -> FeedList:
        return FeedList(
            feeds=tuple(self.feeds.values()),
            title=html_to_text("".join(self.title)),
            duplicates=tuple(self.duplicates),
            refused=tuple(self.refused),
            problems=problems,
        )


def _replace_feed_scheme(text: str) -> str:
    """Replace `feed:` and `feed://` by http."""
    lowered = text.lower()
    if lowered.startswith("feed://"):
        return f"http://{text[7:]}"
    return text[5:] if lowered.startswith(("feed:http://", "feed:https://")) else text
