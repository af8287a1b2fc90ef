"""The store answers the pages' reads on both databases: lists by state and cause, similar feeds, merging,
suggestions.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from headwater.errors import InputError, NotFound
from headwater.model import Ending, Feed, Known, Refresh, Verdict
from headwater.store.content.feed_overview import (
    FeedFilter,
    count_feed_states,
    find_similar_feeds,
    group_failures,
    list_feed_overviews,
    list_item_times,
    list_publication_times,
    load_window_sizes,
)
from headwater.store.content.feeds import NewFeed, change_feed, find_feed, find_feeds, merge_feeds
from headwater.store.content.items import list_items
from headwater.store.content.search import search_items
from headwater.store.content.verdicts import save_refreshes
from headwater.store.maintenance.trash import move_subscription_to_trash
from headwater.store.opening import open_store
from headwater.store.readers.accounts import add_user, find_owner
from headwater.store.readers.marks import mark_items
from headwater.store.readers.recommendations import (
    find_also_read,
    list_feed_interest,
    list_popular_feeds,
    list_recent_texts,
    list_recent_titles,
)
from headwater.store.readers.stream_positions import Stream
from headwater.store.readers.subscriptions import add_and_subscribe, subscribe_to_feed
from headwater.store.store import Store
from headwater.web.shared.suggestions import suggest_by_interest
from support.store_samples import NOW, SOMEBODY, a_verdict, an_item, find_seen_of_feed


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    async with await open_store(database_url) as opened:
        yield opened


async def feeds(store: Store, *new: NewFeed) -> list[Feed]:
    return [added.feed for added in await store.write(add_and_subscribe, new, NOW)]


def failed(feed: Feed, ending: Ending, at: float) -> Verdict:
    known = Known(feed.id, feed.url, last_refresh=at, failures=2, failing_since=at - 100, last_error="It failed.")
    return Verdict(Refresh(feed.id, at, ending, message="It failed."), known)


async def test_feeds_are_listed_by_state_cause_tag_and_words(store: Store) -> None:
    well, slow, gone, new = await feeds(
        store,
        NewFeed("https://a.example/f", title="Well", tags=("news",)),
        NewFeed("https://b.example/f", title="Slow"),
        NewFeed("https://c.example/f", title="Paused"),
        NewFeed("https://d.example/f", title="New 100% _"),
    )
    await save_refreshes(store, [a_verdict(well, an_item(well.id, "x"), at=NOW), failed(slow, Ending.TIMEOUT, NOW)])
    await store.write(change_feed, gone.id, paused=True)

    async def titles(**which: Any) -> list[str | None]:
        return [row.feed.title for row in await store.read(list_feed_overviews, FeedFilter(**which))]

    assert await titles() == ["Well", "Slow", "Paused", "New 100% _"]
    assert [row.feed.title for row in await store.read(list_feed_overviews, after=well.id, limit=2)] == [
        "Slow",
        "Paused",
    ]
    assert await titles(state="failing") == ["Slow"]
    assert await titles(state="paused") == ["Paused"]
    assert await titles(state="new") == ["Paused", "New 100% _"]
    assert await titles(ending=Ending.TIMEOUT) == ["Slow"]
    assert await titles(ending=Ending.DNS) == []
    assert await titles(tag="news") == ["Well"]
    assert await titles(search="100% _") == ["New 100% _"]
    (row,) = await store.read(list_feed_overviews, FeedFilter(search="well"))
    assert (row.items, row.window) == (1, 1)
    (trouble,) = await store.read(group_failures)
    assert (trouble.ending, trouble.feeds, trouble.since) == (Ending.TIMEOUT, 1, NOW - 100)
    assert [row.feed.id for row in trouble.examples] == [slow.id]
    assert new.id in await store.read(find_feeds, [new.id, 999])
    owner = await store.read(find_owner)
    assert await store.read(count_feed_states, owner.id, Stream()) == {"well": 1, "failing": 1, "paused": 1, "new": 1}
    assert await store.read(count_feed_states, owner.id, Stream(tag="news")) == {"well": 1}
    assert await store.read(count_feed_states, owner.id, Stream(feed=slow.id)) == {"failing": 1}
    assert await store.read(count_feed_states, owner.id + 1, Stream()) == {}


async def test_merging_moves_what_is_new_and_removes_the_other(store: Store) -> None:
    keep, other = await feeds(
        store,
        NewFeed("https://a.example/f", title="Same", tags=("x",)),
        NewFeed("https://b.example/f", title="Same", tags=("y",)),
    )
    await save_refreshes(store, [a_verdict(keep, an_item(keep.id, "both"), an_item(keep.id, "mine"), at=NOW)])
    await save_refreshes(store, [a_verdict(other, an_item(other.id, "both"), an_item(other.id, "theirs"), at=NOW)])
    assert [feed.id for feed in await store.read(find_similar_feeds, keep.id)] == [other.id]
    moved = await store.write(merge_feeds, keep.id, other.id)
    assert moved == 1
    assert {item.identity for item in await store.read(list_items, feed_id=keep.id)} == {"both", "mine", "theirs"}
    assert (await store.read(find_feed, keep.id)).tags == ("x", "y")
    assert set(await store.read(find_seen_of_feed, keep.id, ["both", "mine", "theirs"])) == {"both", "mine", "theirs"}
    assert len((await search_items(store, "Text")).items) == 3
    with pytest.raises(NotFound):
        await store.read(find_feed, other.id)
    with pytest.raises(InputError):
        await store.write(merge_feeds, keep.id, keep.id)


async def test_times_windows_and_published_are_bounded(store: Store) -> None:
    (feed,) = await feeds(store, NewFeed("https://a.example/f"))
    items = [an_item(feed.id, str(k), published=NOW - k) for k in range(5)]
    items.append(an_item(feed.id, "later", published=NOW + 5))
    items.append(replace(an_item(feed.id, "undated", published=NOW), dated=False))
    await save_refreshes(store, [a_verdict(feed, *items, at=NOW)])
    assert await store.read(list_publication_times, feed.id, NOW - 2) == [NOW + 5, NOW, NOW - 1, NOW - 2]
    assert await store.read(list_item_times, NOW - 10, limit=1) == ([feed.id], [NOW + 5])
    assert await store.read(list_item_times, NOW - 10) == (
        [feed.id] * 2,
        [NOW + 5, NOW],
    )  # not from before it was added
    assert await store.read(load_window_sizes) == {feed.id: 7}


async def test_feeds_are_suggested_only_where_several_others_read_them(store: Store) -> None:
    shared, liked, secret = await feeds(
        store, NewFeed("https://a.example/"), NewFeed("https://b.example/"), NewFeed("https://c.example/")
    )
    me = await store.write(add_user, "me", None, NOW)
    others = [await store.write(add_user, f"other{k}", None, NOW) for k in range(3)]
    owner = await store.read(find_owner)
    for feed in (shared, liked, secret):
        await store.write(move_subscription_to_trash, owner.id, feed.id, by=SOMEBODY)
    await store.write(subscribe_to_feed, me.id, shared.id, NOW)
    for other in others:
        await store.write(subscribe_to_feed, other.id, shared.id, NOW)
    for other in others[:2]:
        await store.write(subscribe_to_feed, other.id, liked.id, NOW)
    await store.write(subscribe_to_feed, others[0].id, secret.id, NOW)
    (also,) = await store.read(find_also_read, me.id)
    assert (also.feed_id, also.because, also.both, also.readers) == (liked.id, shared.id, 2, 3)
    assert await store.read(list_popular_feeds, me.id) == [(liked.id, 2)]
    assert await store.read(find_also_read, others[0].id) == []


async def test_interest_in_feeds_is_shown_from_three_other_people_on_and_of_public_feeds_only(store: Store) -> None:
    hot, secret, quiet = await feeds(
        store, NewFeed("https://a.example/"), NewFeed("https://b.example/f?key=1"), NewFeed("https://c.example/")
    )
    people = [(await store.write(add_user, f"reader{k}", None, NOW)).id for k in range(4)]
    items = {}
    for feed in (hot, secret, quiet):
        await save_refreshes(store, [a_verdict(feed, an_item(feed.id, f"of {feed.id}"), at=NOW)])
        (items[feed.id],) = [one.id for one in await store.read(list_items, feed_id=feed.id)]
    for feed, some in ((hot, people), (secret, people), (quiet, people[:2])):
        for id in some:
            await store.write(subscribe_to_feed, id, feed.id, NOW)
            await store.write(mark_items, id, [items[feed.id]], NOW, read=True, starred=True)

    async def told(user_id: int, now: float) -> tuple[dict[int, str], dict[int, str]]:
        some = await suggest_by_interest(store, await store.read(list_feed_interest, now), user_id)
        return tuple({one.feed.id: one.reason for one in each} for each in some)  # type: ignore[return-value]

    read = "read by 3 or more people and starred by 3 or more people"
    # Besides the owner, who reads everything, four readers subscribe to the first and two to the last.
    assert await told(people[0], NOW) == ({hot.id: read}, {hot.id: "3 or more new readers in two weeks"})
    stranger = (await store.write(add_user, "stranger", None, NOW)).id
    assert (await told(stranger, NOW))[0] == {hot.id: read}  # three and four look alike
    assert await told(stranger, NOW + 20 * 86_400) == ({hot.id: "starred by 3 or more people"}, {})
    assert await told(stranger, NOW + 40 * 86_400) == ({}, {})


async def test_titles_and_texts_are_of_what_a_person_reads(store: Store) -> None:
    mine, other = await feeds(store, NewFeed("https://a.example/"), NewFeed("https://b.example/"))
    for feed in (mine, other):
        await save_refreshes(store, [a_verdict(feed, an_item(feed.id, f"of {feed.id}"), at=NOW)])
    me = await store.write(add_user, "me", None, NOW)
    await store.write(subscribe_to_feed, me.id, mine.id, NOW)
    assert [(feed, title) for _, feed, _, title in await store.read(list_recent_titles, me.id, NOW - 5)] == [
        (mine.id, f"Title of of {mine.id}")
    ]
    assert [feed for feed, _ in await store.read(list_recent_texts, me.id)] == [mine.id]
