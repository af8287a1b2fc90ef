"""The values that flow: what a document says, what a fetch brought, what a refresh meant.

All frozen and slotted. Times are UTC epoch seconds as floats, or None where unknown;
durations are seconds. Values at different stages have different types: a `Document` holds
`Entry`s as a publisher wrote them, novelty turns those that matter into `Item`s of a feed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import msgspec


class Enclosure(msgspec.Struct, frozen=True):
    """A file attached to an item: a podcast episode, a picture."""

    url: str
    type: str | None = None
    length: int | None = None


class Source(msgspec.Struct, frozen=True):
    """The feed that a republished item was taken from: its address and title (atom:source, RSS source)."""

    url: str
    title: str | None = None


class Hints(msgspec.Struct, frozen=True):
    """What a document asks of its pollers: `ttl` in seconds, RSS skip hours (0–23) and days, sy:*."""

    ttl: float | None = None
    skip_hours: tuple[int, ...] = ()
    skip_days: tuple[str, ...] = ()
    update_period: str | None = None
    update_frequency: int | None = None
    update_base: float | None = None


class Entry(msgspec.Struct, frozen=True):
    """One item as its document shows it. `content` and `summary` are safe HTML, `title` is plain text."""

    id: str | None = None
    link: str | None = None
    title: str | None = None
    published: float | None = None
    updated: float | None = None
    authors: tuple[str, ...] = ()
    summary: str | None = None
    content: str | None = None
    categories: tuple[str, ...] = ()
    enclosures: tuple[Enclosure, ...] = ()
    language: str | None = None
    source: Source | None = None


class Document(msgspec.Struct, frozen=True):
    """A feed document, read. `format` is rss, atom, rdf, json or cdf with its version ("rss 2.0").

    `hub` holds every WebSub hub offered; `next` and `previous` are RFC 5005 (or JSON Feed) pages; `archived` says
    that they are archive pages (RFC 5005 §4), and `current`, in an archive page, where the feed itself is.
    `problems` says in words what had to be recovered; an empty tuple is a clean document.
    """

    format: str
    title: str | None = None
    subtitle: str | None = None
    link: str | None = None
    language: str | None = None
    id: str | None = None
    updated: float | None = None
    authors: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    hub: tuple[str, ...] = ()
    self: str | None = None
    icon: str | None = None
    generator: str | None = None
    next: str | None = None
    previous: str | None = None
    current: str | None = None
    archived: bool = False
    hints: Hints = Hints()
    items: tuple[Entry, ...] = ()
    encoding: str | None = None
    problems: tuple[str, ...] = ()


class Ending(StrEnum):
    """How a fetch ended. The first three brought a valid answer; all the others are failures."""

    CHANGED = "changed"  # 200 with a document
    UNCHANGED = "unchanged"  # 304
    PARTIAL = "partial"  # 226 IM: feed, only what is new; nothing has disappeared
    GONE = "gone"  # 410
    THROTTLED = "throttled"  # 429, 503, or 3xx with Retry-After
    MISSING = "missing"  # 404 and other client errors
    DENIED = "denied"  # 401, 403, 407, 451
    BROKEN = "broken"  # 5xx
    UNREADABLE = "unreadable"  # 200 with something that is no feed
    REDIRECTS = "redirects"  # loops, too many, or to where we do not go
    TOO_LARGE = "too large"
    TIMEOUT = "timeout"  # total deadline, too slow, or no answer
    DNS = "dns"
    TLS = "tls"
    CONNECTION = "connection"  # refused or reset
    BLOCKED = "blocked"  # the address guard said no

    @property
    def ok(self) -> bool:
        return self in _WELL


_WELL = (Ending.CHANGED, Ending.UNCHANGED, Ending.PARTIAL)


class Validators(msgspec.Struct, frozen=True):
    """ETag and Last-Modified, byte for byte as received."""

    etag: str | None = None
    last_modified: str | None = None


class Outcome(msgspec.Struct, frozen=True):
    """What one fetch of a feed brought.

    `url` is what was asked for, `final_url` where the answer came from, `moved_to` the address a chain of
    permanent redirects (301, 308) leads to. `validators` are the ones to keep from now on (None: keep the
    old ones). `fresh_for` is what max-age or Expires ask for, `retry_after` what the server demanded, already
    clamped. `bytes` counts the wire. `message` is a sentence for a person.
    """

    ending: Ending
    url: str
    final_url: str
    started: float
    elapsed: float
    status: int | None = None
    document: Document | None = None
    validators: Validators | None = None
    moved_to: str | None = None
    fresh_for: float | None = None
    retry_after: float | None = None
    bytes: int = 0
    body_hash: str | None = None
    message: str = ""
    pushed: bool = False  # a hub sent it; nobody was asked

    @property
    def ended_at(self) -> float:
        return self.started + self.elapsed


@dataclass(frozen=True, slots=True)
class Feed:
    """A source feed we poll, as the store keeps it. `id` is the store's; `name` is what queries call it."""

    id: int
    url: str
    title: str | None = None
    name: str | None = None
    link: str | None = None
    tags: tuple[str, ...] = ()
    weight: float = 1.0
    added: float = 0.0
    paused: bool = False
    gone_since: float | None = None


class Known(msgspec.Struct, frozen=True):
    """What we keep of a feed between refreshes: everything the next refresh needs, and nothing to recompute.

    `window` maps the identity of each item of the last document, in its order, to its content hash;
    `moves` counts how often in a row `moved_to` was seen. `not_before` is the server's word (Retry-After),
    `fresh_until` its wish (max-age, ttl). `failures` counts failures in a row, since `failing_since`.
    """

    feed_id: int
    url: str
    validators: Validators = Validators()
    window: tuple[tuple[str, str], ...] = ()
    body_hash: str | None = None
    last_refresh: float | None = None
    last_success: float | None = None
    last_change: float | None = None
    next_refresh: float | None = None
    not_before: float | None = None
    fresh_until: float | None = None
    failures: int = 0
    failing_since: float | None = None
    last_error: str | None = None
    moved_to: str | None = None
    moves: int = 0
    unstable: int = 0
    hints: Hints = Hints()
    hub: str | None = None
    topic: str | None = None


class Item(msgspec.Struct, frozen=True):
    """One item of a feed, as stored. Unique by (feed_id, identity); `version` counts its updates.

    `published` is always set: the publisher's date where believable, else first seen (`dated` is False).
    """

    feed_id: int
    identity: str
    content_hash: str
    title: str | None
    link: str | None
    published: float
    dated: bool
    updated: float | None
    first_seen: float
    authors: tuple[str, ...] = ()
    summary: str | None = None
    content: str | None = None
    categories: tuple[str, ...] = ()
    enclosures: tuple[Enclosure, ...] = ()
    language: str | None = None
    version: int = 1
    id: int | None = None
    source: Source | None = None  # the feed it was first published in, where the one it came by is not that


class Refresh(msgspec.Struct, frozen=True):
    """One poll of a feed and what came of it: the one record scheduler, pages, metrics and lab read.

    `new` and `updated` count items, `window` is the document's size W, `overlap` how many of its items the last
    window had already, `saturated` says that nothing overlapped although something was known, `lost` estimates how
    many items passed unread. `reason` is the strategy's, in words.
    """

    feed_id: int
    at: float
    ending: Ending
    status: int | None = None
    elapsed: float = 0.0
    bytes: int = 0
    new: int = 0
    updated: int = 0
    window: int | None = None
    overlap: int | None = None
    saturated: bool = False
    lost: float = 0.0
    reason: str = ""
    message: str = ""
    published: tuple[float, ...] = ()  # believable dates of the new items


class Verdict(msgspec.Struct, frozen=True):
    """What novelty decided about an outcome: everything one refresh writes, in one transaction.

    `late` says that somebody else was to fetch the feed by then: its items count, but what is known of the feed and
    when it is due are the other's.
    """

    refresh: Refresh
    known: Known
    new: tuple[Item, ...] = ()
    updated: tuple[Item, ...] = ()
    title: str | None = None
    link: str | None = None
    url: str | None = None  # the feed's new address, when it has moved for good
    gone: bool = False
    late: bool = False


@dataclass(frozen=True, slots=True)
class QueryFeed:
    """A feed defined by a standing query, as the store keeps it.

    `text` holds for what comes behind the outbox's `position`; `active` is the definition that the query processor
    runs, the one before until it has come to that position. `problem` says why it cannot be run at all. `form` is
    `text` as it was read, packed (`language.packed`).
    """

    id: int
    name: str
    text: str
    created: float
    replaced: float | None = None
    importance: float = 1.0
    position: int = 0
    active: str | None = None
    active_position: int | None = None
    problem: str | None = None
    form: bytes | None = field(default=None, repr=False, compare=False)

    @property
    def is_pending(self) -> bool:
        """Whether the processor has not taken the definition up yet."""
        return self.active != self.text
