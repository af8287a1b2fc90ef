"""A store with two sources and a query processor, for tests of the results of standing queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headwater.model import Feed, Item
from headwater.node.queries.processor import QueryProcessor
from headwater.store.content.feeds import NewFeed
from headwater.store.content.verdicts import save_refreshes
from headwater.store.queries.document_hits import list_document_hits
from headwater.store.queries.hits import StoredHit
from headwater.store.queries.query_feeds import find_query_feed
from headwater.store.queries.query_scripts import run_script
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store
from support.store_samples import NOW, a_verdict, an_item

GUARDIAN, IRIS = "https://guardian.example/rss", "https://iris.example/rss"


class QueryWorld:
    """A store with two named feeds, a processor, and a clock that moves with every refresh."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.now = NOW
        self.feeds: dict[str, Feed] = {}
        self.delivered: list[StoredHit] = []
        self.processor = self.new_processor()

    def new_processor(self) -> QueryProcessor:
        return QueryProcessor(self.store, on_hits=self.delivered.extend, clock=lambda: self.now)

    async def begin(self) -> None:
        new = [NewFeed(GUARDIAN, name="guardian", tags=("news",)), NewFeed(IRIS, name="iris", tags=("science",))]
        self.feeds = {str(one.feed.name): one.feed for one in await self.store.write(add_and_subscribe, new, NOW)}
        await self.processor.load()

    async def publish(self, feed: str, *items: Item | str, updated: Sequence[Item] = ()) -> None:
        self.now += 60
        made = [self.item(feed, one) if isinstance(one, str) else one for one in items]
        await save_refreshes(self.store, [a_verdict(self.feeds[feed], *made, at=self.now, updated=tuple(updated))])

    def item(self, feed: str, identity: str, **more: Any) -> Item:
        usual = {
            "title": identity,
            "content_hash": identity,
            "published": self.now,
            "first_seen": self.now,
            "content": None,
        }
        return an_item(self.feeds[feed].id, identity, **usual | more)

    async def run(self, script: str) -> None:
        await self.store.write(run_script, script, self.now)

    async def process(self) -> None:
        while await self.processor.step():
            pass

    async def titles(self, name: str) -> list[str | None]:
        """Return the titles of the feed's document."""
        query = await self.store.read(find_query_feed, name)
        return [hit.item.title for hit in await self.store.read(list_document_hits, query, self.now)]

    def fresh(self) -> list[str | None]:
        return [hit.item.title for hit in self.delivered if hit.fresh]
