"""A world of publishers under a virtual clock, polled by the server's own scheduler within its budget."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

from headwater.estimate.models.bayes import Bayes
from headwater.model import Ending, Hints, Known, Refresh, Validators
from headwater.node.crawl.lessons import Lesson
from headwater.node.crawl.politeness import Politeness
from headwater.node.crawl.scheduler import Scheduler
from headwater.node.crawl.spending import BudgetAccount
from headwater.novelty import estimate_lost_items
from headwater.schedule.budget import RequestCap
from headwater.schedule.promise import Promise
from headwater.schedule.value.value import Value
from headwater.store.content.feed_state import ScheduleRow
from headwater.times import DAY, HOUR

START = 1.6e9
TICK = 5.0
DRAWS = 100  # other draws of the same publishers, from which expected outcomes are estimated


@dataclass
class Publisher:
    """A feed of the world: its publications and its hints to clients.

    `law` is the rate (items a day) and the mean size of the batches by which `publish` has drawn the publications.
    """

    times: np.ndarray
    law: tuple[float, float] = (0.0, 1.0)
    window: int = 20
    max_age: float | None = None
    skip_hours: tuple[int, ...] = ()
    host: str = ""  # "": one of its own
    fails: float = 0.0  # chance that a poll fails
    away: tuple[float, float] = (0.0, 0.0)  # an outage, from and until
    polls: list[float] = field(default_factory=list)
    caught: dict[int, float] = field(default_factory=dict)  # item → when it was fetched
    lost: int = 0
    compared: list[tuple[float, float, float, float]] = field(default_factory=list)  # gaps: from, until, delay and loss


@dataclass
class PlanComparison:
    """The plan's predictions for the items of a period, beside their outcome: actual, or expected by their law."""

    caught: float = 0
    lost: float = 0
    waited: float = 0.0
    quoted_wait: float = 0.0
    quoted_lost: float = 0.0

    @property
    def completeness(self) -> float:
        return self.caught / max(self.caught + self.lost, 1)

    @property
    def quoted_completeness(self) -> float:
        return 1 - self.quoted_lost / max(self.caught + self.lost, 1)

    @property
    def delay(self) -> float:
        return self.waited / max(self.caught, 1)

    @property
    def quoted_delay(self) -> float:
        return self.quoted_wait / max(self.caught, 1)

    def __add__(self, other: PlanComparison) -> PlanComparison:
        return PlanComparison(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))


class PublisherWorld:
    """Publishers, polled by a real scheduler. `compared` counts the outcomes of feeds that are not away."""

    def __init__(
        self, publishers: list[Publisher], budget: float, seed: int = 1, estimator: Bayes | None = None
    ) -> None:
        self.now = START
        self.publishers = publishers
        self.compared = PlanComparison()
        self._rng = np.random.default_rng(seed)
        self.strategy = Value(estimator=estimator)
        self.scheduler = Scheduler(
            None,  # type: ignore[arg-type]  # nothing is loaded
            self.strategy,
            BudgetAccount(RequestCap(budget)),
            Politeness(random.Random(seed)),
            clock=lambda: self.now,
        )
        blank = (None, False, None, 0, *([None] * 6), 0, None, None, None, None)
        rows = [
            ScheduleRow(k + 1, f"http://{one.host or f'host{k}.example'}/feed{k}", 1.0, *blank)
            for k, one in enumerate(publishers)
        ]
        self.scheduler._add_rows(rows, 0.0)
        self._known = {row.feed_id: Known(row.feed_id, row.url) for row in rows}
        self._seen = [0] * len(publishers)

    def run(self, seconds: float) -> None:
        stop = self.now + seconds
        while self.now < stop:
            tokens = self.scheduler.budget.count_available(self.now)
            chosen = self.scheduler.choose_feeds(tokens, self.now) if tokens else []
            if chosen:
                for row, _ in chosen:
                    reserved = self.scheduler.budget.reserve(self.now, int(self.scheduler.feed_table.host[row]))
                    self.scheduler.budget.charge(self.now, reserved, 500)
                rows = [row for row, _ in chosen]
                failing = {row for row in rows if self._is_failing(row)}
                self._compare([row for row in rows if row not in failing])
                rates = self.scheduler.estimate_past_rates(np.array(rows, np.intp)).tolist()
                self.scheduler.learn_lessons(
                    [self._poll(row, rate, row in failing) for row, rate in zip(rows, rates, strict=True)]
                )
            due = self.scheduler.find_next_due(self.now)
            self.now += TICK * max(np.floor(min(due - self.now, stop - self.now, 60.0) / TICK), 1.0)

    def predict(self) -> Promise:
        """Return the plan's promise for the next day."""
        assert self.strategy.current is not None
        return self.strategy.current.promise()

    def expect(self) -> PlanComparison:
        """Return what the law of the publishers expects of the compared gaps, beside the predictions for them."""
        return sum((expect_outcomes(one, self._rng) for one in self.publishers), PlanComparison())

    def forget_comparisons(self) -> None:
        self.compared = PlanComparison()
        for one in self.publishers:
            one.compared.clear()

    def _is_failing(self, row: int) -> bool:
        """Whether a poll of a feed fails now. Chance spares its first poll, an outage does not."""
        one, read = self.publishers[row], self._known[row + 1].last_success is not None
        return one.away[0] <= self.now < one.away[1] or (read and self._rng.random() < one.fails)

    def _compare(self, rows: list[int]) -> None:
        """Count the items that these polls will find, beside the plan's current prediction."""
        here = np.array(rows, np.intp)
        habits = self.strategy.habits
        delays, shares = self.strategy.calibration.quote(here, habits.lost_factor(here))
        for row, delay, share, away in zip(rows, delays, shares, habits.is_away(here), strict=True):
            one = self.publishers[row]
            if away or not np.isfinite(delay) or self._known[row + 1].last_success is None:
                continue
            upto = int(np.searchsorted(one.times, self.now, side="right"))
            before = self._seen[row]
            fresh = max(before, upto - one.window)
            new, lost = upto - fresh, fresh - before
            waited = float((self.now - one.times[fresh:upto]).sum())
            self.compared += PlanComparison(new, lost, waited, new * delay, (new + lost) * share)
            one.compared.append((self._known[row + 1].last_success or 0.0, self.now, delay, share))

    def _poll(self, row: int, rate: float, failing: bool) -> Lesson:
        """Poll a feed at whose items of this `rate` (per second) a server estimates losses: it cannot count them."""
        one, at = self.publishers[row], self.now
        one.polls.append(at)
        known = self._known[row + 1]
        if failing:
            after = Known(
                row + 1,
                known.url,
                known.validators,
                known.window,
                last_refresh=at,
                last_success=known.last_success,
                failures=known.failures + 1,
                failing_since=known.failing_since or at,
                hints=known.hints,
            )
            self._known[row + 1] = after
            return Lesson(Refresh(row + 1, at, Ending.TIMEOUT, elapsed=1.0), after, known.url, known.last_success)
        upto = int(np.searchsorted(one.times, at, side="right"))
        before = self._seen[row]
        fresh = max(before, upto - one.window)
        first = known.last_success is None
        overflow = not first and upto - before >= one.window
        if not first:
            one.caught |= dict.fromkeys(range(fresh, upto), at)
            one.lost += max(fresh - before, 0)
        self._seen[row] = upto
        new, shown = upto - fresh, one.times[fresh:upto].tolist()
        refresh = Refresh(
            row + 1,
            at,
            Ending.CHANGED if new else Ending.UNCHANGED,
            new=new,
            window=min(upto, one.window),
            lost=estimate_lost_items(shown, known.last_success or at, at, rate) if overflow else 0.0,
            saturated=overflow,
            published=tuple(shown),
            status=200,
            elapsed=0.1,
        )
        after = Known(
            row + 1,
            known.url,
            Validators('"e"'),
            window=(("", ""),) * min(upto, one.window),
            last_refresh=at,
            last_success=at,
            last_change=at if new else known.last_change,
            fresh_until=None if one.max_age is None else at + one.max_age,
            hints=Hints(skip_hours=one.skip_hours),
        )
        self._known[row + 1] = after
        return Lesson(refresh, after, known.url, known.last_success, fresh_for=one.max_age)

    def broken_words(self) -> list[str]:
        """Describe every poll that broke a feed's max-age or skipped hours, judged by the log of the polls alone."""
        broken = []
        for k, one in enumerate(self.publishers):
            gaps = np.diff(one.polls)
            if len(gaps) and gaps.min() < max(120.0, one.max_age or 0.0) - 1e-6:
                broken.append(f"feed {k} was asked after {gaps.min():.0f} s")
            asleep = [at for at in one.polls[1:] if int(at // HOUR) % 24 in one.skip_hours]
            if asleep:
                broken.append(f"feed {k} was asked in a skipped hour")
        return broken


def publish(rng: np.random.Generator, per_day: float, hours: float, batch: float = 1.0) -> np.ndarray:
    """Return the dates of a Poisson process of batches of this mean size (geometric), within two minutes each."""
    return _publish_between(rng, per_day, batch, START - 20 * DAY, START + hours * HOUR)


def _publish_between(rng: np.random.Generator, per_day: float, batch: float, begin: float, end: float) -> np.ndarray:
    moments = rng.uniform(begin, end, rng.poisson(per_day / batch * (end - begin) / DAY))
    if batch > 1:
        moments = np.repeat(moments, rng.geometric(1 / batch, len(moments)))
        moments = np.minimum(moments + rng.uniform(0, 120.0, len(moments)), end)
    return np.sort(moments)


def expect_outcomes(one: Publisher, rng: np.random.Generator) -> PlanComparison:
    """Return the mean outcome of a publisher's compared gaps over other draws of its publications.

    A gap ends by what was known before, so other publications by the same law are as likely in it as those that came.
    """
    if not one.compared:
        return PlanComparison()
    begin, end, delay, share = np.array(one.compared).T
    found = PlanComparison()
    for _ in range(DRAWS):
        times = _publish_between(rng, *one.law, begin.min() - HOUR, end.max())
        waits = np.append(0.0, np.cumsum(times - START))
        first, last = np.searchsorted(times, begin, side="right"), np.searchsorted(times, end, side="right")
        shown = np.maximum(first, last - one.window)
        caught, lost = last - shown, shown - first
        waited = caught * (end - START) - (waits[last] - waits[shown])
        figures = (caught, lost, waited, caught * delay, (caught + lost) * share)
        found += PlanComparison(*(float(figure.sum()) / DRAWS for figure in figures))
    return found


def make_mixed_publishers(seed: int, feeds: int, hours: float) -> list[Publisher]:
    """Return feeds of .1 to 200 items a day: steady and in batches, with hints, faults and shared hosts."""
    rng = np.random.default_rng(seed)
    found = []
    for k, rate in enumerate(10 ** rng.uniform(-1, 2.3, feeds)):
        batch = float(rng.choice([1.0, 1.0, 4.0, 12.0]))
        one = Publisher(publish(rng, rate, hours, batch), (rate, batch))
        if k % 5 == 0:
            one.max_age = float(rng.choice([900.0, 1800.0, 3600.0]))
        if k % 16 == 3:
            one.skip_hours = tuple(range(6))
        if k % 12 == 7:
            one.fails = 0.1
        if k % 20 == 9:
            begin = START + rng.uniform(0.2, 0.9) * hours * HOUR
            one.away = (begin, begin + 6 * HOUR)
        if k % 4 == 2:
            one.host = f"shared{k % 3}.example"
        found.append(one)
    return found
