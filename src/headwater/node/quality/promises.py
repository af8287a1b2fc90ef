"""Measures every promise by the hour, judges it, says why it was broken, and alerts whoever reads the query.

Pages, commands, `/health` and metrics read the saved records by `load_promises`, so they show the same figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from headwater.formats.write.addresses import public_address
from headwater.language.ast import CreateFeed
from headwater.model import Known, QueryFeed
from headwater.node.crawl.crawl_status import TargetOutcome
from headwater.node.queries.demand import DemandModel
from headwater.publish.delivery.delivery_planner import KINDS
from headwater.schedule.quality.least_budget import BudgetPlan
from headwater.schedule.quality.promise_record import (
    MIN_ITEMS,
    MeasuredQuality,
    PromiseCounts,
    describe_measured,
    describe_target,
    judge_promise,
    measure_quality,
)
from headwater.schedule.quality.quality_target import QualityTarget
from headwater.store.content.feed_state import load_feed_states
from headwater.store.content.feeds import find_feeds
from headwater.store.publishing.deliveries import Delivery, add_deliveries
from headwater.store.queries.promise_hours import (
    SERVER,
    PromiseHour,
    count_hits_by_feed,
    delete_promise_hours,
    find_broken_spells,
    find_latest_hours,
    list_promise_hours,
    save_promise_hours,
    sum_losses,
)
from headwater.store.queries.query_feeds import list_all_query_feeds
from headwater.store.store import Store
from headwater.times import HOUR, format_duration

PERIODS = {"hour": 1, "day": 24, "week": 168}  # hours before the current one
KEPT_HOURS = 35 * 24  # records

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class PromiseReport:
    """A promise of a query feed, or of the server (`query` is None), with its quality over three periods.

    `promised` is empty where nothing is promised and the quality is only measured. `predicted` has completeness,
    freshness and mean delay as far as the server expects any. `broken_since` is the start of the hour since which the
    promise is not kept.
    """

    query: str | None
    promised: str
    predicted: dict[str, float]
    hour: MeasuredQuality
    day: MeasuredQuality
    week: MeasuredQuality
    kept: bool | None
    broken_since: float | None
    why: str
    measured: str  # the day in words


@dataclass(frozen=True, slots=True)
class _Promise:
    """A promise to be measured: its query, the shares of its feeds' items that it keeps, and what the plan expects."""

    query_id: int
    name: str
    target: QualityTarget
    shares: Mapping[int, float]
    predicted: Mapping[str, float]
    message: str  # of the plan, if it cannot be kept
    create: CreateFeed
    created: float  # when; what its feeds brought and lost before does not count


def read_target(create: CreateFeed) -> QualityTarget | None:
    """Return the TARGET of a query; None if it has none."""
    asked = create.query.target
    if asked is None:
        return None
    # A share of exactly 1 cannot be promised: no number of items would show it.
    wanted = [None if x is None else min(max(x, 1e-4), 0.9999) for x in (asked.completeness, asked.freshness)]
    return QualityTarget(wanted[0], wanted[1], None if asked.delay is None else float(asked.delay.seconds))


def _list_shares(model: DemandModel, query_id: int) -> dict[int, float]:
    return {feed: model.estimate_selectivity(query_id, feed) for feed in model.list_feeds(query_id)}


async def measure_query(store: Store, query: QueryFeed, model: DemandModel, now: float) -> PromiseReport:
    """Measure the completeness, freshness and delay of a query without a TARGET, of which no records are kept."""
    shares = _list_shares(model, query.id)
    counts, end, found = PromiseCounts(), now + 1, {}
    for period, hours in PERIODS.items():
        start = max(now - hours * HOUR, query.created)
        counts += _sum((await _count_by_feed(store, query.id, shares, None, start, end)).values())
        end, found[period] = start, replace(measure_quality(counts), in_time=None)
    return PromiseReport(query.name, "", {}, **found, kept=None, broken_since=None, why="", measured="")


class PromiseKeeper:
    """Measures the promises of a store and saves a record per query and hour."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._alerted: set[int] = set()  # queries whose present missed spell was reported
        # Query, or SERVER → why its promise is not kept, beside the reason of the plan, whose figures move.
        self.broken: dict[int, str] = {}

    async def measure_server(
        self, hours: Mapping[int, PromiseCounts], target: QualityTarget | None, expected: BudgetPlan | None
    ) -> None:
        """Save the server's counts by hour, and whether its target (if it has one) is kept."""
        predicted = {} if expected is None else _predict(expected.completeness, expected.freshness, expected.delay)
        latest = max(hours, default=0)
        past = await self._store.read(list_promise_hours, latest - PERIODS["week"], SERVER)
        past = [one for one in past if one.hour not in hours]
        broken = expected.message if expected is not None and not expected.reached else ""
        for hour, counts in sorted(hours.items()):
            record = PromiseHour(SERVER, hour, _as_mapping(target), predicted, counts, None, "")
            judged = record if target is None else _judge(record, [*past, record], target, broken, deadline=False)
            past.append(judged)
        await self._store.write(save_promise_hours, [one for one in past if one.hour in hours])
        if past:
            self._note_verdict(past[-1], broken)

    def _note_verdict(self, record: PromiseHour, message: str) -> None:
        self.broken.pop(record.query_id, None)
        if record.kept is False:
            self.broken[record.query_id] = record.why.removesuffix(message).strip()

    async def measure_queries(
        self,
        definitions: Mapping[int, CreateFeed],
        model: DemandModel,
        outcomes: Sequence[TargetOutcome],
        now: float,
        alert_hours: float | None,
    ) -> None:
        """Save the records of the hours since the last one, of every query with a TARGET; alert where one is broken."""
        expected = {one.query: one for one in outcomes}
        this = int(now // HOUR)
        measured = await self._store.read(find_latest_hours)
        created = {query.id: query.created for query in await self._store.read(list_all_query_feeds)}
        for query_id, create in definitions.items():
            target = read_target(create)
            if target is None:
                continue
            outcome = expected.get(create.name.name)
            promise = _Promise(
                query_id,
                create.name.name,
                target,
                _list_shares(model, query_id),
                {} if outcome is None else _predict(outcome.completeness, outcome.freshness, outcome.delay),
                "" if outcome is None or outcome.reached else outcome.message,
                create,
                created.get(query_id, now),
            )
            # The last record may be of an unfinished hour, and a server that was away has missed some.
            first = max(measured.get(query_id, this - PERIODS["day"]), this - PERIODS["week"])
            await self._measure_query(promise, range(min(first, this), this + 1), now, alert_hours)
        await self._store.write(delete_promise_hours, this - KEPT_HOURS)

    async def _measure_query(self, promise: _Promise, hours: range, now: float, alert_hours: float | None) -> None:
        """Save the records of some hours, and alert if the promise is broken in the last one."""
        past = await self._store.read(list_promise_hours, hours[0] - PERIODS["week"], promise.query_id)
        past = [one for one in past if one.hour < hours[0]]
        for hour in hours:
            counts = _sum((await self._count(promise, hour * HOUR, min((hour + 1) * HOUR, now + 1))).values())
            record = PromiseHour(
                promise.query_id, hour, _as_mapping(promise.target), promise.predicted, counts, None, ""
            )
            past.append(_judge(record, [*past, record], promise.target, promise.message, deadline=True))
        if past[-1].kept is False and not promise.message:
            culprit = await self._find_culprit(promise, now)
            past[-1] = _judge(past[-1], past, promise.target, culprit, deadline=True)
        await self._store.write(save_promise_hours, past[-len(hours) :])
        self._note_verdict(past[-1], promise.message)
        if past[-1].kept:
            self._alerted.discard(promise.query_id)
        if past[-1].kept is False and alert_hours is not None:
            since = (await self._store.read(find_broken_spells, promise.query_id))[promise.query_id] * HOUR
            if now - since >= alert_hours * HOUR:
                await self._send_alert(promise, past[-1], since, now)

    async def _count(self, promise: _Promise, start: float, end: float) -> dict[int, PromiseCounts]:
        begin = min(max(start, promise.created), end)
        return await _count_by_feed(self._store, promise.query_id, promise.shares, promise.target.delay, begin, end)

    async def _find_culprit(self, promise: _Promise, now: float) -> str:
        """Name the feed to which most of the missed items of the last day belong, and what holds it back."""
        counts = await self._count(promise, now - PERIODS["day"] * HOUR, now + 1)
        measured = measure_quality(_sum(counts.values()))
        only_loss = replace(promise.target, delay=None) if promise.target.completeness is not None else None
        losing = only_loss is not None and judge_promise(only_loss, measured, deadline=True) is False
        missed = {
            feed: one.lost if losing else one.dated - one.in_time for feed, one in counts.items() if one.got or one.lost
        }
        feed = max(missed, key=missed.__getitem__, default=None)
        if feed is None or missed[feed] <= 0:
            return ""
        known = (await self._store.read(load_feed_states, [feed])).get(feed)
        named = (await self._store.read(find_feeds, [feed])).get(feed)
        if known is None or named is None:
            return ""
        what, source = "lost" if losing else "late", named.title or public_address(named.url, named.link)
        share = f"{missed[feed]:.0f} of {sum(missed.values()):.0f} {what} items are from {source}"
        return f"{share}: {_describe_pause(known, losing)}."

    async def _send_alert(self, promise: _Promise, record: PromiseHour, since: float, now: float) -> None:
        """Queue one alert per broken spell to each receiver of the query."""
        if promise.query_id in self._alerted:
            return
        self._alerted.add(promise.query_id)
        log.warning("promise_broken", query=promise.name, since=since, why=record.why)
        alert = (
            f"{promise.name} promises {describe_target(promise.target, deadline=True)}. This has not been kept for "
            f"{format_duration(now - since)}. {record.why}"
        )
        rows = [
            Delivery(
                *(0, promise.query_id, promise.name, 0, -int(since // HOUR), KINDS[to.kind], to.address, now),
                at=now,
                alert=alert,
            )
            for to in promise.create.query.deliveries
            if to.kind in KINDS and to.address
        ]
        if rows:
            await self._store.write(add_deliveries, rows)


async def _count_by_feed(
    store: Store, query_id: int, shares: Mapping[int, float], deadline: float | None, start: float, end: float
) -> dict[int, PromiseCounts]:
    """Count by source feed; of lost items the share counts that the query would have kept."""
    caught = await store.read(count_hits_by_feed, query_id, start, end, deadline)
    lost = await store.read(sum_losses, shares, start, end)
    nothing = PromiseCounts()
    return {
        feed: caught.get(feed, nothing)
        + PromiseCounts(
            lost=lost.get(feed, nothing).lost * share,
            missing=lost.get(feed, nothing).missing * share,
            watched=share * (end - start),
        )
        for feed, share in shares.items()
    }


def _judge(
    record: PromiseHour, past: Sequence[PromiseHour], target: QualityTarget, message: str, *, deadline: bool
) -> PromiseHour:
    """Judge the day up to a record's hour, or the week where a day has too few items."""
    for period in ("day", "week"):
        measured = measure_quality(_sum(one.counts for one in past if one.hour >= record.hour - PERIODS[period]))
        kept = judge_promise(target, measured, deadline=deadline)
        if kept is not None:
            break
    figures = describe_measured(target, measured, deadline=deadline)
    in_week = f"Over the last week: {figures}." if period == "week" else ""
    if kept:
        return replace(record, kept=True, why=in_week)
    if kept is False:
        return replace(record, kept=False, why=f"{in_week} {message}".strip() or f"Measured: {figures}.")
    if not measured.items:
        why = "Nothing was published yet that it keeps."
    elif target.delay is not None and not measured.dated and measured.completeness:
        why = "Its feeds show no dates, so the delay cannot be measured."
    elif measured.items < MIN_ITEMS:
        why = f"Too early to tell: {measured.items:,} items so far, at least {MIN_ITEMS} are needed."
    elif target.delay is not None and measured.dated < MIN_ITEMS:
        why = f"Too early to tell: {measured.dated:,} items with a date so far, at least {MIN_ITEMS} are needed."
    else:
        why = f"Too close to tell: {figures} over the last week; the difference from the promise may be chance."
    return replace(record, kept=None, why=f"{why} {message}".strip())


def _describe_pause(known: Known, losing: bool) -> str:
    """Say what holds a feed back: its failures, its server's word, or its window."""
    if known.failures:
        return f"its last {known.failures} refreshes failed"
    last = known.last_refresh or 0.0
    pause = max((known.fresh_until or last) - last, (known.not_before or last) - last, known.hints.ttl or 0.0)
    if pause > 0:
        return f"its server allows one request every {format_duration(pause)}"
    if losing:
        return f"its document shows only {len(known.window)} items, and more came between two polls"
    return "it was polled too rarely"


async def load_promises(store: Store, now: float) -> list[PromiseReport]:
    """Load the promises as last measured: the server first, then the queries with a TARGET, by name."""
    this = int(now // HOUR)
    records: dict[int, list[PromiseHour]] = {}
    for one in await store.read(list_promise_hours, this - PERIODS["week"]):
        records.setdefault(one.query_id, []).append(one)
    broken = await store.read(find_broken_spells)
    names: dict[int, str | None] = {query.id: query.name for query in await store.read(list_all_query_feeds)}
    names[SERVER] = None
    found = [_report(names[id], some, broken.get(id), this) for id, some in records.items() if id in names]
    return sorted(found, key=lambda one: (one.query is not None, one.query or ""))


async def find_promise(store: Store, query: str, now: float) -> PromiseReport | None:
    """Return the promise of a query feed as last measured; None if there is no record yet."""
    return next((one for one in await load_promises(store, now) if one.query == query), None)


def _report(name: str | None, records: Sequence[PromiseHour], broken: int | None, this: int) -> PromiseReport:
    last, deadline = records[-1], name is not None
    target = QualityTarget(**last.promised) if last.promised else None
    periods = {}
    for period, hours in PERIODS.items():
        measured = measure_quality(_sum(one.counts for one in records if one.hour >= this - hours))
        kept = None if target is None else judge_promise(target, measured, deadline=deadline)
        has_deadline = deadline and target is not None and target.delay is not None
        periods[period] = replace(measured, kept=kept, in_time=measured.in_time if has_deadline else None)
    return PromiseReport(
        query=name,
        promised="" if target is None else describe_target(target, deadline=deadline),
        predicted=dict(last.predicted),
        hour=periods["hour"],
        day=periods["day"],
        week=periods["week"],
        kept=last.kept,
        broken_since=None if broken is None else broken * HOUR,
        why=last.why,
        measured="" if target is None else describe_measured(target, periods["day"], deadline=deadline),
    )


def _predict(completeness: float | None, freshness: float | None, delay: float | None) -> dict[str, float]:
    figures = {"completeness": completeness, "freshness": freshness, "delay": delay}
    return {name: value for name, value in figures.items() if value is not None}


def _as_mapping(target: QualityTarget | None) -> dict[str, float]:
    return {} if target is None else _predict(target.completeness, target.freshness, target.delay)


def _sum(counts: Iterable[PromiseCounts]) -> PromiseCounts:
    return sum(counts, PromiseCounts())
