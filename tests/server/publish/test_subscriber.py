"""A node finds hubs of sources, subscribes, takes pushes, renews, and polls again when the hub fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from pushing_source import PushingSource, running, source, until

from headwater.formats import read
from headwater.model import Feed, Known
from headwater.node.node import Node
from headwater.node.quality.feed_explanation import explain_feed_schedule
from headwater.node.websub import PushService, WebSubClient
from headwater.store.content.feed_state import load_feed_states
from headwater.store.content.feeds import NewFeed
from headwater.store.content.items import list_items
from headwater.store.content.refreshes import list_refreshes
from headwater.store.content.websub_leases import (
    WebSubLease,
    claim_due_cancellations,
    find_leases_of_feeds,
    list_pushed_feeds,
)
from headwater.store.maintenance.trash import move_feed_to_trash
from headwater.store.publishing.private_feeds import set_private
from headwater.store.queries.query_feeds import find_query_feed
from headwater.store.queries.query_scripts import run_script
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.web.published.websub_endpoints import MAX_PUSH_BYTES
from support.store_samples import SOMEBODY, intercept_reads


async def follow(node: Node, origin: PushingSource) -> Feed:
    """Add the feed and wait until it was polled and its hub asked."""
    (added,) = await node.store.write(add_and_subscribe, [NewFeed(f"{origin.base}/feed.xml")], time.time())
    await until(lambda: origin.asked, "the hub is asked")
    return added.feed


async def titles(node: Node) -> set[str | None]:
    return {item.title for item in await node.store.read(list_items)}


async def state(node: Node, feed: Feed) -> WebSubLease:
    return (await node.store.read(find_leases_of_feeds, [feed.id]))[feed.id]


Followed = tuple[Node, PushService, PushingSource, Feed]


@pytest.fixture
async def followed(tmp_path: Path) -> AsyncIterator[Followed]:
    """Return a feed whose hub has confirmed."""
    async with source() as origin, running(tmp_path) as (node, pushing, _):
        feed = await follow(node, origin)
        answer = await origin.verify()
        assert (answer.status_code, answer.text) == (200, "ch4llenge")
        yield node, pushing, origin, feed


@pytest.mark.parametrize("where", [{"in_document": False}, {"in_header": False}, {"redirects": 2}])
async def test_a_hub_is_found_and_asked_for_the_self_address(tmp_path: Path, where: dict[str, Any]) -> None:
    async with source(**where) as origin, running(tmp_path) as (node, _, base):
        await follow(node, origin)
        (asked,) = origin.asked
        assert asked["hub.mode"] == "subscribe"
        assert asked["hub.topic"] == f"{origin.base}/the-feed"
        assert asked["hub.callback"].startswith(f"{base}/push/")
        assert len(asked["hub.callback"].rpartition("/")[2]) >= 32
        assert 32 <= len(asked["hub.secret"]) < 200
        assert int(asked["hub.lease_seconds"]) > 0


async def test_unsubscribing_from_a_hub_is_repeated_until_it_confirms(followed: Followed) -> None:
    node, _, origin, feed = followed
    secret = origin.asked[0]["hub.secret"]
    await node.store.write(move_feed_to_trash, feed.id, by=SOMEBODY)
    await until(lambda: len(origin.asked) == 2, "the hub is told")
    subscribed, parted = origin.asked
    assert parted == {**{name: subscribed[name] for name in ("hub.topic", "hub.callback")}, "hub.mode": "unsubscribe"}
    assert (await origin.push("too late", secret=secret)).status_code == 410
    for wrong in ({"mode": "subscribe"}, {"mode": "unsubscribe", "topic": "https://other.example/"}):
        assert (await origin.verify(**wrong)).status_code == 404
    answer = await origin.verify(mode="unsubscribe")
    assert (answer.status_code, answer.text) == (200, "ch4llenge")
    assert (await origin.verify(mode="unsubscribe")).status_code == 404  # once is enough


async def test_a_failed_unsubscription_is_retried_a_few_times(followed: Followed) -> None:
    node, _, origin, feed = followed
    origin.answer = 500
    await node.store.write(move_feed_to_trash, feed.id, by=SOMEBODY)
    now = [time.time()]
    subscriber = WebSubClient(node.store, node.fetcher, node.crawl, "https://here.example", clock=lambda: now[0])
    for _ in range(10):  # ten days, the length of the lease
        await subscriber.step()
        now[0] += 86_400
    told = [asked for asked in origin.asked if asked["hub.mode"] == "unsubscribe"]
    assert len(told) == 5
    assert await node.store.write(claim_due_cancellations, now[0], 1.0, 1.0) == []


async def test_callbacks_and_secrets_are_all_different(tmp_path: Path) -> None:
    async with source() as one, source() as other, running(tmp_path) as (node, _, _):
        await follow(node, one)
        await follow(node, other)
        for field in ("hub.callback", "hub.secret"):
            assert one.asked[0][field] != other.asked[0][field]


@dataclass
class Scan:
    """Pauses a scan after it has read the pushed feeds and before it applies them."""

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    may_end: asyncio.Event = field(default_factory=asyncio.Event)

    def hold(self, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
        read = node.store.read

        async def held(now: float) -> dict[int, float]:
            found = await read(list_pushed_feeds, now)
            self.begun.set()
            await self.may_end.wait()
            return found

        intercept_reads(monkeypatch, node.store, list_pushed_feeds, held)


async def test_a_hub_found_during_a_scan_is_asked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with source() as one, source() as other, running(tmp_path) as (node, pushing, _):
        assert pushing.websub_client is not None
        await until(lambda: pushing.websub_client._scanned_at > 0, "it has looked once")
        scan = Scan()
        scan.hold(node, monkeypatch)
        await node.store.write(add_and_subscribe, [NewFeed(f"{one.base}/feed.xml")], time.time())
        await scan.begun.wait()
        (added,) = await node.store.write(add_and_subscribe, [NewFeed(f"{other.base}/feed.xml")], time.time())

        async def found() -> bool:
            return (await node.store.read(load_feed_states, [added.feed.id]))[added.feed.id].hub is not None

        await until(found, "the other is refreshed")
        scan.may_end.set()
        await until(lambda: one.asked and other.asked, "both hubs are asked", 60)


async def test_a_hub_that_confirms_during_a_scan_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with source() as one, source() as other, running(tmp_path) as (node, _, _):
        feed = await follow(node, one)
        scan = Scan()
        scan.hold(node, monkeypatch)
        await node.store.write(add_and_subscribe, [NewFeed(f"{other.base}/feed.xml")], time.time())
        await scan.begun.wait()
        confirming = asyncio.create_task(one.verify())
        await asyncio.wait({confirming}, timeout=1)
        scan.may_end.set()
        assert (await confirming).status_code == 200
        await until(lambda: other.asked, "the scan is over")
        assert feed.id in node.crawl.politeness.pushed_feeds


async def test_a_pushed_item_is_in_the_query_feed_without_a_poll(followed: Followed) -> None:
    node, pushing, origin, feed = followed
    await node.store.write(run_script, 'CREATE FEED lava AS RETURN ALL WHERE TITLE CONTAINS "lava"', time.time())
    await node.store.write(set_private, "/feeds/lava", False)
    await until(lambda: node.processor.definitions, "the query runs")
    polls = origin.polls
    stream = node.live.follow_query(await node.store.read(find_query_feed, "lava"), None)
    assert (await anext(stream)).startswith(b"retry")
    assert (await origin.push("fresh lava", "first")).status_code == 200
    assert b"fresh lava" in await anext(stream)
    found = await pushing.documents.find_document("/feeds/lava", "atom", None, None)
    await stream.aclose()
    assert found is not None
    assert [item.title for item in read(found.body).items] == ["fresh lava"]
    assert origin.polls == polls
    (latest, *_) = await node.store.read(list_refreshes, feed.id)
    assert (latest.reason, latest.new, latest.lost) == ("pushed by its hub", 1, 0)


async def test_the_scheduler_learns_from_a_push_without_moving_the_next_poll(followed: Followed) -> None:
    node, _, origin, feed = followed
    before = (await node.store.read(load_feed_states, [feed.id]))[feed.id]
    row = node.crawl.scheduler.feed_table.find_row(feed.id)
    assert row is not None
    learned = node.crawl.scheduler.feed_table.table.last[row]
    await origin.push("second")
    after = (await node.store.read(load_feed_states, [feed.id]))[feed.id]
    assert after.last_refresh == before.last_refresh
    assert (after.hub, after.topic, after.validators) == (before.hub, before.topic, before.validators)
    assert after.last_success is not None
    assert before.last_success is not None
    assert after.last_success > before.last_success
    assert node.crawl.scheduler.feed_table.table.last[row] > learned
    assert "urn:test:second" in dict(after.window)


async def test_pushes_that_come_together_are_judged_one_after_the_other(followed: Followed) -> None:
    node, _, origin, feed = followed
    origin.titles = [f"polled{number}" for number in range(10)]
    await node.crawl.request_refresh(feed.id)
    names = [f"push{number}" for number in range(8)]
    answers = await asyncio.gather(*(origin.push(name) for name in names))
    assert {answer.status_code for answer in answers} == {200}
    window = dict((await node.store.read(load_feed_states, [feed.id]))[feed.id].window)
    assert {f"urn:test:{name}" for name in names} <= window.keys()


async def test_a_pushed_feed_keeps_only_a_slow_safety_poll(followed: Followed) -> None:
    node, _, _, feed = followed
    await node.crawl.reconsider_feeds([feed.id])
    row = node.crawl.scheduler.feed_table.find_row(feed.id)
    assert node.crawl.scheduler.feed_table.earliest[row] >= time.time() + 11 * 3600
    told = await explain_feed_schedule(node.store, node.settings, feed.id, time.time())
    assert "a hub pushes this feed" in told.held_by
    assert "Pushed by" in told.push


async def test_a_challenge_is_answered_only_for_a_pending_request_and_only_once(tmp_path: Path) -> None:
    async with source() as origin, running(tmp_path) as (node, _, base):
        feed = await follow(node, origin)
        for other in ({"topic": "http://elsewhere/"}, {"mode": "unsubscribe"}, {"challenge": ""}, {"mode": "sing"}):
            assert (await origin.verify(**other)).status_code == 404
        assert (await state(node, feed)).state == "asked"
        good = await origin.verify(challenge="<script>alert(1)</script>")
        assert good.text == "<script>alert(1)</script>"
        assert good.headers["content-type"].startswith("text/plain")
        assert good.headers["x-content-type-options"] == "nosniff"
        assert (await origin.verify()).status_code == 404
        async with httpx.AsyncClient() as client:
            assert (await client.get(f"{base}/push/unknown?hub.mode=subscribe&hub.challenge=x")).status_code == 404
            assert (await client.post(f"{base}/push/unknown", content=b"x")).status_code == 410
            assert (await client.delete(f"{base}/push/unknown")).status_code == 405


@pytest.mark.parametrize("how", [{"secret": "forged"}, {"signed": False}, {"method": "md5"}])
async def test_a_bad_or_missing_signature_is_ignored(followed: Followed, how: dict[str, Any]) -> None:
    node, _, origin, feed = followed
    answer = await origin.push("forged", **how)
    assert 200 <= answer.status_code < 300  # a forger learns nothing
    assert await titles(node) == {"first"}
    assert "signature" in str((await state(node, feed)).message)


@pytest.mark.parametrize("method", ["sha1", "sha256", "sha384", "sha512"])
async def test_every_method_of_signing_is_understood(followed: Followed, method: str) -> None:
    node, _, origin, _ = followed
    await origin.push("second", method=method)
    assert await titles(node) == {"first", "second"}


async def test_an_oversized_push_is_refused(followed: Followed) -> None:
    node, _, origin, _ = followed
    assert (await origin.push(body=b"x" * (MAX_PUSH_BYTES + 1))).status_code == 413
    assert await titles(node) == {"first"}


async def test_a_push_without_a_feed_schedules_a_poll(followed: Followed) -> None:
    node, _, origin, feed = followed
    await node.crawl.reconsider_feeds([feed.id])
    row = node.crawl.scheduler.feed_table.find_row(feed.id)
    assert (await origin.push(body=b"ping")).status_code == 200
    assert node.crawl.scheduler.feed_table.table.divergence[row] == 1
    assert node.crawl.scheduler.feed_table.earliest[row] < time.time() + 3600
    await node.crawl.request_refresh(feed.id)
    assert np.isnan(node.crawl.scheduler.feed_table.table.divergence[row])


async def test_a_lease_is_renewed_before_it_ends_and_polling_resumes_when_it_is_not(followed: Followed) -> None:
    node, _, origin, feed = followed
    one = await state(node, feed)
    assert one.until is not None
    ahead = [one.due + 1 - time.time()]
    later = WebSubClient(
        node.store, node.fetcher, node.crawl, "http://127.0.0.1:1", clock=lambda: time.time() + ahead[0]
    )
    assert one.due < one.until
    await later.step()
    assert len(origin.asked) == 2
    assert origin.asked[1]["hub.secret"] == origin.asked[0]["hub.secret"]
    assert (await state(node, feed)).state == "active"  # the old lease still runs
    ahead[0] = one.until + 1 - time.time()
    await later.step()
    assert (await state(node, feed)).state == "refused"
    assert feed.id not in node.crawl.politeness.pushed_feeds
    told = await explain_feed_schedule(node.store, node.settings, feed.id, time.time() + ahead[0])
    assert "The lease has ended without being renewed" in told.push
    assert "hub pushes" not in told.held_by


async def test_a_silent_hub_is_noticed_by_a_poll_and_trusted_again_after_a_push(followed: Followed) -> None:
    node, _, origin, feed = followed
    origin.titles = ["second", "first"]
    await node.crawl.request_refresh(feed.id)
    assert (await state(node, feed)).state == "active"  # it may have been published before the hub knew us
    origin.titles = ["third", "second", "first"]
    await node.crawl.request_refresh(feed.id)

    async def silent() -> bool:
        return (await state(node, feed)).state == "silent"

    await until(silent, "the hub is found silent")
    await until(lambda: feed.id not in node.crawl.politeness.pushed_feeds, "polling resumes")
    assert "is silent" in (await explain_feed_schedule(node.store, node.settings, feed.id, time.time())).push
    await origin.push("fourth")
    assert (await state(node, feed)).state == "active"
    assert feed.id in node.crawl.politeness.pushed_feeds


async def test_what_was_pushed_is_not_missed_by_the_poll(followed: Followed) -> None:
    node, _, origin, feed = followed
    await node.crawl.request_refresh(feed.id)
    await origin.push("second", "first")
    origin.titles = ["second", "first"]
    settled = await node.crawl.request_refresh(feed.id)
    assert settled.verdict.new == ()
    assert (await state(node, feed)).state == "active"


async def test_a_denial_and_a_refusal_leave_the_feed_to_polling(tmp_path: Path) -> None:
    async with source(answer=403) as origin, running(tmp_path) as (node, _, _):
        feed = await follow(node, origin)

        async def refused() -> bool:
            return "403: because" in str((await state(node, feed)).message)

        await until(refused, "the refusal is kept")
        one = await state(node, feed)
        assert one.state == "refused"
        assert (await origin.verify()).status_code == 404  # the hub denied it, so nothing is pending
        assert "403: because" in (await explain_feed_schedule(node.store, node.settings, feed.id, time.time())).push


async def test_a_later_denial_of_a_hub_is_accepted(followed: Followed) -> None:
    node, _, origin, feed = followed
    assert (await origin.verify(mode="denied", reason="no more", topic="http://elsewhere/")).status_code == 404
    assert (await origin.verify(mode="denied", reason="no more")).status_code == 200
    assert "no more" in str((await state(node, feed)).message)
    assert feed.id not in node.crawl.politeness.pushed_feeds
    assert (await origin.push("late")).status_code == 410


async def test_without_a_public_address_nobody_is_asked_and_the_feed_says_why(tmp_path: Path) -> None:
    async with source() as origin, running(tmp_path, public=False) as (node, pushing, base):
        (added,) = await node.store.write(add_and_subscribe, [NewFeed(f"{origin.base}/feed.xml")], time.time())

        async def polled() -> Known | None:
            known = (await node.store.read(load_feed_states, [added.feed.id]))[added.feed.id]
            return known if known.hub else None

        await until(polled, "polled")
        assert pushing.websub_client is None
        told = await explain_feed_schedule(node.store, node.settings, added.feed.id, time.time())
        assert "no public_url is set" in told.push
        async with httpx.AsyncClient() as client:
            assert (await client.get(f"{base}/push/x")).status_code == 404


async def test_subscriptions_survive_a_restart(tmp_path: Path) -> None:
    async with source() as origin:
        async with running(tmp_path) as (node, _, base):
            feed = await follow(node, origin)
            await origin.verify()
        async with running(tmp_path, public_url=base) as (node, _, here):
            await until(lambda: feed.id in node.crawl.politeness.pushed_feeds, "the node knows that it is pushed")
            origin.asked[-1]["hub.callback"] = origin.asked[-1]["hub.callback"].replace(base, here)
            await origin.push("after the restart")
            assert "after the restart" in await titles(node)
            assert len(origin.asked) == 1
