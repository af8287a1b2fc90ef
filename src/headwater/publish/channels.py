"""Finds the feed that is published under a path, a tag or a query feed, and creates tokens for private feeds."""

from __future__ import annotations

import hashlib
import secrets
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from headwater.errors import InputError, NotFound
from headwater.model import Item, QueryFeed
from headwater.publish.published_documents import PageAddress
from headwater.store.content.feeds import list_feeds
from headwater.store.content.items import list_items
from headwater.store.publishing.archive_pages import (
    ArchivePage,
    PastItems,
    find_newest_page,
    find_numbered_page,
    find_page_upto,
    past_of_query,
    past_of_tag,
)
from headwater.store.publishing.private_feeds import LIST_PATH, add_feed_token, load_public_access
from headwater.store.queries.document_hits import list_document_hits
from headwater.store.queries.query_feeds import find_query_feed
from headwater.store.store import Store

SHOWN_ITEMS = 50  # items of a channel without KEEP


class Channel(ABC):
    """A published feed. Its `past` is in the order of arrival, so that archive pages are stable.

    `since` is its creation time, used as the date of an empty document.
    """

    def __init__(self, store: Store, path: str, title: str, since: float, past: PastItems) -> None:
        self._store = store
        self._past = past
        self.path = path
        self.title = title
        self.since = since

    @abstractmethod
    async def list_shown(self, now: float) -> Sequence[Item]:
        """Return the items of the current document, in order."""

    async def find_newest_page(self, shown: Sequence[Item], size: int) -> PageAddress | None:
        """Return the archive page that a document with these items links to; None if it shows everything."""
        upto = await self._store.read(find_newest_page, self._past, {item.id for item in shown if item.id}, size)
        return None if upto is None else PageAddress("upto", upto)

    async def find_page(self, page: PageAddress, size: int) -> ArchivePage | None:
        """Return an archive page, or None if it does not exist."""
        find = find_numbered_page if page.by == "page" else find_page_upto
        return await self._store.read(find, self._past, page.value, size)


class TagChannel(Channel):
    """The items of all feeds with a tag, newest first."""

    def __init__(self, store: Store, tag: str, since: float) -> None:
        super().__init__(store, f"/tags/{tag}", tag, since, past_of_tag(tag))
        self._tag = tag

    async def list_shown(self, now: float) -> Sequence[Item]:
        return await self._store.read(list_items, tag=self._tag, limit=SHOWN_ITEMS)


class QueryChannel(Channel):
    """The items of a query feed, selected by KEEP and ordered by ORDER BY."""

    def __init__(self, store: Store, query: QueryFeed) -> None:
        super().__init__(store, f"/feeds/{query.name}", query.name, query.created, past_of_query(query.id))
        self.query = query

    async def list_shown(self, now: float) -> Sequence[Item]:
        return [hit.item for hit in await self._store.read(list_document_hits, self.query, now)]


async def find_channel(store: Store, path: str) -> Channel | None:
    """Return the channel at a path (`/tags/news`, `/feeds/quakes`), or None."""
    kind, _, name = path.removeprefix("/").partition("/")
    if kind == "tags" and name and (feeds := await store.read(list_feeds, tag=name, limit=1)):
        return TagChannel(store, name, feeds[0].added)
    if kind == "feeds" and name:
        try:
            return QueryChannel(store, await store.read(find_query_feed, name))
        except NotFound:
            return None
    return None


@dataclass(frozen=True, slots=True)
class NewFeedToken:
    """A new token, which is shown only once. `private` is False if the feed is public, so no token is needed."""

    path: str
    token: str
    url: str
    private: bool


def parse_path(where: str) -> str:
    """Return the path for feeds/NAME, tags/TAG or feeds.opml. Raises InputError for anything else."""
    if where.strip("/") == "feeds.opml":
        return LIST_PATH
    kind, slash, name = where.strip("/").partition("/")
    if kind not in ("feeds", "tags") or not slash or not name:
        raise InputError(f"“{where}” is not a published path. Use feeds/NAME, tags/TAG or feeds.opml.")
    return f"/{kind}/{name}"


async def find_path(store: Store, where: str) -> str:
    """Return the path of an existing channel. Raises NotFound."""
    path = parse_path(where)
    if path == LIST_PATH:
        return path
    found = await find_channel(store, path)
    if found is None:
        what = "tag" if path.startswith("/tags/") else "query feed"
        raise NotFound(f"Nothing is published at {path}: the {what} does not exist.")
    return found.path


async def create_feed_token(store: Store, where: str, label: str, base: str, now: float) -> NewFeedToken:
    """Create a token for a feed and store its hash."""
    path = await find_path(store, where)
    token = secrets.token_urlsafe(24)
    await store.write(add_feed_token, path, hashlib.sha256(token.encode()).digest(), label, now)
    private = path.casefold() not in (await store.read(load_public_access)).public
    format = "opml" if path == LIST_PATH else "rss"
    return NewFeedToken(path, token, f"{base.rstrip('/')}{quote(path)}.{format}?token={token}", private)
