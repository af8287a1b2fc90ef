"""Removed objects can be restored unchanged for a day by those with permission, on both databases."""

from __future__ import annotations

import asyncio
import random

import pytest
from sqlalchemy import Connection, func, select
from used_store import PHONE, REMOVALS, SECRET, UsedStore, everything, make_used_store

from headwater.errors import InputError, NotFound
from headwater.store.content.feed_overview import list_feed_overviews
from headwater.store.content.feed_state import iterate_schedule_rows, load_fetch_plans, load_weights
from headwater.store.content.feeds import NewFeed, change_feed, count_feeds, find_feed, list_feeds, merge_feeds
from headwater.store.content.items import count_items, list_items, list_items_by_arrival
from headwater.store.content.outbox import (
    advance_checkpoint,
    find_last_position,
    list_outbox_entries,
    read_checkpoint,
)
from headwater.store.content.refreshes import summarise_activity
from headwater.store.content.search import search_items
from headwater.store.content.verdicts import save_refreshes
from headwater.store.maintenance.database_copy import copy_database
from headwater.store.maintenance.retention import RetentionPolicy, delete_expired
from headwater.store.maintenance.trash import (
    delete_expired_trash,
    empty_trash,
    list_trash,
    move_feed_to_trash,
    restore_from_trash,
)
from headwater.store.maintenance.trash_entries import Remover
from headwater.store.opening import open_store
from headwater.store.publishing.deliveries import Delivery, add_deliveries, claim_due_batches, find_next_due_delivery
from headwater.store.queries.document_hits import load_item_origins
from headwater.store.queries.hits import count_hits, list_hits_after
from headwater.store.queries.query_feeds import find_query_feed
from headwater.store.queries.query_scripts import drop_query_feed, run_script
from headwater.store.readers.accounts import (
    add_user,
    change_user,
    find_password_hash,
    find_session,
    find_token_user,
    find_user,
    start_session,
)
from headwater.store.readers.marks import mark_items
from headwater.store.readers.reader_items import find_reader_items, list_reader_items
from headwater.store.readers.stream_positions import StreamQuery
from headwater.store.readers.subscriptions import (
    add_and_subscribe,
    find_subscription,
    list_subscriptions,
    subscribe_to_feed,
)
from headwater.store.readers.unread_counts import count_unread
from headwater.store.saved_state import read_revision
from headwater.store.schema.all_tables import metadata
from headwater.store.schema.item_tables import item
from headwater.store.schema.reader_tables import trash
from headwater.store.store import Store
from support.databases import PostgresServer
from support.store_samples import NOW, SOMEBODY, a_verdict, an_item

LATER = NOW + 500
NOTHING = r"No removed object \d+ can be restored: objects are kept for a day after their removal\."


@pytest.fixture
async def world(store: Store) -> UsedStore:
    return await make_used_store(store)


async def taken_back(world: UsedStore, undo: int) -> None:
    """Restore with the rights of the data folder."""
    await world.store.write(restore_from_trash, undo, None, LATER)


async def test_whatever_is_removed_and_taken_back_is_as_it_was_and_only_once(world: UsedStore) -> None:
    before = await everything(world.store)
    for name, remove in REMOVALS.items():
        undo = await remove(world)
        assert await everything(world.store) != before, name
        await taken_back(world, undo)
        assert await everything(world.store) == before, name
        with pytest.raises(NotFound, match=NOTHING):
            await taken_back(world, undo)
        assert await everything(world.store) == before, name
    assert await world.store.read(list_trash, None, LATER) == []


@pytest.mark.parametrize("seed", range(2))
async def test_many_removals_taken_back_from_the_last_to_the_first_leave_no_trace(store: Store, seed: int) -> None:
    world = await make_used_store(store, seed)
    before = await everything(store)
    undo = []
    for remove in random.Random(seed).sample(list(REMOVALS.values()), len(REMOVALS)):
        try:
            undo.append(await remove(world))
        except (NotFound, InputError):  # an earlier removal included it
            continue
    assert len(undo) > 3
    for number in reversed(undo):
        await taken_back(world, number)
    assert await everything(store) == before


async def test_a_removed_feed_is_not_found_by_search_nor_polled_and_both_again_when_it_is_back(
    world: UsedStore,
) -> None:
    store, feed_id = world.store, world.feeds[0]
    revision = await store.read(read_revision)
    found = len((await search_items(store, "lava", feed_id=feed_id)).items)
    undo = await REMOVALS["a feed"](world)
    assert not (await search_items(store, "lava", feed_id=feed_id)).items
    assert feed_id not in {row.feed_id async for rows in iterate_schedule_rows(store) for row in rows}
    assert await store.read(read_revision) > revision
    revision = await store.read(read_revision)
    await taken_back(world, undo)
    assert found
    assert len((await search_items(store, "lava", feed_id=feed_id)).items) == found
    assert feed_id in {row.feed_id async for rows in iterate_schedule_rows(store) for row in rows}
    assert await store.read(read_revision) > revision
    shown = (an_item(feed_id, "0-0"), an_item(feed_id, "new"))
    [saved] = await save_refreshes(store, [a_verdict(await store.read(find_feed, feed_id), *shown, at=LATER)])
    assert [item.identity for item in saved.new] == ["new"]  # items shown before the removal are known


async def test_of_two_who_take_the_same_back_at_once_one_does(world: UsedStore, database_url: str) -> None:
    before = await everything(world.store)
    undo = await REMOVALS["an account"](world)
    async with await open_store(database_url) as other:
        tried = [one.write(restore_from_trash, undo, world.owner.id, LATER) for one in (world.store, other)]
        answers = await asyncio.gather(*tried, return_exceptions=True)
    assert sorted(type(one).__name__ for one in answers) == ["NotFound", "RestoredObject"]
    assert await everything(world.store) == before


async def test_a_removed_token_is_refused_at_once_and_opens_the_same_when_it_is_back(world: UsedStore) -> None:
    assert await world.store.read(find_token_user, SECRET) is not None
    undo = await REMOVALS["a token"](world)
    assert await world.store.read(find_token_user, SECRET) is None
    await taken_back(world, undo)
    found = await world.store.read(find_token_user, SECRET)
    assert found is not None
    assert (found[0].name, found[1].scopes) == ("ada", ("read", "write"))


async def test_who_is_removed_is_signed_out_at_once_and_signs_in_again_when_the_account_is_back(
    world: UsedStore,
) -> None:
    await world.store.write(start_session, b"s" * 32, world.ada.id, "page", "browser", NOW, NOW + 10_000)
    undo = await REMOVALS["an account"](world)
    assert await world.store.read(find_password_hash, "ada") == (None, None)
    assert await world.store.read(find_session, b"s" * 32, "page", NOW) is None
    assert await world.store.read(find_token_user, SECRET) is None
    await taken_back(world, undo)
    user, hashed = await world.store.read(find_password_hash, "Ada")
    assert user == world.ada
    assert hashed == "hash of ada's password"
    assert await world.store.read(find_token_user, SECRET) is not None
    assert await world.store.read(find_session, b"s" * 32, "page", NOW) is None


async def test_only_who_may_takes_something_back(world: UsedStore) -> None:
    store = world.store
    second = await store.write(add_user, "second", None, NOW, role="owner")
    token = await REMOVALS["a token"](world)
    feed = await REMOVALS["a feed"](world)
    reader = ("read", "write")
    for user, scopes in ((world.owner, None), (world.bob, reader)):
        with pytest.raises(NotFound, match=NOTHING):
            await store.write(
                restore_from_trash, token, user.id, LATER, **({} if scopes is None else {"scopes": scopes})
            )
    with pytest.raises(NotFound, match=NOTHING):
        await store.write(restore_from_trash, feed, world.ada.id, LATER, scopes=reader)
    with pytest.raises(NotFound, match=NOTHING):
        await store.write(
            restore_from_trash, feed, world.owner.id, LATER, scopes=reader
        )  # an owner's token without admin
    assert [one.label for one in await store.read(list_trash, world.ada.id, LATER, scopes=reader)] == ["laptop"]
    assert [one.kind for one in await store.read(list_trash, second.id, LATER)] == ["feed"]
    with pytest.raises(InputError, match="may do more than you: write"):
        await store.write(restore_from_trash, token, world.ada.id, LATER, scopes=("read",))
    await store.write(restore_from_trash, token, world.ada.id, LATER, scopes=reader)
    back = await store.write(restore_from_trash, feed, second.id, LATER)
    assert (back.kind, back.ref) == ("feed", world.feeds[0])


async def test_after_a_day_nothing_is_taken_back_and_retention_forgets_the_rows(world: UsedStore) -> None:
    store = world.store
    for remove in ("a token", "an account"):
        assert await REMOVALS[remove](world)
    first, second = sorted(one.id for one in await store.read(list_trash, None, LATER))
    day = NOW + 400 + 86_400
    assert await store.write(delete_expired_trash, day) == 0
    assert await store.read(list_trash, None, day + 1) == []
    with pytest.raises(NotFound, match=NOTHING):
        await store.write(restore_from_trash, first, world.ada.id, day + 1)
    assert await store.write(delete_expired_trash, day + 1) == 2
    assert await store.read(counted) == 0
    with pytest.raises(NotFound, match=NOTHING):
        await store.write(restore_from_trash, second, None, LATER)


async def test_what_is_forgotten_is_removed_for_good(world: UsedStore) -> None:
    undo = await REMOVALS["an account"](world)
    assert await world.store.write(empty_trash, [undo + 1]) == 0
    assert await world.store.write(empty_trash, [undo]) == 1
    assert await world.store.read(counted) == 0


def counted(connection: Connection) -> int:
    return connection.execute(select(func.count()).select_from(trash)).scalar_one()


async def test_where_a_name_or_an_address_is_taken_a_sentence_says_so_and_nothing_changes(world: UsedStore) -> None:
    store = world.store
    undo = {name: await REMOVALS[name](world) for name in ("a query feed", "a feed", "an account")}
    again = await store.write(add_user, "ADA", None, NOW)
    await store.write(change_feed, world.feeds[1], url="https://named.example")
    await store.write(run_script, "CREATE FEED far AS RETURN ALL", NOW)
    before = await everything(store)
    sentences = {
        "an account": "Another user is named “ADA” now.",
        "a feed": f"is here again, as feed {world.feeds[1]}.",
        "a query feed": "Another feed is called far now.",
    }
    for name, sentence in sentences.items():
        with pytest.raises(InputError, match=sentence):
            await taken_back(world, undo[name])
    assert await everything(store) == before
    await store.write(change_user, again.id, name="another ada")
    await store.write(change_feed, world.feeds[1], url="https://b.example/")
    await store.write(drop_query_feed, "far", by=SOMEBODY)
    for name in reversed(undo):
        await taken_back(world, undo[name])
    assert await store.read(find_user, "ada") == world.ada


async def test_a_feed_with_ten_thousand_items_goes_and_comes_back_without_touching_them(store: Store) -> None:
    [added] = await store.write(add_and_subscribe, [NewFeed("https://a.example/")], NOW)
    items = [an_item(added.feed.id, str(n)) for n in range(10_000)]
    await save_refreshes(store, [a_verdict(added.feed, *items)])
    await store.write(advance_checkpoint, "queries", 10_000)
    undo = await store.write(move_feed_to_trash, added.feed.id, by=SOMEBODY)
    stored, entry = await store.read(
        lambda connection: (
            connection.execute(select(func.count()).select_from(item)).scalar_one(),
            connection.execute(select(trash.c.rows)).scalar_one(),
        )
    )
    assert stored == 10_000
    assert len(entry) < 2_000  # rows of the feed, not of its items
    assert await store.read(count_items) == 0
    await store.write(restore_from_trash, undo, None, LATER)
    assert await store.read(count_items) == 10_000


async def test_adding_the_address_of_a_removed_feed_again_restores_it_for_everybody(world: UsedStore) -> None:
    store, before = world.store, await everything(world.store)
    await REMOVALS["a feed"](world)
    new = NewFeed("HTTPS://named.example", tags=("news",))  # the same address in another spelling
    [added] = await store.write(add_and_subscribe, [new], LATER)
    assert (added.feed.id, added.feed.name, added.created) == (world.feeds[0], "named", False)
    assert await everything(store) == before
    assert await store.read(list_trash, None, LATER) == []


async def test_a_feed_that_is_added_again_leaves_a_name_that_is_taken(world: UsedStore) -> None:
    store = world.store
    await REMOVALS["a feed"](world)
    await store.write(run_script, "CREATE FEED NAMED AS RETURN ALL", LATER)
    [added] = await store.write(add_and_subscribe, [NewFeed("https://named.example/")], LATER)
    assert (added.feed.id, added.feed.name) == (world.feeds[0], None)


async def test_nothing_of_a_removed_feed_is_polled_listed_counted_or_published(world: UsedStore) -> None:
    store, gone = world.store, world.feeds[0]
    feeds = await store.read(count_feeds)
    items = await store.read(count_items)
    await REMOVALS["a feed"](world)
    for ref in (gone, "https://named.example/", "named"):
        with pytest.raises(NotFound):
            await store.read(find_feed, ref)
    summary = await store.read(summarise_activity, LATER)
    assert (await store.read(count_feeds), summary.feeds) == (feeds - 1, feeds - 1)
    assert gone not in {feed.id for feed in await store.read(list_feeds)}
    assert gone not in {one.feed.id for one in await store.read(list_feed_overviews)}
    assert gone not in await store.read(load_weights)
    assert not await store.read(load_fetch_plans, [gone])
    assert gone not in {one.feed_id for one in summary.last}
    left = await store.read(count_items)
    assert 0 < left < items
    assert summary.items == left
    for found in (await store.read(list_items, limit=1000), await store.read(list_items_by_arrival, limit=1000)):
        assert len(found) == left
        assert gone not in {one.feed_id for one in found}
    assert gone not in {entry.item.feed_id for entry in await store.read(list_outbox_entries, 0, 1000)}
    assert gone not in await store.read(load_item_origins)
    lava = await store.read(find_query_feed, "Lava")
    hits = await store.read(list_hits_after, lava.id, limit=1000)
    only_adas = world.feeds[2]
    assert {hit.item.feed_id for hit in hits} == set(world.feeds) - {gone, only_adas}
    assert await store.read(count_hits, lava.id) == len(hits)
    assert await store.read(list_items, tag="news") == []
    for reader in (world.owner, world.ada, world.bob):
        assert gone not in {one.feed_id for one in await store.read(list_subscriptions, reader.id)}
        assert gone not in (await store.read(count_unread, reader.id)).feeds
        page = await store.read(list_reader_items, reader.id, part=StreamQuery(unread=True, limit=1000))
        assert gone not in {one.item.feed_id for one in page.items if one.query_id is None}


async def test_a_refresh_that_was_on_its_way_when_the_feed_was_removed_is_not_saved(world: UsedStore) -> None:
    store, feed = world.store, await world.store.read(find_feed, world.feeds[0])
    await REMOVALS["a feed"](world)
    [saved] = await save_refreshes(store, [a_verdict(feed, an_item(feed.id, "late"), at=LATER)])
    assert saved.skipped
    assert not saved.new


async def test_items_that_met_no_query_before_the_removal_meet_them_when_the_feed_is_back(world: UsedStore) -> None:
    store, feed = world.store, await world.store.read(find_feed, world.feeds[0])
    [saved] = await save_refreshes(store, [a_verdict(feed, an_item(feed.id, "late"), at=NOW + 300)])
    undo = await REMOVALS["a feed"](world)
    await store.write(advance_checkpoint, "queries", await store.read(find_last_position))
    await taken_back(world, undo)
    entries = await store.read(list_outbox_entries, await store.read(read_checkpoint, "queries"))
    assert [entry.item.id for entry in entries] == list(saved.new_ids)


async def test_a_removed_query_feed_delivers_nothing_until_it_is_back(world: UsedStore) -> None:
    store, red = world.store, await world.store.read(find_query_feed, "Red")
    one = Delivery(0, red.id, "Red", 1, 1, "email", "a@b.example", NOW)
    await store.write(add_deliveries, [one])
    undo = (await store.write(drop_query_feed, "Red", by=SOMEBODY)).undo
    assert await store.read(find_next_due_delivery) is None
    assert await store.write(claim_due_batches, LATER, 60.0) == []
    await taken_back(world, undo)
    [[claimed]] = await store.write(claim_due_batches, LATER, 60.0)
    assert claimed.query_id == red.id


async def test_after_a_day_a_feed_a_query_feed_and_an_account_leave_no_rows(world: UsedStore) -> None:
    store, day = world.store, NOW + 400 + 86_401
    lava = await store.read(find_query_feed, "Lava")
    for name in ("a feed", "a query feed with its readers", "an account"):
        await REMOVALS[name](world)
    while await store.write(delete_expired_trash, day):
        pass
    rows = await store.read(columns_of_everything)
    assert world.feeds[0] not in rows["feed_id"] | rows["feed.id"]
    assert lava.id not in rows["query_id"] | rows["query_feed.id"]
    assert world.ada.id not in rows["user_id"] | rows["user.id"]
    left = await store.read(find_feed, world.feeds[2])  # only ada read it
    assert (left.weight, left.paused) == (0.0, True)


def columns_of_everything(connection: Connection) -> dict[str, set[int]]:
    """List the columns with ids of feeds, query feeds and users: their own tables and all references."""
    found: dict[str, set[int]] = {"feed_id": set(), "query_id": set(), "user_id": set()}
    for table in metadata.sorted_tables:
        for name in found.keys() & table.c.keys() if table is not trash else ():
            found[name] |= set(connection.execute(select(table.c[name])).scalars())
    own = {
        f"{table.name}.id": table.c.id
        for table in metadata.sorted_tables
        if table.name in ("feed", "query_feed", "user")
    }
    return found | {name: set(connection.execute(select(column)).scalars()) for name, column in own.items()}


async def test_retention_spares_the_items_of_a_removed_feed(world: UsedStore) -> None:
    store, before = world.store, await everything(world.store)
    undo = await REMOVALS["a feed"](world)
    while (await store.write(delete_expired, RetentionPolicy(per_feed=0), LATER)).items:
        pass
    await taken_back(world, undo)
    kept = [row for row in (await everything(store))["item"] if row[1] == world.feeds[0]]
    assert kept == [row for row in before["item"] if row[1] == world.feeds[0]]


async def test_a_query_feed_comes_back_only_after_what_it_reads(world: UsedStore) -> None:
    store, by = world.store, Remover(world.owner.id, NOW + 400)
    red = (await store.write(drop_query_feed, "Red", by=by)).undo
    lava = (await store.write(drop_query_feed, "Lava", by=by)).undo
    with pytest.raises(InputError, match="It reads the query feed Lava, which is not here any more"):
        await taken_back(world, red)
    await taken_back(world, lava)
    await taken_back(world, red)


async def test_a_feed_left_by_its_last_subscriber_is_wanted_again_as_before(world: UsedStore) -> None:
    store, feed_id = world.store, world.feeds[2]
    undo = await REMOVALS["the last subscription of a feed"](world)
    left = await store.read(find_feed, feed_id)
    assert (left.weight, left.paused) == (0.0, True)
    await taken_back(world, undo)
    back = await store.read(find_feed, feed_id)
    assert (back.weight, back.paused) == (2.5, False)


async def test_who_subscribes_anew_meanwhile_gets_title_tags_and_position_back_and_keeps_newer_marks(
    world: UsedStore,
) -> None:
    store, ada, feed_id = world.store, world.ada.id, world.feeds[0]
    before = await store.read(find_subscription, ada, feed_id=feed_id)
    undo = await REMOVALS["a subscription"](world)
    await store.write(subscribe_to_feed, ada, feed_id, LATER, tags=("newer",))
    newest = (await store.read(list_items, feed_id=feed_id))[0].id or 0
    [shown] = await store.read(find_reader_items, ada, [newest])
    await store.write(mark_items, ada, [newest], LATER, read=not shown.read)
    await taken_back(world, undo)
    after = await store.read(find_subscription, ada, feed_id=feed_id)
    assert before is not None
    assert after is not None
    assert (after.title, after.read_up_to, after.added) == (before.title, before.read_up_to, before.added)
    assert set(after.tags) == {*before.tags, "newer"}
    [shown_again] = await store.read(find_reader_items, ada, [newest])
    assert shown_again.read is not shown.read


async def test_a_subscription_is_restored_only_after_its_feed(world: UsedStore) -> None:
    subscription = await REMOVALS["a subscription"](world)
    feed = await REMOVALS["a feed"](world)
    with pytest.raises(InputError, match="Restore the feed first"):
        await taken_back(world, subscription)
    await taken_back(world, feed)
    await taken_back(world, subscription)
    assert await world.store.read(find_subscription, world.ada.id, feed_id=world.feeds[0]) is not None


async def test_marks_of_items_that_retention_deleted_meanwhile_do_not_come_back(world: UsedStore) -> None:
    store = world.store
    undo = await REMOVALS["an account"](world)
    while (await store.write(delete_expired, RetentionPolicy(per_feed=1), LATER)).items:
        pass
    await taken_back(world, undo)
    rows = await everything(store)
    there = {row[0] for row in rows["item"]}
    assert {row[2] for row in rows["mark"]} <= there
    counts = await store.read(count_unread, world.ada.id)
    unread = await store.read(list_reader_items, world.ada.id, part=StreamQuery(unread=True, limit=1000))
    assert counts.total == len(unread.items)


async def test_marks_follow_items_that_were_merged_into_another_feed_meanwhile(world: UsedStore) -> None:
    store, (first, _, third) = world.store, world.feeds
    undo = await REMOVALS["an account"](world)
    await store.write(subscribe_to_feed, world.bob.id, third, NOW)
    assert await store.write(merge_feeds, first, third) > 0
    await taken_back(world, undo)
    rows = await everything(store)
    feeds = {row[0]: row[1] for row in rows["item"]}
    assert rows["mark"]
    assert all(feeds[item_id] == feed_id for _, feed_id, item_id, *_ in rows["mark"])
    counts = await store.read(count_unread, world.ada.id)
    assert counts.total == len(
        (await store.read(list_reader_items, world.ada.id, part=StreamQuery(unread=True, limit=1000))).items
    )


async def test_what_was_removed_moves_with_the_database_and_is_taken_back_there(
    store: Store, database_url: str, postgres: PostgresServer, tmp_path
) -> None:
    world = await make_used_store(store)
    before = await everything(store)
    undo = [await REMOVALS[name](world) for name in ("an account", "a feed", "a query feed with its readers")]
    name = postgres.create()
    target = postgres.url(name) if database_url.startswith("sqlite") else f"sqlite:///{tmp_path}/target.sqlite"
    await copy_database(database_url, target, lambda *_: None)
    async with await open_store(target) as moved:
        for number in reversed(undo):
            await moved.write(restore_from_trash, number, None, LATER)
        assert await everything(moved) == before
        assert await moved.read(find_token_user, PHONE) is not None
    postgres.drop(name)
