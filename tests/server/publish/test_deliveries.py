"""Deliveries reach a real mail server and web hook exactly once, signed, with retries, until they are given up."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import multiprocessing
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.message import Message
from zoneinfo import ZoneInfo

import killed_deliverer
import orjson
import pytest
from failing_receivers import hooks, mail_server
from hypothesis import given
from hypothesis import strategies as st

from headwater.fetch.client import Fetcher
from headwater.language import parse
from headwater.language.ast import Duration, EveryClause, TimeUnit
from headwater.model import Feed
from headwater.node.queries.processor import QueryProcessor
from headwater.publish.delivery.deliverer import Deliverer
from headwater.publish.delivery.delivery_planner import DeliveryPlanner, next_digest_time
from headwater.publish.delivery.sinks import MailSink, NotificationSink, WebhookSink
from headwater.store.content.items import count_items
from headwater.store.content.outbox import find_last_position
from headwater.store.content.verdicts import save_refreshes
from headwater.store.maintenance.trash import move_user_to_trash
from headwater.store.opening import open_store
from headwater.store.publishing.deliveries import (
    count_deliveries,
    find_next_due_delivery,
    list_deliveries,
    retry_deliveries,
)
from headwater.store.queries.query_scripts import run_script
from headwater.store.readers.accounts import add_user, change_user, find_owner
from headwater.store.store import Store
from support.store_samples import NOW, SOMEBODY, a_verdict, an_item, one_feed

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(  # saves each child seconds of imports
    [
        "headwater.node.queries.processor",
        "headwater.publish.delivery.deliverer",
        "headwater.store.database.postgres",
        "aiosmtplib",
        "asyncpg",
    ]
)


async def prepared(store: Store, deliver: str, clock=time.time) -> tuple[Feed, QueryProcessor]:  # type: ignore[no-untyped-def]
    feed = await one_feed(store)
    await store.write(run_script, f'CREATE FEED lava AS RETURN ALL WHERE TITLE CONTAINS "lava" {deliver}', NOW)
    processor = QueryProcessor(store, writers=[DeliveryPlanner(ZoneInfo("UTC"), clock)])
    await processor.load()
    await processor.step()
    return feed, processor


async def arrive(store: Store, processor: QueryProcessor, feed: Feed, *names: str, **more: str) -> None:
    number = await store.read(find_last_position)
    items = [
        an_item(feed.id, link, link=link, **{"title": f"lava {link[-2:]}"} | more)
        for link in (f"https://example.org/{name}" for name in names)
    ]
    await save_refreshes(store, [a_verdict(feed, *items, at=NOW + number + 1)])
    while await processor.step():
        pass


async def until_done(store: Store, deliverer: Deliverer, patience: float = 120.0) -> None:
    async with asyncio.timeout(patience):
        while await store.read(find_next_due_delivery) is not None:
            if not await deliverer.step():
                await asyncio.sleep(0.01)


async def test_a_failing_web_hook_gets_every_item_once(store: Store) -> None:
    with hooks() as (url, receiver):
        feed, processor = await prepared(store, f'DELIVER TO WEBHOOK "{url}"')
        await arrive(store, processor, feed, *map(str, range(20)))
        async with Fetcher(allow_private=True, contact=None, per_host=8) as fetcher:
            sinks = {"webhook": WebhookSink(fetcher, b"secret")}
            await until_done(store, Deliverer(store, sinks, lease=0.2, first_wait=0.01, most_attempts=100))
        assert Counter(id for ids in receiver.keys.values() for id in ids) == Counter(
            f"https://example.org/{n}" for n in range(20)
        )
        assert len(receiver.taken) > 20  # some were accepted without a confirmation, and came again under their key
        for headers, body in receiver.taken:
            expected = "sha256=" + hmac.new(b"secret", body, hashlib.sha256).hexdigest()
            assert headers["X-Headwater-Signature"] == expected
            assert orjson.loads(body)["query"] == "lava"
        assert await store.read(count_deliveries) == {"sent": 20}


@asynccontextmanager
async def odd_server(answer: Callable[[asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[tuple[int, list[int]]]:
    """Run a server that answers oddly; yield its port and a list with one entry per connection."""
    seen: list[int] = []
    under_way: set[asyncio.Task[None] | None] = set()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(1)
        under_way.add(asyncio.current_task())
        try:
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await answer(writer)
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], seen
    finally:
        server.close()
        for task in filter(None, under_way):
            task.cancel()
        await asyncio.gather(*filter(None, under_way), return_exceptions=True)


async def test_sinks_that_redirect_or_stall_are_retried_and_block_no_other(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.publish.delivery.sinks.TIMEOUT", 0.5)
    sent = 0

    async def stall(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(5)

    async def endless(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        for _ in range(1000):
            writer.write(b"x" * 1_000_000)
            await writer.drain()
            sent += 1

    async def moved(writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 307 Elsewhere\r\nLocation: http://127.0.0.1:{elsewhere[0]}/\r\nContent-Length: 0\r\n\r\n"
        writer.write(head.encode())
        await writer.drain()
        await asyncio.sleep(0.5)

    with hooks(failure_rate=0) as (good, receiver):
        async with (
            odd_server(stall) as elsewhere,
            odd_server(stall) as slow,
            odd_server(endless) as large,
            odd_server(moved) as away,
            odd_server(stall) as smtp,
        ):
            feed, processor = await prepared(store, f'DELIVER TO WEBHOOK "http://127.0.0.1:{slow[0]}/"')
            more = {"large": f"http://127.0.0.1:{large[0]}/", "away": f"http://127.0.0.1:{away[0]}/", "good": good}
            for name, url in more.items():
                await store.write(run_script, f'CREATE FEED {name} AS RETURN ALL DELIVER TO WEBHOOK "{url}"', NOW)
            await store.write(run_script, 'CREATE FEED mailed AS RETURN ALL DELIVER TO EMAIL "a@example.org"', NOW)
            await arrive(store, processor, feed, "1")
            async with Fetcher(allow_private=True, contact=None, per_host=8) as fetcher:
                mail = MailSink(lambda: (f"smtp://127.0.0.1:{smtp[0]}?starttls=never", "b@example.org"))
                sinks = {"webhook": WebhookSink(fetcher, b"secret"), "email": mail}
                await until_done(store, Deliverer(store, sinks, lease=5.0, first_wait=0.01, most_attempts=2))
            assert elsewhere[1] == []
    assert len(receiver.taken) == 1
    assert sent < 100
    told = {one.query: (one.state, one.message or "") for one in await store.read(list_deliveries)}
    assert told["good"][0] == told["large"][0] == "sent"  # after a 200 the rest is not read
    assert "did not answer" in told["lava"][1]
    assert "answered 307" in told["away"][1]
    assert told["mailed"][0] == "dead"
    assert "mail server" in told["mailed"][1]


def text(mail: Message) -> str:
    plain = next(part for part in mail.walk() if part.get_content_type() == "text/plain")
    payload = plain.get_payload(decode=True)
    assert isinstance(payload, bytes)
    return payload.decode()


async def test_a_failing_mail_server_gets_every_mail_once(store: Store) -> None:
    with mail_server() as (smtp, receiver):
        feed, processor = await prepared(store, 'DELIVER TO EMAIL "me@example.org"')
        await arrive(store, processor, feed, *map(str, range(10)))
        await arrive(store, processor, feed, "evil", title="lava\r\nBcc: all@example.org")
        deliverer = Deliverer(
            store,
            {"email": MailSink(lambda: (smtp, "headwater@example.org"))},
            lease=0.2,
            first_wait=0.01,
            most_attempts=100,
        )
        await until_done(store, deliverer)
    by_id = {mail["Message-ID"]: mail for mail in receiver.taken}
    assert len(by_id) == 11 < len(receiver.taken)
    assert sorted(line for mail in by_id.values() for line in text(mail).splitlines() if line.startswith("http")) == (
        sorted(f"https://example.org/{name}" for name in [*map(str, range(10)), "evil"])
    )
    assert not any("Bcc" in mail for mail in receiver.taken)


async def test_a_digest_is_sent_at_its_time_with_all_items_unless_it_is_empty(store: Store) -> None:
    now = datetime(2026, 3, 1, 7, 0, tzinfo=UTC).timestamp()
    clock = lambda: now  # noqa: E731
    with mail_server(failure_rate=0) as (smtp, receiver):
        feed, processor = await prepared(store, 'DELIVER TO EMAIL "me@example.org" EVERY 1 DAY AT "07:30"', clock)
        deliverer = Deliverer(store, {"email": MailSink(lambda: (smtp, "headwater@example.org"))}, clock=clock)
        await arrive(store, processor, feed, "a")
        now += 600
        await arrive(store, processor, feed, "b", "c")
        assert not await deliverer.step()
        now += 1200
        assert await deliverer.step()
        now += 86_400
        assert not await deliverer.step()
        await arrive(store, processor, feed, "d")
        now += 86_400
        assert await deliverer.step()
    first, second = receiver.taken
    assert first["Subject"] == "[lava] 3 new items"
    assert [line for line in text(first).splitlines() if line.startswith("http")] == [
        f"https://example.org/{name}" for name in "abc"
    ]
    assert "https://example.org/d" in text(second)


async def test_a_permanently_refused_delivery_is_dead_and_can_be_resent(store: Store) -> None:
    with hooks(failure_rate=0) as (url, receiver):
        receiver.status = 410
        feed, processor = await prepared(store, f'DELIVER TO WEBHOOK "{url}"')
        await arrive(store, processor, feed, "a", "b")
        async with Fetcher(allow_private=True, contact=None) as fetcher:
            deliverer = Deliverer(store, {"webhook": WebhookSink(fetcher, b"secret")})
            await until_done(store, deliverer)
            dead = await store.read(list_deliveries, ["dead"])
            assert [one.attempts for one in dead] == [1, 1]
            assert all("410" in (one.message or "") for one in dead)
            receiver.status = None
            assert await store.write(retry_deliveries, [dead[0].id], time.time()) == 1
            await until_done(store, deliverer)
            assert await store.read(count_deliveries) == {"dead": 1, "sent": 1}
            assert await store.write(retry_deliveries, [], time.time()) == 1
            await until_done(store, deliverer)
        assert len(receiver.keys) == len(receiver.taken) == 2


async def test_a_failing_sink_is_given_up_after_the_last_attempt(store: Store) -> None:
    with hooks(failure_rate=0) as (url, receiver):
        receiver.status = 503
        feed, processor = await prepared(store, f'DELIVER TO WEBHOOK "{url}"')
        await arrive(store, processor, feed, "a")
        async with Fetcher(allow_private=True, contact=None) as fetcher:
            sinks = {"webhook": WebhookSink(fetcher, b"secret")}
            await until_done(store, Deliverer(store, sinks, first_wait=0.01, most_attempts=3))
        (one,) = await store.read(list_deliveries)
        assert (one.state, one.attempts) == ("dead", 3)
        assert "503" in (one.message or "")


async def test_a_web_hook_on_a_private_address_is_never_called(store: Store) -> None:
    with hooks(failure_rate=0) as (url, receiver):
        feed, processor = await prepared(store, f'DELIVER TO WEBHOOK "{url}"')
        await arrive(store, processor, feed, "a")
        async with Fetcher(allow_private=False, contact=None) as fetcher:
            await until_done(store, Deliverer(store, {"webhook": WebhookSink(fetcher, b"secret")}))
        (one,) = await store.read(list_deliveries)
        assert one.state == "dead"
        assert one.message
        assert receiver.taken == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # from modules that Apprise imports
async def test_a_notification_is_sent_by_apprise_but_not_to_guarded_hosts(store: Store) -> None:
    with hooks(failure_rate=0) as (url, receiver):
        host = url.removeprefix("http://")
        feed, processor = await prepared(store, f'DELIVER TO NOTIFY "json://{host}"')
        await arrive(store, processor, feed, "a")
        await until_done(store, Deliverer(store, {"notify": NotificationSink(allow_private=False)}))
        (one,) = await store.read(list_deliveries)
        assert (one.state, receiver.taken) == ("dead", [])
        await store.write(retry_deliveries, [one.id], time.time())
        receiver.status = 200
        await until_done(store, Deliverer(store, {"notify": NotificationSink(allow_private=True)}))
        (one,) = await store.read(list_deliveries)
        assert one.state == "sent"


async def test_back_filled_items_and_updates_are_not_delivered(store: Store) -> None:
    feed = await one_feed(store)
    old = an_item(feed.id, "https://example.org/old", title="lava of old")
    await save_refreshes(store, [a_verdict(feed, old)])
    await store.write(
        run_script, 'CREATE FEED lava AS RETURN ALL WHERE TITLE CONTAINS "lava" DELIVER TO EMAIL "a@b.example"', NOW
    )
    processor = QueryProcessor(store, writers=[DeliveryPlanner(ZoneInfo("UTC"))])
    await processor.load()
    while await processor.step():
        pass
    assert await store.read(count_deliveries) == {}
    await arrive(store, processor, feed, "new")
    assert await store.read(count_deliveries) == {"due": 1}


async def test_a_query_delivers_to_several_receivers_each_at_its_time(store: Store) -> None:
    to = 'DELIVER TO WEBHOOK "https://example.org/a" DELIVER TO EMAIL "me@example.org" EVERY MONDAY, FRIDAY AT "07:30"'
    thursday = datetime(2026, 11, 19, 12, 0, tzinfo=UTC).timestamp()
    feed, processor = await prepared(store, to, lambda: thursday)
    await arrive(store, processor, feed, "new")
    found = {one.kind: one for one in await store.read(list_deliveries)}
    assert set(found) == {"webhook", "email"}
    assert (found["webhook"].due, found["webhook"].slot) == (thursday, None)
    assert found["email"].due == found["email"].slot == datetime(2026, 11, 20, 7, 30, tzinfo=UTC).timestamp()


async def test_a_digest_of_the_query_applies_to_receivers_without_their_own(store: Store) -> None:
    hook = 'DELIVER TO WEBHOOK "https://example.org/a" EVERY 1 HOUR'
    to = f'EVERY 1 DAY AT "07:30" {hook} DELIVER TO EMAIL "me@example.org"'
    noon = datetime(2026, 11, 19, 12, 0, tzinfo=UTC).timestamp()
    feed, processor = await prepared(store, to, lambda: noon)
    await arrive(store, processor, feed, "new")
    due = {one.kind: one.due for one in await store.read(list_deliveries)}
    assert due == {"webhook": noon + 3600, "email": noon + 19.5 * 3600}


def test_a_digest_comes_on_its_weekdays_only() -> None:
    vienna = ZoneInfo("Europe/Vienna")
    (create,) = parse('CREATE FEED a AS RETURN ALL EVERY tuesday, Sunday AT "07:30"').queries
    assert create.query.every is not None
    at, days = datetime(2026, 3, 27, 12, 0, tzinfo=vienna).timestamp(), []
    for _ in range(4):
        at = next_digest_time(create.query.every, at, vienna)
        days.append(datetime.fromtimestamp(at, vienna).strftime("%a %d %H:%M"))
    assert days == ["Sun 29 07:30", "Tue 31 07:30", "Sun 05 07:30", "Tue 07 07:30"]


def test_a_digest_keeps_its_time_of_day_when_clocks_change() -> None:
    vienna = ZoneInfo("Europe/Vienna")
    daily = EveryClause(Duration(1, TimeUnit.DAY), "07:30")
    at = datetime(2026, 3, 27, 12, 0, tzinfo=vienna).timestamp()
    for _ in range(4):  # over the night of 29 March
        at = next_digest_time(daily, at, vienna)
        assert datetime.fromtimestamp(at, vienna).strftime("%H:%M") == "07:30"
    assert datetime.fromtimestamp(at, vienna).day == 31


@given(
    name=st.sampled_from(
        ["Europe/Vienna", "America/New_York", "Australia/Lord_Howe", "Asia/Tokyo", "America/Santiago"]
    ),
    begin=st.datetimes(datetime(2025, 1, 1), datetime(2028, 1, 1)),
    minute=st.integers(0, 24 * 60 - 1),
)
def test_a_daily_digest_is_sent_once_on_every_calendar_day(name: str, begin: datetime, minute: int) -> None:
    """If the clock change skips its time, it is sent later; if the time occurs twice, at the first."""
    there, wall = ZoneInfo(name), f"{minute // 60:02}:{minute % 60:02}"
    daily = EveryClause(Duration(1, TimeUnit.DAY), wall)
    at = begin.replace(tzinfo=UTC).timestamp()
    days = []
    for _ in range(5):
        at, before = next_digest_time(daily, at, there), at
        assert at > before
        shown = datetime.fromtimestamp(at, there)
        days.append(shown.toordinal())
        if shown.strftime("%H:%M") != wall:
            assert datetime.fromtimestamp(at - 3600, there).utcoffset() != shown.utcoffset()  # clocks have just changed
        assert shown.fold == 0
    assert days == list(range(days[0], days[0] + 5))


async def test_a_digest_follows_the_time_zone_of_its_author(store: Store) -> None:
    owner = await store.read(find_owner)
    ada = await store.write(add_user, "Ada", None, NOW, role="owner")
    bo = await store.write(add_user, "Bo", None, NOW, role="owner")
    await store.write(change_user, ada.id, time_zone="Asia/Tokyo")
    await store.write(change_user, bo.id, time_zone="America/New_York")
    feed = await one_feed(store)
    digest = 'AS RETURN ALL DELIVER TO EMAIL "a@b.example" EVERY 1 DAY AT "07:30"'
    for author, name in ((owner, "plain"), (ada, "early"), (bo, "late"), (bo, "gone")):
        await store.write(run_script, f"CREATE FEED {name} {digest}", NOW, subscriber=author.id)
    await store.write(run_script, f"CREATE OR REPLACE FEED gone {digest}", NOW, subscriber=ada.id)
    await store.write(move_user_to_trash, ada.id, by=SOMEBODY)
    await store.write(run_script, f"CREATE OR REPLACE FEED early {digest}", NOW, subscriber=bo.id)
    await store.write(change_user, bo.id, time_zone="Asia/Kolkata")
    processor = QueryProcessor(store, writers=[DeliveryPlanner(ZoneInfo("Europe/Vienna"))])
    await processor.load()
    await processor.step()
    await arrive(store, processor, feed, "new")
    slots = {one.query: one.slot for one in await store.read(list_deliveries)}
    zones = {"plain": "Europe/Vienna", "early": "Asia/Kolkata", "late": "Asia/Kolkata", "gone": "Europe/Vienna"}
    assert slots.keys() == zones.keys()
    for name, zone in zones.items():
        assert datetime.fromtimestamp(slots[name] or 0.0, ZoneInfo(zone)).strftime("%H:%M") == "07:30", name


def run_and_kill(url: str, round: int, feed_id: int, smtp: str, wait: float) -> None:
    ours, theirs = FORKS.Pipe(duplex=False)
    child = FORKS.Process(target=killed_deliverer.main, args=(url, round, feed_id, smtp, theirs), daemon=True)
    child.start()
    theirs.close()
    assert ours.recv() == "sending"
    time.sleep(wait)
    child.kill()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    ours.close()


async def finish(url: str, smtp: str) -> int:
    """Do all remaining work without a kill; return the number of items."""
    async with await open_store(url) as store, Fetcher(allow_private=True, contact=None, per_host=8) as fetcher:
        processor = QueryProcessor(store, writers=[DeliveryPlanner(ZoneInfo("UTC"))])
        await processor.load()
        while await processor.step():
            pass
        await until_done(store, killed_deliverer.deliverer(store, fetcher, smtp), patience=1800.0)
        counts = await store.read(count_deliveries)
        items = await store.read(count_items)
        assert counts == {"sent": 2 * items}
        return items


async def two_queries(url: str, hook: str) -> int:
    async with await open_store(url) as store:
        feed = await one_feed(store)
        for name, sink in (("mailed", 'EMAIL "me@example.org"'), ("hooked", f'WEBHOOK "{hook}"')):
            await store.write(run_script, f"CREATE FEED {name} AS RETURN ALL DELIVER TO {sink}", NOW)
        processor = QueryProcessor(store)
        await processor.load()
        while await processor.step():
            pass
        await processor.save()
        return feed.id


def killed_again_and_again(url: str, times: int) -> None:
    chance = random.Random(times)
    with mail_server() as (smtp, mails), hooks() as (hook, receiver):
        feed_id = asyncio.run(two_queries(url, hook))
        for round in range(times):
            run_and_kill(url, round, feed_id, smtp, chance.uniform(0.0, 0.6))
        items = asyncio.run(finish(url, smtp))
    assert items > times
    hooked = Counter(id for ids in receiver.keys.values() for id in ids)
    assert len(hooked) == items
    assert set(hooked.values()) == {1}
    by_id = {mail["Message-ID"]: text(mail) for mail in mails.taken}
    mailed = Counter(line for body in by_id.values() for line in body.splitlines() if line.startswith("http"))
    assert len(mailed) == items
    assert set(mailed.values()) == {1}


def test_every_item_goes_to_every_sink_under_one_key_after_a_few_kills(database_url: str) -> None:
    killed_again_and_again(database_url, 5)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_every_item_goes_to_every_sink_under_one_key_after_two_hundred_kills(database_url: str) -> None:
    killed_again_and_again(database_url, 200)
