"""Feeds are added, found, changed and removed."""

from __future__ import annotations

import asyncio

import pytest

from headwater.errors import InputError, NotFound
from headwater.formats.opml import Outline, read_opml
from headwater.formats.write import write_opml
from headwater.model import Known, Validators
from headwater.store.content.feed_state import iterate_schedule_rows, load_feed_states, load_weights
from headwater.store.content.feeds import NewFeed, change_feed, count_feed_tags, count_feeds, find_feed, list_feeds
from headwater.store.content.items import list_items
from headwater.store.content.outbox import list_outbox_entries
from headwater.store.content.refreshes import list_refreshes
from headwater.store.content.search import index_queued, search_items
from headwater.store.content.verdicts import save_refreshes
from headwater.store.maintenance.trash import empty_trash, move_feed_to_trash
from headwater.store.queries.document_hits import load_item_origins
from headwater.store.readers.accounts import add_user
from headwater.store.readers.subscriptions import add_and_subscribe, list_subscriptions
from headwater.store.store import Store
from support.store_samples import NOW, SOMEBODY, a_verdict, an_item, find_seen_of_feed, one_feed


async def test_feeds_get_ids_in_the_order_given_and_are_found_by_id_address_and_name(store: Store) -> None:
    added = await store.write(
        add_and_subscribe, [NewFeed("https://b.org/x", name="bee"), NewFeed("https://a.org/")], NOW
    )
    assert [one.created for one in added] == [True, True]
    bee, a = (one.feed for one in added)
    assert bee.id < a.id
    for ref in (bee.id, str(bee.id), "https://b.org/x", "HTTPS://B.org:443/x#top", "bee"):
        assert await store.read(find_feed, ref) == bee
    assert await store.read(find_feed, "https://a.org") == a


async def test_an_address_is_one_feed_however_it_is_written(store: Store) -> None:
    first, second, third = await store.write(
        add_and_subscribe,
        [
            NewFeed("http://Example.org", tags=("x",)),
            NewFeed("http://example.org:80/", tags=("y",)),
            NewFeed("http://example.org/?"),
        ],
        NOW,
    )
    assert (first.created, second.created) == (True, False)
    assert first.feed.id == second.feed.id
    assert first.feed.tags == ("x", "y")
    (again,) = await store.write(
        add_and_subscribe, [NewFeed("http://example.org/", tags=("z",), title="Other")], NOW + 1
    )
    assert not again.created
    assert again.feed.tags == ("x", "y", "z")
    assert again.feed.title is None
    assert third.feed.id in (first.feed.id, third.feed.id)


async def test_thousands_of_feeds_are_added_at_once_and_progress_is_told(store: Store) -> None:
    told: list[int] = []
    new = [NewFeed(f"https://example.org/{k}", tags=("all", f"k{k % 7}")) for k in range(3500)]
    added = await store.write(add_and_subscribe, new, NOW, progress=told.append)
    assert [one.feed.url for one in added] == [one.url for one in new]
    assert told[-1] == 3500
    assert told == sorted(told)
    assert len(told) > 1
    assert await store.read(count_feeds) == 3500
    assert dict(await store.read(count_feed_tags))["all"] == 3500
    assert len(await store.read(list_feeds, tag="k0")) == 500
    page = await store.read(list_feeds, after=added[9].feed.id, limit=10)
    assert [feed.url for feed in page] == [one.url for one in new[10:20]]
    seen = [row.feed_id async for rows in iterate_schedule_rows(store, chunk=999) for row in rows]
    assert seen == [one.feed.id for one in added]


async def test_a_name_that_is_taken_is_refused_and_nothing_is_added(store: Store) -> None:
    await one_feed(store, name="news")
    with pytest.raises(InputError, match=r"“news” already belongs to https://example.org/feed"):
        await store.write(add_and_subscribe, [NewFeed("https://x.org/"), NewFeed("https://y.org/", name="news")], NOW)
    with pytest.raises(InputError, match="Two feeds want the name “same”"):
        await store.write(
            add_and_subscribe, [NewFeed("https://x.org/", name="same"), NewFeed("https://y.org/", name="same")], NOW
        )
    assert await store.read(count_feeds) == 1


async def test_what_is_not_there_is_reported_with_what_might_have_been_meant(store: Store) -> None:
    await one_feed(store, "https://planet.python.org/rss20.xml", name="planet-python")
    with pytest.raises(NotFound, match="Did you mean planet-python"):
        await store.read(find_feed, "planet-pyton")
    with pytest.raises(NotFound, match=r"Did you mean https://planet.python.org/rss20.xml"):
        await store.read(find_feed, "https://planet.python.org/rss2.xml")
    other = await one_feed(store, "https://b.example/feed", title="Delta Science Weekly")
    with pytest.raises(NotFound, match=rf"Did you mean {other.id} \(Delta Science Weekly\)\?"):
        await store.read(find_feed, "science")
    await store.write(add_and_subscribe, [NewFeed(f"https://volcano.example/{k}") for k in range(9)], NOW)
    with pytest.raises(NotFound, match=r"feeds list --search 'volcano'"):
        await store.read(find_feed, "volcano")
    for ref in (99, "99", "9" * 40, "", "%", "nothing like it", "\x00", "\ud800"):
        with pytest.raises(NotFound):
            await store.read(find_feed, ref)


async def test_searching_feeds_takes_wildcards_as_text(store: Store) -> None:
    await store.write(
        add_and_subscribe, [NewFeed("https://a.org/100%25"), NewFeed("https://b.org/", title="Snow_White")], NOW
    )
    assert [feed.url for feed in await store.read(list_feeds, search="SNOW_")] == ["https://b.org/"]
    assert [feed.url for feed in await store.read(list_feeds, search="%")] == ["https://a.org/100%25"]
    assert await store.read(list_feeds, search="_x_") == []


async def test_a_title_given_by_hand_stays_until_it_is_taken_back(store: Store) -> None:
    feed = await one_feed(store, title="from the list")
    assert (await store.write(change_feed, feed.id, title="Mine")).title == "Mine"
    await save_refreshes(store, [a_verdict(feed, title="Publisher's")])
    assert (await store.read(find_feed, feed.id)).title == "Mine"
    assert (await store.write(change_feed, feed.id, title=None)).title == "Publisher's"


async def test_changes_are_kept_and_impossible_ones_refused(store: Store) -> None:
    feed = await one_feed(store, tags=("old",))
    other = await one_feed(store, "https://other.org/", name="other")
    changed = await store.write(
        change_feed, feed.id, name="n", weight=2.5, interval=600.0, paused=True, tags=("b", "a")
    )
    assert (changed.name, changed.weight, changed.interval, changed.tags) == ("n", 2.5, 600.0, ("a", "b"))
    assert changed.paused
    assert await store.read(find_feed, feed.id) == changed
    with pytest.raises(InputError, match="belongs to"):
        await store.write(change_feed, feed.id, name="other")
    with pytest.raises(InputError, match="belongs to"):
        await store.write(change_feed, feed.id, url=other.url)
    with pytest.raises(InputError, match="no “colour”"):
        await store.write(change_feed, feed.id, colour="red")
    with pytest.raises(NotFound):
        await store.write(change_feed, 999, paused=True)
    assert await store.read(find_feed, feed.id) == changed


async def test_a_new_address_does_not_get_the_old_ones_validators(store: Store) -> None:
    feed = await one_feed(store)
    known = Known(feed.id, feed.url, validators=Validators("etag", "date"), failures=3, not_before=NOW + 9, hub="h")
    await save_refreshes(store, [a_verdict(feed, known=known)])
    await store.write(change_feed, feed.id, url="https://elsewhere.org/")
    assert (await store.read(load_feed_states, [feed.id]))[feed.id] == Known(feed.id, "https://elsewhere.org/")


async def test_removing_a_feed_leaves_nothing_of_it(store: Store) -> None:
    feed, other = await one_feed(store), await one_feed(store, "https://other.org/")
    await save_refreshes(store, [a_verdict(feed, an_item(feed.id)), a_verdict(other, an_item(other.id))])
    await store.write(index_queued)
    await store.write(move_feed_to_trash, feed.id, by=SOMEBODY)
    assert await store.read(load_feed_states, [feed.id]) == {}
    assert [item.feed_id for item in await store.read(list_items)] == [other.id]
    assert [item.feed_id for item in (await search_items(store, "title")).items] == [other.id]
    assert [entry.item.feed_id for entry in await store.read(list_outbox_entries, 0)] == [other.id]
    assert [one.feed_id for one in await store.read(list_refreshes)] == [other.id]
    with pytest.raises(NotFound):
        await store.write(move_feed_to_trash, feed.id, by=SOMEBODY)
    assert await store.write(empty_trash) == 1
    assert await store.read(find_seen_of_feed, feed.id, ["a"]) == {}
    again = await one_feed(store)
    assert again.id not in (feed.id, other.id)  # an id is never reused


async def test_what_somebody_may_bring_is_counted_where_nobody_else_adds_for_them(store: Store) -> None:
    reader = await store.write(add_user, "Reader", None, NOW)

    def allowed(new: int, alone: int) -> None:
        if new + alone > 3:
            raise InputError(f"{alone} and {new}")

    async def add(n: int) -> bool:
        try:
            await store.write(
                add_and_subscribe, [NewFeed(f"https://{n}.example/")], NOW, subscriber=reader.id, allowed=allowed
            )
        except InputError:
            return False
        return True

    assert sum(await asyncio.gather(*map(add, range(8)))) == 3
    assert len(await store.read(list_subscriptions, reader.id)) == len(await store.read(list_feeds)) == 3


async def test_weights_and_origins_are_told_of_all_feeds_at_once(store: Store) -> None:
    added = await store.write(
        add_and_subscribe,
        [NewFeed("http://a.example/", weight=2.5, tags=("x", "b")), NewFeed("http://b.example/")],
        1.0,
    )
    a, b = (one.feed for one in added)
    assert await store.read(load_weights) == {a.id: 2.5, b.id: 1.0}
    origins = await store.read(load_item_origins)
    assert {feed: (one.url, one.tags) for feed, one in origins.items()} == {
        a.id: ("http://a.example/", ("b", "x")),
        b.id: ("http://b.example/", ()),
    }


async def test_a_title_that_xml_forbids_survives_an_opml_round_trip(store: Store) -> None:
    (added,) = await store.write(add_and_subscribe, [NewFeed("https://a.org/", title="a\ufffe\uffff\x01b")], NOW)
    feed = await store.write(change_feed, added.feed.id, name="c\ufffed")
    assert (feed.title, feed.name) == ("a���b", "c�d")
    (again,) = read_opml(write_opml([Outline(feed.url, feed.title)])).feeds
    assert again.title == feed.title
