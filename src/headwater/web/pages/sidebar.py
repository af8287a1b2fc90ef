"""The sidebar of the reading page: a reader's streams with their unread counts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import quote

from sqlalchemy import Connection

from headwater.errors import NotFound
from headwater.store.queries.query_access import find_readable_query
from headwater.store.queries.query_feeds import find_query_names
from headwater.store.readers.accounts import User
from headwater.store.readers.item_labels import count_item_labels, count_unread_by_label
from headwater.store.readers.stream_positions import Stream
from headwater.store.readers.subscriptions import Subscription
from headwater.store.readers.unread_counts import UnreadCounts, count_unread
from headwater.store.store import Store
from headwater.web.shared.reader_feeds import ReaderFeeds
from headwater.web.site import parse_integer

MAX_LISTED = 200  # feeds, and query feeds, listed at once; more are found by their lists


@dataclass(frozen=True, slots=True)
class SidebarLine:
    """One line: a title, its address, and the number of unread items."""

    title: str
    path: str
    unread: int


@dataclass(frozen=True, slots=True)
class Folder:
    """A tag and its feeds."""

    place: SidebarLine
    feeds: tuple[SidebarLine, ...]
    opened: bool


@dataclass(frozen=True, slots=True)
class Sidebar:
    total: int
    starred: int
    queries: tuple[SidebarLine, ...]
    folders: tuple[Folder, ...]
    loose: tuple[SidebarLine, ...]  # feeds without a tag
    left_out: int
    queries_left_out: int
    subscribed: int
    labels: tuple[SidebarLine, ...]  # of items, except those that are also tags of feeds


@dataclass(frozen=True, slots=True)
class OpenStream:
    """The open stream: its address below /read, and the store's name for it."""

    path: str
    title: str
    stream: Stream
    kind: str = "all"
    key: str = ""
    starred: bool = False


async def load_sidebar(store: Store, user_id: int, mine: ReaderFeeds, at: str) -> Sidebar:
    """Gather it; `at` is the path of the stream that is open, whose folder is shown open."""
    counts = await store.read(count_unread, user_id)
    shown = mine.choose_feeds(MAX_LISTED, counts)
    by_tag: dict[str, list[SidebarLine]] = {}
    loose = []
    for one in shown:
        place = SidebarLine(one.title, f"/read/feed/{one.feed_id}", _unread_of(counts, one))
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
        folders.append(Folder(SidebarLine(tag, path, unread), inside, opened))
    asked = mine.queries
    if len(asked) > MAX_LISTED:
        asked = sorted(asked, key=lambda one: _unread_of(counts, one) == 0)
    queries = tuple(
        SidebarLine(one.title, query_path(one.url.removeprefix("/feeds/")), _unread_of(counts, one))
        for one in asked[:MAX_LISTED]
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
        tuple(
            SidebarLine(label, tag_path(label), unread)
            for label, unread in (await store.read(_count_labels, user_id)).items()
            if label not in mine.tags
        ),
    )


def _count_labels(connection: Connection, user_id: int) -> dict[str, int]:
    """Return the labels of a reader's items, sorted, and how many of these are unread."""
    labels = sorted(count_item_labels(connection, user_id), key=str.casefold)
    unread = count_unread_by_label(connection, user_id) if labels else {}
    return {label: unread[label].count if label in unread else 0 for label in labels}


async def count_unread_by_path(store: Store, user_id: int, feeds: Collection[int]) -> dict[str, int]:
    """Return the unread count of each line of the sidebar, by path. Lines that show no number are left out."""
    counts = await store.read(count_unread, user_id)
    names = await store.read(find_query_names, counts.queries)
    labels = await store.read(_count_labels, user_id)
    found = {
        "/read/all": counts.total,
        "/read/starred": counts.starred,
        **{f"/read/feed/{id}": counts.feeds[id].count for id in feeds if id in counts.feeds},
        **{tag_path(label): unread for label, unread in labels.items()},
        **{tag_path(tag): one.count for tag, one in counts.tags.items()},
        **{query_path(names[id]): one.count for id, one in counts.queries.items() if id in names},
    }
    return {path: number for path, number in found.items() if number}


def tag_path(tag: str) -> str:
    return f"/read/tag/{quote(tag, safe='')}"


def query_path(name: str) -> str:
    return f"/read/query/{quote(name, safe='')}"


def _unread_of(counts: UnreadCounts, one: Subscription) -> int:
    found = counts.feeds.get(one.feed_id) if one.feed_id is not None else counts.queries.get(one.query_id or 0)
    return found.count if found else 0


async def find_stream(store: Store, user: User, mine: ReaderFeeds, kind: str, key: str) -> OpenStream:
    """The stream of an address; NotFound if there is none that this person reads."""
    if kind == "all":
        return OpenStream("/read/all", "All items", Stream())
    if kind == "starred":
        return OpenStream("/read/starred", "Starred", Stream(), "starred", starred=True)
    if kind == "tag":
        return OpenStream(tag_path(key), key, Stream(tag=key), "tag", key)
    if kind == "feed" and (number := parse_integer(key)) in mine.feeds:
        return OpenStream(f"/read/feed/{number}", mine.feed_title(number), Stream(feed=number), "feed", str(number))
    if kind == "query":
        query = await store.read(find_readable_query, user, key)
        return OpenStream(query_path(query.name), query.name, Stream(query=query.id), "query", query.name)
    raise NotFound("You do not subscribe to this. The list on the left has your feeds.")
