"""The document of a feed and its archive pages together contain every stored item, despite changes in between."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from sqlalchemy import delete
from test_published_queries import arrive, lava

from headwater.formats import read
from headwater.model import Document, Feed, Item
from headwater.publish import channels, document_cache
from headwater.publish.document_cache import DocumentCache
from headwater.publish.published_documents import parse_document_path, parse_topic
from headwater.store.content.items import list_items_by_arrival
from headwater.store.content.verdicts import save_refreshes
from headwater.store.publishing.private_feeds import set_private
from headwater.store.schema.item_tables import item
from headwater.store.store import Store
from support.store_samples import NOW, a_verdict, an_item, one_feed

BASE = "https://feeds.example"
COUNTER = itertools.count()

steps = st.lists(
    st.one_of(
        st.tuples(st.just("arrive"), st.integers(1, 11)),
        st.tuples(st.just("arrive backdated"), st.integers(1, 6)),
        st.tuples(st.just("delete oldest"), st.integers(1, 9)),
        st.tuples(st.just("delete one"), st.integers(0, 30)),
        st.tuples(st.just("edit"), st.integers(0, 30)),
        st.tuples(st.just("sync"), st.integers(0, 3)),
    ),
    min_size=1,
    max_size=8,
)


@dataclass
class ArchiveReader:
    """A reader by RFC 5005: it reads the document, then older pages until it finds a known one."""

    fetch: Callable[[str], Awaitable[Document | None]]
    known: set[str] = field(default_factory=set)
    titles: dict[str, str] = field(default_factory=dict)

    async def sync(self, address: str, pause_after: int = -1, meanwhile: Callable | None = None) -> None:
        next_address: str | None = address
        visited = []
        for number in itertools.count():
            if next_address is None or next_address in self.known:
                break
            if number == pause_after and meanwhile is not None:
                await meanwhile()
            document = await self.fetch(next_address)
            if document is None:  # all its items have been deleted
                break
            self.titles |= {one.id: one.title for one in document.items if one.id not in self.titles or number == 0}
            visited.append(next_address)
            next_address = document.next
        self.known |= set(visited[1:])


@dataclass
class TaggedFeed:
    """A feed with its own tag, and the document cache of a server that has just started."""

    store: Store
    feed: Feed
    tag: str
    number: int = 0

    @property
    def address(self) -> str:
        return f"{BASE}/tags/{self.tag}.atom"

    async def items(self) -> list[Item]:
        return await self.store.read(list_items_by_arrival, tag=self.tag, limit=10_000)

    async def fetch(self, address: str) -> Document | None:
        path, _, query = address.removeprefix(BASE).partition("?")
        key = parse_document_path(path, query)
        found = await DocumentCache(self.store, BASE).find_document(*key)
        return None if found is None else read(found.body)

    async def do(self, step: str, amount: int) -> None:
        items = await self.items()
        if step.startswith("arrive"):
            new = [self.make_item(step) for _ in range(amount)]
            await save_refreshes(self.store, [a_verdict(self.feed, *new, at=NOW + self.number)])
        elif step == "edit" and items:
            one = items[amount % len(items)]
            changed = replace(one, title=f"{one.title}!", content_hash=f"{one.content_hash}!", version=one.version + 1)
            await save_refreshes(self.store, [a_verdict(self.feed, at=NOW + self.number, updated=(changed,))])
        elif step == "delete oldest":
            await self.delete_items(items[:amount])
        elif step == "delete one" and items:
            await self.delete_items([items[amount % len(items)]])

    def make_item(self, step: str) -> Item:
        self.number += 1
        published = NOW - self.number if step == "arrive backdated" else NOW + self.number
        identity = f"https://example.org/{self.tag}/{self.number}"
        return an_item(self.feed.id, identity, title=str(self.number), published=published)

    async def delete_items(self, items: list[Item]) -> None:
        ids = [one.id for one in items]
        await self.store.write(lambda connection: connection.execute(delete(item).where(item.c.id.in_(ids))))


async def make_world(store: Store) -> TaggedFeed:
    tag = f"t{next(COUNTER)}"
    await store.write(set_private, f"/tags/{tag}", False)
    return TaggedFeed(store, await one_feed(store, f"https://example.org/{tag}", tags=(tag,)), tag)


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_cache, "PAGE_ITEMS", 4)
    monkeypatch.setattr(channels, "SHOWN_ITEMS", 3)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
@given(done=steps, pause=st.integers(0, 6), meanwhile=st.tuples(st.just("delete oldest"), st.integers(0, 9)))
async def test_a_reader_gets_every_item_however_the_feed_changes(store, small_pages, done, pause, meanwhile) -> None:
    world = await make_world(store)
    follower = ArchiveReader(world.fetch)
    for step, amount in done:
        await (follower.sync(world.address) if step == "sync" else world.do(step, amount))
        whole = ArchiveReader(world.fetch)
        await whole.sync(world.address)
        assert whole.titles == {one.identity: one.title for one in await world.items()}
    await follower.sync(world.address)
    assert follower.titles.keys() >= {one.identity for one in await world.items()}
    interrupted = ArchiveReader(world.fetch)
    await interrupted.sync(world.address, pause, lambda: world.do(*meanwhile))
    assert interrupted.titles.keys() >= {one.identity for one in await world.items()}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15, deadline=None)
@given(first=st.integers(1, 23), more=st.integers(1, 13))
async def test_a_linked_page_keeps_its_items_while_others_arrive(store, small_pages, first: int, more: int) -> None:
    world = await make_world(store)
    await world.do("arrive", first)
    pages, address = {}, (await world.fetch(world.address)).next
    while address is not None:
        pages[address] = await world.fetch(address)
        address = pages[address].next
    await world.do("arrive", more)
    for address, before in pages.items():
        after = await world.fetch(address)
        assert (after.items, after.next) == (before.items, before.next)


@pytest.mark.parametrize("suffix", ["rss", "atom", "json"])
@pytest.mark.parametrize("keep", [10, 50])
async def test_198_hits_of_a_query_feed_are_all_reachable(store: Store, suffix: str, keep: int) -> None:
    feed, processor = await lava(store, 198, keep=keep)
    documents = DocumentCache(store, BASE)

    async def fetch(address: str) -> Document:
        path, _, query = address.removeprefix(BASE).partition("?")
        found = await documents.find_document(*parse_document_path(path, query))
        return read(found.body)

    reader = ArchiveReader(fetch)
    await reader.sync(f"{BASE}/feeds/Lava.{suffix}")
    assert len(reader.titles) == 198
    await arrive(store, processor, feed, *(f"lava {n}" for n in range(198, 260)))
    documents.expire()
    await reader.sync(f"{BASE}/feeds/Lava.{suffix}")
    assert set(reader.titles.values()) == {f"lava {n}" for n in range(260)}


async def test_a_document_that_shows_everything_has_no_archive(store: Store, small_pages: None) -> None:
    world = await make_world(store)
    await world.do("arrive", 3)
    assert (await world.fetch(world.address)).next is None


async def test_numbered_pages_contain_everything_too(store: Store, small_pages: None) -> None:
    world = await make_world(store)
    await world.do("arrive", 11)
    pages = [await world.fetch(f"{world.address}?page={number}") for number in (1, 2, 3)]
    assert [one.title for page in pages for one in page.items] == [str(number) for number in range(1, 12)]
    assert parse_topic(f"{world.address}?upto=3", BASE) is None
