"""The hub's rows on both databases."""

from __future__ import annotations

from headwater.store.store import Store
from headwater.store.values import HubRequest
from support.store_samples import NOW

TOPIC, CALLBACK = "https://feeds.example/feeds/a.atom", "https://example.org/c" + "x" * 1900


async def test_a_request_is_claimed_once_confirmed_once_and_replaced_by_a_later_one(store: Store) -> None:
    await store.hub.ask(HubRequest("subscribe", TOPIC, CALLBACK, "one", 600.0), NOW)
    await store.hub.ask(HubRequest("subscribe", TOPIC, CALLBACK, "two", 600.0), NOW)
    (first,) = await store.hub.claim_requests(NOW, 60)
    assert (first.secret, first.attempts) == ("two", 1)
    assert await store.hub.claim_requests(NOW + 59, 60) == []
    await store.hub.ask(HubRequest("subscribe", TOPIC, CALLBACK, "three", 600.0), NOW)
    await store.hub.confirm(first, "etag", NOW, NOW + 600)
    assert await store.hub.counts() == (1, 0)  # what was confirmed is no longer what is asked
    (second,) = await store.hub.claim_requests(NOW, 60)
    await store.hub.confirm(second, "etag", NOW, NOW + 600)
    await store.hub.confirm(second, "etag", NOW, NOW + 600)
    (one,) = await store.hub.subscribers()
    assert (one.secret, one.sent, one.until) == ("three", "etag", NOW + 600)


async def test_who_lacks_the_present_state_is_claimed_until_it_has_it(store: Store) -> None:
    for name in ("a", "b"):
        await store.hub.ask(HubRequest("subscribe", TOPIC, f"{CALLBACK}{name}", None, 600.0), NOW)
    for request in await store.hub.claim_requests(NOW, 60):
        await store.hub.confirm(request, "old", NOW, NOW + 600)
    assert await store.hub.mark({TOPIC: "old", "elsewhere": "new"}, NOW) == 0
    assert await store.hub.mark({TOPIC: "new"}, NOW) == 2
    first, second = await store.hub.claim(NOW, 60)
    await store.hub.settle(first.id, "new", None, None)
    await store.hub.settle(second.id, None, NOW + 30, "no")
    assert await store.hub.mark({TOPIC: "new"}, NOW) == 0
    (again,) = await store.hub.claim(NOW + 30, 60)
    assert (again.callback, again.attempts, again.message) == (second.callback, 2, "no")
    assert await store.hub.claim(NOW + 700, 60) == []  # the lease is over
    assert await store.hub.topics(NOW + 700) == []


async def test_a_denied_topic_leaves_requests_that_tell_so(store: Store) -> None:
    await store.hub.ask(HubRequest("subscribe", TOPIC, CALLBACK, None, 600.0), NOW)
    (request,) = await store.hub.claim_requests(NOW, 60)
    await store.hub.confirm(request, "old", NOW, NOW + 600)
    assert await store.hub.deny(TOPIC, "gone", NOW) == 1
    (told,) = await store.hub.claim_requests(NOW, 60)
    assert (told.mode, told.reason, told.callback) == ("denied", "gone", CALLBACK)
    await store.hub.drop(told)
    assert await store.hub.counts() == (0, 0)
