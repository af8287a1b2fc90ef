"""The values that only the store gives and takes: new feeds, what was really saved, outbox entries, counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from headwater.model import Feed, Item, Refresh, Validators

if TYPE_CHECKING:
    from headwater.query.hits import Hit, Related

# Told how many feeds somebody brings here that are new, and how many only they read already; raises to refuse.
FeedQuotaCheck = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class NewFeed:
    """A feed to be added. `title` is provisional: the publisher's own replaces it at the first refresh."""

    url: str
    title: str | None = None
    name: str | None = None
    link: str | None = None
    tags: tuple[str, ...] = ()
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class AddedFeed:
    """What became of a `NewFeed`: the stored feed, and whether it is there since just now."""

    feed: Feed
    created: bool


def sort_added(added: Sequence[AddedFeed]) -> tuple[list[int], list[int], list[int]]:
    """Of a list that was added, the places of what is new, what was there before, and what the list has twice: in two
    spellings (with and without :443), which only the store has found to be one feed."""
    created = {one.feed.id for one in added if one.created}
    new = [place for place, one in enumerate(added) if one.created]
    before = [place for place, one in enumerate(added) if one.feed.id not in created]
    twice = [place for place, one in enumerate(added) if one.feed.id in created and not one.created]
    return new, before, twice


@dataclass(frozen=True, slots=True)
class SavedRefresh:
    """What one verdict really wrote.

    `new_ids` belongs position by position to `new`, the items that were not there before; `updated_ids` are the
    items whose content was replaced. `skipped` says in words why nothing at all was written: the feed has been
    removed meanwhile, this very refresh had been saved before, or the database cannot hold what it says.
    `url_taken_by` is the feed that already has the address this one wanted to move to.
    """

    feed_id: int
    new: tuple[Item, ...] = ()
    new_ids: tuple[int, ...] = ()
    updated_ids: tuple[int, ...] = ()
    skipped: str | None = None
    url_taken_by: int | None = None


class FetchPlan(NamedTuple):
    """What it takes to ask for a feed. `windowed` says that something is known to which a delta can be added, `well`
    that its last refresh succeeded."""

    feed_id: int
    url: str
    validators: Validators
    body_hash: str | None
    windowed: bool
    well: bool


class ScheduleRow(NamedTuple):
    """What a scheduler must know of a feed when it starts; a tuple, because there are 100,000 of them."""

    feed_id: int
    url: str
    weight: float
    paused: bool
    gone_since: float | None
    window: int  # size of the last document, 0 before the first
    last_refresh: float | None
    last_success: float | None
    last_change: float | None
    next_refresh: float | None
    not_before: float | None
    fresh_until: float | None
    failures: int
    failing_since: float | None


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """One thing that happened to an item, in the order every consumer sees. `kind` is "new" or "update".

    `item` is the item as it is now, also where it changed after this entry was written (`at`).
    """

    position: int
    kind: str
    item: Item
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class SearchPage:
    """A page of a search: the items, latest arrival first, whether there are more, how many were not searched yet."""

    items: tuple[Item, ...]
    more: bool = False
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class ActivityPeriod:
    """What happened in the hours that touch a stretch of time."""

    refreshes: Mapping[str, int] = field(default_factory=dict)  # by ending
    new: int = 0
    updated: int = 0
    lost: float = 0.0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class ActivitySummary:
    """The counts of a first page. The periods are counted in whole hours: the current one and 1 or 24 before."""

    feeds: int
    paused: int
    gone: int
    failing: int
    never_refreshed: int
    items: int
    hour: ActivityPeriod
    day: ActivityPeriod
    last: tuple[Refresh, ...]


@dataclass(frozen=True, slots=True)
class FeedLoss:
    """What one feed brought and lost in a stretch of time."""

    feed_id: int
    got: int
    lost: float
    refreshes: int


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """What retention keeps. None is for ever; an item goes when either limit is passed.

    `days` counts from when the item was first seen, `per_feed` the newest ones of a feed. The identities of
    deleted items are remembered, so that an old item still shown by its feed does not come back as new.
    `refresh_days` is for the refresh log, `outbox_days` for entries that some consumer has not read yet.
    """

    days: float | None = None
    per_feed: int | None = None
    refresh_days: float | None = 90.0
    outbox_days: float | None = 30.0


@dataclass(frozen=True, slots=True)
class PrunedCounts:
    """What retention deleted."""

    items: int = 0
    refreshes: int = 0
    outbox: int = 0


@dataclass(frozen=True, slots=True)
class NewHit:
    """A hit to be written: when its item arrived, and the id of its query feed."""

    query_id: int
    hit: Hit
    arrived: float


@dataclass(frozen=True, slots=True)
class StoredHit:
    """An item as a query feed has published it; `id` is its place in the feed's stream.

    `item` is what is shown, with the fields that SET wrote anew. `fresh` says that it was to be delivered when it was
    written, `update` that it was there before and has just been changed in place.
    """

    id: int
    query_id: int
    item: Item
    arrived: float
    branches: frozenset[int]
    related: tuple[Related, ...] | None = None
    fresh: bool = False
    update: bool = False
    changed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ShowingQueries:
    """The query feeds, by name, that show an item, and those that have delivered it (also by an older definition)."""

    by: set[str] = field(default_factory=set)
    delivered: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Selectivity:
    """What a query feed keeps of one feed: `kept` of `offered` items."""

    query_id: int
    feed_id: int
    kept: int
    offered: int


@dataclass(frozen=True, slots=True)
class QueryStatistics:
    """How lively a query feed is: hits of the last `days` (fewer where it is younger), the last one, all there are."""

    hits: int
    recent: int
    days: float
    last: float | None

    @property
    def per_day(self) -> float:
        return self.recent / self.days if self.days > 0 else 0.0


@dataclass(frozen=True, slots=True)
class StatementResult:
    """What a statement of a script did: "created", "replaced", "dropped", "registered"; `name` says to what."""

    action: str
    name: str


@dataclass(frozen=True, slots=True)
class ScriptResult:
    """What a script did, and what its writer should know all the same."""

    done: tuple[StatementResult, ...]
    warnings: tuple[object, ...] = ()
    undo: tuple[int, ...] = ()  # the numbers by which what it dropped is taken back


@dataclass(frozen=True, slots=True)
class DroppedQueries:
    """The names of the query feeds that went, and the number by which they are taken back."""

    names: tuple[str, ...]
    undo: int


@dataclass(frozen=True, slots=True)
class PublicAccess:
    """Which published feeds are private (folded paths), and the path that each token (by its SHA-256) opens."""

    private: frozenset[str] = frozenset()
    tokens: Mapping[bytes, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PrivateFeedToken:
    """A token as it can be listed: what it opens, what it was made for, and when."""

    path: str
    label: str
    created: float


@dataclass(frozen=True, slots=True)
class Delivery:
    """An item of a query feed on its way to one sink. `kind` is email, webhook or notify.

    `state` is due, failed (to be tried again at `due`), sent or dead (given up). Deliveries with one `batch` go in one
    message; `slot` is the moment of a digest. `message` says what happened last.
    """

    id: int
    query_id: int
    query: str
    hit_id: int
    item_id: int
    kind: str
    address: str
    due: float | None
    slot: float | None = None
    state: str = "due"
    batch: str | None = None
    attempts: int = 0
    at: float = 0.0
    message: str | None = None


@dataclass(frozen=True, slots=True)
class DataSlice:
    """A part of the past: `since` ≤ time < `until`, of one feed or of all."""

    since: float | None = None
    until: float | None = None
    feed_id: int | None = None


@dataclass(frozen=True, slots=True)
class HubRequest:
    """What somebody asks of our hub, and their callback must confirm. `mode` is subscribe, unsubscribe or denied."""

    mode: str
    topic: str
    callback: str
    secret: str | None = None
    lease: float | None = None
    reason: str | None = None
    attempts: int = 0
    id: int = 0


@dataclass(frozen=True, slots=True)
class HubSubscriber:
    """Somebody who is told by our hub when a topic changes, until the lease ends."""

    topic: str
    callback: str
    secret: str | None
    since: float
    until: float
    sent: str | None = None
    due: float | None = None
    attempts: int = 0
    message: str | None = None
    id: int = 0


@dataclass(frozen=True, slots=True)
class WebSubLease:
    """Our subscription of a feed at its hub. `state` is asked, active, silent (it does not push) or refused.

    `key` is the end of the callback's address. A verification is awaited until `pending`; the lease runs until `until`
    and is asked for again at `due`.
    """

    feed_id: int
    key: str
    hub: str
    topic: str
    secret: str
    due: float
    state: str = "asked"
    pending: float | None = None
    since: float | None = None
    until: float | None = None
    attempts: int = 0
    pushes: int = 0
    pushed: float | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class WebSubCancellation:
    """A subscription at a hub that is to be ended; `attempts` is how often it was told, this time included."""

    key: str
    hub: str
    topic: str
    attempts: int


@dataclass(frozen=True, slots=True)
class Article:
    """The page behind an item, and what became of fetching it. `state` is due, failed, done or dead."""

    item_id: int
    url: str
    state: str = "due"
    attempts: int = 0
    message: str | None = None
    due: float | None = None
