"""Previews use the index to look at fewer items, and find the same as without it."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from headwater.language import parse
from headwater.node.queries import preview
from headwater.store.content.search import index_queued, list_narrowed_items
from headwater.store.content.verdicts import save_refreshes
from headwater.store.maintenance.trash import move_feed_to_trash
from headwater.store.queries.hits import count_past_items, find_first_arrival, list_past_items, sum_past_items
from headwater.store.store import Store
from support.store_samples import NOW, SOMEBODY, a_verdict, an_item, one_feed

TEXTS = {
    "lava": "<p>Lava flows by <b>night</b></p>",
    "cloud": "An ash cloud over Sicily",
    "code": "Modern C++ and .NET",
    "thai": "ฉันกินข้าว",
    "none": "Parliament votes",
}
CONDITIONS = [
    'ITEM CONTAINS "lava"',
    'ITEM CONTAINS "ash cloud" OR "lava" AND NOT TITLE CONTAINS "code"',
    'CONTENT CONTAINS "c++" OR "กิน"',
    'CONTENT CONTAINS "clou*"',
    'ITEM CONTAINS "ash" NEAR 1 "cloud"',
    'ITEM CONTAINS ALL ("lava", "night") AND SIZE > 3',
    'TITLE = "Title of none" OR CATEGORY IN ("fire")',
    'DESCRIPTION CONTAINS "short"',
    'CONTENT CONTAINS EXACT "Sicily"',
    'NOT ITEM CONTAINS "lava"',
    'ITEM CONTAINS "lava" OR SIZE > 20',
    'TITLE SIMILAR TO "Title of lava"',
    'ITEM CONTAINS "lava" OR "votes" OR "waiting"',
]


@pytest.mark.parametrize("condition", CONDITIONS)
async def test_a_preview_finds_the_same_with_the_index_as_without(
    store: Store, condition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = await one_feed(store)
    items = [an_item(feed.id, key, content=text, summary="short words") for key, text in TEXTS.items()]
    items[0] = an_item(feed.id, "lava", content=TEXTS["lava"], categories=("fire",))
    await save_refreshes(store, [a_verdict(feed, *items)])
    await store.write(index_queued)
    await save_refreshes(store, [a_verdict(feed, an_item(feed.id, "queued", content="waiting"), at=NOW + 1)])
    (create,) = parse(f"CREATE FEED a AS RETURN ALL WHERE {condition} DISTINCT ON TITLE").queries
    (narrowed,) = await preview.preview_queries(store, [create], 30, NOW + 10)
    monkeypatch.setattr(preview, "_narrow", lambda creates, needed: None)
    (whole,) = await preview.preview_queries(store, [create], 30, NOW + 10)
    assert narrowed == whole
    assert whole.looked_at == 6


async def test_the_index_leaves_out_items_without_the_words(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = await one_feed(store)
    await save_refreshes(
        store, [a_verdict(feed, *(an_item(feed.id, key, content=text) for key, text in TEXTS.items()))]
    )
    await store.write(index_queued)
    (create,) = parse('CREATE FEED a AS RETURN ALL WHERE CONTENT CONTAINS "lava" AND SIZE > 3').queries
    words = preview._narrow([create], {"a": create})
    assert words is not None
    kept = await store.read(list_narrowed_items, words, since=0.0, limit=100)
    assert len(kept) == 1
    assert len(await store.read(list_past_items, limit=100, upto=1000)) == len(TEXTS)


async def test_items_of_all_feeds_are_counted_as_those_of_each_without_the_trash(store: Store) -> None:
    kept, gone = await one_feed(store), await one_feed(store, "https://gone.example/feed")
    for number, feed in enumerate((gone, kept, kept, gone)):
        found = an_item(feed.id, f"{number}", first_seen=NOW + number)
        await save_refreshes(store, [a_verdict(feed, found, at=NOW + number)])
    ids = await store.read(list_past_items, limit=9)
    await store.write(move_feed_to_trash, gone.id, by=SOMEBODY)
    for since, from_id, before_id in product((NOW, NOW + 2), (None, *ids), (None, *ids)):
        span: dict[str, Any] = {"since": since, "from_id": from_id, "before_id": before_id}
        each = await store.read(count_past_items, feed_ids={kept.id}, **span)
        assert await store.read(sum_past_items, feed_ids=None, **span) == each.get(kept.id, 0)
    first = await store.read(find_first_arrival, None)
    assert first == await store.read(find_first_arrival, {kept.id}) == NOW + 1
