"""Streams, marks and counts agree with a plain list of all items after any reading, starring, marking and undoing."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection
from sqlalchemy.util import await_only

from headwater.errors import InputError, NotFound
from headwater.model import Verdict
from headwater.store.content import outbox
from headwater.store.content.feeds import NewFeed, change_feed, find_feed
from headwater.store.content.items import count_items, list_items
from headwater.store.content.search import index_queued
from headwater.store.content.verdicts import SavedRefresh, save_refreshes
from headwater.store.database.item_ids import find_last_settled_item
from headwater.store.maintenance.retention import RetentionPolicy, delete_expired
from headwater.store.maintenance.trash import (
    empty_trash,
    move_subscription_to_trash,
    move_tag_to_trash,
    move_user_to_trash,
)
from headwater.store.opening import open_store
from headwater.store.queries.query_scripts import run_script
from headwater.store.readers import marks, stream_positions
from headwater.store.readers.accounts import User, add_user, find_owner
from headwater.store.readers.marks import (
    compact_all_marks,
    mark_items,
    mark_items_read,
    mark_stream_read,
    undo_mark_read,
)
from headwater.store.readers.reader_items import ReaderItem, find_reader_items, list_reader_items, search_reader_items
from headwater.store.readers.stream_positions import HIT_ID_OFFSET, Stream, StreamQuery
from headwater.store.readers.subscriptions import (
    Subscription,
    add_and_subscribe,
    change_subscription_title,
    change_tags,
    count_subscription_tags,
    find_subscribed_feeds,
    find_subscription,
    list_subscription_page,
    list_subscriptions,
    rename_subscription_tag,
    subscribe_to_feed,
)
from headwater.store.readers.unread_counts import count_unread
from headwater.store.saved_state import read_revision
from headwater.store.store import Store
from support.databases import PostgresServer, sqlite_url
from support.store_samples import NOW, SOMEBODY, a_verdict, an_item, one_feed

BIG = 10_000


@dataclass
class Oracle:
    """One person's view of all items, in plain sets and dictionaries."""

    feed_of: dict[int, int]
    published: dict[int, float]
    arrived: dict[int, float]
    tags: dict[int, set[str]]
    read: set[int] = field(default_factory=set)
    starred: set[int] = field(default_factory=set)

    def ids(self, which: Stream, part: StreamQuery) -> list[int]:
        when = self.arrived if part.by_arrival else self.published
        found = [
            id
            for id, feed in self.feed_of.items()
            if (which.feed is None or feed == which.feed)
            and (which.tag is None or which.tag in self.tags[feed])
            and (part.unread is None or part.unread == (id not in self.read))
            and (not part.starred or id in self.starred)
            and (part.since is None or self.arrived[id] >= part.since)
            and (part.until is None or self.arrived[id] < part.until)
        ]
        return sorted(found, key=lambda id: (when[id], id), reverse=not part.oldest_first)


@pytest.fixture
async def on_postgres(postgres: PostgresServer) -> AsyncIterator[Store]:
    name = postgres.create()
    async with await open_store(postgres.url(name)) as opened:
        yield opened
    postgres.drop(name)


async def lived_in(store: Store, seed: int) -> tuple[User, Oracle]:
    """Make thirty feeds, some tagged, with items whose dates are unrelated to their arrival."""
    dice = random.Random(seed)
    new = [NewFeed(f"https://{n}.example/", tags=("few",) if n < 2 else ("many",)) for n in range(30)]
    feeds = [one.feed for one in await store.write(add_and_subscribe, new, NOW)]
    for batch in range(4):
        verdicts = []
        for feed in feeds:
            at = NOW + 60 * batch + dice.random()
            items = [
                an_item(feed.id, f"{batch}-{n}", published=NOW + dice.randrange(20), first_seen=at)
                for n in range(dice.randrange(5))
            ]
            verdicts.append(a_verdict(feed, *items, at=at))
        dice.shuffle(verdicts)
        await save_refreshes(store, verdicts)
    every = await store.read(list_items, limit=BIG)
    return await store.read(find_owner), Oracle(
        {one.id: one.feed_id for one in every if one.id},
        {one.id: one.published for one in every if one.id},
        {one.id: one.first_seen for one in every if one.id},
        {feed.id: set(feed.tags) for feed in feeds},
    )


async def all_of(store: Store, user: User, which: Stream, part: StreamQuery) -> list[ReaderItem]:
    """Return a whole stream, page by page."""
    found: list[ReaderItem] = []
    before = None
    while True:
        page = await store.read(
            list_reader_items,
            user.id,
            which,
            StreamQuery(
                unread=part.unread,
                starred=part.starred,
                since=part.since,
                until=part.until,
                before=before,
                limit=part.limit,
                oldest_first=part.oldest_first,
                by_arrival=part.by_arrival,
            ),
        )
        found += page.items
        before = page.next
        if before is None:
            return found


async def agree(store: Store, user: User, oracle: Oracle) -> None:
    some_feed = min(oracle.tags)
    for which in (Stream(), Stream(feed=some_feed), Stream(tag="few"), Stream(tag="many"), Stream(tag="none")):
        for part in (
            StreamQuery(limit=37),
            StreamQuery(unread=True, limit=23),
            StreamQuery(unread=False, limit=41, oldest_first=True),
            StreamQuery(unread=True, by_arrival=True, limit=1000, since=NOW + 60, until=NOW + 120.5),
            StreamQuery(starred=True, limit=9),
        ):
            found = await all_of(store, user, which, part)
            assert [one.item.id for one in found] == oracle.ids(which, part), (which, part)
            assert [one.read for one in found] == [one.item.id in oracle.read for one in found]
            assert [one.starred for one in found] == [one.item.id in oracle.starred for one in found]
    counts = await store.read(count_unread, user.id)
    unread = oracle.ids(Stream(), StreamQuery(unread=True))
    assert counts.total == len(unread)
    assert {id: each.count for id, each in counts.feeds.items()} == {
        feed: number for feed in oracle.tags if (number := sum(oracle.feed_of[id] == feed for id in unread))
    }
    for tag in ("few", "many"):
        number = len(oracle.ids(Stream(tag=tag), StreamQuery(unread=True)))
        assert (counts.tags[tag].count if tag in counts.tags else 0) == number
    assert counts.starred == len(oracle.starred)


async def live_on(store: Store, user: User, oracle: Oracle, turn: int, dice: random.Random) -> None:
    """Add items, mark some and undo it, change the tags of a feed, and unsubscribe from another."""
    feeds = sorted(oracle.tags)
    verdicts = []
    for feed_id in dice.sample(feeds, 3):
        at = NOW + 300 + turn
        item = an_item(feed_id, f"later-{turn}", published=NOW + dice.randrange(20), first_seen=at)
        verdicts.append(a_verdict(await store.read(find_feed, feed_id), item, at=at))
    for saved, verdict in zip(await save_refreshes(store, verdicts), verdicts, strict=True):
        (id,) = saved.new_ids
        oracle.feed_of[id] = verdict.new[0].feed_id
        oracle.published[id], oracle.arrived[id] = verdict.new[0].published, verdict.new[0].first_seen
    some = dice.sample(sorted(oracle.feed_of), 40)
    marked = await store.write(mark_items_read, user.id, some, NOW)
    assert marked.count == len(set(some) - oracle.read)
    if turn % 2 and marked.undo is not None:
        await store.write(undo_mark_read, user.id, marked.undo, NOW)
    else:
        oracle.read |= set(some)
    tagged, gone = dice.sample(feeds, 2)
    await store.write(change_tags, user.id, feed_id=tagged, add=["few"], remove=["many"])
    oracle.tags[tagged] = {"few"}
    of_gone = [id for id, feed_id in oracle.feed_of.items() if feed_id == gone]
    await store.write(mark_items, user.id, of_gone, NOW, starred=False)  # starred items would stay
    await store.write(move_subscription_to_trash, user.id, gone, by=SOMEBODY)
    del oracle.tags[gone]
    oracle.feed_of = {id: feed_id for id, feed_id in oracle.feed_of.items() if feed_id != gone}
    oracle.read -= set(of_gone)
    oracle.starred -= set(of_gone)


@pytest.mark.parametrize(
    ("look_at_least", "line", "each"),
    [(600, 0, 2), (2, 100, 20), (0, 1000, 1000)],
)
async def test_streams_and_counts_say_what_was_marked(
    store: Store, look_at_least: int, line: int, each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Covers the query plans for rare and for frequent items, and positions that count as far back, mixed and near."""
    monkeypatch.setattr(stream_positions, "LOOK_AT_LEAST", look_at_least)
    monkeypatch.setattr(stream_positions, "LOOK_PER_ITEM", 6 if look_at_least == 600 else 0)
    monkeypatch.setattr(stream_positions, "NEAR_ITEMS", line)
    monkeypatch.setattr(stream_positions, "ITEMS_PER_FEED", each)
    monkeypatch.setattr(marks, "WORTH_MOVING", 5)
    user, oracle = await lived_in(store, seed=look_at_least)
    dice = random.Random(5)
    undos: list[tuple[int, set[int]]] = []
    await agree(store, user, oracle)
    for turn in range(6):
        some = dice.sample(sorted(oracle.feed_of), 25)
        read, star = dice.random() < 0.6, dice.choice([None, True, False])
        assert await store.write(mark_items, user.id, some, NOW + turn, read=read, starred=star) == 25
        oracle.read = oracle.read | set(some) if read else oracle.read - set(some)
        if star is not None:
            oracle.starred = oracle.starred | set(some) if star else oracle.starred - set(some)
        which = dice.choice([Stream(), Stream(feed=dice.choice(sorted(oracle.tags))), Stream(tag="many")])
        bound = {"until": NOW + dice.random() * 200} if turn % 2 else {"up_to": dice.choice(sorted(oracle.feed_of))}
        now_read = {
            id
            for id in oracle.ids(which, StreamQuery(unread=True))
            if (oracle.arrived[id] < bound["until"] if "until" in bound else id <= bound["up_to"])
        }
        done = await store.write(mark_stream_read, user.id, which, now=NOW, **bound)
        assert done.count == len(now_read)
        oracle.read |= now_read
        await agree(store, user, oracle)
        if done.undo is not None and dice.random() < 0.6:
            await store.write(undo_mark_read, user.id, done.undo, NOW)
            oracle.read -= now_read
            undos.append((done.undo, now_read))
            with pytest.raises(NotFound):
                await store.write(undo_mark_read, user.id, done.undo, NOW)
            await agree(store, user, oracle)
        await live_on(store, user, oracle, turn, dice)
        await agree(store, user, oracle)
    assert undos
    monkeypatch.setattr(marks, "MANY_READ", 2)
    assert await compact_all_marks(store, NOW + 1e9) > 0
    await agree(store, user, oracle)
    assert await compact_all_marks(store, NOW + 1e9) == 0


async def test_an_unread_item_that_gets_another_date_stands_where_that_puts_it(store: Store) -> None:
    feed = await one_feed(store)
    items = [an_item(feed.id, name, published=NOW + n) for n, name in enumerate("abc")]
    await save_refreshes(store, [a_verdict(feed, *items)])
    user = await store.read(find_owner)
    ids = sorted(one.id or 0 for one in await store.read(list_items))
    await store.write(mark_stream_read, user.id, now=NOW)
    await store.write(mark_items, user.id, ids, NOW, read=False)
    later = replace(items[0], published=NOW + 9, content_hash="other")
    await save_refreshes(store, [a_verdict(feed, updated=(later,), at=NOW + 60)])
    for limit in (1, 3):
        found = await all_of(store, user, Stream(), StreamQuery(unread=True, limit=limit))
        assert [one.item.identity for one in found] == ["a", "c", "b"]


async def test_positions_of_what_is_read_go_to_the_newest_item_of_all(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marks, "WORTH_MOVING", 0)
    quiet, lively = [
        one.feed for one in await store.write(add_and_subscribe, [NewFeed(f"https://{n}.example/") for n in "ab"], NOW)
    ]
    await save_refreshes(
        store, [a_verdict(quiet, an_item(quiet.id, "old")), a_verdict(lively, an_item(lively.id, "new"))]
    )
    user = await store.read(find_owner)
    await store.write(mark_stream_read, user.id, Stream(feed=quiet.id), now=NOW, up_to=1)
    await compact_all_marks(store, NOW + 1e6)
    assert [one.read_up_to for one in await store.read(list_subscriptions, user.id)] == [2, 0]
    assert [one.item.identity for one in await all_of(store, user, Stream(), StreamQuery(unread=True))] == ["new"]


async def being_saved(
    store: Store, monkeypatch: pytest.MonkeyPatch, verdict: Verdict
) -> tuple[asyncio.Task[list[SavedRefresh]], asyncio.Event]:
    """Start saving a batch; it has its ids and waits for the returned event."""
    has_ids, gate = asyncio.Event(), asyncio.Event()
    in_turn = outbox.lock_outbox

    def held_up(connection: Connection) -> None:
        """Hold the batch before the lock, after it has taken its ids."""
        if not has_ids.is_set():
            has_ids.set()
            await_only(gate.wait())
        in_turn(connection)

    monkeypatch.setattr(outbox, "lock_outbox", held_up)
    saving = asyncio.create_task(save_refreshes(store, [verdict]))
    await has_ids.wait()
    return saving, gate


@pytest.mark.parametrize("bound", [{}, {"up_to": 10**9}, {"until": NOW + 100}])
async def test_an_item_that_is_being_saved_while_all_is_marked_read_is_unread(
    on_postgres: Store, bound: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In PostgreSQL transactions end in any order: an item may appear before older ones."""
    store = on_postgres
    monkeypatch.setattr(marks, "WORTH_MOVING", 0)
    one, two = [
        each.feed
        for each in await store.write(add_and_subscribe, [NewFeed(f"https://{n}.example/") for n in "ab"], NOW)
    ]
    await save_refreshes(store, [a_verdict(one, an_item(one.id, "old"))])
    user = await store.read(find_owner)
    slow = a_verdict(one, an_item(one.id, "slow", first_seen=NOW + 200), at=NOW + 1)
    saving, gate = await being_saved(store, monkeypatch, slow)
    await save_refreshes(store, [a_verdict(two, an_item(two.id, "quick"))])
    marked = await store.write(mark_stream_read, user.id, now=NOW, **bound)
    assert (marked.count, (await store.read(count_unread, user.id)).total) == (2, 0)
    await compact_all_marks(store, NOW + 1e6)
    gate.set()
    [saved] = await saving
    assert saved.new_ids[0] < max(each.id or 0 for each in await store.read(list_items))
    assert [each.item.identity for each in await all_of(store, user, Stream(), StreamQuery(unread=True))] == ["slow"]
    assert (await store.read(count_unread, user.id)).total == 1
    assert marked.undo is not None
    marked = await store.write(mark_stream_read, user.id, now=NOW)
    assert marked.undo is not None
    await store.write(undo_mark_read, user.id, marked.undo, NOW)
    assert [each.item.identity for each in await all_of(store, user, Stream(), StreamQuery(unread=True))] == ["slow"]


async def test_postgres_keeps_the_plan_of_a_list(on_postgres: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planning takes longer than answering; with unknown limits PostgreSQL would plan each query again."""
    store = on_postgres
    monkeypatch.setattr(stream_positions, "NEAR_ITEMS", 0)  # everything counts as far back
    feed = await one_feed(store)
    await save_refreshes(store, [a_verdict(feed, *(an_item(feed.id, str(n)) for n in range(200)))])
    user = await store.read(find_owner)
    for _ in range(12):
        assert len((await store.read(list_reader_items, user.id, Stream(), StreamQuery(unread=True))).items) == 100
    asked = "SELECT generic_plans, custom_plans FROM pg_prepared_statements WHERE statement LIKE '%LIMIT 101'"
    [(kept, made)] = await store.read(lambda connection: connection.exec_driver_sql(asked).all())
    assert kept > made


async def test_some_are_marked_read_and_taken_back_to_what_they_were(store: Store) -> None:
    feed = await one_feed(store)
    await save_refreshes(store, [a_verdict(feed, *(an_item(feed.id, name) for name in "abcd"))])
    user, other = await store.read(find_owner), await store.write(add_user, "Other", None, NOW)
    a, b, c, d = sorted(one.id or 0 for one in await store.read(list_items))
    await store.write(mark_stream_read, user.id, now=NOW, up_to=b)
    await store.write(mark_items, user.id, [a], NOW, read=False)
    await store.write(mark_items, user.id, [c], NOW, read=True)

    async def unread() -> set[int]:
        return {one.id for one in (await store.read(list_reader_items, user.id, part=StreamQuery(unread=True))).items}

    assert await unread() == {a, d}
    marked = await store.write(mark_items_read, user.id, [a, b, c, d, d, 10**9], NOW + 1)
    assert (marked.count, await unread()) == (2, set())
    assert (await store.write(mark_items_read, user.id, [a, b, c, d], NOW + 1)).undo is None
    assert (
        await store.write(mark_items_read, other.id, [a, b, c, d], NOW + 1)
    ).count == 0  # does not subscribe to the feed
    assert marked.undo is not None
    with pytest.raises(NotFound):
        await store.write(undo_mark_read, other.id, marked.undo, NOW + 2)
    await store.write(undo_mark_read, user.id, marked.undo, NOW + 2)
    assert await unread() == {a, d}
    assert (await store.read(count_unread, user.id)).total == 2


async def test_what_is_stored_while_a_page_is_loaded_and_not_shown_stays_unread(
    on_postgres: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page knows the last item up to which it is complete, and its items beyond; only those are marked."""
    store = on_postgres
    one, two = [
        each.feed
        for each in await store.write(add_and_subscribe, [NewFeed(f"https://{n}.example/") for n in "ab"], NOW)
    ]
    await save_refreshes(store, [a_verdict(one, an_item(one.id, "old"))])
    user = await store.read(find_owner)
    saving, gate = await being_saved(store, monkeypatch, a_verdict(one, an_item(one.id, "slow"), at=NOW + 1))
    await save_refreshes(store, [a_verdict(two, an_item(two.id, "quick"))])
    settled = await store.read(find_last_settled_item)
    shown = (await store.read(list_reader_items, user.id)).items
    assert {each.item.identity for each in shown} == {"old", "quick"}
    gate.set()
    await saving
    beyond = [each.id for each in shown if (each.item.id or 0) > settled]
    marked = await store.write(mark_stream_read, user.id, now=NOW + 2, until=NOW + 2, up_to=settled, also=beyond)
    assert marked.count == 2
    assert [each.item.identity for each in await all_of(store, user, Stream(), StreamQuery(unread=True))] == ["slow"]
    assert marked.undo is not None
    await store.write(undo_mark_read, user.id, marked.undo, NOW + 3)
    assert (await store.read(count_unread, user.id)).total == 3


async def test_what_is_not_subscribed_is_not_reachable(store: Store) -> None:
    feed = await one_feed(store)
    await save_refreshes(store, [a_verdict(feed, an_item(feed.id, "a"))])
    (item,) = await store.read(list_items)
    owner = await store.read(find_owner)
    other = await store.write(add_user, "Other", None, NOW)
    assert item.id is not None
    assert await store.write(mark_items, other.id, [item.id], NOW, starred=True, read=True) == 0
    assert await store.read(find_reader_items, other.id, [item.id, 999, HIT_ID_OFFSET + 1, -5, 2**63 - 1]) == []
    assert (await store.read(list_reader_items, other.id)).items == ()
    assert (await search_reader_items(store, other.id, "title"))[1] == []
    for work in (
        store.read(list_reader_items, other.id, Stream(feed=feed.id)),
        store.write(move_subscription_to_trash, other.id, feed.id, by=SOMEBODY),
        store.write(change_subscription_title, other.id, "mine", feed_id=feed.id),
        store.write(change_tags, other.id, feed_id=feed.id, add=["x"]),
        store.write(mark_stream_read, other.id, Stream(feed=feed.id), now=NOW),
        store.read(list_reader_items, other.id, Stream(query=1)),
    ):
        with pytest.raises(NotFound):
            await work
    assert [one.item.id for one in (await store.read(list_reader_items, owner.id)).items] == [item.id]
    assert len((await search_reader_items(store, owner.id, "title"))[1]) == 1


async def test_marks_of_one_person_are_not_those_of_another(store: Store) -> None:
    feed = await one_feed(store)
    await save_refreshes(store, [a_verdict(feed, *(an_item(feed.id, str(n)) for n in range(5)))])
    owner = await store.read(find_owner)
    other = await store.write(add_user, "Other", None, NOW)
    await store.write(subscribe_to_feed, other.id, feed.id, NOW)
    ids = [one.id for one in await store.read(list_items) if one.id]
    await store.write(mark_items, owner.id, ids[:2], NOW, starred=True)
    done = await store.write(mark_stream_read, owner.id, now=NOW)
    assert (await store.read(count_unread, owner.id)).total == 0
    theirs = await store.read(count_unread, other.id)
    assert (theirs.total, theirs.starred) == (5, 0)
    assert done.undo is not None
    with pytest.raises(NotFound):
        await store.write(undo_mark_read, other.id, done.undo, NOW)


async def test_a_new_subscriber_need_not_read_what_the_feed_no_longer_shows(store: Store) -> None:
    feed = await one_feed(store)
    for batch in range(3):
        items = [an_item(feed.id, f"{batch}-{n}") for n in range(20)]
        await save_refreshes(store, [a_verdict(feed, *items, at=NOW + batch)])
    other = await store.write(add_user, "Other", None, NOW)
    await store.write(subscribe_to_feed, other.id, feed.id, NOW)
    assert (await store.read(count_unread, other.id)).total == 20  # its window
    assert len((await store.read(list_reader_items, other.id, part=StreamQuery(limit=100))).items) == 60


async def test_what_nobody_reads_is_left_alone_and_comes_back(store: Store) -> None:
    feed = await one_feed(store, weight=3.0)
    named = await one_feed(store, "https://example.org/named", name="news")
    await store.write(run_script, "CREATE FEED q AS FROM news", NOW)
    await save_refreshes(store, [a_verdict(feed, an_item(feed.id, "a"))])
    owner = await store.read(find_owner)
    other = await store.write(add_user, "Other", None, NOW)
    await store.write(subscribe_to_feed, other.id, feed.id, NOW)
    await store.write(move_subscription_to_trash, owner.id, feed.id, by=SOMEBODY)
    assert not (await store.read(find_feed, feed.id)).paused
    undo = await store.write(move_user_to_trash, other.id, by=SOMEBODY)
    assert not (await store.read(find_feed, feed.id)).paused  # the account may be restored
    before = await store.read(read_revision)
    assert await store.write(empty_trash, [undo]) == 1
    assert (await store.read(find_feed, feed.id)).paused
    assert await store.read(read_revision) > before
    await store.write(move_subscription_to_trash, owner.id, named.id, by=SOMEBODY)
    assert not (await store.read(find_feed, named.id)).paused  # a query names it
    assert await store.read(count_items) == 1
    await store.write(subscribe_to_feed, owner.id, feed.id, NOW)
    again = await store.read(find_feed, feed.id)
    assert not again.paused
    assert again.weight == 1.0


async def test_the_owners_tags_are_the_feeds_and_nobody_elses_are(store: Store) -> None:
    feed = await one_feed(store, tags=("a",))
    owner = await store.read(find_owner)
    other = await store.write(add_user, "Other", None, NOW)
    await store.write(add_and_subscribe, [NewFeed(feed.url, tags=("mine",))], NOW, subscriber=other.id)
    await store.write(change_tags, owner.id, feed_id=feed.id, add=["b"], remove=["a"])
    assert (await store.read(find_feed, feed.id)).tags == ("b",)
    await store.write(change_feed, feed.id, tags=["c", "d"])
    tags = {user.id: (await store.read(list_subscriptions, user.id))[0].tags for user in (owner, other)}
    assert tags == {owner.id: ("c", "d"), other.id: ("mine",)}
    await store.write(rename_subscription_tag, owner.id, "c", "d")
    assert (await store.read(find_feed, feed.id)).tags == ("d",)
    await store.write(move_tag_to_trash, owner.id, "d", by=SOMEBODY)
    assert (await store.read(find_feed, feed.id)).tags == ()
    with pytest.raises(NotFound):
        await store.write(rename_subscription_tag, other.id, "c", "x")
    with pytest.raises(InputError):
        await store.write(change_tags, owner.id, feed_id=feed.id, add=["\n"])


async def test_what_is_starred_survives_retention_and_other_marks_go_with_their_items(store: Store) -> None:
    feed = await one_feed(store)
    await save_refreshes(store, [a_verdict(feed, *(an_item(feed.id, str(n)) for n in range(6)))])
    owner = await store.read(find_owner)
    ids = sorted(one.id for one in await store.read(list_items) if one.id)
    await store.write(mark_items, owner.id, ids[:4], NOW, read=True)
    await store.write(mark_items, owner.id, ids[:1], NOW, starred=True)
    await store.write(delete_expired, RetentionPolicy(days=1), NOW + 2 * 86_400)
    left = (await store.read(list_reader_items, owner.id)).items
    assert [(one.item.id, one.starred) for one in left] == [(ids[0], True)]
    assert (await store.read(count_unread, owner.id)).total == 0
    await store.write(move_subscription_to_trash, owner.id, feed.id, by=SOMEBODY)
    assert len((await store.read(list_reader_items, owner.id, part=StreamQuery(starred=True))).items) == 1
    assert len(await store.read(find_reader_items, owner.id, ids)) == 1


async def test_feeds_in_the_store_belong_to_the_owner_with_their_tags(store: Store) -> None:
    feed = await one_feed(store, tags=("news", "world"), title="Gazette")
    owner = await store.read(find_owner)
    assert (owner.name, owner.role, owner.has_password) == ("owner", "owner", False)
    (mine,) = await store.read(list_subscriptions, owner.id)
    assert (mine.feed_id, mine.title, mine.tags) == (feed.id, "Gazette", ("news", "world"))
    await store.write(change_subscription_title, owner.id, "My own", feed_id=feed.id)
    assert (await store.read(list_subscriptions, owner.id))[0].title == "My own"
    await store.write(change_subscription_title, owner.id, None, feed_id=feed.id)
    assert (await store.read(list_subscriptions, owner.id))[0].title == "Gazette"


@pytest.mark.parametrize("limit", [-5, 0, 10**9])
async def test_absurd_limits_are_bounded(store: Store, limit: int) -> None:
    feed = await one_feed(store)
    await save_refreshes(store, [a_verdict(feed, *(an_item(feed.id, str(n)) for n in range(3)))])
    owner = await store.read(find_owner)
    assert len((await store.read(list_reader_items, owner.id, part=StreamQuery(limit=limit))).items) == (
        1 if limit < 1 else 3
    )


async def test_a_list_and_a_mark_cost_postgresql_one_or_two_questions(
    on_postgres: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round trip costs more than the answer there."""
    store = on_postgres
    monkeypatch.setattr(stream_positions, "NEAR_ITEMS", 0)  # everything counts as far back
    user, oracle = await lived_in(store, seed=1)
    some = sorted(oracle.feed_of)[:20]
    while await store.write(index_queued, 1000):
        pass
    asked: list[str] = []
    execute = Connection.execute

    def record(self: Connection, statement: Any, *args: Any, **more: Any) -> Any:
        asked.append(str(statement))
        return execute(self, statement, *args, **more)

    monkeypatch.setattr(Connection, "execute", record)
    unread = StreamQuery(unread=True, limit=10, by_arrival=True, queries=True)
    for most, work in (
        (2, lambda: store.read(list_reader_items, user.id, Stream(), unread)),
        (1, lambda: store.read(list_reader_items, user.id, part=StreamQuery(unread=True, limit=10))),
        (1, lambda: store.read(find_reader_items, user.id, some)),
        (1, lambda: search_reader_items(store, user.id, "title")),
        (1, lambda: store.write(mark_items, user.id, some, NOW, read=True)),
        (1, lambda: store.write(mark_items, user.id, some, NOW, read=False, starred=True)),
    ):
        asked.clear()
        await work()
        assert 1 <= len(asked) <= most, asked


async def test_subscriptions_are_read_part_by_part_in_order_and_one_by_one(store: Store) -> None:
    new = [NewFeed(f"https://{n}.example/", tags=("few", "odd") if n % 7 == 1 else ("many",)) for n in range(40)]
    await store.write(add_and_subscribe, new, NOW)
    await store.write(run_script, "CREATE FEED a AS RETURN ALL; CREATE FEED b AS RETURN ALL", NOW)
    user = (await store.read(find_owner)).id
    await store.write(change_tags, user, query_id=1, add=["few"])
    every = await store.read(list_subscriptions, user)
    assert len(every) == 42
    for tag in (None, "few", "many", "none"):
        found: list[Subscription] = []
        after = None
        while some := await store.read(list_subscription_page, user, after=after, limit=3, tag=tag):
            found += some
            last = some[-1]
            after = (0, last.feed_id) if last.feed_id is not None else (1, last.query_id or 0)
        assert found == [one for one in every if tag is None or tag in one.tags]
    counted = Counter(tag for one in every for tag in one.tags)
    assert await store.read(count_subscription_tags, user) == dict(counted)
    for one in (every[5], every[-1]):
        assert await store.read(find_subscription, user, feed_id=one.feed_id, query_id=one.query_id) == one
    assert await store.read(find_subscription, user, feed_id=999) is None
    assert await store.read(find_subscribed_feeds, user, [every[0].feed_id or 0, 999]) == {every[0].feed_id}


async def test_a_part_of_many_subscriptions_costs_no_more_than_of_few(tmp_path: Path) -> None:
    """Compares the CPU of a hundred lists with four hundred and with eight thousand subscriptions."""
    took: list[float] = []
    for number in (400, 8000):
        async with await open_store(sqlite_url(tmp_path / str(number))) as store:
            await store.write(
                add_and_subscribe, [NewFeed(f"https://{n}.example/", tags=("t",)) for n in range(number)], NOW
            )
            user = (await store.read(find_owner)).id
            samples = []
            for _ in range(9):
                start = time.process_time()
                for tag in (None, "t"):
                    assert len(await store.read(list_subscription_page, user, after=(0, 7), limit=100, tag=tag)) == 100
                await store.read(find_subscription, user, feed_id=9)
                samples.append(time.process_time() - start)
            took.append(statistics.median(samples))
    assert took[1] < 4 * took[0]
