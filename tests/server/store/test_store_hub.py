"""The hub's rows are stored and claimed on both databases."""

from __future__ import annotations

from headwater.store.publishing.hub_subscribers import (
    HubRequest,
    add_hub_request,
    claim_due_hub_requests,
    claim_due_subscribers,
    confirm_hub_request,
    count_hub_rows,
    delete_hub_request,
    deny_topic,
    list_hub_subscribers,
    list_hub_topics,
    mark_outdated,
    settle_subscriber,
)
from headwater.store.store import Store
from support.store_samples import NOW

TOPIC, CALLBACK = "https://feeds.example/feeds/a.atom", "https://example.org/c" + "x" * 1900


async def test_a_request_is_claimed_once_confirmed_once_and_replaced_by_a_later_one(store: Store) -> None:
    await store.write(add_hub_request, HubRequest("subscribe", TOPIC, CALLBACK, "one", 600.0), NOW)
    await store.write(add_hub_request, HubRequest("subscribe", TOPIC, CALLBACK, "two", 600.0), NOW)
    (first,) = await store.write(claim_due_hub_requests, NOW, 60)
    assert (first.secret, first.attempts) == ("two", 1)
    assert await store.write(claim_due_hub_requests, NOW + 59, 60) == []
    await store.write(add_hub_request, HubRequest("subscribe", TOPIC, CALLBACK, "three", 600.0), NOW)
    await store.write(confirm_hub_request, first, "etag", NOW, NOW + 600)
    assert await store.read(count_hub_rows) == (1, 0)  # a confirmed subscription is no longer a request
    (second,) = await store.write(claim_due_hub_requests, NOW, 60)
    await store.write(confirm_hub_request, second, "etag", NOW, NOW + 600)
    await store.write(confirm_hub_request, second, "etag", NOW, NOW + 600)
    (one,) = await store.read(list_hub_subscribers)
    assert (one.secret, one.sent, one.until) == ("three", "etag", NOW + 600)


async def test_who_lacks_the_present_state_is_claimed_until_it_has_it(store: Store) -> None:
    for name in ("a", "b"):
        await store.write(add_hub_request, HubRequest("subscribe", TOPIC, f"{CALLBACK}{name}", None, 600.0), NOW)
    for request in await store.write(claim_due_hub_requests, NOW, 60):
        await store.write(confirm_hub_request, request, "old", NOW, NOW + 600)
    assert await store.write(mark_outdated, {TOPIC: "old", "elsewhere": "new"}, NOW) == 0
    assert await store.write(mark_outdated, {TOPIC: "new"}, NOW) == 2
    first, second = await store.write(claim_due_subscribers, NOW, 60)
    await store.write(settle_subscriber, first.id, "new", None, None)
    await store.write(settle_subscriber, second.id, None, NOW + 30, "no")
    assert await store.write(mark_outdated, {TOPIC: "new"}, NOW) == 0
    (again,) = await store.write(claim_due_subscribers, NOW + 30, 60)
    assert (again.callback, again.attempts, again.message) == (second.callback, 2, "no")
    assert await store.write(claim_due_subscribers, NOW + 700, 60) == []  # the lease has ended
    assert await store.write(list_hub_topics, NOW + 700) == []


async def test_a_denied_topic_leaves_requests_that_tell_so(store: Store) -> None:
    await store.write(add_hub_request, HubRequest("subscribe", TOPIC, CALLBACK, None, 600.0), NOW)
    (request,) = await store.write(claim_due_hub_requests, NOW, 60)
    await store.write(confirm_hub_request, request, "old", NOW, NOW + 600)
    assert await store.write(deny_topic, TOPIC, "gone", NOW) == 1
    (told,) = await store.write(claim_due_hub_requests, NOW, 60)
    assert (told.mode, told.reason, told.callback) == ("denied", "gone", CALLBACK)
    await store.write(delete_hub_request, told)
    assert await store.read(count_hub_rows) == (0, 0)
