"""The quality page: completeness, freshness, delay, price, what-if curves and losing feeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from functools import partial

import orjson
from markupsafe import Markup
from starlette.responses import Response

from headwater.errors import InputError
from headwater.node.quality.belief_sample import estimate_quality_by_budget
from headwater.node.quality.promises import PromiseReport, load_promises
from headwater.node.quality.quality_monitor import QualityPoint, load_history
from headwater.node.quality.quality_report import LosingFeed, QualityReport, load_last_report
from headwater.schedule.budget import describe_limit
from headwater.schedule.quality.least_budget import PredictedQuality
from headwater.store.content.feeds import change_feed, find_feed, find_feeds
from headwater.store.queries.hits import count_feed_activity
from headwater.store.readers.accounts import ADMIN
from headwater.store.saved_state import load_state, save_state
from headwater.store.store import Store
from headwater.times import DAY, format_duration, format_plain, format_share, format_time
from headwater.web.charts import (
    Chart,
    ScatterPoint,
    draw_line,
    draw_scatter,
    draw_sparkline,
    log_ticks,
    time_axis,
    x_axis_scale,
)
from headwater.web.page import PageGroup, Visit
from headwater.web.shared.background_jobs import BackgroundJob
from headwater.web.shared.strategy_comparison import list_compared, load_last_comparison, replay_strategies
from headwater.web.site import Site, parse_integer

MAX_POINTS = 400  # feeds drawn: those with most requests and with most items
NO_PRICE = 1e-4  # item-minutes: a price below counts as none
ACCEPTED = "accepted_losses"
FLASH = {
    "weighed": "Weight doubled.",
    "accepted": "Loss accepted. The feed is no longer listed.",
    "listed": "All losing feeds are listed again.",
}


pages = PageGroup(FLASH)


@dataclass(frozen=True, slots=True)
class QualityPage:
    """The values of the page; charts are None while there is nothing to draw."""

    report: QualityReport | None
    limit: str  # of requests, in words
    watched: int
    sparks: dict[str, Markup]
    buys: tuple[PredictedQuality, ...]
    curve_sentence: str
    check_sentence: str
    forecast_sentence: str
    completeness: Chart | None
    delay: Chart | None
    price: Chart | None
    feeds: Chart | None
    losing: tuple[LosingFeed, ...]
    accepted: int
    weights: dict[int, float]
    promises: tuple[PromiseReport, ...]


async def load_quality_page(site: Site, now: float, zone: tzinfo = UTC) -> QualityPage:
    report = await load_last_report(site.store)
    past = (await load_history(site.store)).list_since(now - 2 * 7 * DAY)
    buys = await load_budget_curve(site, now)
    accepted = await load_accepted_losses(site.store)
    losing = tuple(one for one in report.losing if one.feed_id not in accepted) if report else ()
    known = await site.store.read(find_feeds, [one.feed_id for one in losing])
    status = site.status()
    budget = status.budget_per_minute
    return QualityPage(
        report=report,
        limit=describe_limit(report.budget_requests) if report else "",
        watched=status.feeds,
        sparks=_draw_sparklines(past[-180:]),
        buys=tuple(buys),
        curve_sentence=_describe_curve(buys, budget) if buys else "",
        check_sentence=report.plan_check.describe() if report and report.plan_check else "",
        forecast_sentence=report.forecast.describe() if report and report.forecast else "",
        completeness=_draw_curve(buys, budget, lambda one: one.completeness, "completeness"),
        delay=_draw_curve(buys, budget, lambda one: one.delay / 60, "delay"),
        price=_draw_price(past, zone),
        feeds=await _draw_feeds(site, {one.feed_id for one in (report.losing if report else ())}, now),
        losing=losing,
        accepted=len(accepted),
        weights={id: feed.weight for id, feed in known.items()},
        promises=tuple(one for one in await load_promises(site.store, now) if one.promised),
    )


async def load_budget_curve(site: Site, now: float) -> list[PredictedQuality]:
    """Estimate quality by budget; empty before anything was published, since rates are not known then."""
    report = await load_last_report(site.store)
    if report is None or report.completeness is None:
        return []
    sample = await site.aggregator.crawl.sample_beliefs(now)
    return await estimate_quality_by_budget(sample)


async def draw_delay_curve(site: Site, now: float) -> Chart | None:
    """Draw mean delay against the budget."""
    return _draw_curve(
        await load_budget_curve(site, now), site.status().budget_per_minute, lambda one: one.delay / 60, "delay"
    )


def _draw_sparklines(past: Sequence[QualityPoint]) -> dict[str, Markup]:
    def drawn(name: str, alt: str, span: float = 0.0) -> Markup:
        values = [getattr(one, name) for one in past]
        return draw_sparkline([None if math.isnan(value) else value for value in values], alt, span)

    return {
        "completeness": drawn("completeness", "Completeness over the last reports", 0.02),
        "freshness": drawn("freshness", "Freshness over the last reports", 0.02),
        "delay": drawn("delay", "Median delay over the last reports"),
        "requests": drawn("requests", "Requests per minute over the last reports"),
    }


def _find_nearest(buys: Sequence[PredictedQuality], budget: float) -> PredictedQuality | None:
    return next((one for one in buys if abs(one.budget - budget) <= 0.01 * budget), None)


def _describe_curve(buys: Sequence[PredictedQuality], budget: float) -> str:
    """Describe half and twice the budget in a sentence."""
    half, whole, twice = (_find_nearest(buys, budget * factor) for factor in (0.5, 1.0, 2.0))
    if half is None or whole is None or twice is None:
        return ""
    today = (
        f"Forecast of the next day: {format_share(whole.completeness, 500)} caught and a mean delay of "
        f"{format_duration(whole.delay)} (± {format_duration(whole.delay_doubt)})."
    )
    if whole.used < 0.9 * budget:
        need = f"about {whole.used:.0f}" if whole.used >= 1 else "less than one"
        return f"{today} All feeds together need {need} of {budget:g} requests a minute; more would not help."
    return (
        f"{today} Half the budget would give {format_share(half.completeness, 500)} and {format_duration(half.delay)}, "
        f"twice the budget {format_share(twice.completeness, 500)} and {format_duration(twice.delay)}."
    )


def _explain_rise(buys: Sequence[PredictedQuality]) -> str:
    """Say why the delay is longer at some budget than at a smaller one; nothing where it only falls."""
    slowest = max(buys, key=lambda one: one.delay, default=None)
    if slowest is None or slowest.delay <= 1.01 * buys[0].delay:
        return ""
    return (
        f"Less than {slowest.budget:.2g} requests a minute would not be quicker, although the mean delay is shorter "
        "there: only caught items count, and those that would wait longest are lost."
    )


def _draw_curve(
    buys: Sequence[PredictedQuality], budget: float, value: Callable[[PredictedQuality], float], what: str
) -> Chart | None:
    half, whole, twice = (_find_nearest(buys, budget * factor) for factor in (0.5, 1.0, 2.0))
    if half is None or whole is None or twice is None:
        return None
    low, high = buys[0].budget, buys[-1].budget
    marks = [mark for factor in (1, 2, 5) for mark in (factor * tick for tick in log_ticks(low / 10, high))]
    marks = sorted(mark for mark in marks if low <= mark <= high)
    shown = marks[:: max(len(marks) // 6, 1)]
    bottom = x_axis_scale(low, high, format_plain, "requests per minute", marks=shown, log=True)
    curve = [(one.budget, value(one)) for one in buys]
    today = (whole.budget, value(whole), "today")
    if what == "completeness":
        gain = twice.completeness - whole.completeness
        title = (
            f"Twice the budget would add {gain * 100:.1f} points of completeness"
            if gain >= 0.0005
            else "A larger budget would not add completeness"
        )
        lowest = min(min(y for _, y in curve), 0.99)
        return draw_line(title, bottom, curve, "completeness", format_plain, low=lowest, high=1.0, marked=today)
    less, now = format_duration(half.delay), format_duration(whole.delay)
    title = f"Half the budget would mean {less} of mean delay instead of {now}"
    if less == now:
        title = "Half the budget would be as quick"
    elif half.delay < whole.delay:
        title = f"Half the budget would lose what waits longest: the rest would wait {less} instead of {now}"
    name = "mean delay of caught items, in minutes"
    drawn = draw_line(title, bottom, curve, name, format_plain, low=0.0, marked=today)
    return replace(drawn, note=_explain_rise(buys))


def _draw_price(past: Sequence[QualityPoint], zone: tzinfo) -> Chart | None:
    known = [(one.at, one.price * 1440) for one in past if not math.isnan(one.price)]
    if len(known) < 3:
        return None
    free = max(price for _, price in known) < NO_PRICE
    usual = sorted(price for _, price in known)[int(len(known) * 0.98)]  # the first price is a guess, and far off
    unit, scale = ("seconds", 60) if usual < 1 else ("minutes", 1)
    known = [(at, 0.0 if free else price * scale) for at, price in known]
    tenth = max(len(known) // 10, 1)
    first = sorted(price for _, price in known[:tenth])[tenth // 2]
    last = known[-1][1]
    steady = max(first, last) < NO_PRICE * scale or 0.8 < last / max(first, NO_PRICE * scale) < 1.25
    change = "been steady" if steady else "risen" if last > first else "fallen"
    title = f"The price of a request has {change} over {format_duration(known[-1][0] - known[0][0])}"
    if free:
        title = "The budget is not scarce: a request has no price"
    return draw_line(
        title,
        time_axis(known[0][0], known[-1][0], zone),
        known,
        f"price: what a refresh must be worth, in item-{unit}",
        format_plain,
        low=0.0,
        high=1.0 if free else 1.2 * usual * scale,
        breaks=3 * 3600.0,
        format_x=partial(format_time, zone=zone),
    )


async def _draw_feeds(site: Site, losing: set[int], now: float) -> Chart | None:
    """Draw feeds by requests and new items of the last day; the numbers are up to a minute old."""
    store = site.store
    activity = await site.timed_cache.get_or_gather("activity", 0, lambda: store.read(count_feed_activity, now - DAY))
    if len(activity) < 2:
        return None
    dearest = sorted(activity, key=lambda id: -activity[id][0])[: MAX_POINTS // 2]
    richest = sorted(activity, key=lambda id: -activity[id][1])[: MAX_POINTS // 2]
    feeds = await store.read(find_feeds, {*dearest, *richest})
    dots = [
        ScatterPoint(
            feed.title or feed.url, f"/feed/{id}", activity[id][0], activity[id][1] * feed.weight, id in losing
        )
        for id, feed in feeds.items()
    ]
    idle = sum(new == 0 for _, new in activity.values())
    title = f"{idle:,} of {len(activity):,} feeds cost requests and brought nothing in a day"
    if not idle:
        title = f"Each of {len(activity):,} feeds brought something for its requests"
    return draw_scatter(title, dots, "requests a day", "new items a day × weight")


async def load_accepted_losses(store: Store) -> set[int]:
    """Load the feeds whose losses an owner accepted."""
    saved = await store.read(load_state, ACCEPTED)
    return set(orjson.loads(saved[1])) if saved else set()


@pages.get("/quality", ADMIN)
async def show_quality(visit: Visit) -> Response:
    page = await load_quality_page(visit.site, visit.now, visit.zone)
    comparing = visit.site.background_jobs.find_latest("comparison")
    compared = await load_last_comparison(visit.store)
    return visit.render("quality_page.html", page=page, comparing=comparing, compared=compared)


@pages.post("/quality", ADMIN)
async def change_losing_feed(visit: Visit) -> Response:
    """Double a losing feed's weight, accept its losses, or list all losing feeds again."""
    action, feed_id = visit.form.get("do"), parse_integer(visit.form.get("feed"))
    if action == "list":
        await visit.store.write(save_state, ACCEPTED, 1, b"[]", visit.now)
        return visit.redirect("/quality", flash="listed")
    if feed_id is None:
        raise InputError("The form does not name a feed. Load the page again.")
    feed = await visit.store.read(find_feed, feed_id)
    if action == "accept":
        accepted = sorted(await load_accepted_losses(visit.store) | {feed_id})[-10_000:]
        await visit.store.write(save_state, ACCEPTED, 1, orjson.dumps(accepted), visit.now)
        return visit.redirect("/quality", flash="accepted")
    await visit.store.write(change_feed, feed_id, weight=min(feed.weight * 2, 1000.0))
    return visit.redirect("/quality", flash="weighed")


@pages.post("/quality/compare", ADMIN)
async def compare_strategies(visit: Visit) -> Response:
    """Start the comparison as a background job, unless it runs already."""
    site = visit.site
    names = list_compared(site.settings.strategy, visit.form.get("strategy"))

    async def work(job: BackgroundJob) -> object:
        return await replay_strategies(site.store, site.status().budget_per_minute, site.clock(), job, names)

    job = site.background_jobs.find_running("comparison")
    if job is None:
        title = "Strategies compared on your own feeds' history"
        job = site.background_jobs.start(title, work, page="comparison", unit="strategies")
    return visit.redirect(f"/jobs/{job.id}")
