"""Reads links to feeds from a web page: `<link rel=alternate>` first, then anchors that look like feeds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from urllib.parse import urldefrag, urljoin, urlsplit

from lxml import etree

from headwater.fetch.http.headers import parse_link_header

COMMON_FEED_PATHS = (
    "/feed",
    "/rss",
    "/feed.xml",
    "/atom.xml",
    "/rss.xml",
    "/index.xml",
    "/feed.json",
    "/feeds/posts/default",
    "/feed/atom",
    "/blog/feed",
    "/blog/index.xml",
    "/index.rdf",
)

_FEED_TYPES = re.compile(
    r"(?i)\s*(?:application/(?:rss|atom|rdf)\+xml|application/feed\+json|(?:text|application)/xml)\b"
)
_JSON = re.compile(r"(?i)\s*application/json\b")
_LOOKS_LIKE_FEED = re.compile(
    r"(?i)(?:^|[/._=-])(?:rss2?|atom|rdf|feeds?|xmlfeed)(?:$|[/._?&=-])|\.(?:rss|atom|rdf|xml)(?:$|\?)|^feed:"
)
_SPACE = re.compile(r"\s+")
_MAX_LINKS, _MAX_ANCHORS = 10, 10  # each link is verified by a request
_MAX_ELEMENTS = 5000
_MAX_BYTES = 1 << 20  # of a page; the links stand in its head


@dataclass(frozen=True, slots=True)
class FeedCandidate:
    """A possible feed. `how` it was found: address, link, anchor, path, rule; `type` is its format or declared type."""

    url: str
    title: str | None = None
    type: str | None = None
    how: str = "link"


@dataclass(frozen=True, slots=True)
class PageLinks:
    """The title of a page, the feeds it declares (links), and the anchors that look like feeds."""

    title: str | None = None
    links: tuple[FeedCandidate, ...] = ()
    anchors: tuple[FeedCandidate, ...] = ()


def read_page_links(body: bytes, url: str, *, charset: str | None = None, header: str | None = None) -> PageLinks:
    """Return a page's links to feeds. `header` is the HTTP Link header. Malformed pages do not raise."""
    declared = list(_read_link_header(header or "", url))
    tree = _parse_html(body[:_MAX_BYTES], charset)
    if tree is None:
        return PageLinks(links=_remove_duplicates(declared, _MAX_LINKS))
    base = url
    anchors: list[FeedCandidate] = []
    title: str | None = None
    for element in islice(tree.iter("base", "link", "a", "title"), _MAX_ELEMENTS):
        if element.tag == "title":
            title = title or _read_text(element)
            continue
        address = _resolve_link(base, element.get("href"))
        if address is None:
            continue
        if element.tag == "base":
            base = address
        elif element.tag == "link" and _is_feed_link(element.get("rel"), element.get("type"), address):
            declared.append(
                FeedCandidate(
                    address, _collapse_spaces(element.get("title")), _collapse_spaces(element.get("type")), "link"
                )
            )
        elif element.tag == "a" and _LOOKS_LIKE_FEED.search(_path_and_query(address)):
            anchors.append(FeedCandidate(address, _read_text(element), None, "anchor"))
    host = urlsplit(url).hostname
    anchors.sort(key=lambda anchor: urlsplit(anchor.url).hostname != host)  # the page's own feeds first
    return PageLinks(title, _remove_duplicates(declared, _MAX_LINKS), _remove_duplicates(anchors, _MAX_ANCHORS))


def _parse_html(body: bytes, charset: str | None) -> etree._Element | None:
    for encoding in dict.fromkeys((charset, None)):
        try:
            parser = etree.HTMLParser(encoding=encoding, no_network=True, huge_tree=False, remove_comments=True)
            return etree.fromstring(body, parser)
        except (LookupError, ValueError, etree.LxmlError):
            continue
    return None


def _is_feed_link(rel: str | None, kind: str | None, address: str) -> bool:
    rels = (rel or "").lower().split()
    if "alternate" not in rels and "feed" not in rels:
        return False
    if _JSON.match(kind or ""):  # WordPress declares its API this way
        return "feed" in address.lower()
    return bool(_FEED_TYPES.match(kind or "")) or (not kind and "feed" in rels)


def _read_link_header(header: str, url: str) -> Iterator[FeedCandidate]:
    for address, parameters in parse_link_header(header, url):
        if _is_feed_link(parameters.get("rel"), parameters.get("type"), address):
            yield FeedCandidate(address, _collapse_spaces(parameters.get("title")), parameters.get("type"), "link")


def _resolve_link(base: str, reference: str | None) -> str | None:
    if not reference:
        return None
    reference = reference.strip()
    if reference[:5].lower() == "feed:":
        reference = strip_feed_scheme(reference)
    try:
        address = urldefrag(urljoin(base, reference)).url
    except ValueError:
        return None
    return address if address.startswith(("http://", "https://")) else None


def strip_feed_scheme(address: str) -> str:
    """Return the address inside feed://host/ or feed:https://host/.

    >>> strip_feed_scheme("feed://example.org/x"), strip_feed_scheme("feed:https://example.org/x")
    ('http://example.org/x', 'https://example.org/x')
    """
    rest = address[5:]
    return f"http:{rest}" if rest.startswith("//") else rest


def _path_and_query(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


def _read_text(element: etree._Element) -> str | None:
    return _collapse_spaces("".join(str(part) for part in islice(element.itertext(), 100)))


def _collapse_spaces(text: str | None) -> str | None:
    return _SPACE.sub(" ", text[:2000]).strip()[:200] or None if text else None


def _remove_duplicates(candidates: list[FeedCandidate], limit: int) -> tuple[FeedCandidate, ...]:
    seen: dict[str, FeedCandidate] = {}
    for candidate in candidates:
        seen.setdefault(candidate.url, candidate)
    return tuple(list(seen.values())[:limit])
