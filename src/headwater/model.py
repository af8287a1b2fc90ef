"""Defines the values that flow through the pipeline: document, outcome, verdict, item.

All are frozen. Times are UTC epoch seconds as floats, or None if unknown; durations are seconds. Values of different
stages have different types: a `Document` has the `Entry`s that a publisher wrote, novelty turns new and changed ones
into `Item`s of a feed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, NewType

import msgspec
from typing_extensions import TypeVar


class Person(msgspec.Struct, frozen=True):
    """Somebody who wrote an item or answers for a feed: name, mail address, page."""

    name: str | None = None
    email: str | None = None
    url: str | None = None

    @property
    def label(self) -> str:
        """The name, else the mail address, else the page."""
        return self.name or self.email or self.url or ""


class Enclosure(msgspec.Struct, frozen=True):
    """A file attached to an item: a podcast episode, a picture. `length` is in bytes, `duration` in seconds."""

    url: str
    type: str | None = None
    length: int | None = None
    width: int | None = None
    height: int | None = None
    duration: float | None = None
    title: str | None = None
    language: str | None = None


class Chapter(msgspec.Struct, frozen=True):
    """A chapter of an episode, from `start` seconds on, with its page and picture."""

    start: float
    title: str | None = None
    url: str | None = None
    image: str | None = None


class Episode(msgspec.Struct, frozen=True):
    """The details that a podcast gives of an episode. `kind` is full, trailer or bonus.

    `chapters` is a file of chapters, `inline_chapters` are those that stand in the document.
    """

    duration: float | None = None
    number: float | None = None
    season: float | None = None
    kind: str | None = None
    chapters: Enclosure | None = None
    transcripts: tuple[Enclosure, ...] = ()
    inline_chapters: tuple[Chapter, ...] = ()


class Source(msgspec.Struct, frozen=True):
    """The feed in which a republished item first appeared (atom:source, RSS source); `url` is empty if unknown."""

    url: str
    title: str | None = None


class Hints(msgspec.Struct, frozen=True):
    """Polling hints of a document: `ttl` in seconds, RSS skip hours (0–23) and days, sy:*."""

    ttl: float | None = None
    skip_hours: tuple[int, ...] = ()
    skip_days: tuple[str, ...] = ()
    update_period: str | None = None
    update_frequency: int | None = None
    update_base: float | None = None


SafeHtml = NewType("SafeHtml", str)
"""HTML that `formats.values.html` has cleaned; a `str` at run time.

The type checker refuses any other text where HTML is stored, published or shown.
"""


class Markup(msgspec.Struct, frozen=True):
    """HTML as published: not safe to show or to store before `formats.values.html.clean_markup` has cleaned it.

    `base` is the address that relative links are resolved against. Markup of a large document is cleaned by the
    process that reads it: then `text` is empty, `clean` is the safe HTML and `raw_hash` the hash of the published text.
    """

    text: str
    base: str | None = None
    clean: SafeHtml | None = None
    raw_hash: str | None = None


Html = TypeVar("Html", default=SafeHtml)
"""Safe HTML, or HTML as published (`Markup`, or `str` for callers of `read` who clean it themselves)."""


class Entry(msgspec.Struct, Generic[Html], frozen=True):
    """One item as its document shows it. `title` is plain text; `content` and `summary` are safe HTML.

    `authors` are names. `people` are the same persons with their addresses, or empty if none has an address. `image` is
    the address of the lead picture.

    The server reads documents as `Document[Markup]` and cleans only new and changed items. An `Item` takes `SafeHtml`,
    so that the type checker refuses to store markup that was not cleaned.
    """

    id: str | None = None
    link: str | None = None
    title: str | None = None
    published: float | None = None
    updated: float | None = None
    authors: tuple[str, ...] = ()
    summary: Html | None = None
    content: Html | None = None
    categories: tuple[str, ...] = ()
    enclosures: tuple[Enclosure, ...] = ()
    language: str | None = None
    source: Source | None = None
    image: str | None = None
    people: tuple[Person, ...] = ()
    episode: Episode | None = None


class FetchedEntry(Entry[Markup], frozen=True):
    """One item of a fetched document, with a hash of its bytes (`novelty.unchanged_items`).

    An item whose bytes are those of the last document is not read: it has its identity as `id`, its date, and the
    window's record of it in `stored`.
    """

    source_hash: str = ""
    stored: str | None = None


class Document(msgspec.Struct, Generic[Html], frozen=True):
    """A parsed feed document. `format` is rss, atom, rdf, json or cdf with its version ("rss 2.0").

    `contacts` answer for the feed (managingEditor, webMaster, dc:publisher, itunes:owner); they did not write its
    items. `hub` lists the WebSub hubs. `next` and `previous` are RFC 5005 or JSON Feed pages; `archived` marks them as
    archive pages (RFC 5005 §4), and `current` is the feed's address in an archive page. `problems` describes the
    repairs; it is empty for a clean document. `missing` estimates the items of a damaged document that could not be
    read.
    """

    format: str
    title: str | None = None
    subtitle: Html | None = None
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
    contacts: tuple[Person, ...] = ()
    items: tuple[Entry[Html], ...] = ()
    encoding: str | None = None
    problems: tuple[str, ...] = ()
    missing: int = 0

    def describe_missing(self) -> str:
        """Say how many items of a damaged document could be read; "" if none is missing.

        >>> Document("rss", items=(Entry(), Entry()), missing=1).describe_missing()
        '2 of about 3 items could be read'
        """
        read = len(self.items)
        return f"{read} of about {read + self.missing} items could be read" if self.missing else ""


class Ending(StrEnum):
    """How a fetch ended. The first three are successes, all others are failures."""

    CHANGED = "changed"  # 200 with a document
    UNCHANGED = "unchanged"  # 304
    PARTIAL = "partial"  # 226 IM: feed, or a truncated document: missing items are not removed
    GONE = "gone"  # 410
    THROTTLED = "throttled"  # 429, 503, or 3xx with Retry-After
    MISSING = "missing"  # 404 and other client errors
    DENIED = "denied"  # 401, 403, 407, 451
    BROKEN = "broken"  # 5xx
    UNREADABLE = "unreadable"  # 200 with something that is not a feed
    REDIRECTS = "redirects"  # a loop, too many, or an address that is not allowed
    TOO_LARGE = "too large"
    TIMEOUT = "timeout"  # deadline passed, too slow, or no response
    DNS = "dns"
    TLS = "tls"
    CONNECTION = "connection"  # refused or reset
    BLOCKED = "blocked"  # refused by the address guard

    @property
    def ok(self) -> bool:
        return self in _SUCCESSES


_SUCCESSES = (Ending.CHANGED, Ending.UNCHANGED, Ending.PARTIAL)


class Validators(msgspec.Struct, frozen=True):
    """ETag and Last-Modified, byte for byte as received."""

    etag: str | None = None
    last_modified: str | None = None


class Outcome(msgspec.Struct, frozen=True):
    """The result of fetching a feed.

    `url` was requested, `final_url` responded, `moved_to` is the end of a chain of permanent redirects (301, 308).
    `validators` replace the stored ones, unless they are None. `fresh_for` comes from max-age or Expires, `retry_after`
    from Retry-After, both limited. `bytes` counts the transfer. `message` is a sentence for people.
    """

    ending: Ending
    url: str
    final_url: str
    started: float
    elapsed: float
    status: int | None = None
    document: Document[Markup] | None = None
    validators: Validators | None = None
    moved_to: str | None = None
    fresh_for: float | None = None
    retry_after: float | None = None
    bytes: int = 0
    body_hash: str | None = None
    message: str = ""
    pushed: bool = False  # sent by a hub, not requested

    @property
    def ended_at(self) -> float:
        return self.started + self.elapsed


@dataclass(frozen=True, slots=True)
class Feed:
    """A source feed as the store keeps it. Queries refer to it by `name`."""

    id: int
    url: str
    title: str | None = None
    name: str | None = None
    link: str | None = None
    tags: tuple[str, ...] = ()
    weight: float = 1.0
    interval: float | None = None  # seconds: the longest pause between two refreshes that a person allows
    added: float = 0.0
    paused: bool = False
    gone_since: float | None = None


Window = tuple[tuple[str, str], ...]
"""The items of a feed's last document, in its order: identity, and what `novelty.item_identity` remembers of it."""


class Known(msgspec.Struct, frozen=True):
    """The state of a feed between refreshes: everything that the next refresh needs.

    `window` pairs the identity of each item of the last document, in its order, with what `novelty.item_identity`
    remembers of it: hashes of its content, its rung and the keys of its guid and link; for most a hash of their bytes
    and their date. `moves` counts how often in a row `moved_to` was seen. `not_before` comes from Retry-After,
    `fresh_until` from max-age or ttl. `failures` counts failures in a row,
    since `failing_since`.
    """

    feed_id: int
    url: str
    validators: Validators = Validators()
    window: Window = ()
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
    """One item of a feed as stored, unique by (feed_id, identity). `version` counts its updates.

    `published` is the publisher's date if it is plausible. Else `dated` is False and it is the time of `first_seen`,
    a second less for each undated item before it, or below the dated items of the feed's first document.
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
    summary: SafeHtml | None = None
    content: SafeHtml | None = None
    categories: tuple[str, ...] = ()
    enclosures: tuple[Enclosure, ...] = ()
    language: str | None = None
    version: int = 1
    id: int | None = None
    source: Source | None = None  # the feed in which it first appeared, if that is another one
    image: str | None = None
    people: tuple[Person, ...] = ()
    episode: Episode | None = None


class Refresh(msgspec.Struct, frozen=True):
    """The record of one poll. Scheduler, pages, metrics and lab all read it.

    `new` and `updated` count items, `duplicates` the repetitions of items within the document. `window` is the number
    of items in the document, `overlap` the number of those that the last window had too. `saturated` means that nothing
    overlapped although items were known; `lost` estimates how many items were missed. `reason` is the strategy's reason
    for the poll, in words.
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
    published: tuple[float, ...] = ()  # plausible dates of the new items
    duplicates: int = 0


class Alias(msgspec.Struct, frozen=True):
    """A new identity of an item that is stored under another one, and the hash of its content."""

    identity: str
    stored: str
    content_hash: str


class Verdict(msgspec.Struct, frozen=True):
    """Novelty's decision about an outcome: everything that one refresh writes in its transaction.

    `aliases` name stored items that their feed identifies differently now. `late` means that another process holds the
    feed by now: the items are stored, the state and the schedule are not.
    """

    refresh: Refresh
    known: Known
    new: tuple[Item, ...] = ()
    updated: tuple[Item, ...] = ()
    aliases: tuple[Alias, ...] = ()
    title: str | None = None
    link: str | None = None
    url: str | None = None  # the feed's new address, if it moved permanently
    gone: bool = False
    late: bool = False


@dataclass(frozen=True, slots=True)
class QueryFeed:
    """A feed defined by a standing query, as the store keeps it.

    `text` applies to outbox entries after `position`. `active` is the definition that the query processor runs: the
    previous one until it reaches that position. `problem` says why a definition cannot run. `form` is `text` in parsed,
    binary form. `reader_id` is the reader whose query it is, None for the server's; `visibility` is private (its owner
    reads it), shared (every account of the server) or public; None, as long as nobody has set it, is private too.
    """

    id: int
    name: str
    text: str
    created: float
    replaced: float | None = None
    importance: float = 1.0
    position: int = 0
    active: str | None = None
    problem: str | None = None
    form: bytes | None = field(default=None, repr=False, compare=False)
    reader_id: int | None = None
    visibility: str | None = None
    description: str | None = None

    @property
    def is_pending(self) -> bool:
        """Whether the processor does not run this definition yet."""
        return self.active != self.text
