"""A verdict is saved whole or not at all, once however often it arrives, and a bad one does not affect others."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection

from headwater.model import Alias, Enclosure, Ending, Hints, Known, Validators
from headwater.store.content import feed_state, verdicts
from headwater.store.content.feed_state import iterate_schedule_rows, load_feed_states
from headwater.store.content.feeds import find_feed, merge_feeds
from headwater.store.content.items import count_items, find_item, list_items
from headwater.store.content.outbox import list_outbox_entries
from headwater.store.content.refreshes import list_refreshes, summarise_activity
from headwater.store.content.search import search_items
from headwater.store.content.verdicts import save_refreshes
from headwater.store.maintenance.retention import RetentionPolicy, delete_expired
from headwater.store.maintenance.trash import move_feed_to_trash
from headwater.store.opening import open_store
from headwater.store.store import Store
from support.store_samples import NOW, SOMEBODY, a_verdict, an_item, find_seen_of_feed, one_feed


async def test_a_verdict_is_read_back_as_it_was_written(store: Store) -> None:
    feed = await one_feed(store)
    item = an_item(
        feed.id,
        authors=("Ada", "Bob"),
        categories=("x", "y"),
        enclosures=(Enclosure("https://e.org/a.mp3", "audio/mpeg", 12), Enclosure("https://e.org/b")),
        summary="<p>s</p>",
        language="en",
        updated=NOW + 1,
    )
    known = Known(
        feed.id,
        feed.url,
        Validators('W/"x"', "Sat, 1 Jan 2000"),
        window=(("a", "1"), ("b", "2")),
        body_hash="b",
        last_refresh=1.5,
        last_success=2.5,
        last_change=3.5,
        next_refresh=4.5,
        not_before=5.5,
        fresh_until=6.5,
        failures=7,
        failing_since=8.5,
        last_error="e",
        moved_to="m",
        moves=2,
        unstable=3,
        hints=Hints(60.0, (1, 2), ("Monday",), "daily", 2, 9.0),
        hub="h",
        topic="t",
    )
    verdict = a_verdict(feed, item, known=known, title="T", link="L")
    verdict = replace(
        verdict, refresh=replace(verdict.refresh, published=(1.25, 2.5), reason="why", overlap=1, duplicates=2)
    )
    (saved,) = await save_refreshes(store, [verdict])
    assert saved.new == (item,)
    assert await store.read(find_item, saved.new_ids[0]) == replace(item, id=saved.new_ids[0])
    assert await store.read(load_feed_states, [feed.id]) == {feed.id: known}
    assert await store.read(list_refreshes, feed.id) == [verdict.refresh]
    now = await store.read(find_feed, feed.id)
    assert (now.title, now.link) == ("T", "L")
    (row,) = [row async for rows in iterate_schedule_rows(store) for row in rows]
    assert (row.feed_id, row.window, row.next_refresh, row.failures) == (feed.id, 2, 4.5, 7)


async def test_an_item_seen_before_is_ignored_and_the_log_says_what_was_really_new(store: Store) -> None:
    feed = await one_feed(store)
    a, b = an_item(feed.id, "a"), an_item(feed.id, "b")
    await save_refreshes(store, [a_verdict(feed, a)])
    (saved,) = await save_refreshes(store, [a_verdict(feed, replace(a, title="other"), b, at=NOW + 1)])
    assert saved.new == (b,)
    assert await store.read(count_items) == 2
    assert (await store.read(list_refreshes))[0].new == 1
    assert {item.title for item in await store.read(list_items)} == {a.title, b.title}
    assert (await store.read(summarise_activity, NOW)).day.new == 2


async def test_an_item_is_found_by_its_new_identity_and_keeps_the_old(store: Store) -> None:
    feed = await one_feed(store)
    (first,) = await save_refreshes(store, [a_verdict(feed, an_item(feed.id, "link:a"))])
    renamed = a_verdict(feed, at=NOW + 1, aliases=(Alias("guid", "link:a", "hash"), Alias("lost", "unknown", "hash")))
    await save_refreshes(store, [renamed])
    assert await store.read(find_seen_of_feed, feed.id, ["guid", "lost"]) == {"guid": "hash"}
    changed = an_item(feed.id, "guid", title="Changed")
    (saved,) = await save_refreshes(store, [a_verdict(feed, at=NOW + 2, updated=(changed,))])
    assert saved.updated_ids == first.new_ids
    item = await store.read(find_item, first.new_ids[0])
    assert (item.identity, item.title) == ("link:a", "Changed")


async def test_an_update_of_a_deleted_item_under_its_new_identity_writes_nothing(store: Store) -> None:
    feed = await one_feed(store)
    await save_refreshes(store, [a_verdict(feed, an_item(feed.id, "link:a"))])
    await save_refreshes(store, [a_verdict(feed, at=NOW + 1, aliases=(Alias("guid", "link:a", "hash"),))])
    await store.write(delete_expired, RetentionPolicy(days=0.0), NOW + 86_400)
    (saved,) = await save_refreshes(store, [a_verdict(feed, at=NOW + 2, updated=(an_item(feed.id, "guid"),))])
    assert saved.updated_ids == ()
    assert await store.read(count_items) == 0


async def test_feeds_are_merged_without_doubling_an_item_that_has_two_identities(store: Store) -> None:
    keep, other = await one_feed(store), await one_feed(store, "https://example.org/other")
    await save_refreshes(
        store, [a_verdict(keep, an_item(keep.id, "link:a")), a_verdict(other, an_item(other.id, "link:a"))]
    )
    await save_refreshes(
        store, [a_verdict(other, an_item(other.id, "b"), at=NOW + 1, aliases=(Alias("a", "link:a", "x"),))]
    )
    await save_refreshes(store, [a_verdict(other, at=NOW + 2, aliases=(Alias("c", "b", "x"),))])
    assert await store.write(merge_feeds, keep.id, other.id) == 1
    assert sorted(item.identity for item in await store.read(list_items)) == ["b", "link:a"]


async def test_an_update_without_a_date_does_not_move_the_item(store: Store) -> None:
    feed = await one_feed(store)
    undated = an_item(feed.id, "a", published=NOW - 500, dated=False)
    (first,) = await save_refreshes(store, [a_verdict(feed, undated, an_item(feed.id, "b", published=NOW - 900))])
    changed = tuple(an_item(feed.id, name, published=NOW + 60, dated=False, content_hash="other") for name in "ab")
    await save_refreshes(store, [a_verdict(feed, at=NOW + 60, updated=changed)])
    items = [await store.read(find_item, id) for id in first.new_ids]
    assert [(item.published, item.dated, item.version) for item in items] == [
        (NOW - 500, False, 2),
        (NOW - 900, True, 2),
    ]


async def test_each_feed_of_a_batch_is_told_its_own_items_where_others_were_there_before(store: Store) -> None:
    feeds = [await one_feed(store, f"https://example.org/{k}") for k in range(3)]
    await save_refreshes(store, [a_verdict(feeds[1], an_item(feeds[1].id, "b"))])
    batch = [a_verdict(feed, *(an_item(feed.id, name) for name in "abc"), at=NOW + 1) for feed in feeds]
    saved = await save_refreshes(store, batch)
    assert ["".join(item.identity for item in one.new) for one in saved] == ["abc", "ac", "abc"]
    for one in saved:
        stored = [await store.read(find_item, id) for id in one.new_ids]
        assert stored == [replace(item, id=id) for item, id in zip(one.new, one.new_ids, strict=True)]


async def test_the_same_refresh_saved_twice_is_written_once(store: Store) -> None:
    feed = await one_feed(store)
    verdict = a_verdict(feed, an_item(feed.id))
    first, twice = await save_refreshes(store, [verdict, verdict])
    (again,) = await save_refreshes(store, [verdict])
    assert first.skipped is None
    assert "twice" in (twice.skipped or "")
    assert "before" in (again.skipped or "")
    assert len(await store.read(list_refreshes)) == 1
    assert len(await store.read(list_outbox_entries, 0)) == 1
    assert (await store.read(summarise_activity, NOW)).day.refreshes == {"changed": 1}


async def test_items_of_two_feeds_may_share_an_identity_but_one_feed_shows_it_once(store: Store) -> None:
    feed, other = await one_feed(store), await one_feed(store, "https://other.org/")
    saved = await save_refreshes(
        store,
        [
            a_verdict(feed, an_item(feed.id), an_item(feed.id)),
            a_verdict(other, an_item(other.id)),
            a_verdict(feed, an_item(feed.id), at=NOW + 1),
        ],
    )
    assert [len(one.new) for one in saved] == [1, 1, 0]
    assert await store.read(count_items) == 2


async def test_an_update_replaces_the_item_counts_its_version_and_is_announced(store: Store) -> None:
    feed = await one_feed(store)
    (first,) = await save_refreshes(store, [a_verdict(feed, an_item(feed.id, content="<p>winter</p>"))])
    assert len((await search_items(store, "winter")).items) == 1
    changed = an_item(feed.id, content="<p>summer</p>", content_hash="2", first_seen=NOW + 5)
    (saved,) = await save_refreshes(store, [a_verdict(feed, at=NOW + 5, updated=(changed,))])
    assert saved.updated_ids == first.new_ids
    item = await store.read(find_item, first.new_ids[0])
    assert (item.version, item.content, item.first_seen) == (2, "<p>summer</p>", NOW)
    assert await store.read(find_seen_of_feed, feed.id, ["a", "b"]) == {"a": "2"}
    assert (await search_items(store, "winter")).items == ()
    assert (await search_items(store, "summer")).items == (item,)
    assert [(entry.kind, entry.item.version) for entry in await store.read(list_outbox_entries, 0)] == [
        ("new", 2),
        ("update", 2),
    ]


async def test_a_removed_feed_in_the_batch_does_not_stop_the_others(store: Store) -> None:
    feed, other = await one_feed(store), await one_feed(store, "https://other.org/")
    await store.write(move_feed_to_trash, feed.id, by=SOMEBODY)
    gone, kept = await save_refreshes(store, [a_verdict(feed, an_item(feed.id)), a_verdict(other, an_item(other.id))])
    assert "removed" in (gone.skipped or "")
    assert len(kept.new_ids) == 1
    assert await store.read(list_refreshes, feed.id) == []


@pytest.mark.parametrize(
    ("bad", "stored"), [("a\x00b", "a�b"), ("a\ud800b", "a�b"), ("\udfff", "�")], ids=["nul", "high", "low"]
)
async def test_characters_no_database_takes_are_replaced(store: Store, bad: str, stored: str) -> None:
    feed = await one_feed(store)
    item = an_item(feed.id, identity=bad, title=bad, content=bad, authors=(bad,))
    verdict = a_verdict(feed, item, title=bad)
    (saved,) = await save_refreshes(store, [replace(verdict, refresh=replace(verdict.refresh, message=bad))])
    read = await store.read(find_item, saved.new_ids[0])
    assert (read.identity, read.title, read.content, read.authors) == (stored, stored, stored, (stored,))
    assert await store.read(find_seen_of_feed, feed.id, [bad]) == {bad: "hash of " + stored}
    assert (await store.read(find_feed, feed.id)).title == stored


@pytest.mark.parametrize("bad", [{"version": 2**70}, {"published": None}], ids=["by the driver", "by a constraint"])
async def test_one_verdict_that_cannot_be_stored_is_skipped_whole_and_the_others_are_kept(
    store: Store, bad: dict[str, Any]
) -> None:
    feed, other = await one_feed(store), await one_feed(store, "https://other.org/")
    poison = a_verdict(feed, an_item(feed.id, "fine"), an_item(feed.id, "bad", **bad))
    skipped, good = await save_refreshes(store, [poison, a_verdict(other, an_item(other.id))])
    assert "cannot hold" in (skipped.skipped or "")
    assert good.skipped is None
    assert await store.read(list_items, feed_id=feed.id) == []
    assert await store.read(list_refreshes, feed.id) == []
    assert await store.read(find_seen_of_feed, feed.id, ["fine"]) == {}
    assert await store.read(count_items) == 1


async def test_a_feed_that_moved_gets_its_new_address_unless_another_has_it(store: Store) -> None:
    feed, other = await one_feed(store), await one_feed(store, "https://other.org/")
    (saved,) = await save_refreshes(store, [a_verdict(feed, url="https://new.org/feed")])
    assert saved.url_taken_by is None
    assert (await store.read(load_feed_states, [feed.id]))[feed.id].url == "https://new.org/feed"
    (saved,) = await save_refreshes(store, [a_verdict(other, url="https://NEW.org/feed")])
    assert saved.url_taken_by == feed.id
    assert saved.skipped is None
    assert (await store.read(find_feed, other.id)).url == "https://other.org/"


async def test_a_gone_feed_is_marked_with_when_and_unmarked_when_it_is_back(store: Store) -> None:
    feed = await one_feed(store)
    gone = a_verdict(feed, gone=True)
    gone = replace(gone, refresh=replace(gone.refresh, ending=Ending.GONE, status=410))
    await save_refreshes(store, [gone])
    assert (await store.read(find_feed, feed.id)).gone_since == NOW
    await save_refreshes(store, [replace(gone, refresh=replace(gone.refresh, at=NOW + 60))])
    assert (await store.read(find_feed, feed.id)).gone_since == NOW
    await save_refreshes(store, [a_verdict(feed, at=NOW + 90)])
    assert (await store.read(find_feed, feed.id)).gone_since is None


async def test_saving_from_many_tasks_at_once_stores_each_item_once(store: Store) -> None:
    feeds = [await one_feed(store, f"https://example.org/{k}") for k in range(5)]

    async def write(task: int) -> int:
        batch = [a_verdict(f, *(an_item(f.id, f"{k}") for k in range(20)), at=NOW + task) for f in feeds]
        return sum(len(saved.new) for saved in await save_refreshes(store, batch if task % 2 else batch[::-1]))

    new = await asyncio.gather(*(write(task) for task in range(8)))
    assert sum(new) == 100
    assert await store.read(count_items) == 100
    assert len(await store.read(list_outbox_entries, 0)) == 100
    assert len(await store.read(list_refreshes)) == 40


async def test_an_empty_batch_is_nothing(store: Store) -> None:
    assert await save_refreshes(store, []) == []


async def test_windows_of_thousands_and_batches_of_thousands_fit(store: Store) -> None:
    feed = await one_feed(store)
    items = [an_item(feed.id, f"{k}") for k in range(5000)]
    (saved,) = await save_refreshes(store, [a_verdict(feed, *items)])
    assert len(saved.new) == 5000
    assert len((await store.read(load_feed_states, [feed.id]))[feed.id].window) == 5000
    known = await store.read(find_seen_of_feed, feed.id, [item.identity for item in items] + ["other"])
    assert known == {item.identity: item.content_hash for item in items}
    changed = tuple(replace(item, content_hash="2") for item in items)
    (saved,) = await save_refreshes(store, [a_verdict(feed, at=NOW + 1, updated=changed)])
    assert len(saved.updated_ids) == 5000


def test_sqlite_stores_nothing_truth_and_bytes_as_they_are() -> None:
    types = "SELECT typeof(?1), ?1, typeof(?2), ?2, typeof(?3), ?3"
    with closing(sqlite3.connect(":memory:")) as connection:
        (row,) = connection.execute(types, (None, True, b"\0\xff"))
    assert row == ("null", None, "integer", 1, "blob", b"\0\xff")


_PLANNED = ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")
_NO_TABLES = ("json_each", "CONSTANT ROW", "sqlite_sequence")  # the last has a row for each table


async def test_what_a_batch_looks_up_is_found_by_keys_and_never_by_reading_a_table(tmp_path: Path) -> None:
    said: list[str] = []

    def traced(connection: Connection, function: Callable[..., object], *args: object) -> None:
        driver: Any = connection.connection.dbapi_connection
        driver.set_trace_callback(said.append)
        function(connection, *args)
        driver.set_trace_callback(None)

    def scans(connection: Connection) -> list[str]:
        plans = [connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {one}") for one in said if one.startswith(_PLANNED)]
        return [what for plan in plans for _, _, _, what in plan if what.startswith("SCAN")]

    async with await open_store(f"sqlite:///{tmp_path / 'hw.sqlite'}") as store:
        feeds = [await one_feed(store), await one_feed(store, "https://other.org/")]
        await save_refreshes(store, [a_verdict(feed, an_item(feed.id)) for feed in feeds])
        await store.write(traced, feed_state.find_seen_identities, {feed.id: ["a", "b"] for feed in feeds})
        later = [
            a_verdict(feed, an_item(feed.id, "new"), at=NOW + 60, updated=(an_item(feed.id, content_hash="other"),))
            for feed in feeds
        ]
        await store.write(traced, verdicts.save_batch, later)
        found = await store.write(scans)
    assert any("FROM seen_identity" in one for one in said)
    assert any("INTO item " in one for one in said)
    assert [scan for scan in found if not any(name in scan for name in _NO_TABLES)] == []
