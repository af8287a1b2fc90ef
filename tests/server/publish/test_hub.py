"""The WebSub hub handles requests, verifies them, pushes changes, and ends subscriptions."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
from callbacks import Callback, callback, signed
from publish_server import BASE, served
from test_published_queries import arrive, lava

from headwater.fetch.client import Fetcher
from headwater.formats import read
from headwater.publish import document_cache, websub_hub
from headwater.publish.document_cache import DocumentCache
from headwater.publish.websub_hub import WebSubHub
from headwater.store.publishing.hub_subscribers import count_hub_rows, list_hub_subscribers
from headwater.store.publishing.private_feeds import add_feed_token, revoke_feed_tokens, set_private
from headwater.store.queries.query_scripts import run_script
from headwater.store.store import Store
from headwater.web.app import create_app
from headwater.web.auth.guess_throttle import FREE_TOKENS
from support.idle_node import make_idle_node
from support.store_samples import NOW, SOMEBODY

TOPIC = f"{BASE}/feeds/Lava.atom"


class Bench:
    """A hub, its web server and a clock that only the test moves."""

    def __init__(self, store: Store, fetcher: Fetcher) -> None:
        self.now = NOW
        self.store = store
        self.documents = DocumentCache(store, BASE, hub=(f"{BASE}/hub",), clock=lambda: self.now)
        self.fetcher = fetcher
        self.hub = self.another()
        self.websub_client = None
        self.url = ""
        self.client: httpx.AsyncClient

    def another(self) -> WebSubHub:
        """Make a new hub, as after a restart."""
        return WebSubHub(self.store, self.documents, self.fetcher, clock=lambda: self.now)

    async def ask(self, to: Callback | str, mode: str = "subscribe", topic: str = TOPIC, **more: Any) -> httpx.Response:
        address = to if isinstance(to, str) else to.url
        form = {"hub.mode": mode, "hub.topic": topic, "hub.callback": address}
        form |= {f"hub.{name}": value for name, value in more.items()}
        return await self.client.post(f"{self.url}/hub", data=form)

    async def work(self) -> None:
        while await self.hub.step():
            pass

    async def subscribed(self, to: Callback, **more: Any) -> None:
        assert (await self.ask(to, **more)).status_code == 202
        await self.work()


@pytest.fixture
async def fetcher() -> AsyncIterator[Fetcher]:
    async with Fetcher(allow_private=True, contact=None, per_host=8) as opened:
        yield opened


@pytest.fixture
async def bench(store: Store, fetcher: Fetcher) -> AsyncIterator[Bench]:
    made = Bench(store, fetcher)
    for path in ("/feeds", "/tags/news"):
        await store.write(set_private, path, False)
    async with AsyncExitStack() as stack:
        app = create_app(make_idle_node(store), push_service=made)  # type: ignore[arg-type]
        made.url = await stack.enter_async_context(served(app))
        made.client = await stack.enter_async_context(httpx.AsyncClient())
        yield made


@pytest.mark.parametrize("suffix", ["rss", "atom", "json", "html"])
async def test_every_feed_names_the_hub_and_one_self_in_headers_and_document(
    bench: Bench, store: Store, suffix: str
) -> None:
    await lava(store)
    for path in ("/feeds/Lava", "/tags/news"):
        answer = await bench.client.get(f"{bench.url}{path}.{suffix}")
        assert answer.headers["link"] == f'<{BASE}{path}.{suffix}>; rel="self", <{BASE}/hub>; rel="hub"'
        if suffix != "html":
            document = read(answer.content)
            assert (document.self, document.hub) == (f"{BASE}{path}.{suffix}", (f"{BASE}/hub",))
    listed = await bench.client.get(f"{bench.url}/feeds.opml")
    assert 'rel="hub"' in listed.headers["link"]
    assert listed.headers["link"].count('rel="self"') == 1


async def test_the_callback_is_asked_with_its_own_query_and_then_sent_the_feed_when_it_changes(
    bench: Bench, store: Store
) -> None:
    feed, processor = await lava(store)
    async with callback() as subscriber:
        accepted = await bench.ask(subscriber, secret="s3cret", lease_seconds="86400")
        assert accepted.status_code == 202
        assert accepted.headers["content-type"].startswith("text/plain")
        assert not subscriber.asked  # the answer does not wait for the verification
        await bench.work()
        (asked,) = subscriber.asked
        challenge = asked.pop("hub.challenge")
        assert len(challenge) >= 20
        assert asked == {"id": "7", "hub.mode": "subscribe", "hub.topic": TOPIC, "hub.lease_seconds": "86400"}
        assert not subscriber.got  # nothing has changed since
        await arrive(store, processor, feed, "fresh lava")
        await bench.work()
        ((headers, body),) = subscriber.got
    assert read(body).items[0].title == "fresh lava"
    assert headers["content-type"] == "application/atom+xml; charset=utf-8"
    assert headers["link"] == f'<{TOPIC}>; rel="self", <{BASE}/hub>; rel="hub"'
    assert headers["x-hub-signature"] == signed("s3cret", body)


async def test_without_a_secret_there_is_no_signature(bench: Bench, store: Store) -> None:
    feed, processor = await lava(store)
    async with callback() as subscriber:
        await bench.subscribed(subscriber)
        await arrive(store, processor, feed, "fresh lava")
        await bench.work()
        assert "x-hub-signature" not in subscriber.got[0][0]


async def test_an_item_that_does_not_match_sends_nothing(bench: Bench, store: Store) -> None:
    feed, processor = await lava(store)
    async with callback() as subscriber:
        await bench.subscribed(subscriber)
        await arrive(store, processor, feed, "fresh mud")
        await bench.work()
        assert not subscriber.got


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"hub.mode": "sing"}, "hub.mode must be"),
        ({"hub.mode": "publish"}, "needs no publish requests"),
        ({"hub.topic": "https://elsewhere.example/feed"}, "hub.topic must be"),
        ({"hub.topic": f"{BASE}/feeds/Lava.atom?page=1"}, "hub.topic must be"),
        ({"hub.topic": f"{BASE}/health"}, "hub.topic must be"),
        ({"hub.callback": ""}, "hub.callback must be"),
        ({"hub.callback": "ftp://example.org/"}, "hub.callback must be"),
        ({"hub.callback": "http://["}, "hub.callback must be"),
        ({"hub.callback": "https://example.org/#part"}, "hub.callback must be"),
        ({"hub.callback": "https://example.org/" + "x" * 2000}, "hub.callback must be"),
        ({"hub.callback": "https://user:password@example.org/"}, "hub.callback cannot be called"),
        ({"hub.secret": "x" * 200}, "hub.secret must be shorter"),
        ({"hub.secret": "ü" * 100}, "hub.secret must be shorter"),
        ({"hub.lease_seconds": "-1"}, "hub.lease_seconds must be"),
        ({"hub.lease_seconds": "a week"}, "hub.lease_seconds must be"),
    ],
)
async def test_a_wrong_request_is_refused_with_a_reason(
    bench: Bench, store: Store, form: dict[str, str], said: str
) -> None:
    await lava(store)
    good = {"hub.mode": "subscribe", "hub.topic": TOPIC, "hub.callback": "https://example.org/c"}
    answer = await bench.client.post(f"{bench.url}/hub", data=good | form)
    assert answer.status_code == 400
    assert answer.headers["content-type"].startswith("text/plain")
    assert said in answer.text
    assert await store.read(count_hub_rows) == (0, 0)


async def test_a_malformed_request_is_refused(bench: Bench, store: Store) -> None:
    await lava(store)
    assert (await bench.client.get(f"{bench.url}/hub")).status_code == 405
    assert (await bench.client.post(f"{bench.url}/hub", json={})).status_code == 415
    assert (await bench.client.post(f"{bench.url}/hub", data={"x": "y" * 20_000})).status_code == 413
    assert (await bench.client.post(f"{bench.url}/hub", data={str(n): "y" for n in range(60)})).status_code == 400
    nothing = await bench.ask("https://example.org/c", topic=f"{BASE}/feeds/Nowhere.atom")
    assert nothing.status_code == 404
    assert "does not publish" in nothing.text


@pytest.mark.parametrize("how", [{"agree": False}, {"wrong": b"not the challenge"}, {"wrong": b""}])
async def test_only_the_exact_challenge_with_a_success_status_confirms(
    bench: Bench, store: Store, how: dict[str, Any]
) -> None:
    feed, processor = await lava(store)
    async with callback(**how) as subscriber:
        await bench.subscribed(subscriber)
        assert len(subscriber.asked) == 1
        assert await store.read(count_hub_rows) == (0, 0)
        await arrive(store, processor, feed, "fresh lava")
        await bench.work()
        assert not subscriber.got


async def test_a_callback_that_cannot_be_reached_is_asked_three_times(bench: Bench, store: Store) -> None:
    await lava(store)
    assert (await bench.ask("http://127.0.0.1:1/c")).status_code == 202
    for attempt in range(3):
        assert (await store.read(count_hub_rows))[0] == 1, attempt
        await bench.work()
        bench.now += 3600
    assert await store.read(count_hub_rows) == (0, 0)


async def test_subscribing_again_replaces_and_a_refusal_leaves_what_was(bench: Bench, store: Store) -> None:
    feed, processor = await lava(store)
    async with callback() as subscriber:
        await bench.subscribed(subscriber, secret="old", lease_seconds="86400")
        bench.now += 3600
        await bench.subscribed(subscriber, secret="new")
        (one,) = await store.read(list_hub_subscribers)
        assert one.until == bench.now + websub_hub.MAX_LEASE
        subscriber.agree = False
        await bench.subscribed(subscriber, secret="forged")
        await arrive(store, processor, feed, "fresh lava")
        await bench.work()
        ((headers, body),) = subscriber.got
    assert headers["x-hub-signature"] == signed("new", body)


async def test_unsubscribing_is_verified(bench: Bench, store: Store) -> None:
    await lava(store)
    async with callback() as subscriber:
        await bench.subscribed(subscriber)
        subscriber.agree = False
        await bench.subscribed(subscriber, mode="unsubscribe")
        assert (await store.read(count_hub_rows))[1] == 1
        subscriber.agree = True
        await bench.subscribed(subscriber, mode="unsubscribe")
        assert (await store.read(count_hub_rows))[1] == 0
        asked = subscriber.asked[-1]
        assert asked["hub.mode"] == "unsubscribe"
        assert "hub.lease_seconds" not in asked


async def test_a_lease_is_ten_days_at_most_and_ends(bench: Bench, store: Store) -> None:
    feed, processor = await lava(store)
    async with callback() as subscriber:
        await bench.subscribed(subscriber, lease_seconds=str(10**9))
        assert subscriber.asked[0]["hub.lease_seconds"] == "864000"
        bench.now += 864_000
        await arrive(store, processor, feed, "fresh lava")
        await bench.work()
        assert not subscriber.got
        assert await store.read(count_hub_rows) == (0, 0)


async def test_items_that_left_the_window_between_two_pushes_are_pushed_too(bench: Bench, store: Store) -> None:
    feed, processor = await lava(store, keep=3)
    async with callback(statuses=[200, 500, 200]) as subscriber:
        await bench.subscribed(subscriber, secret="s3cret")
        await arrive(store, processor, feed, *(f"lava a{n}" for n in range(8)))
        await bench.work()
        assert [item.title for item in read(subscriber.got[0][1]).items] == [f"lava a{n}" for n in range(7, -1, -1)]
        assert subscriber.got[0][0]["x-hub-signature"] == signed("s3cret", subscriber.got[0][1])
        await arrive(store, processor, feed, *(f"lava b{n}" for n in range(5)))
        await bench.work()
        await arrive(store, processor, feed, *(f"lava c{n}" for n in range(5)))
        bench.now += 60
        await bench.work()
        titles = {item.title for item in read(subscriber.got[2][1]).items}
        assert titles == {f"lava {k}{n}" for k in "bc" for n in range(5)}  # including the items of the failed push
    public = await bench.client.get(f"{bench.url}/feeds/Lava.atom")
    assert len(read(public.content).items) == 3


async def test_a_failed_push_is_retried_with_the_current_document(bench: Bench, store: Store) -> None:
    feed, processor = await lava(store)
    async with callback(statuses=[500, 503, 200]) as subscriber:
        await bench.subscribed(subscriber)
        await arrive(store, processor, feed, "first lava")
        await bench.work()
        await arrive(store, processor, feed, "second lava")
        await bench.work()
        assert len(subscriber.got) == 1  # not early, despite other publications
        for wait in (60, 120):
            bench.now += wait
            await bench.work()
        titles = [item.title for item in read(subscriber.got[-1][1]).items]
        assert {"first lava", "second lava"} <= set(titles)
        bench.now += 86_400
        await bench.work()
        assert len(subscriber.got) == 3  # delivered: no more pushes


async def test_a_dead_callback_is_given_up_after_twelve_attempts(bench: Bench, store: Store) -> None:
    feed, processor = await lava(store)
    async with callback(statuses=[500]) as subscriber:
        await bench.subscribed(subscriber)
        await arrive(store, processor, feed, "fresh lava")
        for _ in range(20):
            await bench.work()
            bench.now += 6 * 3600
        assert len(subscriber.got) == websub_hub.SEND_ATTEMPTS
        assert await store.read(count_hub_rows) == (0, 0)


async def test_gone_ends_a_subscription_at_once_and_redirects_are_not_followed(bench: Bench, store: Store) -> None:
    feed, processor = await lava(store)
    async with (
        callback(statuses=[410]) as gone,
        callback() as elsewhere,
        callback(statuses=[307], location=elsewhere.url) as moved,
    ):
        await bench.subscribed(gone)
        await bench.subscribed(moved)
        await arrive(store, processor, feed, "fresh lava")
        await bench.work()
        assert [one.callback for one in await store.read(list_hub_subscribers)] == [moved.url]
        assert "307" in str((await store.read(list_hub_subscribers))[0].message)
        assert not elsewhere.got


async def test_subscribers_of_a_removed_topic_are_denied(bench: Bench, store: Store) -> None:
    await lava(store)
    async with callback() as subscriber:
        await bench.subscribed(subscriber)
        await store.write(run_script, "DROP FEED Lava", NOW)
        await bench.work()
        await bench.work()
        told = subscriber.asked[-1]
        assert (told["hub.mode"], told["hub.topic"]) == ("denied", TOPIC)
        assert told["hub.reason"] == "The feed is no longer published."
        assert await store.read(count_hub_rows) == (0, 0)


async def test_a_private_topic_needs_its_token_and_ends_with_it(bench: Bench, store: Store) -> None:
    feed, processor = await lava(store)
    await store.write(set_private, "/feeds/Lava", True)
    await store.write(add_feed_token, "/feeds/Lava", hashlib.sha256(b"t0ken").digest(), "node", NOW)
    async with callback() as subscriber:
        assert (await bench.ask(subscriber)).status_code == 404
        await bench.subscribed(subscriber, topic=f"{TOPIC}?token=t0ken")
        await arrive(store, processor, feed, "fresh lava")
        await bench.work()
        assert read(subscriber.got[0][1]).self == f"{TOPIC}?token=t0ken"
        await store.write(revoke_feed_tokens, "/feeds/Lava", by=SOMEBODY)
        await asyncio.sleep(document_cache.CHECK_SECONDS)
        await arrive(store, processor, feed, "secret lava")
        await bench.work()
        await bench.work()
        assert len(subscriber.got) == 1
        assert subscriber.asked[-1]["hub.mode"] == "denied"


async def test_requests_and_subscribers_survive_a_restart(bench: Bench, store: Store) -> None:
    feed, processor = await lava(store)
    async with callback() as subscriber:
        assert (await bench.ask(subscriber)).status_code == 202
        bench.hub = bench.another()
        await bench.work()
        await arrive(store, processor, feed, "fresh lava")
        bench.hub = bench.another()
        await bench.work()
        assert len(subscriber.got) == 1


async def test_callbacks_on_private_addresses_are_refused_before_any_request(store: Store) -> None:
    await lava(store)
    async with Fetcher(contact=None) as strict, callback() as inside:
        bench = Bench(store, strict)
        form = {"hub.mode": "subscribe", "hub.topic": TOPIC}
        port = inside.url.rpartition(":")[2]
        for address in (
            inside.url,
            "http://169.254.169.254/",
            f"http://localhost:{port}",
            "http://[::1]/",
            "http://2130706433/",
        ):
            status, said = await bench.hub.accept_request(form | {"hub.callback": address})
            if status == 202:  # a name is judged after it has been resolved
                await bench.work()
            else:
                assert "does not go to this address" in said
        status, _ = await bench.hub.accept_request(form | {"hub.callback": "http://localhost/"})
        await bench.work()
        assert await store.read(count_hub_rows) == (0, 0)
        assert not inside.asked


async def test_a_subscriber_renews_and_leaves_however_many_strangers_wait(
    bench: Bench, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await lava(store)
    async with callback() as known:
        await bench.subscribed(known)
        monkeypatch.setattr(websub_hub, "MAX_REQUESTS", 3)
        for number in range(3):
            assert (await bench.ask(f"http://127.0.0.1:9/stranger-{number}")).status_code == 202
        assert (await bench.ask("http://127.0.0.1:9/stranger-3")).status_code == 503
        assert (await bench.ask(known)).status_code == 202
        assert (await bench.ask(known, "unsubscribe")).status_code == 202


async def test_the_token_of_a_private_feed_cannot_be_guessed_at_the_hub(bench: Bench, store: Store) -> None:
    await lava(store)
    await store.write(set_private, "/feeds/Lava", True)
    statuses = [(await bench.ask("http://127.0.0.1:9/c", topic=f"{TOPIC}?token=g{n}")).status_code for n in range(120)]
    assert statuses == [404] * (FREE_TOKENS + 1) + [429] * (120 - FREE_TOKENS - 1)
