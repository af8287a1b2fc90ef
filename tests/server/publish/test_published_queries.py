"""Query feeds are published as documents, by token, and live."""

from __future__ import annotations

import asyncio
import hashlib
import re

import aiohttp
import orjson
import pytest
from publish_server import BASE, Asker

from headwater.formats import read
from headwater.model import Feed
from headwater.node.queries.processor import QueryProcessor
from headwater.publish import document_cache
from headwater.store.content.outbox import find_last_position
from headwater.store.content.verdicts import save_refreshes
from headwater.store.publishing.private_feeds import add_feed_token, revoke_feed_tokens, set_private
from headwater.store.queries.query_feeds import find_query_feed
from headwater.store.queries.query_scripts import run_script
from headwater.store.store import Store
from support.store_samples import NOW, SOMEBODY, a_verdict, an_item, one_feed

CHANGED = document_cache.CHECK_SECONDS + 0.05


async def lava(store: Store, count: int = 3, keep: int = 50) -> tuple[Feed, QueryProcessor]:
    """Make a query feed with so many items, one more item that it excludes, and its processor."""
    feed = await one_feed(store, tags=("news",))
    await store.write(
        run_script, f'CREATE FEED Lava AS RETURN ALL WHERE TITLE CONTAINS "lava" KEEP LAST {keep} ITEMS', NOW
    )
    await store.write(set_private, "/feeds/Lava", False)
    processor = QueryProcessor(store, clock=lambda: NOW)
    await processor.load()
    await processor.step()
    await arrive(store, processor, feed, *(f"lava {n}" for n in range(count)), "mud")
    return feed, processor


async def arrive(store: Store, processor: QueryProcessor, feed: Feed, *titles: str) -> None:
    number = await store.read(find_last_position)
    items = [an_item(feed.id, f"https://example.org/{title}", title=title, published=NOW + number + k)
             for k, title in enumerate(titles)]  # fmt: skip
    await save_refreshes(store, [a_verdict(feed, *items, at=NOW + number + 1)])
    while await processor.step():
        pass


@pytest.mark.parametrize("suffix", ["rss", "atom", "json"])
async def test_a_query_feed_shows_its_window_and_archive_pages_its_past(
    store: Store, ask: Asker, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_cache, "PAGE_ITEMS", 4)
    await lava(store, 10, keep=3)
    document = read((await ask(f"/feeds/Lava.{suffix}")).content)
    assert [item.title for item in document.items] == ["lava 9", "lava 8", "lava 7"]
    assert document.self == f"{BASE}/feeds/Lava.{suffix}"
    assert document.next is not None
    newest = read((await ask(document.next.removeprefix(BASE))).content)
    assert [item.title for item in newest.items] == ["lava 4", "lava 5", "lava 6", "lava 7"]
    past = [read((await ask(f"/feeds/Lava.{suffix}?page={n}")).content).items for n in (1, 2)]
    assert [item.title for page in past for item in page] == [f"lava {n}" for n in range(8)]


async def test_a_query_feed_changes_with_its_hits_only(store: Store, ask: Asker) -> None:
    feed, processor = await lava(store)
    first = await ask("/feeds/Lava.rss")
    await arrive(store, processor, feed, "more mud")
    await asyncio.sleep(CHANGED)
    assert (await ask("/feeds/Lava.rss", {"If-None-Match": first.headers["etag"]})).status_code == 304
    await arrive(store, processor, feed, "more lava")
    await asyncio.sleep(CHANGED)
    again = await ask("/feeds/Lava.rss", {"If-None-Match": first.headers["etag"]})
    assert again.status_code == 200
    assert len(read(again.content).items) == 4


@pytest.mark.parametrize("suffix", ["rss", "atom", "json", "html"])
async def test_links_in_a_private_document_contain_the_token(
    store: Store, ask: Asker, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_cache, "PAGE_ITEMS", 2)
    await lava(store, 5, keep=2)
    await store.write(set_private, "/feeds/Lava", True)
    for token in (b"mine", b"yours"):
        await store.write(add_feed_token, "/feeds/Lava", hashlib.sha256(token).digest(), token.decode(), NOW)
    await asyncio.sleep(CHANGED)
    mine = await ask(f"/feeds/Lava.{suffix}?token=mine")
    assert "token=mine" not in (await ask(f"/feeds/Lava.{suffix}?token=yours")).text
    assert re.search(rf"/feeds/Lava\.{suffix}\?upto=\d+&(amp;)?token=mine", mine.text)
    assert "yours" not in mine.text
    assert (await ask(f"/feeds/Lava.{suffix}?page=2&token=mine")).status_code == 200


async def test_a_private_feed_needs_a_token_that_is_not_revoked(store: Store, ask: Asker) -> None:
    await lava(store)
    assert (await ask("/feeds/Lava.rss")).headers["cache-control"].startswith("public")
    await store.write(set_private, "/feeds/Lava", True)
    await store.write(add_feed_token, "/feeds/Lava", hashlib.sha256(b"secret").digest(), "reader", NOW)
    await store.write(add_feed_token, "/tags/news", hashlib.sha256(b"other").digest(), "reader", NOW)
    await asyncio.sleep(CHANGED)
    nothing = await ask("/feeds/Nowhere.rss")
    for path in ("/feeds/Lava.rss", "/feeds/lava.rss", "/feeds/Lava.rss?token=wrong", "/feeds/Lava.rss?token=other",
                 "/feeds/Lava.rss?token=", "/feeds/Lava.html", "/feeds/LAVA/live"):  # fmt: skip
        answer = await ask(path)
        assert answer.status_code == nothing.status_code == 404
        assert "token" in answer.text
    granted = await ask("/feeds/Lava.rss?token=secret")
    assert granted.status_code == 200
    assert granted.headers["cache-control"].startswith("private")
    assert (await ask("/tags/news.rss")).status_code == 200  # a token does not make a feed private
    revoked, _ = await store.write(revoke_feed_tokens, "/feeds/lava", by=SOMEBODY)
    assert revoked == 1
    await asyncio.sleep(CHANGED)
    assert (await ask("/feeds/Lava.rss?token=secret")).status_code == 404


async def events(ask: Asker, count: int, started: asyncio.Event | None = None, **headers: str) -> list[tuple[int, str]]:
    """Return (id, title) of the next events of the stream."""
    found: list[tuple[int, str]] = []
    identity = 0
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{ask.base}/feeds/Lava/live", headers=headers) as answer,
    ):
        assert answer.status == 200
        assert answer.content_type == "text/event-stream"
        async for raw in answer.content:
            line = raw.decode()
            if line.startswith("retry:") and started:
                started.set()
            if line.startswith("id: "):
                identity = int(line[4:])
            if line.startswith("data: "):
                found.append((identity, orjson.loads(line[6:])["title"]))
                if len(found) == count:
                    return found
    return found


async def test_a_live_stream_sends_new_items_and_resumes_where_it_broke_off(store: Store, ask: Asker) -> None:
    feed, processor = await lava(store)
    started = asyncio.Event()
    watching = asyncio.create_task(events(ask, 3, started))
    await started.wait()
    await arrive(store, processor, feed, "lava a", "mud", "lava b")
    await arrive(store, processor, feed, "lava c")
    first = await asyncio.wait_for(watching, 20)
    assert [title for _, title in first] == ["lava a", "lava b", "lava c"]
    await arrive(store, processor, feed, "lava d")
    resumed = await events(ask, 3, None, **{"Last-Event-ID": str(first[0][0])})
    assert [title for _, title in resumed] == ["lava b", "lava c", "lava d"]
    everything = await events(ask, 7, None, **{"Last-Event-ID": "0"})
    assert [title for _, title in everything] == [f"lava {n}" for n in range(3)] + [f"lava {c}" for c in "abcd"]


@pytest.mark.parametrize("ending", ["revoked", "private"])
async def test_an_open_live_stream_ends_with_the_right_to_read_it(store: Store, ask: Asker, ending: str) -> None:
    feed, processor = await lava(store)
    await store.write(set_private, "/feeds/Lava", ending == "revoked")
    await store.write(add_feed_token, "/feeds/Lava", hashlib.sha256(b"secret").digest(), "reader", NOW)
    await asyncio.sleep(CHANGED)
    token = "?token=secret" if ending == "revoked" else ""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{ask.base}/feeds/Lava/live{token}", timeout=aiohttp.ClientTimeout(60)) as answer,
    ):
        assert (await answer.content.readuntil(b"\n\n")).startswith(b"retry:")
        await arrive(store, processor, feed, "lava a")
        assert b"lava a" in await answer.content.readuntil(b"\n\n")
        if ending == "revoked":
            await store.write(revoke_feed_tokens, "/feeds/Lava", by=SOMEBODY)
        else:
            await store.write(set_private, "/feeds/Lava", True)
        await asyncio.sleep(CHANGED)
        await arrive(store, processor, feed, "lava b")
        assert await answer.content.read() == b""


async def test_every_watcher_sees_every_event_once(store: Store, ask: Asker) -> None:
    feed, processor = await lava(store)
    starts = [asyncio.Event() for _ in range(20)]
    watching = [asyncio.create_task(events(ask, 30, started)) for started in starts]
    await asyncio.gather(*(started.wait() for started in starts))
    for n in range(10):
        await arrive(store, processor, feed, *(f"lava {n} {c}" for c in "abc"))
    seen = await asyncio.wait_for(asyncio.gather(*watching), 60)
    expected = [f"lava {n} {c}" for n in range(10) for c in "abc"]
    assert all([title for _, title in one] == expected for one in seen)


@pytest.mark.parametrize("last", ["x", "-1", "9" * 30, "1.5"])
async def test_a_wrong_event_id_is_refused(store: Store, ask: Asker, last: str) -> None:
    await lava(store)
    answer = await ask("/feeds/Lava/live", {"Last-Event-ID": last})
    assert answer.status_code == 400


async def test_silence_is_filled_with_heartbeats(store: Store) -> None:
    from headwater.publish.live_events import LiveEvents

    await lava(store)
    live = LiveEvents(store)
    stream = live.follow_query(await store.read(find_query_feed, "lava"), None, heartbeat=0.01)
    assert (await anext(stream)).startswith(b"retry")
    assert [await anext(stream) for _ in range(3)] == [b":\n\n"] * 3
    assert live.watcher_count == 1
    await stream.aclose()
    assert live.watcher_count == 0
