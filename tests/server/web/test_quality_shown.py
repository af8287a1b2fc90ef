"""Quality appears as JSON, in Prometheus metrics and on the page, with a failed strategy and the target."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC

import msgspec
from aiohttp import ClientSession
from playwright.async_api import Browser
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.types import Message

from headwater.node.crawl.crawl_status import CrawlStatus
from headwater.node.quality.feed_explanation import explain_feed_schedule
from headwater.node.quality.quality_monitor import VERSION, QualityPoint
from headwater.node.quality.quality_report import REPORT, LosingFeed, QualityReport
from headwater.node.quality.targets import Deadline, save_deadlines
from headwater.schedule.quality.least_budget import PredictedQuality
from headwater.schedule.quality.tally_period import DelaySummary, TallyPeriod
from headwater.settings import load_settings
from headwater.store.content.feeds import NewFeed
from headwater.store.content.refreshes import summarise_activity
from headwater.store.content.verdicts import save_refreshes
from headwater.store.readers.accounts import change_user
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.saved_state import save_state
from headwater.store.store import Store
from headwater.web.app import create_app
from headwater.web.charts import Chart
from headwater.web.metrics import render_metrics
from headwater.web.pages.quality_page import _draw_curve, _draw_price
from support.idle_node import make_idle_node
from support.store_samples import a_verdict

HOUR = TallyPeriod(60, 1000, 9, 1.0, 0.9, DelaySummary(9, 100.0, 60.0, 300.0))
QUALITY = QualityReport(
    at=1_800_000_000.0,
    strategy="value",
    estimator="bayes",
    price=0.5,
    problem=None,
    feeds=2,
    hour=HOUR,
    day=replace(HOUR, delay=None),
    completeness=0.9,
    expected_completeness=0.85,
    lost_now=0.6,
    freshness=0.97,
    saturated=1,
    budget_requests=60.0,
    used_requests=58,
    budget_bytes=None,
    used_bytes=1e6,
    target="30.0 requests per minute bring completeness 0.99.",
    target_reached=True,
    losing=(LosingFeed(7, "A lively feed", "http://a.example/", 20, 4.0, 0.6, 0.7, 400.0, 20, "raise --budget"),),
)


STATUS = CrawlStatus(
    feeds=1, under_way=0, strategy="mine", budget_per_minute=60.0, budget_left=9, next_due=None, held_hosts=0
)


def samples(figures: str) -> dict[str, float]:
    """Return the figures by name; with labels, the last of each."""
    return {one.name: one.value for family in text_string_to_metric_families(figures) for one in family.samples}


def price_chart(*prices: float) -> Chart:
    """Draw prices in item-minutes, one a minute."""
    chart = _draw_price(
        [QualityPoint(60.0 * k, 1.0, 1.0, 60.0, 10.0, 60.0, price / 1440, 0.0) for k, price in enumerate(prices)], UTC
    )
    assert chart is not None
    assert "e-" not in re.sub(r"<[^>]*>", " ", chart.svg)  # labels are readable numbers
    return chart


def price_title(*prices: float) -> str:
    return price_chart(*prices).title


def test_the_unit_of_the_price_is_that_of_its_usual_height() -> None:
    """The first price is a guess, and far off."""
    assert "in item-seconds" in price_chart(*[2.0], *[0.01] * 99).svg
    assert "in item-minutes" in price_chart(*[0.01], *[2.0] * 99).svg


def test_the_price_is_called_what_it_is() -> None:
    assert price_title(2.0, 2.0, 3.0) == "The price of a request has risen over 2 min"
    assert price_title(2.0, 2.0, 1.0) == "The price of a request has fallen over 2 min"
    assert price_title(2.0, 9.0, 2.1) == "The price of a request has been steady over 2 min"
    assert price_title(0.0, 1e-9, 0.0) == "The budget is not scarce: a request has no price"


def test_a_smaller_budget_is_not_called_quicker() -> None:
    """At a tiny budget only what is caught at once is caught at all."""
    falling = [PredictedQuality(b, b, 0.9, 0.9, 60 / b) for b in (0.25, 0.5, 1.0, 2.0)]
    chart = _draw_curve(falling, 0.5, lambda one: one.delay / 60, "delay")
    assert chart is not None
    assert not chart.note
    assert chart.title == "Half the budget would mean 4 min of mean delay instead of 2 min"
    chart = _draw_curve([replace(falling[0], delay=30.0), *falling[1:]], 0.5, lambda one: one.delay / 60, "delay")
    assert chart is not None
    assert chart.title == "Half the budget would lose what waits longest: the rest would wait 30 s instead of 2 min"
    assert chart.note.startswith("Less than 0.5 requests a minute would not be quicker")


async def rendered(app: Starlette) -> str:
    """Render the first page without a network."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/status",
        "raw_path": b"/status",
        "query_string": b"",
        "headers": [],
    }
    scope |= {"client": ("127.0.0.1", 5000), "http_version": "1.1", "server": ("localhost", 80)}
    await app({**scope, "scheme": "http"}, receive, send)
    return b"".join(message.get("body", b"") for message in sent).decode()


async def get(address: str) -> tuple[int, str]:
    async with ClientSession() as session, session.get(address) as response:
        return response.status, await response.text()


async def test_the_report_is_there_as_json_once_a_node_has_made_one(
    site: Callable[..., Awaitable[str]], web_store: Store
) -> None:
    address = await site()
    status, body = await get(f"{address}/api/v1/quality")
    assert status == 404
    assert "No node has reported yet" in body
    await web_store.write(save_state, REPORT, VERSION, msgspec.json.encode(QUALITY), QUALITY.at)
    status, body = await get(f"{address}/api/v1/quality")
    assert status == 200
    assert msgspec.json.decode(body, type=QualityReport) == QUALITY
    _, figures = await get(f"{address}/metrics")
    found = {
        sample.name: sample.value for family in text_string_to_metric_families(figures) for sample in family.samples
    }
    assert found["headwater_completeness"] == 0.9
    assert found["headwater_feeds_saturated"] == 1
    assert found["headwater_delay_seconds_hour"] == 300.0
    assert 'headwater_feed_lost_items{feed="7",how="noticed"} 4.0' in figures
    assert 'headwater_feed_lost_items{feed="7",how="believed"} 0.6' in figures
    assert "headwater_delay_seconds_day" not in found


async def test_two_pages_show_the_same_completeness(site: Callable[..., Awaitable[str]], web_store: Store) -> None:
    await web_store.write(add_and_subscribe, [NewFeed("http://a.example/")], 0.0)
    await web_store.write(save_state, REPORT, VERSION, msgspec.json.encode(QUALITY), QUALITY.at)
    address = await site()
    for path in ("/status", "/quality"):
        _, page = await get(address + path)
        assert "<dd>90 %</dd>" in page  # of ten items, so without digits after the point
        assert "1 of 10 items lost, and probably about 1 more now" in page


async def test_without_data_no_page_shows_a_figure(site: Callable[..., Awaitable[str]], web_store: Store) -> None:
    nothing = TallyPeriod(3, 1000, 0, 0.0, None, None)
    blank = replace(QUALITY, hour=nothing, day=nothing, completeness=None, expected_completeness=None)
    blank = replace(blank, lost_now=1e-12, freshness=None, target=None, losing=(), feeds=0)
    await web_store.write(add_and_subscribe, [NewFeed("http://a.example/")], 0.0)
    address = await site()
    for report in (None, blank):
        if report is not None:
            await web_store.write(save_state, REPORT, VERSION, msgspec.json.encode(report), report.at)
        for path in ("/status", "/quality", "/settings"):
            _, page = await get(address + path)
            text = re.sub(r"<[^>]*>", " ", page)
            assert not re.search(r"\d %", text), path
            assert "the budget would" not in text, path
            assert "half of it" not in text, path
    _, page = await get(f"{address}/quality")
    assert "watches 2 feeds" in page  # the live count, not the report's


async def test_losing_feeds_make_no_page_wider_than_a_phone(
    site: Callable[..., Awaitable[str]], web_store: Store, browser: Browser
) -> None:
    advice = "its window is full after 30 min and the budget is spent: raise --budget, or this feed's weight"
    losing = replace(QUALITY.losing[0], got=1400, lost=5700.0, lost_now=1300.0, helps=advice)
    report = replace(QUALITY, losing=(losing,))
    await web_store.write(save_state, REPORT, VERSION, msgspec.json.encode(report), report.at)
    page = await browser.new_page(viewport={"width": 390, "height": 800})
    await page.goto(f"{await site()}/quality")
    assert await page.locator("table.stack").is_visible()
    assert await page.evaluate("document.documentElement.scrollWidth") == 390


async def test_times_are_in_the_readers_time_zone(site: Callable[..., Awaitable[str]], web_store: Store) -> None:
    address = await site()
    vienna = {"zone": "Europe%2FVienna"}
    for cookies, shown in (({}, "UTC"), (vienna, "CET"), ({"zone": "Nowhere/At%20all"}, "UTC")):
        async with ClientSession(cookies=cookies) as session, session.get(f"{address}/status") as response:
            assert f"{shown} ·" in await response.text()
    await web_store.write(change_user, 1, time_zone="Asia/Tokyo")
    async with ClientSession(cookies=vienna) as session, session.get(f"{address}/status") as response:
        assert "JST ·" in await response.text()


async def test_a_saved_budget_says_whether_a_restart_keeps_it(
    site: Callable[..., Awaitable[str]], web_store: Store
) -> None:
    hold, passing = "They hold after a restart too.", "Saved until the next start"
    budget, dial = {"budget": "90"}, {"strategy": "value", "objective": "delay"}
    for options, form, said in (
        ({}, budget, hold),
        ({"budget": 60.0}, budget, passing),
        ({"strategy": "value"}, dial, hold),  # the form names the strategy too, but does not change it
    ):
        address = await site(**options)
        headers = {"Origin": address}
        async with (
            ClientSession(headers=headers) as session,
            session.post(f"{address}/settings/change", data=form) as response,
        ):
            assert said in await response.text()


async def test_metrics_without_a_report_have_what_the_crawler_knows(web_store: Store) -> None:
    status = replace(
        STATUS, spent=7, problem="It failed.", target="…", target_reached=False, network_away_since=1_800_000_000.0
    )
    figures = render_metrics(await web_store.read(summarise_activity, 0.0), status).decode()
    found = {
        sample.name: sample.value for family in text_string_to_metric_families(figures) for sample in family.samples
    }
    assert found["headwater_spent_requests"] == 7
    assert found["headwater_strategy_failed"] == 1
    assert found["headwater_target_reached"] == 0
    assert found["headwater_network_away"] == 1
    assert "headwater_completeness" not in found


async def test_the_page_says_that_a_strategy_failed_and_what_the_target_needs(web_store: Store) -> None:
    await web_store.write(add_and_subscribe, [NewFeed("http://a.example/")], 0.0)
    said = replace(STATUS, problem="The strategy <mine> failed.", target="It takes 30.", target_reached=False)
    page = await rendered(create_app(make_idle_node(web_store, said)))
    assert "The strategy &lt;mine&gt; failed." in page
    assert "Target not reached: It takes 30." in page
    assert "this machine seems to be offline" not in page
    page = await rendered(create_app(make_idle_node(web_store, replace(STATUS, network_away_since=1_800_000_000.0))))
    assert "this machine seems to be offline" in page


async def test_an_explanation_keeps_the_deadline_of_a_query(watched_store: Store) -> None:
    """Also after a refresh that the saved state of the scheduler has not learned yet."""
    now = 1_800_000_000.0
    settings = load_settings(budget=2.0, allow_private=True)
    told = [await explain_feed_schedule(watched_store, settings, feed, now) for feed in range(1, 11)]
    free = max((one for one in told if not one.known.failures and not one.asked), key=lambda one: one.next_refresh or 0)
    known = msgspec.structs.replace(free.known, last_refresh=now, last_success=now, last_change=now)
    await save_refreshes(watched_store, [a_verdict(free.feed, known=known, at=now)])
    free = await explain_feed_schedule(watched_store, settings, free.feed.id, now)
    await save_deadlines(watched_store, {free.feed.id: Deadline(180.0, "Alarm")}, now)
    hurried = await explain_feed_schedule(watched_store, settings, free.feed.id, now)
    assert free.next_refresh is not None
    assert free.next_refresh > now + 180
    assert "Alarm wants ≤ 3 min" in hurried.interval
    assert hurried.next_refresh == now + 180


async def test_requests_below_one_a_minute_are_not_shown_as_over_the_budget(
    site: Callable[..., Awaitable[str]], web_store: Store
) -> None:
    """A budget of .5 allows one request in two minutes, so one is all of it and not twice."""
    address = await site()
    for budget, words in ((0.5, "of 1 in the last 2 min"), (60.0, "of 60 in the last minute")):
        report = replace(QUALITY, budget_requests=budget, used_requests=1)
        await web_store.write(save_state, REPORT, VERSION, msgspec.json.encode(report), report.at)
        _, page = await get(f"{address}/quality")
        assert words in page
