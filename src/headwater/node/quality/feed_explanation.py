"""Explains when and why a feed is polled: its estimates, the hints of its server, the value of a refresh now.

Command line, JSON API and the feed's page give the same explanation. It is computed from the saved state of the server,
so any process can explain.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from statistics import fmean

import numpy as np

from headwater.estimate.models.learned_forecast import LearnedForecast
from headwater.model import Ending, Feed, Known, Refresh
from headwater.node.crawl import snapshot
from headwater.node.crawl.feed_table import FeedTable
from headwater.node.crawl.politeness import Politeness
from headwater.node.crawl.scheduler import build_configured_strategy
from headwater.node.quality.targets import Deadline, load_deadlines
from headwater.node.queries.query_explanation import load_demand
from headwater.novelty.feed_kinds import DATE_PROBLEMS, FeedKind, Sighting, find_named_kinds, recognise_feed_kinds
from headwater.schedule.interval_reason import describe_interval
from headwater.schedule.politeness.publisher_hints import name_longest_hint, syndication_period
from headwater.schedule.politeness.rules import Reason, find_earliest_time
from headwater.schedule.quality.loss_forecast import forecast_loss
from headwater.schedule.refresh_cost import Pressure, compute_costs
from headwater.schedule.strategy import Strategy
from headwater.schedule.value.value import Value
from headwater.settings import Settings
from headwater.store.content.feed_overview import list_publication_times
from headwater.store.content.feed_state import iterate_schedule_rows, load_feed_states
from headwater.store.content.feeds import find_feed
from headwater.store.content.refreshes import list_refreshes, load_mean_costs
from headwater.store.content.websub_leases import WebSubLease, find_leases_of_feeds
from headwater.store.store import Store
from headwater.times import DAY, HOUR, MINUTE, WEEK, find_utc_offset, format_duration, format_relative

MAX_SIGHTINGS = 50  # refreshes from which the kind of a feed is recognised
NO_PLAN_YET = "The server has not saved a plan yet. It does so within a minute of the first refreshes."


@dataclass(frozen=True, slots=True)
class FeedBelief:
    """The estimate of a feed: items per day now and on average, by hour of the coming day and week."""

    per_day_now: float
    per_day: float
    by_hour: tuple[float, ...]  # expected items in each of the next 24 hours
    by_weekday_hour: tuple[float, ...]  # in each of the 168 hours of the week, Monday 00:00 UTC first
    expected_new: float  # items expected to be new now
    window: int
    chance_of_loss: float  # that more items are new than the window shows


@dataclass(frozen=True, slots=True)
class ServerHint:
    """A hint of the server or its document, and its effect."""

    hint: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class ScheduleExplanation:
    """The times of a feed's refreshes, and the reasons for them."""

    feed: Feed
    known: Known
    strategy: str
    belief: FeedBelief | None
    asked: tuple[ServerHint, ...]
    push: str
    held_until: float | None
    held_by: str
    value: float | None
    price: float | None
    why: str
    next_refresh: float | None
    last: Refresh | None
    kinds: tuple[str, ...] = ()
    interval: str = ""  # how often it is polled and which constraint decides that, in words
    forecast: str = ""  # where the learned forecast differs from the plain estimate, and how well it has predicted


async def explain_feed_schedule(
    store: Store, settings: Settings, ref: int | str, now: float, zone: tzinfo = UTC
) -> ScheduleExplanation:
    """Explain a feed from the store; times in its sentences are those of `zone`."""
    feed = await store.read(find_feed, ref)
    known = (await store.read(load_feed_states, [feed.id]))[feed.id]
    wanted = (await load_deadlines(store)).get(feed.id)
    strategy, feeds = await _load_strategy(store, settings, feed.id, wanted, now)
    row = feeds.find_row(feed.id) or 0
    belief = _compute_belief(strategy, feeds, row, known, now)
    subscription = (await store.read(find_leases_of_feeds, [feed.id])).get(feed.id)
    pushed = subscription is not None and subscription.state == "active" and (subscription.until or 0) > now
    allowed, reason = find_earliest_time(
        known,
        now,
        paused=feed.paused,
        gone=feed.gone_since is not None,
        pushed=pushed,
        least=settings.least_interval,
    )
    explanation = strategy.explain(feeds.table, row, now)
    latest = await store.read(list_refreshes, feed.id, limit=MAX_SIGHTINGS)
    due = max(explanation.due or now, allowed)
    return ScheduleExplanation(
        feed=feed,
        known=known,
        strategy=strategy.name,
        belief=belief,
        asked=tuple(list_hints(known, now)),
        push=describe_push(known, subscription, settings.public_url, now),
        held_until=allowed if allowed > now and math.isfinite(allowed) else None,
        held_by=_describe_hold(reason, known, allowed, settings.least_interval),
        value=explanation.value,
        price=explanation.price,
        why=explanation.reason,
        next_refresh=due if math.isfinite(due) else None,
        last=latest[0] if latest else None,
        kinds=tuple(sorted(kind.value for kind in recognise_kinds(latest[::-1], now))),
        interval=_describe_interval(settings, strategy, feeds, row, known, pushed, wanted),
        forecast=strategy.estimator.describe_feed(row, now, zone)
        if isinstance(strategy.estimator, LearnedForecast) and len(feeds)
        else "",
    )


def _describe_interval(
    settings: Settings,
    strategy: Strategy,
    feeds: FeedTable,
    row: int,
    known: Known,
    pushed: bool,
    wanted: Deadline | None,
) -> str:
    """Say how often the feed is polled and which constraint decides that; nothing if its strategy makes no plan."""
    if not isinstance(strategy, Value) or not len(feeds):
        return ""
    if known.last_refresh is not None and not strategy.has_price:
        return NO_PLAN_YET
    politeness = Politeness(random.Random(0), least=settings.least_interval)
    facts = politeness.gather_facts([known])
    facts.pushed[:] = pushed
    feeds.set_politeness(np.array([row], np.intp), facts, *politeness.compute_pauses(facts))
    plan = strategy.predict_saved(feeds.table, row, settings.budget)
    by_query = wanted is not None and wanted.seconds <= feeds.at_most[row]
    query = wanted.query if wanted is not None and by_query else None
    return "" if plan is None else describe_interval(plan, 0, query, name_longest_hint(known))


def _describe_hold(reason: Reason, known: Known, allowed: float, least: float) -> str:
    """Return the sentence of a rule, with the feed's own interval if the rule depends on it."""
    pause = allowed - (known.last_refresh or allowed)
    if reason is Reason.LEAST:
        return f"no feed is polled twice within {format_duration(least)}"
    if reason is Reason.UNCHANGING:
        return f"a feed that answers without validators and without change is polled every {format_duration(pause)}"
    return "" if reason is Reason.FREE else reason.sentence


def recognise_kinds(refreshes: Sequence[Refresh], now: float) -> frozenset[FeedKind]:
    """Recognise the kind of a feed from its refreshes, oldest first. Odd dates are named in their messages.

    A single odd document may be chance, so the latest three documents must agree.
    """
    documents = [refresh for refresh in refreshes if refresh.ending is Ending.CHANGED and refresh.window]
    latest = [find_named_kinds(refresh.message) for refresh in documents[-3:]]
    odd = frozenset.intersection(*latest) if latest else frozenset()
    sightings = [Sighting(one.at, _list_dates(one), one.new) for one in refreshes if one.ending.ok and one.window]
    seen = recognise_feed_kinds(sightings, now) - frozenset(DATE_PROBLEMS)
    return seen | odd


def _list_dates(refresh: Refresh) -> tuple[float | None, ...]:
    """Return a date per item of the document: those of new items if plausible, else None."""
    dates = refresh.published[: refresh.window]
    return (*dates, *([None] * ((refresh.window or 0) - len(dates))))


async def _load_strategy(
    store: Store, settings: Settings, feed_id: int, wanted: Deadline | None, now: float
) -> tuple[Strategy, FeedTable]:
    """Load the saved strategy, reduced to this feed; what happened since then is replayed under the feed's deadline.

    Queries and readers give the feed its weight and, where the budget has bytes, its documents their cost, as on the
    server.
    """
    feeds = FeedTable()
    feeds.set_demand((await load_demand(store, settings, now)).by_feed)
    if wanted is not None:
        feeds.set_deadlines({feed_id: wanted.seconds})
    async for chunk in iterate_schedule_rows(store):
        if mine := [row for row in chunk if row.feed_id == feed_id]:
            feeds.upsert_feeds(mine, {})
            break
    if settings.budget_bytes is not None:
        _price_refresh(feeds, settings, await store.read(load_mean_costs, now - WEEK))
    strategy = build_configured_strategy(settings)
    strategy.resize(len(feeds))
    await snapshot.load_snapshot(store, feeds, strategy)
    await snapshot.replay_missed(store, feeds, strategy)
    return strategy, feeds


def _price_refresh(feeds: FeedTable, settings: Settings, means: Sequence[tuple[int, float, float]]) -> None:
    """Set the cost of a refresh by the bytes of the past week, relative to those of an ordinary one."""
    if not means or settings.budget_bytes is None:
        return
    feeds.restore_costs(means)
    typical = fmean(size for _, size, _ in means)
    pressure = Pressure(bytes=settings.budget * typical / (MINUTE * settings.budget_bytes))
    feeds.table.cost[:] = compute_costs(feeds.mean_bytes, feeds.mean_seconds, typical, 0.0, pressure)


def _compute_belief(strategy: Strategy, feeds: FeedTable, row: int, known: Known, now: float) -> FeedBelief | None:
    estimator = strategy.estimator
    if estimator is None or known.last_success is None:
        return None
    one = np.array([row], np.intp)

    def expected(starts: np.ndarray, seconds: float) -> list[float]:
        rows = np.repeat(one, len(starts))
        return [float(items) for items in estimator.expected(rows, starts, starts + seconds)]

    hour = math.floor(now / HOUR) * HOUR
    monday = math.floor((now - 4 * DAY) / WEEK) * WEEK + 4 * DAY  # 1 January 1970 was a Thursday
    waiting = expected(np.array([known.last_success]), max(now - known.last_success, 0.0))[0]
    window = len(known.window)
    burst = strategy.habits.burst(one) if isinstance(strategy, Value) else None
    seen = forecast_loss(np.array([waiting]), np.array([float(window)]), burst)  # as Quality does
    return FeedBelief(
        per_day_now=float(estimator.rate(one, np.array([now]))[0]) * DAY,
        per_day=float(estimator.daily_rate(one, np.array([now]))[0]) * DAY,
        by_hour=tuple(expected(hour + HOUR * np.arange(24), HOUR)),
        by_weekday_hour=tuple(expected(monday + HOUR * np.arange(168), HOUR)),
        expected_new=waiting,
        window=window,
        chance_of_loss=float(seen.chance[0]) if window else 0.0,
    )


def list_hints(known: Known, now: float) -> list[ServerHint]:
    """List the hints of the server and its document, with their effect now."""
    found: list[ServerHint] = []
    hints = known.hints
    if known.not_before is not None and known.not_before > now:
        found.append(ServerHint("Retry-After", f"{known.not_before - now:.0f} s", "respected, also when a person asks"))
    if known.fresh_until is not None:
        left = known.fresh_until - now
        effect = f"respected for another {left:.0f} s" if left > 0 else "over: its copy is no longer fresh"
        found.append(
            ServerHint("max-age or Expires", f"{known.fresh_until - (known.last_success or now):.0f} s", effect)
        )
    if hints.ttl is not None:
        found.append(
            ServerHint("ttl", f"{hints.ttl / 60:.0f} min", "the shortest pause between two polls, at most a day")
        )
    period = syndication_period(hints)
    if period is not None:
        found.append(
            ServerHint("sy:updatePeriod", f"every {period / 3600:.1f} h", "the shortest pause between two polls")
        )
    if hints.skip_hours:
        found.append(ServerHint("skipHours", _format_hours(hints.skip_hours), "not polled in these hours (UTC)"))
    if hints.skip_days:
        found.append(ServerHint("skipDays", ", ".join(hints.skip_days), "not polled on these days (UTC)"))
    return found


def describe_push(known: Known, one: WebSubLease | None, public_url: str | None, now: float) -> str:
    """Describe the lease of the feed's hub in a sentence."""
    if known.hub is None:
        return "No hub is offered."
    if one is None or one.hub != known.hub:
        why = "" if public_url else ": hubs must reach this server, and no public_url is set"
        return f"A hub is offered ({known.hub}); not subscribed{why}."
    message = f" {one.message}" if one.message else ""
    if one.state == "active" and one.until is not None and one.until > now:
        last = (
            "nothing yet" if one.pushed is None else f"{one.pushes} pushes, the last {format_relative(one.pushed, now)}"
        )
        return f"Pushed by {one.hub}: {last}; the lease ends {format_relative(one.until, now)}.{message}"
    if one.state == "asked":
        return f"Asked {one.hub} to push; it has not confirmed yet. Polled meanwhile.{message}"
    if one.state == "silent":
        return f"The hub {one.hub} is silent.{message} Asked again {format_relative(one.due, now)}."
    return f"The hub {one.hub} does not push.{message} Polled meanwhile; asked again {format_relative(one.due, now)}."


def _format_hours(hours: Iterable[int]) -> str:
    """Write hours of the day as ranges.

    >>> _format_hours([0, 1, 2, 5, 22, 23])
    '0–2, 5, 22–23'
    """
    found: list[list[int]] = []
    for hour in sorted(set(hours)):
        if found and hour == found[-1][-1] + 1:
            found[-1].append(hour)
        else:
            found.append([hour])
    return ", ".join(f"{some[0]}–{some[-1]}" if len(some) > 1 else f"{some[0]}" for some in found)


PATTERN_WEEKS = 4
HOURS_PER_WEEK = 168


@dataclass(frozen=True, slots=True)
class WeeklyPattern:
    """Items in each hour of a week, Monday 00:00 first; `counted` over `weeks` of the past."""

    believed: tuple[float, ...] | None
    counted: tuple[int, ...]
    weeks: float


async def load_weekly_pattern(
    store: Store, explanation: ScheduleExplanation, now: float, zone: tzinfo = UTC
) -> WeeklyPattern:
    """Count the items of the explained feed by hour of the week in a time zone."""
    since = now - PATTERN_WEEKS * WEEK
    times = [at for at in await store.read(list_publication_times, explanation.feed.id, since) if at <= now]
    counted = [0] * HOURS_PER_WEEK
    for at in times:
        local = at + find_utc_offset(at, zone)
        counted[int((local - 4 * DAY) % WEEK // HOUR)] += 1  # 1 January 1970 was a Thursday
    weeks = min(max((now - min(times, default=now)) / WEEK, 1.0), float(PATTERN_WEEKS))
    expected = None if explanation.belief is None else explanation.belief.by_weekday_hour
    if expected is not None:
        ahead = round(find_utc_offset(now, zone) / HOUR) % HOURS_PER_WEEK
        expected = expected[HOURS_PER_WEEK - ahead :] + expected[: HOURS_PER_WEEK - ahead]
    return WeeklyPattern(expected, tuple(counted), weeks)
