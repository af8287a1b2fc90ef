"""WebSub leases at hubs are stored, confirmed, renewed and ended, on both databases."""

from __future__ import annotations

from msgspec.structs import replace

from headwater.model import Feed
from headwater.store.content.feeds import change_feed
from headwater.store.content.verdicts import save_refreshes
from headwater.store.content.websub_leases import (
    WebSubLease,
    add_leases,
    claim_due_leases,
    confirm_lease,
    end_lease,
    expire_leases,
    find_lease_by_key,
    find_leases_of_feeds,
    list_offered_hubs,
    list_pushed_feeds,
    record_received_push,
    refuse_lease,
)
from headwater.store.maintenance.trash import move_feed_to_trash
from headwater.store.store import Store
from support.store_samples import NOW, SOMEBODY, a_verdict, one_feed


async def offered(store: Store, hub: str = "https://hub.example/") -> Feed:
    """Make a feed whose document names a hub."""
    feed = await one_feed(store)
    verdict = a_verdict(feed)
    await save_refreshes(
        store, [replace(verdict, known=replace(verdict.known, hub=hub, topic="https://example.org/self"))]
    )
    return feed


def a_subscription(feed: Feed, key: str = "key", hub: str = "https://hub.example/") -> WebSubLease:
    return WebSubLease(feed.id, key, hub, "https://example.org/self", "secret", due=NOW)


async def test_a_feed_with_a_hub_is_wanted_until_it_is_asked_for_and_again_when_the_hub_changes(store: Store) -> None:
    feed = await offered(store)
    assert await store.read(list_offered_hubs) == [(feed.id, "https://hub.example/", "https://example.org/self")]
    await store.write(add_leases, [a_subscription(feed, hub="https://old.example/")])
    assert len(await store.read(list_offered_hubs)) == 1
    await store.write(add_leases, [a_subscription(feed, "other")])
    assert await store.read(list_offered_hubs) == []
    assert await store.read(find_lease_by_key, "key") is None
    await store.write(change_feed, feed.id, paused=True)
    assert await store.write(claim_due_leases, NOW, NOW + 600, NOW + 900) == []
    assert await store.read(find_lease_by_key, "other") is None


async def test_only_what_is_awaited_is_confirmed_and_a_lease_ends(store: Store) -> None:
    feed = await offered(store)
    await store.write(add_leases, [a_subscription(feed)])
    topic = "https://example.org/self"
    assert await store.write(confirm_lease, "key", topic, NOW, NOW + 100, NOW + 80) is None  # not requested yet
    (claimed,) = await store.write(claim_due_leases, NOW, NOW + 600, NOW + 900)
    assert (claimed.attempts, claimed.pending) == (1, NOW + 600)
    assert await store.write(claim_due_leases, NOW + 1, NOW + 600, NOW + 900) == []
    assert await store.write(confirm_lease, "key", topic, NOW + 601, NOW + 700, NOW + 680) is None  # too late
    assert await store.write(confirm_lease, "key", "https://other/", NOW, NOW + 100, NOW + 80) is None
    assert await store.write(confirm_lease, "key", topic, NOW, NOW + 100, NOW + 80) == feed.id
    assert await store.write(confirm_lease, "key", topic, NOW, NOW + 100, NOW + 80) is None  # only once
    assert await store.read(list_pushed_feeds, NOW) == {feed.id: NOW}
    await store.write(refuse_lease, feed.id, "not now", NOW + 90, NOW)
    assert await store.read(list_pushed_feeds, NOW) == {feed.id: NOW}  # the lease still runs
    assert await store.write(expire_leases, NOW + 100) == [feed.id]
    assert await store.write(expire_leases, NOW + 100) == []
    assert await store.read(list_pushed_feeds, NOW) == {}


async def test_a_silent_hub_that_pushes_is_active_again_and_a_removed_feed_leaves_nothing(store: Store) -> None:
    feed = await offered(store)
    await store.write(add_leases, [a_subscription(feed)])
    await store.write(claim_due_leases, NOW, NOW + 600, NOW + 900)
    await store.write(confirm_lease, "key", "https://example.org/self", NOW, NOW + 100, NOW + 80)
    await store.write(end_lease, feed.id, "silent", "nothing came", NOW + 90)
    assert await store.read(list_pushed_feeds, NOW) == {}
    await store.write(record_received_push, feed.id, NOW + 1)
    one = (await store.read(find_leases_of_feeds, [feed.id]))[feed.id]
    assert (one.state, one.pushes, one.pushed, one.message) == ("active", 1, NOW + 1, None)
    await store.write(move_feed_to_trash, feed.id, by=SOMEBODY)
    assert await store.read(find_lease_by_key, "key") is None
