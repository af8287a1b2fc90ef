"""What is published under a path: a tag, a query feed. A channel tells its title, what it shows now, and its past."""

from __future__ import annotations

import hashlib
import secrets
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from headwater.errors import InputError, NotFound
from headwater.model import Item, QueryFeed
from headwater.store.store import Store

SHOWN_ITEMS = 50  # items of a feed that does not say itself how many it keeps


class Channel(ABC):
    """Something published. The past is numbered in the order of arrival, so that its pages stay as they are.

    `since` is when there began to be such a thing: what a document without any item is dated by.
    """

    def __init__(self, store: Store, path: str, title: str, since: float) -> None:
        self._store = store
        self.path = path
        self.title = title
        self.since = since

    @abstractmethod
    async def list_shown(self, now: float) -> Sequence[Item]:
        """What the feed shows now, in its order."""

    @abstractmethod
    async def count_items(self) -> int:
        """How many items there are in all."""

    @abstractmethod
    async def list_past(self, skip: int, limit: int) -> Sequence[Item]:
        """Items in the order of arrival, `skip` of them passed over."""


class TagChannel(Channel):
    """The items of all feeds with a tag, the newest first."""

    def __init__(self, store: Store, tag: str, since: float) -> None:
        super().__init__(store, f"/tags/{tag}", tag, since)
        self._tag = tag

    async def list_shown(self, now: float) -> Sequence[Item]:
        return await self._store.items(tag=self._tag, limit=SHOWN_ITEMS)

    async def count_items(self) -> int:
        return await self._store.count_items(tag=self._tag)

    async def list_past(self, skip: int, limit: int) -> Sequence[Item]:
        return await self._store.items_by_arrival(tag=self._tag, skip=skip, limit=limit)


class QueryChannel(Channel):
    """The items of a query feed: KEEP says which it shows, ORDER BY in which order."""

    def __init__(self, store: Store, query: QueryFeed) -> None:
        super().__init__(store, f"/feeds/{query.name}", query.name, query.created)
        self.query = query

    async def list_shown(self, now: float) -> Sequence[Item]:
        return [hit.item for hit in await self._store.queries.document(self.query, now)]

    async def count_items(self) -> int:
        return await self._store.publishing.count_hits(self.query.id)

    async def list_past(self, skip: int, limit: int) -> Sequence[Item]:
        return [hit.item for hit in await self._store.publishing.past_hits(self.query.id, skip, limit)]


async def find_channel(store: Store, path: str) -> Channel | None:
    """The channel at a path (`/tags/news`, `/feeds/quakes`), None where there is nothing."""
    kind, _, name = path.removeprefix("/").partition("/")
    if kind == "tags" and name and (feeds := await store.feeds(tag=name, limit=1)):
        return TagChannel(store, name, feeds[0].added)
    if kind == "feeds" and name:
        try:
            return QueryChannel(store, await store.queries.find(name))
        except NotFound:
            return None
    return None


@dataclass(frozen=True, slots=True)
class NewFeedToken:
    """A token as it is shown this once; `private` is False where the feed is open to everybody all the same."""

    path: str
    token: str
    url: str
    private: bool


def parse_path(where: str) -> str:
    """The path that somebody means by feeds/NAME or tags/TAG."""
    kind, slash, name = where.strip("/").partition("/")
    if kind not in ("feeds", "tags") or not slash or not name:
        raise InputError(f"“{where}” is nothing that is published: give feeds/NAME or tags/TAG.")
    return f"/{kind}/{name}"


async def find_path(store: Store, where: str) -> str:
    """The path of something that is published; NotFound."""
    path = parse_path(where)
    found = await find_channel(store, path)
    if found is None:
        what = "tag" if path.startswith("/tags/") else "query feed"
        raise NotFound(f"Nothing is published at {path}: there is no such {what}.")
    return found.path


async def create_feed_token(store: Store, where: str, label: str, base: str, now: float) -> NewFeedToken:
    """Make a token for a feed."""
    path = await find_path(store, where)
    made = secrets.token_urlsafe(24)
    await store.publishing.add_token(path, hashlib.sha256(made.encode()).digest(), label, now)
    private = path.casefold() in (await store.publishing.access()).private
    return NewFeedToken(path, made, f"{base.rstrip('/')}{quote(path)}.rss?token={made}", private)
