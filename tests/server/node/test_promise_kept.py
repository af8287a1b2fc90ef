"""The server's scheduler under a virtual clock spends idle budget, keeps deadlines and breaks no server's word."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from headwater.model import Ending, Hints, Known, Refresh, Validators
from headwater.node.crawl.lessons import Lesson
from headwater.node.crawl.politeness import Politeness
from headwater.node.crawl.scheduler import Scheduler
from headwater.node.crawl.spending import BudgetAccount
from headwater.schedule.budget import RequestCap
from headwater.schedule.value.value import Value
from headwater.store.content.feed_state import ScheduleRow
from headwater.times import DAY, HOUR

START = 1.6e9
TICK = 5.0


@dataclass
class Publisher:
    """A feed of the world: what it publishes and what it asks for."""

    times: np.ndarray
    window: int = 20
    max_age: float | None = None
    skip_hours: tuple[int, ...] = ()
    polls: list[float] = field(default_factory=list)
    caught: dict[int, float] = field(default_factory=dict)  # item → when it was fetched
    lost: int = 0


class World:
    """Publishers on hosts of their own, polled by a real scheduler within its budget."""

    def __init__(self, publishers: list[Publisher], budget: float) -> None:
        self.now = START
        self.publishers = publishers
        self.scheduler = Scheduler(
            None,  # type: ignore[arg-type]  # nothing is loaded
            Value(),
            BudgetAccount(RequestCap(budget)),
            Politeness(np.random.default_rng(1)),
            clock=lambda: self.now,
        )
        blank = (None, False, None, 0, *([None] * 6), 0, None, None, None, None)
        rows = [ScheduleRow(k + 1, f"http://host{k}.example/feed", 1.0, *blank) for k in range(len(publishers))]
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
                self.scheduler.learn_lessons([self._poll(row) for row, _ in chosen])
            self.now += TICK

    def _poll(self, row: int) -> Lesson:
        one, at = self.publishers[row], self.now
        one.polls.append(at)
        upto = int(np.searchsorted(one.times, at, side="right"))
        before = self._seen[row]
        fresh = max(before, upto - one.window)
        known = self._known[row + 1]
        first = known.last_success is None
        overflow = not first and upto - before > one.window
        if not first:
            one.caught |= dict.fromkeys(range(fresh, upto), at)
            one.lost += max(fresh - before, 0)
        self._seen[row] = upto
        new = upto - fresh
        refresh = Refresh(
            row + 1,
            at,
            Ending.CHANGED if new else Ending.UNCHANGED,
            new=new,
            window=min(upto, one.window),
            lost=float(max(fresh - before, 0)) if overflow else 0.0,
            saturated=overflow,
            published=tuple(one.times[fresh:upto].tolist()),
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
        """Return every word of a server that was broken, by the log of the polls alone."""
        broken = []
        for k, one in enumerate(self.publishers):
            gaps = np.diff(one.polls)
            if len(gaps) and gaps.min() < max(120.0, one.max_age or 0.0) - 1e-6:
                broken.append(f"feed {k} was asked after {gaps.min():.0f} s")
            asleep = [at for at in one.polls[1:] if int(at // HOUR) % 24 in one.skip_hours]
            if asleep:
                broken.append(f"feed {k} was asked in a skipped hour")
        return broken


def publish(rng: np.random.Generator, per_day: float, hours: float) -> np.ndarray:
    begin, end = START - 20 * DAY, START + hours * HOUR
    return np.sort(rng.uniform(begin, end, rng.poisson(per_day * (end - begin) / DAY)))


def make_thirty(rng: np.random.Generator, hours: float) -> list[Publisher]:
    found = []
    for k, rate in enumerate(10 ** rng.uniform(-1.5, 1.5, 30)):
        hint = {0: {"max_age": 900.0}, 1: {"skip_hours": tuple(range(0, 24, 2))}}.get(k % 6, {})
        found.append(Publisher(publish(rng, rate, hours), **hint))  # type: ignore[arg-type]
    return found


def test_a_deadline_of_two_minutes_is_kept_and_no_server_word_broken() -> None:
    """31 feeds, 120 requests a minute, TARGET DELAY <= 2 MINUTES on a feed silent for three weeks."""
    rng = np.random.default_rng(3)
    alarm = Publisher(START + np.sort(rng.uniform(0.5, 5.9, 100)) * HOUR)
    world = World([*make_thirty(rng, 6), alarm], 120.0)
    table = world.scheduler.feed_table
    world.run(600)
    assert table.set_deadlines({31: 120.0})
    world.scheduler.strategy.note_change()
    world.run(5.5 * HOUR)
    delays = np.array([at - alarm.times[k] for k, at in alarm.caught.items()])
    assert len(delays) >= 90
    assert (delays <= 120 + TICK).mean() >= 0.95
    assert world.broken_words() == []


def test_idle_budget_is_spent_on_thirty_feeds_every_few_minutes() -> None:
    rng = np.random.default_rng(4)
    world = World(make_thirty(rng, 3), 120.0)
    world.run(3 * HOUR)
    free = [one for one in world.publishers if one.max_age is None and not one.skip_hours]
    intervals = [np.median(np.diff(one.polls)) / 60 for one in free]
    assert np.median(intervals) < 15
    assert world.broken_words() == []


def test_a_feed_that_falls_due_in_a_skipped_hour_waits_for_its_end() -> None:
    rng = np.random.default_rng(5)
    feed = Publisher(publish(rng, 0.2, 30), skip_hours=tuple(range(0, 24, 2)))
    world = World([feed], 0.02)  # so little that it falls due at any hour
    world.run(24 * HOUR)
    assert len(feed.polls) > 3
    assert world.broken_words() == []
