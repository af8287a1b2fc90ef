"""Stories on the reading page and in an item's JSON are folded, explained, and limited to readable feeds."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

import msgspec
from sqlalchemy import Connection, delete
from test_pages_over_http import NOW, visiting

from headwater.query.stories.story_items import Placement
from headwater.query.stories.story_placer import PlacedItem
from headwater.store.content.feeds import NewFeed
from headwater.store.content.stories import save_placements
from headwater.store.content.verdicts import save_refreshes
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.schema.reader_tables import subscription
from headwater.store.store import Store
from support.store_samples import a_verdict, an_item

Start = Callable[..., Awaitable[str]]
WORDS = ("alaska", "health", "worker")


async def one_story(store: Store) -> list[int]:
    """Let Reuters begin a story, the BBC join it, and Nature publish another item; return the ids of the feeds."""
    new = [NewFeed(f"https://{name}.example/f", title=name) for name in ("Reuters", "BBC", "Nature")]
    feeds = [added.feed for added in await store.write(add_and_subscribe, new, NOW - 1000)]
    titles = ["Alaska health worker has severe reaction", "A reaction in Alaska", "Hens lay eggs"]
    for place, (feed, title) in enumerate(zip(feeds, titles, strict=True)):
        at = NOW - 90 + 10 * place
        made = an_item(feed.id, title, title=title, link=None, published=at, first_seen=at)
        await save_refreshes(store, [a_verdict(feed, made, at=at)])
    placed = [
        PlacedItem(1, Placement(1), "reuters.example", False),
        PlacedItem(2, Placement(1, 1, 0.5168, WORDS), "bbc.example", False),
        PlacedItem(3, Placement(3), "nature.example", False),
    ]
    await store.write(save_placements, placed)
    return [feed.id for feed in feeds]


async def test_the_list_folds_a_story_and_says_why(site: Start, web_store: Store) -> None:
    await one_story(web_store)
    async with visiting(await site()) as visitor:
        _, page = await visitor.get("/")
        assert page.count('<li class="row-item') == 2
        assert "1 more on this story" in page
        assert "</q> (Reuters), .52: alaska, health, worker" in page
        _, opened = await visitor.get("/read/item/2")
        assert "2 items on this story, 2 publishers" in opened
        why = 'joined <q dir="auto">Alaska health worker has severe reaction</q> (Reuters), .52: alaska, health, worker'
        assert f"This item {why}." in opened
        _, first = await visitor.get("/read/item/1")
        assert "This item began the story." in first
        assert why in first
        _, alone = await visitor.get("/read/feed/2")
        assert "more on this story" not in alone
        status, text = await visitor.get("/api/v1/items/2")
    assert status == 200
    story = json.loads(text)["story"]
    assert (story["joined"], story["score"], story["words"], story["publishers"]) == ("1", 0.5168, list(WORDS), 2)
    assert [one["title"] for one in story["items"]] == ["Alaska health worker has severe reaction"]


def forget_subscription(connection: Connection, feed_id: int) -> None:
    connection.execute(delete(subscription).where(subscription.c.feed_id == feed_id))


async def test_a_story_tells_nothing_of_items_that_one_does_not_read(site: Start, web_store: Store) -> None:
    reuters, *_ = await one_story(web_store)
    await web_store.write(forget_subscription, reuters)
    async with visiting(await site()) as visitor:
        _, opened = await visitor.get("/read/item/2")
        _, text = await visitor.get("/api/v1/items/2")
    assert "severe reaction" not in opened
    assert "items on this story" not in opened
    assert "alaska, health" not in opened
    story = json.loads(text)["story"]
    assert (story["items"], story["publishers"]) == ([], 1)
    assert (story["joined"], story["score"], story["words"]) == (None, None, [])  # others' words could be guessed


async def test_an_item_shows_what_its_publisher_has_changed(site: Start, web_store: Store) -> None:
    (added,) = await web_store.write(add_and_subscribe, [NewFeed("https://a.example/f", title="Gazette")], NOW - 1000)
    first = an_item(added.feed.id, "a", title="Ten people die", content="<p>At <b>noon</b></p>", first_seen=NOW - 90)
    await save_refreshes(web_store, [a_verdict(added.feed, first, at=NOW - 90)])
    changed = msgspec.structs.replace(first, title="Twelve people die", content_hash="2")
    await save_refreshes(web_store, [a_verdict(added.feed, at=NOW - 50, updated=(changed,))])
    async with visiting(await site()) as visitor:
        _, page = await visitor.get("/read/item/1")
    assert "Changed by the publisher" in page
    assert "<del>Ten</del> <ins>Twelve</ins> people die" in page
    assert "noon" in page.split("Changed by the publisher")[0]
    assert "noon" not in page.split("Changed by the publisher")[1]
