"""Measures completeness, freshness, delay and losses once a minute, for the log, the metrics, the pages and JSON.

The node counts every refresh in a small tally. A report has the counts of the tally, expectations from the estimates,
and the losing feeds from the store. It is saved, so that any process can show it.

The history has one line a minute for three hours, then every ten minutes for two weeks.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Floats, Rows
from headwater.errors import NotFound, StrategyError
from headwater.estimate.learned.forecast_record import ForecastRecord
from headwater.model import Feed, Known, Refresh
from headwater.node.crawl.scheduler import Scheduler
from headwater.node.crawl.snapshot import pack_arrays, unpack_arrays
from headwater.node.quality.quality_report import LosingFeed, QualityReport, save_report
from headwater.schedule.quality.loss_forecast import LossForecast, advise_on_loss, forecast_loss
from headwater.schedule.quality.promise_record import measure_missing_of_lost
from headwater.schedule.quality.tally import Tally
from headwater.schedule.strategy import Strategy
from headwater.schedule.value.value import Value
from headwater.store.content.feed_state import load_feed_states
from headwater.store.content.feeds import find_feed
from headwater.store.content.refreshes import FeedLoss, list_losses
from headwater.store.saved_state import load_state, save_state
from headwater.store.store import Store
from headwater.times import DAY, HOUR

TALLY = "quality_tally"
VERSION = 1
MAX_LOSING = 20  # losing feeds in a report
EXPECT_SECONDS = 300.0  # after which expectations are computed anew, even if nothing was refreshed


@dataclass(frozen=True, slots=True)
class Expectations:
    """The losses that a strategy expects at the feeds in `rows`, and the record of its forecast.

    They were computed at `at`, for the feeds in `active`, after so many batches of refreshes (`batches`).
    """

    at: float
    strategy: Strategy
    active: Rows
    batches: int
    rows: Rows
    losses: LossForecast
    forecast: ForecastRecord | None

    def holds(self, now: float, strategy: Strategy, active: Rows, batches: int) -> bool:
        """Whether nothing has changed since, and little time has passed."""
        same = self.strategy is strategy and self.batches == batches and np.array_equal(self.active, active)
        return same and 0 <= now - self.at < EXPECT_SECONDS


class QualityMonitor:
    """Measures the quality of a scheduler."""

    def __init__(self, store: Store, crawler: Scheduler, least_interval: float) -> None:
        self._store = store
        self._scheduler = crawler
        self._least_interval = least_interval
        self.tally = Tally()
        self.history = QualityHistory()
        self._batches = 0  # of refreshes counted
        self._expectations: Expectations | None = None

    def count_refreshes(self, refreshes: Iterable[tuple[Refresh, float | None]]) -> None:
        """Count refreshes, each with the time of the feed's previous success."""
        self._batches += 1
        hours: dict[float, list[tuple[Refresh, float | None]]] = {}
        for one in refreshes:
            hours.setdefault(one[0].at // HOUR, []).append(one)
        for hour, ended in hours.items():
            measured = [
                (one, measure_delays(one, before)) for one, before in ended if before is not None and one.published
            ]
            waited = [delays for _, delays in measured]
            self.tally.record(
                hour * HOUR,
                requests=len(ended),
                weight=sum(refresh.bytes for refresh, _ in ended),
                got=sum(refresh.new for refresh, before in ended if before is not None),
                lost=sum(refresh.lost for refresh, _ in ended),
                delays=np.concatenate(waited) if waited else np.empty(0),
                missing=sum(float(delays.sum()) / max(one.window or 1, 1) for one, delays in measured)
                + sum(
                    measure_missing_of_lost(one.new, one.lost, one.at - before)
                    for one, before in ended
                    if before is not None
                ),
            )

    async def make_report(self, now: float) -> QualityReport:
        """Make a report, with the losing feeds."""
        crawler = self._scheduler
        strategy, expectations = crawler.strategy, await self._find_expectations(now)
        rows, seen = expectations.rows, expectations.losses
        hour, day = self.tally.summarise(now, 1), self.tally.summarise(now, 24)
        lost_now = float(seen.lost.sum())
        total = day.got + day.lost + lost_now
        status = crawler.status()
        return QualityReport(
            at=now,
            strategy=strategy.name,
            estimator=strategy.estimator.name if strategy.estimator is not None else None,
            price=self._find_price(rows, now),
            problem=strategy.problem,
            feeds=int(crawler.feed_table.active.sum()),
            hour=hour,
            day=day,
            completeness=day.completeness,
            expected_completeness=None if day.completeness is None else day.got / total,
            lost_now=lost_now,
            freshness=None if day.completeness is None or not len(rows) else float(1 - seen.missing.mean()),
            saturated=int((seen.chance > 0.5).sum()),
            budget_requests=status.budget_per_minute,
            used_requests=status.spent,
            budget_bytes=status.budget_bytes,
            used_bytes=status.spent_bytes,
            target=status.target,
            target_reached=status.target_reached,
            losing=await self._find_losing_feeds(rows, seen, now, status.spent / max(status.budget_per_minute, 1e-9)),
            plan_check=strategy.calibration.check_plan() if isinstance(strategy, Value) else None,
            forecast=expectations.forecast,
        )

    async def _find_expectations(self, now: float) -> Expectations:
        """Return what is expected now.

        While nothing is refreshed it is computed every five minutes only: on a server at rest it would cost more than
        all other work.
        """
        feeds, strategy, batches = self._scheduler.feed_table, self._scheduler.strategy, self._batches
        active = np.flatnonzero(feeds.active & np.isfinite(feeds.table.last))
        if self._expectations is not None and self._expectations.holds(now, strategy, active, batches):
            return self._expectations
        rows, expected = self._expect_items(active, now)
        value = strategy if isinstance(strategy, Value) else None
        forecast = None if value is None else value.record_forecast(feeds.table)
        burst = None if value is None else value.habits.burst(rows)
        losses = await asyncio.to_thread(forecast_loss, expected, feeds.table.window[rows], burst)
        self._expectations = Expectations(now, strategy, active, batches, rows, losses, forecast)
        return self._expectations

    def _expect_items(self, active: Rows, now: float) -> tuple[Rows, Floats]:
        """Return the feeds with an estimate, and the expected number of new items at each."""
        since = np.minimum(self._scheduler.feed_table.table.last[active], now)
        believed = self._scheduler.strategy.ask_estimator(
            lambda estimator: estimator.expected(active, since, np.full(len(active), now))
        )
        return (active, believed) if believed is not None else (np.empty(0, np.intp), np.empty(0))

    def _find_price(self, rows: Rows, now: float) -> float | None:
        if not len(rows):
            return None
        price = self._scheduler.strategy.explain(self._scheduler.feed_table.table, int(rows[0]), now).price
        return price if price is not None and np.isfinite(price) else None

    async def _find_losing_feeds(
        self, rows: Rows, seen: LossForecast, now: float, used: float
    ) -> tuple[LosingFeed, ...]:
        table = self._scheduler.feed_table
        noticed = {
            loss.feed_id: loss for loss in await self._store.read(list_losses, since=now - DAY, limit=MAX_LOSING)
        }
        worst = np.argsort(-seen.lost)[:MAX_LOSING]
        believed = {int(table.ids[rows[k]]): int(k) for k in worst if seen.chance[k] > 0.5}
        feeds = [feed for feed in {**noticed, **believed} if table.find_row(feed) is not None]
        known = await self._store.read(load_feed_states, feeds)
        place = {int(row): k for k, row in enumerate(rows.tolist())}
        found = []
        for feed_id in feeds:
            row = table.find_row(feed_id)
            try:
                feed = await self._store.read(find_feed, feed_id)
            except NotFound:  # removed since
                continue
            if row is None or feed_id not in known:
                continue
            k = place.get(row)
            loss = noticed.get(feed_id, FeedLoss(feed_id, 0, 0.0, 0))
            now_lost = (float(seen.lost[k]), float(seen.chance[k])) if k is not None else (0.0, 0.0)
            found.append(self._describe_losing_feed(feed, known[feed_id], row, loss, now_lost, now, used))
        return tuple(sorted(found, key=lambda one: -(one.lost + one.lost_now))[:MAX_LOSING])

    def _describe_losing_feed(
        self, feed: Feed, known: Known, row: int, loss: FeedLoss, now_lost: tuple[float, float], now: float, used: float
    ) -> LosingFeed:
        one, at, strategy = np.array([row], np.intp), np.array([now]), self._scheduler.strategy
        made = strategy.predict(self._scheduler.feed_table.table, one) if isinstance(strategy, Value) else None
        rate = self._scheduler.strategy.ask_estimator(lambda estimator: estimator.daily_rate(one, at))
        per_day = None if rate is None else float(rate[0]) * DAY
        window = len(known.window) or 1
        pause = float(self._scheduler.feed_table.table.pause[row])
        if known.failures:
            pause = max(float(self._scheduler.feed_table.earliest[row]) - (known.last_refresh or now), pause)
        pace = (loss.got + loss.lost) / DAY if per_day is None else max(per_day / DAY, (loss.got + loss.lost) / DAY)
        advice = advise_on_loss(
            rate=pace,
            window=window,
            least=self._least_interval,
            pause=pause if np.isfinite(pause) else 0.0,
            hub=known.hub is not None,
            budget_used=used,
            failures=known.failures,
            interval=math.inf if made is None else float(made.interval[0]),
        )
        title = feed.title or feed.url
        return LosingFeed(feed.id, title, feed.url, loss.got, loss.lost, *now_lost, per_day, window, advice)

    async def save(self, now: float, report: QualityReport) -> None:
        await self._store.write(save_state, TALLY, VERSION, pack_arrays(self.tally.save()), now)
        await save_report(self._store, report, now)
        self.history.append(_make_point(report))
        await save_history(self._store, self.history, now)

    async def load(self) -> None:
        self.history = await load_history(self._store)
        saved = await self._store.read(load_state, TALLY)
        if saved is not None and saved[0] == VERSION:
            with contextlib.suppress(StrategyError):  # damaged: counting starts anew
                self.tally.load(unpack_arrays(saved[1]))


def _make_point(report: QualityReport) -> QualityPoint:
    return QualityPoint(
        at=report.at,
        completeness=or_nan(report.completeness),
        freshness=or_nan(report.freshness),
        delay=or_nan(None if report.hour.delay is None else report.hour.delay.median),
        requests=float(report.used_requests),
        budget=report.budget_requests,
        price=or_nan(report.price),
        lost=report.hour.lost,
    )


def measure_delays(refresh: Refresh, before: float | None) -> Floats:
    """Measure how long new items waited, at most since the refresh at `before`, which did not show them.

    So a date that a publisher put into the past does not count as our delay. The items of a first refresh do not count.
    """
    if before is None:
        return np.empty(0)
    dates: Sequence[float] = refresh.published
    return np.maximum(refresh.at - np.maximum(np.array(dates, np.float64), before), 0.0)


STATE_NAME, HISTORY_VERSION = "quality_history", 1
FINE_SECONDS, COARSE_SECONDS = 3 * 3600.0, 600.0
RETENTION_SECONDS = 14 * 86_400.0


@dataclass(frozen=True, slots=True)
class QualityPoint:
    """The quality at one moment; NaN if unknown. `delay` is the median of the hour, `lost` counts the hour."""

    at: float
    completeness: float
    freshness: float
    delay: float
    requests: float
    budget: float
    price: float
    lost: float


class QualityHistory:
    """Lines by time."""

    def __init__(self, lines: NDArray[np.float64] | None = None) -> None:
        self._lines = np.empty((0, 8)) if lines is None else lines

    def append(self, line: QualityPoint) -> None:
        """Add a line and thin out old ones."""
        lines = np.vstack([self._lines[self._lines[:, 0] < line.at], np.array([astuple(line)])])
        age = line.at - lines[:, 0]
        slot = np.floor(lines[:, 0] / COARSE_SECONDS)
        first = np.append(True, slot[1:] != slot[:-1])
        self._lines = lines[((age <= FINE_SECONDS) | first) & (age <= RETENTION_SECONDS)]

    def list_since(self, at: float) -> list[QualityPoint]:
        return [QualityPoint(*map(float, line)) for line in self._lines[self._lines[:, 0] >= at]]

    def save(self) -> bytes:
        return pack_arrays({"lines": self._lines}, compressed=True)

    @classmethod
    def load(cls, saved: bytes) -> QualityHistory:
        try:
            lines = unpack_arrays(saved).get("lines", np.empty(0))
        except StrategyError:
            return cls()
        return cls(lines if lines.ndim == 2 and lines.shape[1] == 8 else None)


async def load_history(store: Store) -> QualityHistory:
    """Load the history that the node saved last; empty if there is none."""
    saved = await store.read(load_state, STATE_NAME)
    return QualityHistory.load(saved[1]) if saved is not None and saved[0] == HISTORY_VERSION else QualityHistory()


async def save_history(store: Store, history: QualityHistory, now: float) -> None:
    """Save the history."""
    await store.write(save_state, STATE_NAME, HISTORY_VERSION, history.save(), now)


def or_nan(value: float | None) -> float:
    """Return a number for the history: NaN if it is missing."""
    return math.nan if value is None else value
