"""Items that return from other aggregators are recognised by their original source."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from headwater.formats import read
from headwater.model import Feed, Item, Source
from headwater.node.queries.processor import QueryProcessor
from headwater.publish.document_cache import DocumentCache
from headwater.publish.published_documents import to_entry
from headwater.store.content.items import list_items
from headwater.store.content.verdicts import save_refreshes
from headwater.store.opening import open_store
from headwater.store.publishing.private_feeds import set_private
from headwater.store.queries.hits import list_hits_after
from headwater.store.queries.query_feeds import find_query_feed
from headwater.store.queries.query_scripts import run_script
from headwater.store.store import Store
from support.store_samples import NOW, a_verdict, an_item, one_feed

FIRST, OTHER, THIRD = "https://first.example/feed", "https://b.example/feeds/b.atom", "https://c.example/feeds/c.atom"


class TwoQueryFeeds:
    """A store with two query feeds that select everything, and the feeds it reads."""

    def __init__(self, store: Store, processor: QueryProcessor, feeds: dict[str, Feed]) -> None:
        self.store = store
        self.processor = processor
        self.feeds = feeds
        self._at = NOW

    async def arrive(self, *came: tuple[str, str, str | None], title: str = "lava") -> None:
        """Store items that arrive together, each given as (feed, identity, feed of its source)."""
        self._at += 10
        for url, identity, source in came:
            feed = self.feeds[url]
            item = an_item(feed.id, identity, title=title, source=None if source is None else Source(source, "First"))
            await save_refreshes(self.store, [a_verdict(feed, item, at=self._at)])
        while await self.processor.step():
            pass

    async def published(self, name: str = "a") -> list[str]:
        """Return the feeds by which the hits of a query came, in order."""
        query = await self.store.read(find_query_feed, name)
        hits = await self.store.read(list_hits_after, query.id, after=0, limit=100)
        urls = {feed.id: url for url, feed in self.feeds.items()}
        return [urls[hit.item.feed_id] for hit in hits]


@pytest.fixture
async def world(database_url: str) -> AsyncIterator[TwoQueryFeeds]:
    async with await open_store(database_url) as store:
        feeds = {url: await one_feed(store, url) for url in (FIRST, OTHER, THIRD)}
        await store.write(run_script, "CREATE FEED a AS RETURN ALL", NOW)
        await store.write(run_script, f'CREATE FEED b AS RETURN "{OTHER}"', NOW)
        processor = QueryProcessor(store, clock=lambda: NOW)
        await processor.load()
        await processor.step()
        yield TwoQueryFeeds(store, processor, feeds)


@pytest.mark.parametrize("identity", ["https://first.example/1", "tag:first.example,2026:1", "1"])
async def test_a_returning_item_is_published_once(world: TwoQueryFeeds, identity: str) -> None:
    await world.arrive((FIRST, identity, None))
    (stored,) = await world.store.read(list_items)
    sent = to_entry(stored, world.feeds[FIRST])  # as we publish it, and as others publish it again
    assert sent.id is not None
    await world.arrive((OTHER, sent.id, FIRST), (THIRD, sent.id, FIRST))
    assert len(await world.store.read(list_items)) == 3  # every feed keeps its own copy
    assert await world.published() == [FIRST]
    assert await world.published("b") == [OTHER]  # new to a query feed that has not published it
    await world.arrive((OTHER, sent.id, FIRST), title="lava, changed")
    assert await world.published() == [FIRST]


async def test_two_republishers_of_an_item_count_once(world: TwoQueryFeeds) -> None:
    await world.arrive((OTHER, "urn:x:1", "https://unread.example/"), (THIRD, "urn:x:1", "https://unread.example/"))
    assert await world.published() == [OTHER]


async def test_an_item_of_its_original_feed_never_counts_as_returning(world: TwoQueryFeeds) -> None:
    await world.arrive((OTHER, "urn:x:1", FIRST), title="a lie")
    await world.arrive((FIRST, "urn:x:1", None), title="the truth")
    assert await world.published() == [OTHER, FIRST]


async def test_the_same_identity_from_somewhere_else_is_another_item(world: TwoQueryFeeds) -> None:
    await world.arrive((FIRST, "urn:x:1", None), (OTHER, "urn:x:1", None), (THIRD, "urn:x:1", "https://else.example/"))
    assert await world.published() == [FIRST, OTHER, THIRD]


async def test_where_an_item_was_first_published_survives_every_hop(world: TwoQueryFeeds) -> None:
    await world.arrive((OTHER, "urn:x:1", FIRST))
    await world.store.write(set_private, "/feeds/a", False)
    for suffix in ("atom", "rss", "json"):
        found = await DocumentCache(world.store, "https://us.example").find_document("/feeds/a", suffix, None, None)
        assert found is not None
        (again,) = read(found.body).items
        assert again.source == Source(FIRST, "First")


async def test_a_replaced_query_keeps_what_it_has_published(world: TwoQueryFeeds) -> None:
    await world.arrive((FIRST, "urn:x:1", None))
    await world.arrive((OTHER, "urn:x:1", FIRST))
    await world.store.write(run_script, 'CREATE OR REPLACE FEED a AS RETURN ALL WHERE TITLE CONTAINS "lava"', NOW)
    while await world.processor.step():
        pass
    assert await world.published() == [FIRST]


def test_an_item_without_a_feed_still_has_an_identity() -> None:
    item: Item = an_item(7, "1")
    assert to_entry(item, None).id == to_entry(item, None).id
