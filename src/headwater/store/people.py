"""What the store says about people: accounts, sessions, tokens, subscriptions, streams and counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from headwater.model import Item

OWNER, READER = "owner", "reader"
ROLES = (OWNER, READER)
READ, WRITE, ADMIN = "read", "write", "admin"
SCOPES = (READ, WRITE, ADMIN)
HIT_ID_OFFSET = 1 << 62  # what is added to the id of a hit to make it one of its own among those of items
TRASHED_FEED, TRASHED_MERGE, TRASHED_QUERY_FEED, TRASHED_USER = "feed", "merged feed", "query feed", "account"
TRASHED_FEED_TOKENS = "tokens of a private feed"
TRASHED_SUBSCRIPTION, TRASHED_API_TOKEN, TRASHED_TAG = "subscription", "token", "tag"
SERVER_KINDS = (
    TRASHED_FEED,
    TRASHED_MERGE,
    TRASHED_QUERY_FEED,
    TRASHED_USER,
    TRASHED_FEED_TOKENS,
)  # what is removed for everybody: any owner takes it back
TRASH_KINDS = (*SERVER_KINDS, TRASHED_SUBSCRIPTION, TRASHED_API_TOKEN, TRASHED_TAG)
QUERY_FEEDS_TAG = "Query feeds"  # where query feeds stand unless somebody puts them elsewhere


@dataclass(frozen=True, slots=True)
class User:
    """An account. The password's hash is not part of it: whoever prints a user prints no secret."""

    id: int
    name: str
    role: str
    created: float
    has_password: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    time_zone: str | None = None  # None: the server's

    @property
    def is_owner(self) -> bool:
        return self.role == OWNER


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody signed in: `kind` is page (a browser's cookie) or client (Google Reader API)."""

    user: User
    kind: str
    label: str
    created: float
    last_seen: float
    expires: float


@dataclass(frozen=True, slots=True)
class ApiToken:
    """A token as it can be listed."""

    id: int
    user_id: int
    label: str
    scopes: tuple[str, ...]
    created: float
    last_used: float | None


class Subscription(msgspec.Struct, frozen=True):
    """A feed (or a query feed: then `query_id` is set and `feed_id` is not) as one person has it.

    `title` is the person's own, else the feed's, else the address. `url` is the address of the feed; query feeds have
    the path under which they are published.
    """

    feed_id: int | None
    query_id: int | None
    title: str
    url: str
    link: str | None
    tags: tuple[str, ...]
    added: float
    read_up_to: int
    own_title: str | None = None


@dataclass(frozen=True, slots=True)
class Stream:
    """What is listed: a feed, a query feed, everything under a tag, or (nothing given) all that a person reads."""

    feed: int | None = None
    query: int | None = None
    tag: str | None = None


class ReaderItem(msgspec.Struct, frozen=True):
    """An item as one person has it. In a query feed `hit_id` is its place there, and `item` what the feed shows."""

    item: Item
    read: bool
    starred: bool
    query_id: int | None = None
    hit_id: int | None = None
    arrived: float = 0.0

    @property
    def id(self) -> int:
        """One number for whatever stands in a stream: the item's, or that of its place in a query feed."""
        return HIT_ID_OFFSET + self.hit_id if self.hit_id is not None else self.item.id or 0


@dataclass(frozen=True, slots=True)
class StreamPage:
    """Some of a stream; `next` is what `before` has to be for the rest, None at the end."""

    items: tuple[ReaderItem, ...] = ()
    next: tuple[float, int] | None = None


@dataclass(frozen=True, slots=True)
class StreamQuery:
    """Which part of a stream. `before` is `Page.next` of the page before.

    `unread` True lists only unread items, False only read ones. `since` and `until` bound the time of arrival
    (since ≤ arrived < until). `by_arrival` orders by arrival instead of publication. `queries` lists, in streams that
    are more than one feed, also what the query feeds show, each as an entry of its own.
    """

    unread: bool | None = None
    starred: bool = False
    since: float | None = None
    until: float | None = None
    before: tuple[float, int] | None = None
    limit: int = 100
    oldest_first: bool = False
    by_arrival: bool = False
    queries: bool = False


class UnreadCount(msgspec.Struct, frozen=True):
    """How many are unread, and when the newest of them arrived."""

    count: int
    newest: float


@dataclass(frozen=True, slots=True)
class UnreadCounts:
    """Unread items by feed, query feed and tag; those without any are left out. `total` counts each item once."""

    feeds: Mapping[int, UnreadCount]
    queries: Mapping[int, UnreadCount]
    tags: Mapping[str, UnreadCount]
    total: int = 0
    starred: int = 0


@dataclass(frozen=True, slots=True)
class Remover:
    """Who removes something, and when. What is removed by somebody is kept for a day, to be taken back."""

    user_id: int | None  # None: the command line
    at: float


@dataclass(frozen=True, slots=True)
class TrashEntry:
    """Something that was removed and can be taken back until `until`, by its number."""

    id: int
    kind: str  # one of KINDS
    label: str
    at: float
    until: float
    user_id: int | None = None


@dataclass(frozen=True, slots=True)
class RestoredObject:
    """What was taken back; `ref` is the id of the feed, or the name of the query feed."""

    kind: str
    label: str
    ref: int | str | None = None


@dataclass(frozen=True, slots=True)
class MarkedRead:
    """What marking many as read did: how many were unread, and the number by which it can be taken back."""

    count: int
    undo: int | None
