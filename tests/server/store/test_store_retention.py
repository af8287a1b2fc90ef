"""Retention deletes old items, keeps the protected ones, and deleted items do not return as new."""

from __future__ import annotations

from headwater.store.content.items import count_items, list_items
from headwater.store.content.outbox import advance_checkpoint, find_last_position, list_outbox_entries
from headwater.store.content.search import index_queued, search_items
from headwater.store.content.verdicts import save_refreshes
from headwater.store.maintenance.retention import PrunedCounts, RetentionPolicy, delete_expired
from headwater.store.store import Store
from support.store_samples import NOW, a_verdict, an_item, find_seen_of_feed, one_feed

DAY = 86_400.0


async def prune_all(store: Store, keep: RetentionPolicy, now: float, limit: int = 7) -> PrunedCounts:
    total = PrunedCounts()
    while (step := await store.write(delete_expired, keep, now, limit=limit)) != PrunedCounts():
        assert max(step.items, step.refreshes, step.outbox) <= limit
        total = PrunedCounts(total.items + step.items, total.refreshes + step.refreshes, total.outbox + step.outbox)
    return total


async def test_nothing_goes_by_default_but_old_refreshes(store: Store) -> None:
    feed = await one_feed(store)
    await save_refreshes(store, [a_verdict(feed, an_item(feed.id))])
    assert await prune_all(store, RetentionPolicy(), NOW + 89 * DAY) == PrunedCounts(outbox=1)
    assert await prune_all(store, RetentionPolicy(), NOW + 91 * DAY) == PrunedCounts(refreshes=1)
    assert await store.read(count_items) == 1


async def test_old_items_go_with_their_words_and_do_not_come_back_as_new(store: Store) -> None:
    feed = await one_feed(store)
    old = [an_item(feed.id, f"old{k}") for k in range(20)]
    new = [an_item(feed.id, f"new{k}", first_seen=NOW + 9 * DAY) for k in range(3)]
    await save_refreshes(store, [a_verdict(feed, *old[:10])])
    await store.write(index_queued)
    await save_refreshes(store, [a_verdict(feed, *old[10:], *new, at=NOW + 1)])
    assert (await prune_all(store, RetentionPolicy(days=10), NOW + 11 * DAY)).items == 20
    assert {item.identity for item in await store.read(list_items)} == {"new0", "new1", "new2"}
    assert {item.identity for item in (await search_items(store, "title")).items} == {"new0", "new1", "new2"}
    assert await store.read(find_seen_of_feed, feed.id, ["old0"]) == {"old0": "hash of old0"}
    (again,) = await save_refreshes(store, [a_verdict(feed, *old, at=NOW + 2)])
    assert again.new == ()
    (changed,) = await save_refreshes(
        store, [a_verdict(feed, at=NOW + 3, updated=(an_item(feed.id, "old0", content_hash="2"),))]
    )
    assert changed.updated_ids == ()
    assert await store.read(find_seen_of_feed, feed.id, ["old0"]) == {"old0": "2"}


async def test_the_newest_of_each_feed_stay(store: Store) -> None:
    busy, quiet = await one_feed(store), await one_feed(store, "https://quiet.org/")
    await save_refreshes(
        store,
        [
            a_verdict(busy, *(an_item(busy.id, f"{k}", published=NOW + k) for k in range(20))),
            a_verdict(quiet, *(an_item(quiet.id, f"{k}") for k in range(4))),
        ],
    )
    assert (await prune_all(store, RetentionPolicy(per_feed=5), NOW)).items == 15
    assert {item.identity for item in await store.read(list_items, feed_id=busy.id)} == {"15", "16", "17", "18", "19"}
    assert await store.read(count_items, quiet.id) == 4


async def test_items_that_a_consumer_has_not_read_are_spared(store: Store) -> None:
    feed = await one_feed(store)
    await save_refreshes(store, [a_verdict(feed, *(an_item(feed.id, f"{k}") for k in range(10)))])
    entries = await store.read(list_outbox_entries, 0)
    await store.write(advance_checkpoint, "quick", entries[-1].position)
    await store.write(advance_checkpoint, "slow", entries[3].position)
    assert await prune_all(store, RetentionPolicy(days=0), NOW + DAY) == PrunedCounts(items=4, outbox=4)
    assert await store.read(list_outbox_entries, entries[3].position) == entries[4:]
    await store.write(advance_checkpoint, "slow", entries[-1].position)
    assert await prune_all(store, RetentionPolicy(days=0), NOW + DAY) == PrunedCounts(items=6, outbox=6)


async def test_positions_go_on_after_the_outbox_was_emptied(store: Store) -> None:
    feed = await one_feed(store)
    await save_refreshes(store, [a_verdict(feed, an_item(feed.id))])
    end = await store.read(find_last_position)
    await prune_all(store, RetentionPolicy(outbox_days=0), NOW + DAY)
    assert await store.read(list_outbox_entries, 0) == []
    await save_refreshes(store, [a_verdict(feed, an_item(feed.id, "b"), at=NOW + 1)])
    assert (await store.read(list_outbox_entries, 0))[0].position > end
