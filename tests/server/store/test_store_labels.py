"""Single items have labels, on both databases."""

from __future__ import annotations

from headwater.store.content.items import list_items
from headwater.store.content.outbox import find_last_position
from headwater.store.content.verdicts import save_refreshes
from headwater.store.maintenance.retention import RetentionPolicy, delete_expired
from headwater.store.readers.accounts import add_user, find_owner
from headwater.store.readers.item_labels import (
    change_item_labels,
    count_item_labels,
    count_unread_by_label,
    find_item_labels,
    rename_label,
)
from headwater.store.readers.marks import mark_stream_read, undo_mark_read
from headwater.store.readers.stream_positions import Stream, StreamQuery, list_stream_positions
from headwater.store.store import Store
from support.store_samples import NOW, a_verdict, an_item, one_feed

DAY = 86_400.0


async def list_ids(store: Store, user: int, label: str, **part: object) -> list[int]:
    query = StreamQuery(by_arrival=True, **part)
    return [row[1] for row in await store.read(list_stream_positions, user, Stream(tag=label), query)]


async def test_labels_belong_to_one_reader_and_go_with_their_items(store: Store) -> None:
    feed = await one_feed(store, tags=("news",))
    await save_refreshes(store, [a_verdict(feed, *(an_item(feed.id, str(n)) for n in range(4)))])
    owner = (await store.read(find_owner)).id
    other = (await store.write(add_user, "bo", None, NOW)).id
    first, second, third, _ = sorted(one.id for one in await store.read(list_items) if one.id)
    await store.write(change_item_labels, owner, [first, second, 99_999], ["later", "fun"])
    await store.write(change_item_labels, other, [first], ["mine"])  # bo does not subscribe to the feed
    assert await store.read(count_item_labels, owner) == {"later": 2, "fun": 2}
    assert await store.read(count_item_labels, other) == {}
    await store.write(change_item_labels, owner, [first], [], ["fun"])
    assert await store.read(find_item_labels, owner, [first, second, third]) == {
        first: ["later"],
        second: ["fun", "later"],
    }
    assert await list_ids(store, owner, "later", unread=True) == [second, first]
    assert await list_ids(store, owner, "later", starred=True) == []
    await store.write(rename_label, owner, "fun", "later")
    assert await store.read(count_item_labels, owner) == {"later": 2}
    marked = await store.write(mark_stream_read, owner, Stream(tag="later"), now=NOW)
    assert marked.count == 2
    assert await store.read(count_unread_by_label, owner) == {}
    await store.write(undo_mark_read, owner, marked.undo, NOW)
    assert (await store.read(count_unread_by_label, owner))["later"].count == 2


async def test_retention_keeps_labelled_items(store: Store) -> None:
    feed = await one_feed(store)
    await save_refreshes(store, [a_verdict(feed, *(an_item(feed.id, str(n)) for n in range(3)))])
    owner = (await store.read(find_owner)).id
    first, *_ = sorted(one.id for one in await store.read(list_items) if one.id)
    await store.write(change_item_labels, owner, [first], ["later"])
    assert await store.read(find_last_position) > 0
    await store.write(delete_expired, RetentionPolicy(days=1, outbox_days=1), NOW + 40 * DAY)
    await store.write(delete_expired, RetentionPolicy(days=1, outbox_days=1), NOW + 40 * DAY)
    assert [one.id for one in await store.read(list_items)] == [first]
