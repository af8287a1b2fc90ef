"""Checks published documents by the rules of the W3C validator, OPML 2.0 and JSON Feed 1.1.

`problems` lists the errors in words; an empty list means a valid document.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from lxml import etree

ATOM = "{http://www.w3.org/2005/Atom}"
CONTENT = "{http://purl.org/rss/1.0/modules/content/}encoded"
DC = "{http://purl.org/dc/elements/1.1/}"
MEDIA = "{http://search.yahoo.com/mrss/}"
XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_RFC822 = re.compile(
    r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{4} "
    r"\d\d:\d\d:\d\d (GMT|[+-]\d{4})"
)
_MIME = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(\s*;.*)?")
_LANGUAGE = re.compile(r"([A-Za-z]{2,3}|[Xx])(-[A-Za-z0-9]{1,8})*")
_COUNTRIES = ("us", "jp", "cn", "cz", "dk", "ua", "vn", "gb")  # that publishers use as languages
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[A-Za-z0-9;/?:@&=+$.\-_!~*'()%,#]+")  # RFC 3986, without [ and ]
_TAG = re.compile(r"tag:([a-z0-9._-]+@)?[a-z0-9.-]+,\d{4}(-\d\d(-\d\d)?)?:.*")
_URN = re.compile(r"urn:[A-Za-z0-9][A-Za-z0-9-]{1,31}:([A-Za-z0-9()+,.:=@;$_!*'-]|%[0-9A-Fa-f]{2})+")
_UUID = re.compile(r"urn:uuid:[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_TAKEN_FOR_HTML = re.compile(rb"<(title|category|source)\b[^<>]*>[^<]*&(amp|lt);")
_CHANNEL = {"title", "link", "description", "language", "lastBuildDate", "generator", "category", "image", "ttl",
            "skipHours", "skipDays", "item"}  # fmt: skip
_ITEM = {"author", "title", "link", "description", "pubDate", "guid", "category", "source", "enclosure"}
_ENTRY = {"id", "title", "updated", "published", "link", "summary", "content", "author", "category", "source"}
_FEED = {"id", "title", "updated", "subtitle", "link", "icon", "generator", "author", "category", "entry"}


def problems(body: bytes, format: str) -> list[str]:
    if format == "json":
        return list(_json(json.loads(body)))
    root = etree.fromstring(body)  # well-formed, or this raises
    if format == "rss" and (found := _TAKEN_FOR_HTML.search(body)):
        return [f"plain text that looks like HTML: {found[0]!r}", *_rss(root)]
    return list({"atom": _atom, "rss": _rss, "opml": _opml}[format](root))


# RSS 2.0


def _rss(root: Any) -> Iterator[str]:
    if root.tag != "rss" or root.get("version") != "2.0":
        yield "the root is not rss 2.0"
    channel = root.find("channel")
    for name in ("title", "link", "description"):
        yield from _count(channel, name, 1, 1, "channel")
    yield from _unknown(channel, _CHANNEL)
    yield from _address(channel.findtext("link"), "channel link")
    yield from _date822(channel.findtext("lastBuildDate"), "lastBuildDate")
    yield from _language(channel.findtext("language"))
    yield from _selves(channel.findall(f"{ATOM}link"))
    yield from _before(channel, "item")
    for name in ("title", "link"):
        if (image := channel.findtext(f"image/{name}")) is not None and image != channel.findtext(name):
            yield f"the image has another {name} than the channel"
    guids = [guid.text for guid in channel.iterfind("item/guid")]
    if len(guids) != len(set(guids)):
        yield "two items have one guid"
    for item in channel.iterfind("item"):
        yield from _rss_item(item)


def _rss_item(item: Any) -> Iterator[str]:
    for name in ("title", "link", "description", "pubDate", "guid", "source", "enclosure", CONTENT):
        yield from _count(item, name, 0, 1, "item")
    yield from _unknown(item, _ITEM)
    if item.find("title") is None and item.find("description") is None:
        yield "an item has neither title nor description"
    yield from _address(item.findtext("link"), "item link")
    yield from _date822(item.findtext("pubDate"), "pubDate")
    names = [child.tag for child in item]
    if CONTENT in names and "description" not in names[: names.index(CONTENT)]:
        yield "content:encoded without a description before it"
    guid = item.find("guid")
    if guid is not None:
        if not (guid.text or "").strip():
            yield "an empty guid"
        if guid.get("isPermaLink", "true") == "true":
            yield from _web(guid.text, "a guid that is a permalink")
    source = item.find("source")
    if source is not None:
        yield from _address(source.get("url"), "source url", required=True)
    enclosure = item.find("enclosure")
    if enclosure is not None:
        yield from _web(enclosure.get("url"), "enclosure url")
        if not (enclosure.get("length") or "").isdecimal():
            yield f"enclosure length {enclosure.get('length')!r}"
        yield from _mime(enclosure.get("type"), "enclosure", required=True)
    yield from _count(item, "author", 0, 1, "item")
    if "@" not in (item.findtext("author") or "@"):
        yield "an author without a mail address"
    for media in item.iterfind(f"{MEDIA}content"):
        yield from _address(media.get("url"), "media:content url", required=True)
        yield from _mime(media.get("type"), "media:content")
        if not (media.get("fileSize") or "1").isdecimal() or media.get("fileSize") == "0":
            yield f"fileSize {media.get('fileSize')!r}"
    yield from _language(item.findtext(f"{DC}language"))


# Atom 1.0 (RFC 4287)


def _atom(root: Any) -> Iterator[str]:
    if root.tag != f"{ATOM}feed":
        yield "the root is not an Atom feed"
    for name in ("id", "title", "updated"):
        yield from _count(root, ATOM + name, 1, 1, "feed")
    yield from _unknown(root, {ATOM + name for name in _FEED})
    yield from _iri(root.findtext(f"{ATOM}id"), "feed id")
    yield from _date3339(root.findtext(f"{ATOM}updated"), "feed updated", required=True)
    yield from _language(root.get(XML_LANG))
    yield from _selves(root.findall(f"{ATOM}link"))
    yield from _links(root)
    yield from _before(root, f"{ATOM}entry")
    entries = root.findall(f"{ATOM}entry")
    ids = [entry.findtext(f"{ATOM}id") for entry in entries]
    if len(ids) != len(set(ids)):
        yield "two entries have one id"
    if root.find(f"{ATOM}author") is None and any(entry.find(f"{ATOM}author") is None for entry in entries):
        yield "an entry without an author in a feed without one"
    for entry in entries:
        yield from _entry(entry)


def _entry(entry: Any) -> Iterator[str]:
    for name in ("id", "title", "updated"):
        yield from _count(entry, ATOM + name, 1, 1, "entry")
    for name in ("published", "summary", "content", "source"):
        yield from _count(entry, ATOM + name, 0, 1, "entry")
    yield from _unknown(entry, {ATOM + name for name in _ENTRY})
    yield from _iri(entry.findtext(f"{ATOM}id"), "entry id")
    yield from _date3339(entry.findtext(f"{ATOM}updated"), "entry updated", required=True)
    yield from _date3339(entry.findtext(f"{ATOM}published"), "entry published")
    yield from _language(entry.get(XML_LANG))
    yield from _links(entry)
    links = entry.findall(f"{ATOM}link")
    if entry.find(f"{ATOM}content") is None and not any(link.get("rel") == "alternate" for link in links):
        yield "an entry with neither content nor alternate link"
    if len([link for link in links if link.get("rel") == "alternate"]) > 1:
        yield "an entry with two alternate links"
    for person in entry.iterfind(f"{ATOM}author"):
        if not (person.findtext(f"{ATOM}name") or "").strip():
            yield "an author without a name"
    for category in entry.iterfind(f"{ATOM}category"):
        if not category.get("term"):
            yield "a category without a term"
    for text in (entry.find(ATOM + name) for name in ("title", "summary", "content")):
        if text is not None and text.get("type", "text") not in ("text", "html"):
            yield f"a text of type {text.get('type')}"
    source = entry.find(f"{ATOM}source")
    if source is not None:
        for name in ("id", "title", "updated"):
            yield from _count(source, ATOM + name, 1, 1, "source")
        yield from _iri(source.findtext(f"{ATOM}id"), "source id")


def _links(parent: Any) -> Iterator[str]:
    for link in parent.iterfind(f"{ATOM}link"):
        yield from _address(link.get("href"), f"{link.get('rel')} link", required=True)
        yield from _mime(link.get("type"), "link")
        if link.get("length") is not None and not link.get("length").isdecimal():
            yield f"link length {link.get('length')!r}"


# JSON Feed 1.1


def _json(feed: dict[str, Any]) -> Iterator[str]:
    if feed.get("version") != "https://jsonfeed.org/version/1.1":
        yield "the version is not JSON Feed 1.1"
    if not isinstance(feed.get("title"), str) or not isinstance(feed.get("items"), list):
        yield "title and items are required"
    for name in ("home_page_url", "feed_url", "next_url", "icon"):
        yield from _address(feed.get(name), name)
    if feed.get("next_url") is not None and feed["next_url"] == feed.get("feed_url"):
        yield "the next page is this one"
    yield from _extensions(feed)
    for hub in feed.get("hubs", []):
        if set(hub) != {"type", "url"}:
            yield "a hub has type and url"
    yield from _language(feed.get("language"))
    ids = [item.get("id") for item in feed["items"]]
    if len(ids) != len(set(ids)):
        yield "two items have one id"
    for item in feed["items"]:
        yield from _json_item(item)


def _json_item(item: dict[str, Any]) -> Iterator[str]:
    texts = ("id", "url", "title", "content_html", "content_text", "summary", "language")
    if not item.get("id") or not all(isinstance(item.get(name, ""), str) for name in texts):
        yield "an item's id is required and its texts are strings"
    if "content_html" not in item and "content_text" not in item:
        yield "content_html or content_text is required"
    yield from _address(item.get("url"), "item url")
    yield from _date3339(item.get("date_published"), "date_published")
    yield from _date3339(item.get("date_modified"), "date_modified")
    yield from _language(item.get("language"))
    if not all(isinstance(tag, str) and tag for tag in item.get("tags", [])):
        yield "tags are strings"
    for author in item.get("authors", []):
        if not any(author.get(name) for name in ("name", "url", "avatar")):
            yield "an author needs a name, url or avatar"
    for file in item.get("attachments", []):
        yield from _address(file.get("url"), "attachment url", required=True)
        yield from _mime(file.get("mime_type"), "attachment", required=True)
        if not isinstance(file.get("size_in_bytes", 0), int):
            yield "size_in_bytes is a number"


def _extensions(value: Any, inside: bool = False) -> Iterator[str]:
    """Check that names of extensions, and only they, begin with an underscore and a letter, and have no full stop."""
    if isinstance(value, list):
        for one in value:
            yield from _extensions(one, inside)
    elif isinstance(value, dict):
        for name, one in value.items():
            extension = name.startswith("_")
            if "." in name or (extension and (inside or not name[1:2].isalpha() or not isinstance(one, dict))):
                yield f"the extension {name} is no object, or has no name for one"
            yield from _extensions(one, inside or extension)


# OPML 2.0


def _opml(root: Any) -> Iterator[str]:
    if root.tag != "opml" or root.get("version") != "2.0":
        yield "the root is not OPML 2.0"
    yield from _count(root, "head", 1, 1, "opml")
    yield from _count(root, "body", 1, 1, "opml")
    yield from _count(root, "head/title", 1, 1, "head")
    if root.find("body/outline") is None:
        yield "a body without an outline"
    for outline in root.iter("outline"):
        if outline.get("text") is None:
            yield "an outline without a text"
        if outline.get("type") == "rss":
            yield from (f"a feed without {name}" for name in ("title", "xmlUrl") if not outline.get(name))
        elif {"title", "xmlUrl", "htmlUrl", "description", "language"} & set(outline.attrib):
            yield "an outline that is no feed says what only feeds have"
        yield from _address(outline.get("htmlUrl"), "htmlUrl")


# rules of all formats


def _count(parent: Any, name: str, least: int, most: int, where: str) -> Iterator[str]:
    number = len(parent.findall(name))
    if not least <= number <= most:
        yield f"{number} × {name} in {where}"


def _unknown(parent: Any, known: set[str]) -> Iterator[str]:
    """Find unknown elements of the format's own namespace; those of other namespaces are extensions."""
    own = etree.QName(parent).namespace
    for child in parent:
        if isinstance(child.tag, str) and etree.QName(child).namespace == own and child.tag not in known:
            yield f"unknown element {child.tag}"


def _before(parent: Any, name: str) -> Iterator[str]:
    """Check that fields of the feed stand before its items."""
    names = [child.tag for child in parent]
    if name in names and set(names[names.index(name) :]) != {name}:
        yield "something of the feed after its first item"


def _selves(links: list[Any]) -> Iterator[str]:
    selves = [link for link in links if link.get("rel") == "self"]
    if len(selves) != 1:
        yield f"{len(selves)} self links"


def _address(address: str | None, what: str, required: bool = False) -> Iterator[str]:
    if address is None:
        if required:
            yield f"no {what}"
        return
    if not _ADDRESS.fullmatch(address):
        yield f"{what} is no absolute address: {address[:80]!r}"


def _web(address: str | None, what: str) -> Iterator[str]:
    yield from _address(address, what, required=True)
    try:
        parts = urlsplit(address or "")
    except ValueError:
        yield f"{what} cannot be read: {address!r}"
        return
    if parts.scheme.lower() not in ("http", "https") or not parts.netloc:
        yield f"{what} is no web address: {address!r}"


def _iri(identity: str | None, what: str) -> Iterator[str]:
    yield from _address(identity, what, required=True)
    identity = identity or ""
    for scheme, form in (("tag:", _TAG), ("urn:uuid:", _UUID), ("urn:", _URN)):
        if identity.lower().startswith(scheme):
            if not form.fullmatch(identity):
                yield f"{what} is no {scheme} {identity!r}"
            return
    if identity.startswith(("http", "ftp")) and not re.match(r"\w+://[^/]", identity):
        yield f"{what} has no host: {identity!r}"


def _mime(kind: str | None, what: str, required: bool = False) -> Iterator[str]:
    if kind is None:
        if required:
            yield f"{what} without a type"
    elif not _MIME.fullmatch(kind):
        yield f"{what} of the type {kind!r}"


def _language(name: str | None) -> Iterator[str]:
    if name is not None and (not _LANGUAGE.fullmatch(name) or name[:2].lower() in _COUNTRIES):
        yield f"language {name!r}"


def _date822(date: str | None, what: str) -> Iterator[str]:
    if date is None:
        return
    if not _RFC822.fullmatch(date):
        yield f"{what} is no RFC 822 date: {date!r}"
        return
    day = parsedate_to_datetime(date)
    if day.strftime("%a") != date[:3]:
        yield f"{what} has the wrong weekday: {date!r}"


def _date3339(date: str | None, what: str, required: bool = False) -> Iterator[str]:
    if date is None:
        if required:
            yield f"no {what}"
        return
    if not _RFC3339.fullmatch(date):
        yield f"{what} is no RFC 3339 date: {date!r}"
