"""What stands at the left of the reading page: all, starred, query feeds, tags and feeds with how much is unread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import islice
from urllib.parse import quote

from headwater.errors import NotFound
from headwater.store.people import Counts, Stream, Subscription
from headwater.store.store import Store
from headwater.web.frame import integer

MANY = 200  # feeds, and query feeds, listed at once; more are found by their lists
LONG, KEPT = 2000, 30.0  # subscriptions that are kept for a while, and for how long


@dataclass(frozen=True, slots=True)
class Place:
    """One line: a title, where it leads, how many are unread."""

    title: str
    path: str
    unread: int


@dataclass(frozen=True, slots=True)
class Folder:
    """A tag and its feeds."""

    place: Place
    feeds: tuple[Place, ...]
    opened: bool


@dataclass(frozen=True, slots=True)
class Sidebar:
    total: int
    starred: int
    queries: tuple[Place, ...]
    folders: tuple[Folder, ...]
    loose: tuple[Place, ...]  # feeds without a tag
    left_out: int
    queries_left_out: int
    subscribed: int


@dataclass(frozen=True, slots=True)
class Where:
    """The stream that is read: by its address below /read, and what the store calls it."""

    path: str
    title: str
    stream: Stream
    kind: str = "all"
    key: str = ""
    starred: bool = False


class Mine:
    """What somebody reads, as the pages look at it."""

    def __init__(self, subscriptions: Sequence[Subscription]) -> None:
        self.feeds = {one.feed_id: one for one in subscriptions if one.feed_id is not None}
        self.queries = [one for one in subscriptions if one.query_id is not None]
        self.by_title = sorted(self.feeds.values(), key=lambda one: one.title.casefold())
        self.tags = sorted({tag for one in self.by_title for tag in one.tags}, key=str.casefold)

    def __len__(self) -> int:
        return len(self.feeds) + len(self.queries)

    def title(self, feed_id: int) -> str:
        return self.feeds[feed_id].title if feed_id in self.feeds else "another feed"

    def first(self, most: int, counts: Counts) -> list[Subscription]:
        """Feeds by title; of more than `most` so many, those with something to read before the others."""
        if len(self.by_title) <= most:
            return self.by_title
        found = list(islice((one for one in self.by_title if one.feed_id in counts.feeds), most))
        others = (one for one in self.by_title if one.feed_id not in counts.feeds)
        return found + list(islice(others, most - len(found)))


class Subscribed:
    """What people read; long lists are kept for half a minute, since gathering 40,000 takes longer than a page may."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._kept: dict[int, tuple[float, Mine]] = {}

    async def of(self, user_id: int, *, has: str = "") -> Mine:
        """The subscriptions of a person; anew where the feed numbered `has` is not among those that were kept."""
        kept = self._kept.get(user_id)
        if kept is not None and kept[0] > self._clock() and (not has or integer(has) in kept[1].feeds):
            return kept[1]
        found = await self._store.reading.subscriptions(user_id)
        self._kept.pop(user_id, None)
        if len(found) <= LONG:
            return Mine(found)
        mine = await asyncio.to_thread(Mine, found)
        self._kept[user_id] = (self._clock() + KEPT, mine)
        return mine


async def sidebar(store: Store, user_id: int, mine: Mine, at: str) -> Sidebar:
    """Gather it; `at` is the path of the stream that is open, whose folder is shown open."""
    counts = await store.reading.counts(user_id)
    shown = mine.first(MANY, counts)
    by_tag: dict[str, list[Place]] = {}
    loose = []
    for one in shown:
        place = Place(one.title, f"/read/feed/{one.feed_id}", _unread(counts, one))
        for tag in one.tags:
            by_tag.setdefault(tag, []).append(place)
        if not one.tags:
            loose.append(place)
    folders = []
    for tag in mine.tags:
        path = tag_path(tag)
        inside = tuple(by_tag.get(tag, ()))
        unread = counts.tags[tag].count if tag in counts.tags else 0
        opened = at == path or any(place.path == at for place in inside) or len(mine.feeds) <= 12
        folders.append(Folder(Place(tag, path, unread), inside, opened))
    asked = mine.queries
    if len(asked) > MANY:
        asked = sorted(asked, key=lambda one: _unread(counts, one) == 0)
    queries = tuple(
        Place(one.title, query_path(one.url.removeprefix("/feeds/")), _unread(counts, one)) for one in asked[:MANY]
    )
    return Sidebar(
        counts.total,
        counts.starred,
        queries,
        tuple(folders),
        tuple(loose),
        len(mine.feeds) - len(shown),
        len(asked) - len(queries),
        len(mine.feeds),
    )


async def unread(store: Store, user_id: int, feeds: Collection[int]) -> dict[str, int]:
    """What stands behind each line of the sidebar, with these feeds, now: by its path; lines without a number are left
    out."""
    counts = await store.reading.counts(user_id)
    names = await store.queries.names(counts.queries)
    found = {
        "/read/all": counts.total,
        "/read/starred": counts.starred,
        **{f"/read/feed/{id}": counts.feeds[id].count for id in feeds if id in counts.feeds},
        **{tag_path(tag): one.count for tag, one in counts.tags.items()},
        **{query_path(names[id]): one.count for id, one in counts.queries.items() if id in names},
    }
    return {path: number for path, number in found.items() if number}


def tag_path(tag: str) -> str:
    return f"/read/tag/{quote(tag, safe='')}"


def query_path(name: str) -> str:
    return f"/read/query/{quote(name, safe='')}"


def _unread(counts: Counts, one: Subscription) -> int:
    found = counts.feeds.get(one.feed_id) if one.feed_id is not None else counts.queries.get(one.query_id or 0)
    return found.count if found else 0


async def where(store: Store, mine: Mine, kind: str, key: str) -> Where:
    """The stream of an address; NotFound if there is none that this person reads."""
    if kind == "all":
        return Where("/read/all", "All items", Stream())
    if kind == "starred":
        return Where("/read/starred", "Starred", Stream(), "starred", starred=True)
    if kind == "tag":
        return Where(tag_path(key), key, Stream(tag=key), "tag", key)
    if kind == "feed" and (number := integer(key)) in mine.feeds:
        return Where(f"/read/feed/{number}", mine.title(number), Stream(feed=number), "feed", str(number))
    if kind == "query":
        query = await store.queries.find(key)
        return Where(query_path(query.name), query.name, Stream(query=query.id), "query", query.name)
    raise NotFound("You do not read this. Look among your feeds at the left.")
