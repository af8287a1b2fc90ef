"""Composes items into RSS, Atom, JSON Feed, HTML and OPML documents.

A published item keeps its identity; one that is not globally unique is made unique. A reader who gets the item in two
ways, from this feed and from its source or another server, can therefore recognise it.

In a reader's list of subscriptions the address of a private query feed contains a token. It is the same in every list
until it is revoked: it is derived from a secret of the server and the time at which it was made, so only its hash is
stored.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import struct
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import msgspec
from sqlalchemy import Connection, select

from headwater import __version__
from headwater.formats.opml import Outline
from headwater.formats.values.languages import to_valid_tag
from headwater.formats.values.links import is_web_url
from headwater.formats.write import CONTENT_TYPES, write_atom, write_json, write_opml, write_rss
from headwater.formats.write.addresses import build_published_identity, may_hold_secret, public_address, to_uri
from headwater.formats.write.hidden_addresses import hide_fetch_address
from headwater.formats.write.markup import escape_text, format_rfc3339, write_element
from headwater.model import Document, Entry, Feed, Item, QueryFeed, Source
from headwater.store import saved_state
from headwater.store.publishing.private_feeds import add_feed_token
from headwater.store.queries.query_access import PUBLIC, owns_query
from headwater.store.queries.query_feeds import find_query_feeds
from headwater.store.readers.accounts import User
from headwater.store.readers.subscriptions import Subscription, list_subscriptions
from headwater.store.schema.publication_tables import feed_token
from headwater.store.store import Store

_PAGE_HEAD = (
    '<!doctype html>\n<html lang="{language}">\n<head>\n<meta charset="utf-8">\n'
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    '<link rel="icon" type="image/svg+xml" href="/static/mark.svg">\n'
    '<link rel="stylesheet" href="/static/site.css">'
)
_ALTERNATES = (("rss", "RSS", "rss+xml"), ("atom", "Atom", "atom+xml"), ("json", "JSON Feed", "feed+json"))


def write_page(document: Document) -> bytes:
    """Write an HTML page with titles, times and texts. Texts are sanitised already; the rest is escaped here."""
    here, _, query = (document.current or document.self or "").partition("?")
    here = here.removesuffix(".html")
    parameters = f"?{query}" if query else ""
    title = document.title or "Untitled"
    lines = [_PAGE_HEAD.format(language=escape_text(document.language or "en")), write_element("title", title)]
    for suffix, name, kind in _ALTERNATES:
        address = escape_text(f"{here}.{suffix}{parameters}")
        lines.append(f'<link rel="alternate" type="application/{kind}" title="{name}" href="{address}">')
    lines += ['</head>\n<body>\n<main class="items">', write_element("h1", title), "<p>"]
    lines += [write_element("a", name, href=f"{here}.{suffix}{parameters}") for suffix, name, _ in _ALTERNATES]
    lines += ["</p>", *(line for entry in document.items for line in _write_article(entry))]
    if not document.items:
        lines.append("<p>Nothing has been published here yet.</p>")
    page_links = (("next", "Older", document.next), ("prev", "Newer", document.previous))
    lines += [write_element("a", word, rel=relation, href=address) for relation, word, address in page_links if address]
    return "\n".join([*lines, "</main>\n</body>\n</html>\n"]).encode()


def _write_article(entry: Entry) -> list[str]:
    name = entry.title or entry.link or "Untitled"
    link = entry.link if entry.link is not None and is_web_url(entry.link) else None
    heading = write_element("a", name, href=link, rel="noopener noreferrer") if link else escape_text(name)
    when = format_rfc3339(entry.published)
    lines = ["<article>", f"<h2>{heading}</h2>", '<p class="small">']
    lines += [f'<time datetime="{when}">{when.replace("T", " ").removesuffix("Z")[:16]} UTC</time>'] if when else []
    lines += [escape_text(", ".join(entry.authors))] if entry.authors else []
    lines += [f"· {escape_text(entry.source.title or entry.source.url)}"] if entry.source else []
    return [*lines, "</p>", f"<div>{entry.content or entry.summary or ''}</div>", "</article>"]


PAGE_ITEMS = 100  # items per archive page
MEDIA_TYPES = CONTENT_TYPES | {"html": "text/html; charset=utf-8"}
_WRITERS = {"rss": write_rss, "atom": write_atom, "json": write_json, "html": write_page}
FORMATS = ("rss", "atom", "json", "html", "opml")


class PageAddress(NamedTuple):
    """Names an archive page: by its number (`page`; 1 is the oldest), or by the position of its last item (`upto`)."""

    by: Literal["page", "upto"]
    value: int


@dataclass(frozen=True, slots=True)
class DocumentPlace:
    """The address of a document: the server's `base`, the channel's `path`, and an archive `page` or None.

    `token` opens a private feed; links within the feed then contain it.
    """

    base: str
    path: str
    format: str
    page: PageAddress | None = None
    token: str | None = None

    @property
    def url(self) -> str:
        return self.page_place(self.page)

    def page_place(self, page: PageAddress | None) -> str:
        query = ({} if page is None else {page.by: page.value}) | ({} if self.token is None else {"token": self.token})
        parameters = urlencode(query)
        return f"{self.base}{quote(self.path)}.{self.format}{'?' if parameters else ''}{parameters}"


DocumentKey = tuple[str, str, PageAddress | None, str | None]  # path, format, page, token


def parse_document_path(path: str, query: str) -> DocumentKey | str | None:
    """Return the requested document, an error sentence, or None if the path is not a published document.

    >>> parse_document_path("/feeds/quakes.atom", "page=2")
    ('/feeds/quakes', 'atom', PageAddress(by='page', value=2), None)
    >>> parse_document_path("/health", "")
    """
    name, dot, format = path.rpartition(".")
    if not dot or format not in FORMATS or (name != "/feeds" and not name.startswith(("/feeds/", "/tags/"))):
        return None
    if not query:
        return name, format, None, None
    given = dict(parse_qsl(query))
    by: Literal["page", "upto"] = "upto" if "upto" in given else "page"
    page, token = given.get(by), given.get("token")
    if page is None:
        return name, format, None, token
    if not (page.isascii() and page.isdecimal() and len(page) < 19 and format != "opml"):
        return f"There is no page “{page[:40]}”. Pages are numbered from 1, the oldest."
    return name, format, PageAddress(by, int(page)), token


def parse_topic(url: str, base: str) -> DocumentKey | None:
    """Return the document at one of our addresses, or None. Archive pages are not topics."""
    if not url.startswith(f"{base}/"):
        return None
    parts = urlsplit(url[len(base) :])
    key = parse_document_path(unquote(parts.path), parts.query)
    return key if isinstance(key, tuple) and key[2] is None else None


def to_entry(item: Item, feed: Feed | None) -> Entry:
    """Convert an item to a published entry that names its source feed by an address that others may know."""
    item = item if feed is None else hide_fetch_address(item, feed.url, feed.link)
    named = item.source if item.source is not None and item.source.url else None
    source = named or (None if feed is None else Source(public_address(feed.url, feed.link), feed.title))
    return Entry(
        id=entry_id(item, feed),
        link=None if item.link is None else to_uri(item.link),
        title=item.title,
        published=item.published,
        updated=item.updated,
        authors=item.authors,
        summary=item.summary,
        content=item.content,
        categories=item.categories,
        enclosures=tuple(msgspec.structs.replace(one, url=to_uri(one.url)) for one in item.enclosures),
        language=to_valid_tag(item.language),
        source=None if source is None else msgspec.structs.replace(source, url=to_uri(source.url)),
        image=to_uri(item.image) if item.image in [one.url for one in item.enclosures] else item.image,
        people=tuple(
            one if one.url is None else msgspec.structs.replace(one, url=to_uri(one.url)) for one in item.people
        ),
        episode=item.episode,
    )


def entry_id(item: Item, feed: Feed | None) -> str:
    """Return the identity of the published item, the same on every server."""
    return build_published_identity(item.identity, feed.url if feed else str(item.feed_id))


def to_entries(items: Iterable[Item], feeds: Mapping[int, Feed]) -> tuple[Entry, ...]:
    """Convert items to entries; of several items with one identity, keep the first."""
    found: dict[str, Entry] = {}
    for item in items:
        entry = to_entry(item, feeds.get(item.feed_id))
        found.setdefault(entry.id or "", entry)
    return tuple(found.values())


def last_change(items: Iterable[Item], now: float) -> float:
    """Return the time of the last change of the items, ignoring dates in the future."""
    times = (when for item in items for when in (item.first_seen, item.updated) if when is not None and when <= now)
    return max(times, default=0.0)


def compose_document(
    place: DocumentPlace,
    title: str,
    shown: Sequence[Entry],
    updated: float,
    *,
    older: PageAddress | None = None,
    newer: PageAddress | None = None,
    hub: tuple[str, ...] = (),
) -> Document:
    """Compose the document at a place, with links to the archive pages beside it."""
    current = place.page is None
    return Document(
        place.format,
        title=title,
        link=replace(place, format="html", page=None).url,
        id=f"{place.base}{quote(place.path)}",  # the same for all formats and pages, which are one feed (RFC 5005 §2)
        self=place.url,
        hub=hub,
        updated=updated,
        generator=f"Headwater {__version__}",
        next=None if older is None else place.page_place(older),
        previous=None if newer is None else place.page_place(newer),
        current=None if current else place.page_place(None),
        archived=True,
        items=tuple(shown),
    )


def render_document(document: Document) -> bytes:
    """Return the bytes of a document."""
    return _WRITERS[document.format](document)


def render_opml(feeds: Iterable[Feed], title: str) -> bytes:
    """Return a subscription list as OPML. Feeds whose addresses may hold a secret are named by their site."""
    return write_opml([_list_feed(feed) for feed in feeds], title)


def _list_feed(feed: Feed) -> Outline:
    if may_hold_secret(feed.url):
        return Outline("", feed.title, public_address(feed.url, feed.link), feed.tags)
    return Outline(feed.url, feed.title, feed.link, feed.tags)


SECRET_STATE = "subscription list secret"


async def list_outlines(store: Store, user: User, base: str, now: float) -> list[Outline]:
    """Return the outlines of a reader's subscriptions; `base` is the address of the server.

    A query feed that somebody else shares has no token in its address: it opens for the reader's account.
    """
    mine = await store.read(list_subscriptions, user.id)
    ids = [one.query_id for one in mine if one.query_id is not None]
    queries = await store.read(find_query_feeds, ids) if ids else []
    private = [one for one in queries if one.visibility != PUBLIC and owns_query(user, one)]
    tokens = await store.write(_ensure_tokens, user, private, secrets.token_bytes(32), now) if private else {}
    return [Outline(_build_address(one, base, tokens), one.title, one.link, one.tags) for one in mine]


def _build_address(one: Subscription, base: str, tokens: dict[int, str]) -> str:
    if one.query_id is None:
        return one.url
    address = f"{base}{quote(one.url)}.atom"
    return f"{address}?token={tokens[one.query_id]}" if one.query_id in tokens else address


def _ensure_tokens(
    connection: Connection, user: User, queries: list[QueryFeed], new_secret: bytes, now: float
) -> dict[int, str]:
    """Return the token of each query feed for a reader's list, and store the hashes of new ones."""
    saved_state.save_state_once(connection, SECRET_STATE, 1, new_secret, now)
    kept = saved_state.load_state(connection, SECRET_STATE)
    assert kept is not None
    label, found = f"OPML of {user.name}", {}
    for query in queries:
        path = f"/feeds/{query.name}"
        same = (feed_token.c.path == path.casefold(), feed_token.c.label == label)
        rows = connection.execute(select(feed_token.c.hash, feed_token.c.created).where(*same)).all()
        stored = {bytes(row.hash): _derive_token(kept[1], user.id, query.id, row.created) for row in rows}
        token = next((token for hash, token in stored.items() if _hash(token) == hash), None)
        if token is None:
            token = _derive_token(kept[1], user.id, query.id, now)
            add_feed_token(connection, path, _hash(token), label, now)
        found[query.id] = token
    return found


def _derive_token(secret: bytes, user_id: int, query_id: int, created: float) -> str:
    digest = hmac.digest(secret, struct.pack(">qqd", user_id, query_id, created), "sha256")
    return urlsafe_b64encode(digest[:24]).decode()


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
