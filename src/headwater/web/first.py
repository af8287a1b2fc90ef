"""What the first page shows, gathered from the store: counts, the last refreshes, the newest items."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from headwater.errors import NotFound
from headwater.model import Feed, Item, Refresh
from headwater.node.crawler import Status
from headwater.store.store import Store
from headwater.store.values import Summary

NEWEST = 12


@dataclass(frozen=True, slots=True)
class Note:
    """Something to say above the page; a `problem` keeps the `address` that led to it in the form."""

    text: str
    problem: bool = False
    address: str = ""


@dataclass(frozen=True, slots=True)
class First:
    """Everything on the first page. `feeds` has the feeds that rows mention; removed ones are missing there."""

    summary: Summary
    status: Status
    refreshes: tuple[Refresh, ...]
    newest: tuple[Item, ...]
    feeds: dict[int, Feed]

    @property
    def last(self) -> float | None:
        return self.refreshes[0].at if self.refreshes else None

    @property
    def caught(self) -> float | None:
        """Completeness of the last day, as far as losses were noticed; None before anything was published."""
        day = self.summary.day
        return day.new / (day.new + day.lost) if day.new else None

    def feed_title(self, feed_id: int) -> str:
        feed = self.feeds.get(feed_id)
        return (feed.title or feed.url) if feed else f"feed {feed_id} (removed)"

    def feed_link(self, feed_id: int) -> str | None:
        feed = self.feeds.get(feed_id)
        return web_address(feed.link or feed.url) if feed else None


async def look(store: Store, status: Status, now: float) -> First:
    summary = await store.summary(now)
    newest = tuple(await store.items(before=now, limit=NEWEST))
    mentioned = {refresh.feed_id for refresh in summary.last} | {item.feed_id for item in newest}
    return First(summary, status, summary.last, newest, await _feeds(store, mentioned))


def web_address(link: str | None) -> str | None:
    """The link if it may be followed from a page: publishers write javascript: and worse.

    >>> web_address("https://a.example/"), web_address("javascript:alert(1)")
    ('https://a.example/', None)
    """
    try:
        return link if link and urlsplit(link).scheme in ("http", "https") else None
    except ValueError:
        return None


async def _feeds(store: Store, ids: Iterable[int]) -> dict[int, Feed]:
    found = {}
    for feed_id in ids:
        try:
            found[feed_id] = await store.feed(feed_id)
        except NotFound:  # removed since
            continue
    return found
