"""A TARGET is measured over the items that its query keeps, judged, explained, shown and alerted."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path

import pytest
from query_world import QueryWorld
from starlette.applications import Starlette
from starlette.types import Message

from headwater.cli.views.queries import write_promise
from headwater.model import Ending, Refresh, Verdict
from headwater.node.crawl.crawl_status import TargetOutcome
from headwater.node.quality.promises import PromiseKeeper, PromiseReport, load_promises
from headwater.node.quality.targets import note_broken_target
from headwater.node.queries.demand import DemandModel
from headwater.node.queries.query_explanation import explain_query, load_scope
from headwater.publish.delivery.deliverer import Deliverer
from headwater.publish.delivery.sinks import DeliveryMessage, Sink
from headwater.schedule.quality.promise_record import PromiseCounts
from headwater.schedule.quality.quality_target import QualityTarget
from headwater.settings import load_settings
from headwater.store.content.feed_state import load_feed_states
from headwater.store.content.verdicts import save_refreshes
from headwater.store.opening import open_store
from headwater.store.publishing.deliveries import list_deliveries
from headwater.store.queries.promise_hours import (
    SERVER,
    PromiseHour,
    find_broken_spells,
    list_promise_hours,
    save_promise_hours,
)
from headwater.store.queries.selectivity import list_selectivity, load_offered_counts
from headwater.store.store import Store
from headwater.times import DAY, HOUR
from headwater.web.app import create_app
from support.idle_node import make_idle_node
from support.store_samples import NOW, a_verdict

SCRIPT = """CREATE FEED Alarm AS RETURN ALL WHERE TITLE CONTAINS "lava"
TARGET DELAY <= 2 MINUTES DELIVER TO WEBHOOK "https://hook.example/"; """


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[QueryWorld]:
    async with await open_store(f"sqlite:///{tmp_path / 'p.sqlite'}") as store:
        yield await begin_world(store)


async def begin_world(store: Store) -> QueryWorld:
    made = QueryWorld(store)
    made.now = NOW - NOW % HOUR
    await made.begin()
    await made.publish("iris", "old lava")  # a feed's first document is history
    await made.run(SCRIPT)
    await made.process()
    return made


async def arrive(world: QueryWorld, number: int, delay: float, lost: float = 0.0, **more: object) -> None:
    """Publish an item `delay` seconds before the refresh that finds it."""
    world.now += 60
    feed = world.feeds["iris"]
    title = str(more.pop("title", "lava"))
    item = world.item("iris", f"{title} {number}", published=world.now - delay, **more)
    made = a_verdict(feed, item, at=world.now)
    refresh = Refresh(feed.id, world.now, Ending.CHANGED, 200, new=1, window=20, lost=lost)
    await save_refreshes(world.store, [Verdict(refresh, made.known, made.new)])
    await world.process()


async def measure(world: QueryWorld, outcome: TargetOutcome | None = None, alert: float | None = None) -> PromiseReport:
    scope, definitions, _ = await load_scope(world.store)
    model = DemandModel(
        definitions, scope, await world.store.read(list_selectivity), await world.store.read(load_offered_counts)
    )
    outcomes = [] if outcome is None else [outcome]
    await PromiseKeeper(world.store).measure_queries(definitions, model, outcomes, world.now, alert)
    (promise,) = [one for one in await load_promises(world.store, world.now) if one.query == "Alarm"]
    return promise


async def test_before_anything_came_nothing_is_claimed(world: QueryWorld) -> None:
    promise = await measure(world)
    assert (promise.kept, promise.day.items, promise.day.in_time) == (None, 0, None)
    assert promise.why == "Nothing was published yet that it keeps."
    assert promise.promised == "delay at most 2 min for 95 of 100 items"


async def test_a_promise_is_kept_by_the_items_that_the_query_keeps(world: QueryWorld) -> None:
    for number in range(60):
        await arrive(world, number, 50.0)
        await arrive(world, number, 50.0, title="sport")  # not matched by the query
    promise = await measure(world)
    assert promise.kept is True
    assert (promise.day.items, promise.day.in_time, promise.day.delay) == (60, 1.0, 50.0)
    assert promise.day.freshness is not None
    assert promise.day.freshness > 0.9
    assert promise.measured == "100 % of 60 items within 2 min, 50 s on average"


async def test_a_few_items_are_too_early_to_tell(world: QueryWorld) -> None:
    for number in range(5):
        await arrive(world, number, 30.0)
    promise = await measure(world)
    assert promise.kept is None
    assert promise.why == "Too early to tell: 5 items so far, at least 20 are needed."


async def test_a_share_close_to_the_promise_is_too_close_to_tell(world: QueryWorld) -> None:
    for number in range(50):
        late = number % 25 == 0
        world.now += 600 * late
        await arrive(world, number, 500.0 if late else 50.0)
    promise = await measure(world)
    assert promise.kept is None
    assert promise.why == (
        "Too close to tell: 96 % of 50 items within 2 min, 1.1 min on average over the last week; "
        "the difference from the promise may be chance."
    )


async def test_a_day_that_decides_nothing_leaves_it_to_the_week_and_says_so(world: QueryWorld) -> None:
    for number in range(60):
        await arrive(world, number, 50.0)
    assert (await measure(world)).why == ""
    world.now += 2 * DAY
    for number in range(60, 80):
        await arrive(world, number, 50.0 if number > 60 else 500.0)
    promise = await measure(world)
    assert promise.measured.startswith("95 % of 20 items within 2 min")
    assert promise.kept is True
    assert promise.why.startswith("Over the last week: 98 % of 80 items")


async def test_a_promise_broken_by_the_week_says_so_beside_a_good_day(world: QueryWorld) -> None:
    for number in range(60):
        world.now += 500
        await arrive(world, number, 500.0)
    assert (await measure(world)).kept is False
    world.now += 2 * DAY
    for number in range(60, 85):
        late = number == 84
        world.now += 500 * late
        await arrive(world, number, 500.0 if late else 50.0)
    promise = await measure(world)
    assert promise.measured.startswith("96 % of 25 items within 2 min")
    assert promise.kept is False
    assert promise.why.startswith("Over the last week: 28 % of 85 items within 2 min")
    assert "1 of 1 late items are from" in promise.why


async def test_items_without_dates_have_no_delay(world: QueryWorld) -> None:
    for number in range(30):
        await arrive(world, number, 0.0, dated=False)
    promise = await measure(world)
    assert (promise.kept, promise.day.items, promise.day.delay) == (None, 30, None)
    assert "show no dates" in promise.why


async def test_late_items_break_it_and_name_the_feed_and_its_servers_word(world: QueryWorld) -> None:
    for number in range(30):
        world.now += 3540
        await arrive(world, number, 3000.0)
    known = (await world.store.read(load_feed_states, [world.feeds["iris"].id]))[world.feeds["iris"].id]
    held = Verdict(
        Refresh(known.feed_id, world.now + 1, Ending.UNCHANGED, 304),
        type(known)(
            known.feed_id, known.url, window=known.window, last_refresh=world.now + 1, last_success=world.now + 1,
            fresh_until=world.now + 3601,
        ),
    )  # fmt: skip
    await save_refreshes(world.store, [held])
    promise = await measure(world)
    assert promise.kept is False
    assert "late items are from https://iris.example/rss: its server allows one request every 1 h" in promise.why
    assert promise.broken_since is not None
    told = await explain_query(world.store, load_settings(), "Alarm", world.now)
    assert told.promise == promise


async def test_the_plan_says_by_how_much_the_budget_is_too_small(world: QueryWorld) -> None:
    for number in range(30):
        world.now += 600
        await arrive(world, number, 600.0)
    short = TargetOutcome("Alarm", False, 9.0, 1.0, 0.9, 600.0, 2, "It takes 9 requests a minute, 5 more.")
    promise = await measure(world, short)
    assert (promise.kept, promise.why) == (False, "It takes 9 requests a minute, 5 more.")
    assert promise.predicted == {"completeness": 1.0, "freshness": 0.9, "delay": 600.0}


def test_a_broken_target_gives_its_reason_once() -> None:
    short = TargetOutcome("Alarm", False, 9.0, 1.0, 0.9, 600.0, 2, "It takes 9 requests a minute.")
    assert note_broken_target(short, short.message).message == "Not kept. It takes 9 requests a minute."
    assert note_broken_target(short, "").message == "Not kept. It takes 9 requests a minute."
    told = note_broken_target(short, "Measured: 60 % of 50 items caught.")
    assert told.message == "Not kept. Measured: 60 % of 50 items caught. It takes 9 requests a minute."


async def test_losses_count_by_the_share_that_the_query_keeps(world: QueryWorld) -> None:
    await world.run(
        'CREATE OR REPLACE FEED Alarm AS RETURN ALL WHERE TITLE CONTAINS "lava" TARGET COMPLETENESS >= 0.99;'
    )
    await world.process()
    for number in range(40):
        await arrive(world, number, 30.0)
        await arrive(world, number, 30.0, title="sport", lost=1.0)
    promise = await measure(world)
    assert promise.day.in_time is None  # no delay was promised
    assert promise.day.completeness == pytest.approx(40 / 60, abs=0.02)  # half of the 40 lost would have matched
    assert promise.kept is False
    assert "lost items are from" in promise.why


async def test_what_feeds_lost_before_a_query_was_made_does_not_count(world: QueryWorld) -> None:
    for number in range(30):
        await arrive(world, number, 30.0, lost=1.0)
    world.now += 60
    await world.run("DROP FEED Alarm; CREATE FEED Alarm AS RETURN ALL TARGET COMPLETENESS >= 0.99;")
    await world.process()
    promise = await measure(world)
    assert (promise.day.items, promise.day.completeness) == (0, None)
    assert promise.why == "Nothing was published yet that it keeps."


async def test_lost_items_were_shown_unread_too(world: QueryWorld) -> None:
    """Nine of ten items of each minute were lost, so the window showed hardly anything that was known."""
    for number in range(60):
        await arrive(world, number, 6.0, lost=9.0)
    promise = await measure(world)
    assert promise.hour.freshness is not None
    assert promise.hour.freshness < 0.5


async def test_a_query_without_a_target_is_measured_when_asked(world: QueryWorld) -> None:
    await world.run('CREATE FEED Calm AS RETURN ALL WHERE TITLE CONTAINS "lava";')
    await world.process()
    for number in range(40):
        await arrive(world, number, 30.0)
        await arrive(world, number, 30.0, title="sport", lost=1.0)
    quality = (await explain_query(world.store, load_settings(), "Calm", world.now)).promise
    assert quality is not None
    assert (quality.promised, quality.kept) == ("", None)
    assert (quality.week.dated, quality.week.delay) == (40, 30.0)
    assert quality.day.completeness == pytest.approx(40 / 60, abs=0.02)  # of the 40 lost half would have matched
    assert quality.hour.items < quality.day.items
    assert quality.day.freshness is not None
    assert 0.0 < quality.day.freshness < 1.0  # watched since the query exists
    told = write_promise(quality)
    assert len(told) == 3
    assert told[1].startswith("Measured in the last day: 60 items, completeness 6")


class Receiver(Sink):
    def __init__(self) -> None:
        self.got: list[DeliveryMessage] = []

    async def send(self, message: DeliveryMessage) -> None:
        self.got.append(message)


async def test_a_promise_broken_for_too_long_is_told_once_to_the_receiver(world: QueryWorld) -> None:
    for number in range(30):
        world.now += 600
        await arrive(world, number, 600.0)
    await measure(world, alert=8.0)
    assert await world.store.read(list_deliveries) == []  # broken for five hours only
    world.now += 6 * HOUR
    for _ in range(2):
        await measure(world, alert=8.0)
    (alert,) = await world.store.read(list_deliveries)
    assert alert.alert is not None
    assert "Alarm promises delay at most 2 min for 95 of 100 items. This has not been kept for" in alert.alert
    receiver = Receiver()
    deliverer = Deliverer(world.store, {"webhook": receiver}, clock=lambda: world.now)
    try:
        assert await deliverer.step()
    finally:
        await deliverer.close()
    (message,) = receiver.got
    assert message.items[0].title == "Alarm: promise broken"
    assert await world.store.read(list_deliveries, ["sent"]) != []
    await measure(world, alert=None)
    assert len(await world.store.read(list_deliveries)) == 1


async def test_a_promise_broken_for_weeks_is_told_once(world: QueryWorld) -> None:
    for number in range(60):
        world.now += 6 * HOUR
        await arrive(world, number, 600.0)
        await measure(world, alert=8.0)
    promise = await measure(world, alert=8.0)
    assert promise.kept is False
    assert promise.broken_since is not None
    assert world.now - promise.broken_since > 8 * DAY
    assert len(await world.store.read(list_deliveries)) == 1


async def test_a_promise_without_a_judgement_now_is_not_told_as_broken(world: QueryWorld) -> None:
    for number in range(30):
        world.now += 600
        await arrive(world, number, 600.0)
    assert (await measure(world, alert=8.0)).kept is False
    world.now += 8 * DAY
    assert (await measure(world, alert=8.0)).kept is None
    assert await world.store.read(list_deliveries) == []


async def test_the_server_has_a_record_with_and_without_a_target(world: QueryWorld) -> None:
    keeper, hour = PromiseKeeper(world.store), int(world.now // HOUR)
    some = PromiseCounts(got=90, lost=10.0, dated=90, waited=9000.0, missing=450.0, watched=7200.0)
    await keeper.measure_server({hour - 1: some, hour: some}, None, None)
    (server,) = await load_promises(world.store, world.now)
    assert (server.query, server.promised, server.kept) == (None, "", None)
    assert (server.day.items, server.day.completeness, server.day.delay) == (200, 0.9, 100.0)
    await keeper.measure_server({hour: some}, QualityTarget(completeness=0.99), None)
    (server,) = await load_promises(world.store, world.now)
    assert (server.kept, server.promised) == (False, "completeness at least 99 %")
    assert server.why == "Measured: 90.0 % of 200 items caught."
    assert len(await world.store.read(list_promise_hours, 0, SERVER)) == 2


async def test_a_broken_spell_ends_only_with_a_kept_hour(database_url: str) -> None:
    verdicts = {1: (True, None), 2: (True, False, None, False), 3: (False, True, False), 4: (None, False), 5: (None,)}
    async with await open_store(database_url) as store:
        for query, kept in verdicts.items():
            hours = [PromiseHour(query, hour, {}, {}, PromiseCounts(), one, "") for hour, one in enumerate(kept)]
            await store.write(save_promise_hours, hours)
        assert await store.read(find_broken_spells) == {2: 1, 3: 2, 4: 1}
        assert await store.read(find_broken_spells, 3) == {3: 2}


async def get_page(app: Starlette, path: str) -> str:
    """Request a page without a network."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b""}
    scope |= {"headers": [], "client": ("127.0.0.1", 5000), "http_version": "1.1", "server": ("localhost", 80)}
    await app({**scope, "scheme": "http"}, receive, send)
    return b"".join(message.get("body", b"") for message in sent).decode()


async def test_pages_api_explain_health_and_metrics_show_the_same(database_url: str) -> None:
    async with await open_store(database_url) as store:
        world = await begin_world(store)
        for number in range(60):
            late = number >= 56
            world.now += 300.0 * late  # an item has waited since the refresh before at most
            await arrive(world, number, 200.0 if late else 50.0, lost=float(number % 20 == 7))
        promise = await measure(world)
        app = create_app(make_idle_node(store, clock=lambda: world.now), clock=lambda: world.now)
        api = "/api/v1/quality/promises"
        seen = {path: await get_page(app, path) for path in (api, "/health", "/metrics", "/queries/Alarm", "/quality")}
        told = (await explain_query(store, load_settings(), "Alarm", world.now)).promise

    assert (promise.day.items, promise.day.delay) == (63, 60.0)
    (listed,) = [one for one in json.loads(seen[api])["items"] if one["query"] == "Alarm"]
    (healthy,) = [one for one in json.loads(seen["/health"])["promises"] if one["query"] == "Alarm"]
    assert told == promise
    assert listed == healthy == asdict(promise)
    for name in ("items", "completeness", "delay", "in_time"):
        assert f'headwater_promise_{name}{{query="Alarm"}} {float(getattr(promise.day, name))}\n' in seen["/metrics"]
    for page in (seen["/queries/Alarm"], seen["/quality"], "\n".join(write_promise(promise))):
        assert "93 %" in page  # of 60 items within two minutes
        assert "1 min" in page  # the mean delay
