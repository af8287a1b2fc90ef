"""Articles are fetched politely from the page behind an item; their text is searched and matched."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from sqlalchemy import delete

from headwater.fetch.client import Fetcher
from headwater.fetch.robots import Robots
from headwater.model import Feed, Item
from headwater.node.article_fetcher import ArticleFetcher, enqueue_articles_of_hits
from headwater.node.queries.processor import QueryProcessor
from headwater.store.content.articles import (
    delete_orphaned_articles,
    find_article,
    find_article_page,
    has_article_page,
    want_articles,
)
from headwater.store.content.feeds import delete_feed
from headwater.store.content.items import find_item, list_items
from headwater.store.content.search import search_items
from headwater.store.content.verdicts import save_refreshes
from headwater.store.maintenance.retention import PrunedCounts, RetentionPolicy, delete_expired
from headwater.store.opening import open_store
from headwater.store.queries.hits import list_hits_after
from headwater.store.queries.query_feeds import find_query_feed
from headwater.store.queries.query_scripts import run_script
from headwater.store.schema.item_tables import item as items
from headwater.store.store import Store
from support.store_samples import NOW, a_verdict, an_item, one_feed

WORDS = "The glacier burst above the valley and the river carried the bridge away. " * 12
PAGE = (
    '<html lang="en-GB"><head><title>Flood</title><meta property="article:tag" content="Floods"></head><body>'
    "<nav><a href=/>Home</a> <a href=/about>About us</a></nav>"
    f"<article><h1>Flood</h1><p>{WORDS}</p><script>steal()</script></article><footer>Imprint</footer></body></html>"
)


@dataclass
class ArticleSite:
    """A web site with one article; it records its requests."""

    base: str = ""
    robots: tuple[int, str] = (404, "")
    pages: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split()[1].decode()
        self.asked.append(path)
        if path == "/robots.txt":
            status, headers, body = self.robots[0], {"Content-Type": "text/plain"}, self.robots[1].encode()
        else:
            usual = (200, {"Content-Type": "text/html; charset=utf-8"}, PAGE.encode())
            status, headers, body = self.pages.get(path, usual)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {status} X\r\n{lines}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode())
        writer.write(body)
        await writer.drain()
        writer.close()


@pytest.fixture
async def site() -> AsyncIterator[ArticleSite]:
    made = ArticleSite()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield made


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    async with await open_store(database_url) as opened:
        yield opened


class ArticleWorld:
    """A store, an article fetcher, and a clock that the test moves."""

    def __init__(self, store: Store, fetcher: Fetcher, site: ArticleSite) -> None:
        self.store, self.site = store, site
        self.now = time.time()
        self.articles = ArticleFetcher(store, fetcher, 6000.0, clock=lambda: self.now)

    async def arrive(self, feed: Feed, path: str = "/story", **more: Any) -> Item:
        self.now += 1
        item = an_item(feed.id, path, link=self.site.base + path, title="Flood", content="<p>Short.</p>", **more)
        await save_refreshes(self.store, [a_verdict(feed, item, at=self.now)])
        return next(one for one in await self.store.read(list_items) if one.identity == path)

    async def work(self) -> None:
        self.now += 10
        while await self.articles.step():
            self.now += 10


@pytest.fixture
async def world(store: Store, site: ArticleSite) -> AsyncIterator[ArticleWorld]:
    async with Fetcher(allow_private=True, contact=None, per_host=8, deadline=10) as fetcher:
        made = ArticleWorld(store, fetcher, site)
        yield made
        await made.articles._workers.close()


async def test_the_text_of_the_page_is_stored_searched_and_matched(world: ArticleWorld, store: Store) -> None:
    feed = await one_feed(store)
    await store.write(run_script, 'CREATE FEED glaciers AS RETURN ALL WHERE CONTENT CONTAINS "glacier"', NOW)
    processor = QueryProcessor(store)
    await processor.load()
    await processor.step()
    await world.arrive(feed, "/before")
    await store.write(want_articles, "feed", feed.id, True)
    item = await world.arrive(feed)
    await world.work()
    assert world.site.asked == ["/robots.txt", "/story"]  # items from before the request are left alone
    read = await store.read(find_item, item.id or 0)
    assert "carried the bridge away" in str(read.content)
    assert "steal" not in str(read.content)
    assert "Imprint" not in str(read.content)
    assert (read.language, read.version) == ("en-gb", 2)
    assert "Floods" in read.categories
    assert [found.identity for found in (await search_items(store, "glacier")).items] == ["/story"]
    while await processor.step():
        pass
    query = await store.read(find_query_feed, "glaciers")
    (hit,) = await store.read(list_hits_after, query.id, after=0, limit=10)
    assert hit.fresh
    assert (await store.read(find_article, item.id or 0)).state == "done"  # type: ignore[union-attr]


async def test_where_nobody_wants_articles_nothing_is_fetched(world: ArticleWorld, store: Store) -> None:
    feed = await one_feed(store)
    await world.arrive(feed)
    await world.work()
    await store.write(want_articles, "feed", feed.id, True)
    await store.write(want_articles, "feed", feed.id, False)
    await world.arrive(feed, "/other")
    await world.work()
    assert world.site.asked == []


async def test_pages_are_fetched_for_what_a_query_feed_publishes(world: ArticleWorld, store: Store) -> None:
    feed = await one_feed(store)
    await store.write(run_script, 'CREATE FEED floods AS RETURN ALL WHERE TITLE CONTAINS "flood"', NOW)
    await store.write(want_articles, "query", (await store.read(find_query_feed, "floods")).id, True)
    processor = QueryProcessor(store, writers=[enqueue_articles_of_hits])
    await processor.load()
    await processor.step()
    item = await world.arrive(feed)
    while await processor.step():
        pass
    world.now = time.time() + 5
    await world.work()
    assert "bridge" in str((await store.read(find_item, item.id or 0)).content)
    while await processor.step():  # its new version does not cause another fetch
        pass
    await world.work()
    assert world.site.asked.count("/story") == 1


@pytest.mark.parametrize(
    ("robots", "fetched"),
    [
        ((404, ""), True),
        ((200, "User-agent: *\nDisallow: /private"), True),
        ((200, "User-agent: *\nDisallow: /st"), False),
        ((200, "User-agent: *\nDisallow: /*ory$"), False),
        ((200, "User-agent: Headwater\nDisallow: /\n\nUser-agent: *\nAllow: /"), False),
        ((200, "User-agent: *\nDisallow: /\n\nUser-agent: headwater\nAllow: /"), True),
        ((500, ""), False),
    ],
)
async def test_robots_txt_is_respected(
    world: ArticleWorld, store: Store, robots: tuple[int, str], fetched: bool
) -> None:
    world.site.robots = robots
    feed = await one_feed(store)
    await store.write(want_articles, "feed", feed.id, True)
    item = await world.arrive(feed)
    await world.work()
    assert ("/story" in world.site.asked) == fetched
    article = await store.read(find_article, item.id or 0)
    assert article is not None
    assert article.state == ("done" if fetched else "dead")
    assert fetched or "robots.txt" in str(article.message)


async def test_robots_txt_is_asked_once_a_day_and_its_pause_is_kept(site: ArticleSite) -> None:
    site.robots = (200, "User-agent: *\nCrawl-delay: 30")
    now = [0.0]
    async with Fetcher(allow_private=True, contact=None) as fetcher:
        robots = Robots(fetcher, clock=lambda: now[0])
        url = f"{site.base}/story"
        assert await robots.allows(url)
        assert [await robots.reserve_turn(url), await robots.reserve_turn(url)] == [0.0, 30.0]
        now[0] = 30.0
        assert await robots.reserve_turn(url) == 0.0
        assert len(site.asked) == 1
        now[0] = 90_000.0
        await robots.allows(url)
        assert len(site.asked) == 2


@pytest.mark.parametrize(
    ("page", "state", "said"),
    [
        ((404, {}, b""), "dead", "answered 404"),
        ((503, {}, b""), "failed", "answered 503"),
        ((200, {"Content-Type": "application/pdf"}, b"%PDF"), "dead", "no HTML"),
        ((200, {"Content-Type": "text/html"}, b"<p>"), "dead", "no main text"),
        ((302, {"Location": "/elsewhere"}, b""), "done", ""),
        ((302, {"Location": "file:///etc/passwd"}, b""), "dead", "not http or https"),
        ((302, {"Location": "/story"}, b""), "dead", "redirects too often"),
        ((302, {"Location": "http://user@127.0.0.1/"}, b""), "dead", "does not go to this address"),
    ],
)
async def test_every_end_of_a_fetch_is_reported(
    world: ArticleWorld, store: Store, page: tuple[int, dict[str, str], bytes], state: str, said: str
) -> None:
    world.site.pages["/story"] = page
    feed = await one_feed(store)
    await store.write(want_articles, "feed", feed.id, True)
    item = await world.arrive(feed)
    await world.articles.step()
    world.now += 1
    await world.articles.step()
    article = await store.read(find_article, item.id or 0)
    assert article is not None
    assert article.state == state
    assert said in str(article.message or "")


async def test_a_page_that_fails_is_tried_four_times(world: ArticleWorld, store: Store) -> None:
    world.site.pages["/story"] = (500, {}, b"")
    feed = await one_feed(store)
    await store.write(want_articles, "feed", feed.id, True)
    item = await world.arrive(feed)
    for _ in range(8):
        await world.work()
        world.now += 2 * 86_400
    assert world.site.asked.count("/story") == 4
    assert (await store.read(find_article, item.id or 0)).state == "dead"  # type: ignore[union-attr]


async def test_an_item_its_publisher_changes_is_fetched_again(world: ArticleWorld, store: Store) -> None:
    feed = await one_feed(store)
    await store.write(want_articles, "feed", feed.id, True)
    item = await world.arrive(feed)
    await world.work()
    world.now += 1
    changed = an_item(feed.id, "/story", link=item.link, content="<p>Corrected.</p>", content_hash="other")
    await save_refreshes(store, [a_verdict(feed, updated=(changed,), at=world.now)])
    await world.work()
    assert world.site.asked.count("/story") == 2
    assert "bridge" in str((await store.read(find_item, item.id or 0)).content)


async def test_articles_have_a_budget_of_their_own(store: Store, site: ArticleSite) -> None:
    feed = await one_feed(store)
    await store.write(want_articles, "feed", feed.id, True)
    async with Fetcher(allow_private=True, contact=None, per_host=8) as fetcher:
        world = ArticleWorld(store, fetcher, site)
        world.articles = ArticleFetcher(store, fetcher, 6.0, clock=lambda: world.now)  # one every ten seconds
        for number in range(10):
            await world.arrive(feed, f"/story{number}")
        begin = world.now
        while world.now < begin + 60:
            await world.articles.step()
            world.now += 1
        await world.articles._workers.close()
    assert 5 <= len(site.asked) <= 8


async def test_private_addresses_are_refused(store: Store, site: ArticleSite) -> None:
    feed = await one_feed(store)
    await store.write(want_articles, "feed", feed.id, True)
    async with Fetcher(contact=None) as strict:
        world = ArticleWorld(store, strict, site)
        item = await world.arrive(feed)
        await world.work()
    article = await store.read(find_article, item.id or 0)
    assert article is not None
    assert (article.state, site.asked) == ("dead", [])
    assert "does not go to this address" in str(article.message)


async def test_the_html_of_the_newest_articles_is_kept_and_goes_with_its_item(
    world: ArticleWorld, store: Store
) -> None:
    world.articles._kept_pages = 2
    feed = await one_feed(store)
    await store.write(want_articles, "feed", feed.id, True)
    items = [await world.arrive(feed, path) for path in ("/story", "/story?2", "/story?3")]
    await world.work()
    kept = [await store.read(find_article_page, item.id or 0) for item in items]
    assert [page is not None for page in kept].count(True) == 2
    page = next(page for page in kept if page is not None)
    assert page.url.startswith(world.site.base)
    assert b"<html" in page.html.lower()  # whole, as the server sent it
    with_page = next(item.id for item, one in zip(items, kept, strict=True) if one is not None)
    await store.write(delete_feed, feed.id)
    assert not await store.read(has_article_page, with_page or 0)
    assert [await store.read(find_article, item.id or 0) for item in items] == [None] * 3


async def test_articles_go_with_expired_items_and_so_do_those_that_older_versions_left(
    world: ArticleWorld, store: Store
) -> None:
    feed = await one_feed(store)
    await store.write(want_articles, "feed", feed.id, True)
    expired, left = await world.arrive(feed, "/story"), await world.arrive(feed, "/story?2")
    await world.work()
    await store.write(lambda connection: connection.execute(delete(items).where(items.c.id == left.id)))
    assert await store.read(find_article, left.id or 0) is not None
    await store.write(delete_orphaned_articles)
    assert await store.read(find_article, left.id or 0) is None
    assert await store.read(find_article, expired.id or 0) is not None
    keep = RetentionPolicy(days=0, outbox_days=0)
    while (await store.write(delete_expired, keep, world.now + 86_400)) != PrunedCounts():
        pass
    assert await store.read(find_article, expired.id or 0) is None


async def test_the_html_is_not_kept_unless_somebody_wants_it(world: ArticleWorld, store: Store) -> None:
    feed = await one_feed(store)
    await store.write(want_articles, "feed", feed.id, True)
    item = await world.arrive(feed)
    await world.work()
    assert not await store.read(has_article_page, item.id or 0)
