"""Decides from when a feed may be asked, and why not earlier.

Each rule gives a time before which the feed is not asked. The latest of them applies, and its `Reason` is shown by
pages and by `feeds explain`. `PolitenessFacts` holds the facts as arrays with one row per feed, so a million feeds are
checked at once; `find_earliest_time` answers for one feed from its stored state.

There are two strengths. A server's *refusal* (Retry-After, for the feed or its host) applies even to a manual refresh.
Its *hints* (max-age, ttl, skipHours, sy:*) and our own limits (back-off) do not, but no feed is ever asked twice within
two minutes. A hint can slow a feed to one poll a day, never stop it. How often a feed is worth asking within these
rules is not decided here: our own thrift is the reserve price of `schedule.promise`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Bools, Floats, Rows, iterate_blocks
from headwater.model import Hints, Known, Validators
from headwater.schedule.politeness.publisher_hints import (
    hinted_interval,
    next_syndication_time,
    skip_days_mask,
    skip_hours_mask,
)
from headwater.times import DAY, HOUR, MINUTE

UNCHANGING_PAUSE = HOUR  # for a feed that sends a whole document although nothing has changed
MIN_INTERVAL = 2 * MINUTE  # the shortest interval of any feed
MAX_HINT = DAY
SAFETY_POLL = 12 * HOUR  # a pushed feed is still polled, in case the hub has dropped the subscription
BACK_OFF = 10 * MINUTE  # the first pause after an error, doubled up to a day; polling never stops
BACK_OFF_PAUSES = np.array([0.0, *(min(BACK_OFF * 2.0**errors, DAY) for errors in range(9))])

EVERY_HOUR, EVERY_DAY = (1 << 24) - 1, (1 << 7) - 1  # masks that skip everything
BLOCK = 32_768  # feeds checked at a time, so that intermediate results stay in the cache
NO_HINTS, NO_VALIDATORS = Hints(), Validators()


class Reason(IntEnum):
    """The rule that keeps a feed from being asked before a time; `sentence` puts it into words."""

    FREE = 0
    PAUSED = 1
    GONE = 2
    RETRY_AFTER = 3
    HOST = 4
    BACK_OFF = 5
    FRESH = 6
    SKIPPED = 7
    PUSHED = 8
    UNCHANGING = 9
    LEAST = 11

    @property
    def sentence(self) -> str:
        return _SENTENCES[self]


_SENTENCES = {
    Reason.FREE: "may be refreshed now",
    Reason.PAUSED: "paused",
    Reason.GONE: "permanently removed (410)",
    Reason.RETRY_AFTER: "the server asked us to wait (Retry-After)",
    Reason.HOST: "the host asked us to wait, or its rate limit is used up",
    Reason.BACK_OFF: "backing off after errors",
    Reason.FRESH: "the server's copy is still fresh (max-age, Expires, ttl or sy:updatePeriod)",
    Reason.SKIPPED: "the feed asks not to be polled at this hour or day (skipHours, skipDays)",
    Reason.PUSHED: "a hub pushes this feed; it is polled only every 12 hours",
    Reason.UNCHANGING: "no validators and no change: polled once an hour at most",
    Reason.LEAST: "the shortest interval between two polls has not passed",
}


@dataclass(slots=True)
class PolitenessFacts:
    """The input of the rules, one row per feed. −inf means never.

    The caller draws `jitter` in [0, 1) once per feed and refresh, so that feeds do not fall due together. `host` is an
    index into the hosts' `not_before`.
    """

    last: Floats  # last refresh, however it ended
    success: Floats  # last successful refresh
    change: Floats  # last refresh with a change
    not_before: Floats  # Retry-After
    fresh_until: Floats  # max-age, Expires
    wish: Floats  # seconds between polls the document asks for: ttl, sy:* (NaN: none)
    failures: NDArray[np.int32]
    validators: Bools
    paused: Bools
    gone: Bools
    pushed: Bools
    asked: Bools  # somebody requested a refresh
    skip_hours: NDArray[np.int32]  # bit h: not in that hour, UTC
    skip_days: NDArray[np.int32]  # bit d: not on that weekday, Monday = 0
    jitter: Floats
    host: Rows

    @classmethod
    def of(cls, feeds: int) -> PolitenessFacts:
        never, no, zero = np.full(feeds, -np.inf), np.zeros(feeds, bool), np.zeros(feeds, np.int32)
        given = {
            "wish": np.full(feeds, np.nan),
            "jitter": np.zeros(feeds),
            "host": np.zeros(feeds, np.intp),
            "validators": np.ones(feeds, bool),
        }
        flags = ("paused", "gone", "pushed", "asked")
        masks = ("failures", "skip_hours", "skip_days")
        given |= {key: no.copy() for key in flags} | {key: zero.copy() for key in masks}
        return cls(**{f.name: given.get(f.name, never.copy()) for f in fields(cls)})

    def __len__(self) -> int:
        return len(self.last)


def compute_earliest_times(
    feeds: PolitenessFacts, now: float, host_not_before: Floats | None = None, *, least: float = MIN_INTERVAL
) -> tuple[Floats, NDArray[np.int8]]:
    """Return each feed's earliest time and the reason for it; `now` and FREE if no rule applies.

    Lower `least` only for servers of your own: a demonstration, a test network.
    """
    if len(feeds) <= BLOCK:
        return _compute_block(feeds, now, host_not_before, least)
    names = [f.name for f in fields(PolitenessFacts)]
    blocks = [
        _compute_block(
            PolitenessFacts(**{name: getattr(feeds, name)[part] for name in names}), now, host_not_before, least
        )
        for part in iterate_blocks(len(feeds), BLOCK)
    ]
    return np.concatenate([at for at, _ in blocks]), np.concatenate([why for _, why in blocks])


def _compute_block(
    feeds: PolitenessFacts, now: float, host_not_before: Floats | None, least: float
) -> tuple[Floats, NDArray[np.int8]]:
    """Apply the rules to one block.

    Each rule looks only at the feeds it concerns, because every decision checks all feeds.
    """
    at = np.full(len(feeds), now)
    why = np.zeros(len(feeds), np.int8)

    def hold(until: Floats, reason: Reason, rows: Rows | None = None) -> None:
        """Hold `rows`, or all feeds, until the time given for each."""
        later = np.flatnonzero(until > (at if rows is None else at[rows]))
        held = later if rows is None else rows[later]
        at[held] = until[later]
        why[held] = reason

    hold(feeds.last + least, Reason.LEAST)
    asked = np.flatnonzero(feeds.asked)
    requested = at[asked], why[asked]
    stretch = 1 + 0.1 * feeds.jitter
    if len(bare := _find_unchanging(feeds)):
        hold(feeds.last[bare] + UNCHANGING_PAUSE * stretch[bare], Reason.UNCHANGING, bare)
    if len(pushed := np.flatnonzero(feeds.pushed)):
        hold(feeds.last[pushed] + SAFETY_POLL * stretch[pushed], Reason.PUSHED, pushed)
    hinting = np.flatnonzero(
        ((feeds.fresh_until > now) | (feeds.success + feeds.wish > now)) & (feeds.success > -np.inf)
    )
    if len(hinting):
        hold(_find_freshness_end(feeds, hinting), Reason.FRESH, hinting)
    if len(failing := np.flatnonzero(feeds.failures > 0)):
        hold(
            feeds.last[failing] + back_off_pause(feeds.failures[failing], feeds.jitter[failing]),
            Reason.BACK_OFF,
            failing,
        )
    if len(skipping := np.flatnonzero((feeds.skip_hours | feeds.skip_days) != 0)):
        hold(_find_waking_time(feeds, skipping, at[skipping]), Reason.SKIPPED, skipping)
    at[asked], why[asked] = requested  # a manual refresh overrides hints and our own limits, not the rules below
    hold(feeds.not_before, Reason.RETRY_AFTER)
    if host_not_before is not None:
        hold(host_not_before[feeds.host], Reason.HOST)
    for ended, reason in ((feeds.paused, Reason.PAUSED), (feeds.gone, Reason.GONE)):
        rows = np.flatnonzero(ended & ~feeds.asked)
        at[rows], why[rows] = np.inf, reason
    return at, why


def find_candidates(
    feeds: PolitenessFacts, now: float, host_not_before: Floats | None = None
) -> tuple[Bools, NDArray[np.int8]]:
    """Return which feeds a strategy may choose from at `now`, and the `Reason` of every other one."""
    at, why = compute_earliest_times(feeds, now, host_not_before)
    return at <= now, why


def find_earliest_time(
    known: Known,
    now: float,
    *,
    paused: bool = False,
    gone: bool = False,
    pushed: bool = False,
    asked: bool = False,
    host_not_before: float | None = None,
    jitter: float = 0.0,
    least: float = MIN_INTERVAL,
) -> tuple[float, Reason]:
    """Return when one feed may next be asked, and why not earlier; `(now, FREE)` if at once, `(inf, …)` if never."""
    one = PolitenessFacts.of(1)
    load_facts(one, np.array([0]), [known])
    one.paused[0], one.gone[0], one.pushed[0], one.asked[0], one.jitter[0] = paused, gone, pushed, asked, jitter
    host = None if host_not_before is None else np.array([host_not_before])
    at, why = compute_earliest_times(one, now, host, least=least)
    return float(at[0]), Reason(int(why[0]))


def load_facts(feeds: PolitenessFacts, rows: Rows, known: Sequence[Known]) -> None:
    """Copy the stored state of some feeds into the arrays; called once per refresh, not per decision."""
    feeds.last[rows] = [_time_or_never(one.last_refresh) for one in known]
    feeds.success[rows] = [_time_or_never(one.last_success) for one in known]
    feeds.change[rows] = [_time_or_never(one.last_change) for one in known]
    feeds.not_before[rows] = [_time_or_never(one.not_before) for one in known]
    feeds.fresh_until[rows] = [_time_or_never(one.fresh_until) for one in known]
    feeds.failures[rows] = [one.failures for one in known]
    feeds.validators[rows] = [one.validators != NO_VALIDATORS for one in known]
    feeds.wish[rows], feeds.skip_hours[rows], feeds.skip_days[rows] = np.nan, 0, 0
    for row, one in zip(rows.tolist(), known, strict=True):
        if one.hints != NO_HINTS:
            _load_hints(feeds, row, one)


def _load_hints(feeds: PolitenessFacts, row: int, known: Known) -> None:
    """Copy the hints of a document; most documents have none."""
    wish = hinted_interval(known.hints)
    feeds.wish[row] = np.nan if wish is None else wish
    feeds.fresh_until[row] = max(
        feeds.fresh_until[row], _time_or_never(next_syndication_time(known.hints, known.last_success))
    )
    feeds.skip_hours[row] = skip_hours_mask(known.hints.skip_hours)
    feeds.skip_days[row] = skip_days_mask(known.hints.skip_days)


def _time_or_never(time: float | None) -> float:
    return -np.inf if time is None else time


def back_off_pause(failures: NDArray[np.int32], jitter: Floats) -> Floats:
    """Return 10 min after the first failure, doubled each time up to a day, plus up to half of it at random.

    >>> back_off_pause(np.array([0, 1, 2, 3, 50]), np.zeros(5)).tolist()
    [0.0, 600.0, 1200.0, 2400.0, 86400.0]
    """
    return np.asarray(BACK_OFF_PAUSES[np.minimum(failures, len(BACK_OFF_PAUSES) - 1)] * (1 + jitter / 2))


def compute_pauses(feeds: PolitenessFacts, least: float = MIN_INTERVAL) -> tuple[Floats, NDArray[np.int8]]:
    """Return the time that must pass between two successful polls of each feed, and the rule that asks for it.

    Skipped hours, back-off and Retry-After are moments rather than intervals and are not in it.

    >>> one = PolitenessFacts.of(1)
    >>> one.success[0], one.wish[0] = 0.0, 1800.0
    >>> pause, why = compute_pauses(one)
    >>> float(pause[0]), Reason(int(why[0])).name
    (1800.0, 'FRESH')
    """
    pause, why = np.full(len(feeds), float(least)), np.full(len(feeds), int(Reason.LEAST), np.int8)
    bare = _find_unchanging(feeds)
    pause[bare], why[bare] = max(UNCHANGING_PAUSE, least), Reason.UNCHANGING
    read = np.flatnonzero(feeds.success > -np.inf)
    hinted = np.fmax(feeds.fresh_until[read] - feeds.success[read], feeds.wish[read])
    hinted = np.minimum(np.where(np.isfinite(hinted), hinted, 0.0), MAX_HINT)
    longer = read[hinted > pause[read]]
    pause[longer], why[longer] = hinted[hinted > pause[read]], Reason.FRESH
    return pause, why


def is_skipped(skip_hours: NDArray[np.int32], skip_days: NDArray[np.int32], now: float) -> Bools:
    """Return which feeds ask not to be polled at this hour or on this day (UTC).

    >>> is_skipped(np.array([0b10, 0b1]), np.array([0, 0]), 3700.0).tolist()  # 01:01 on a Thursday
    [True, False]
    """
    hour = int(now // HOUR)
    of_day, weekday = hour % 24, (hour // 24 + 3) % 7  # 1 January 1970 was a Thursday
    by_hour = ((skip_hours >> of_day) & 1 == 1) & (skip_hours != EVERY_HOUR)
    return np.asarray(by_hour | (((skip_days >> weekday) & 1 == 1) & (skip_days != EVERY_DAY)))


def measure_skipped(skip_hours: int, skip_days: int) -> tuple[float, float]:
    """Return the share of the week in which a feed may be polled, and the mean seconds its items wait for the rest.

    >>> share, wait = measure_skipped(0b1111, 0)  # midnight to four: a sixth of the items waits two hours
    >>> round(share, 3), round(wait / 60)
    (0.833, 20)
    """
    hours, days = skip_hours & EVERY_HOUR, skip_days & EVERY_DAY
    hours, days = (0 if hours == EVERY_HOUR else hours), (0 if days == EVERY_DAY else days)
    if not hours and not days:
        return 1.0, 0.0
    closed = [bool(hours >> (hour % 24) & 1 or days >> (hour // 24) & 1) for hour in range(7 * 24)]
    if all(closed):
        return 1.0, 0.0
    start = closed.index(False)
    runs, run = [], 0
    for hour in range(start, start + len(closed)):
        if closed[hour % len(closed)]:
            run += 1
        elif run:
            runs.append(run)
            run = 0
    runs.append(run)
    return 1 - sum(runs) / len(closed), sum(run**2 for run in runs) / 2 / len(closed) * HOUR


def _find_unchanging(feeds: PolitenessFacts) -> Rows:
    """Return the feeds without validators whose last refresh brought no change: each poll costs a whole document."""
    bare = np.flatnonzero(~feeds.validators)
    return np.asarray(bare[(feeds.change[bare] < feeds.last[bare]) & np.isfinite(feeds.success[bare])], np.intp)


def _find_freshness_end(feeds: PolitenessFacts, rows: Rows) -> Floats:
    """Return the end of the server's freshness hints, at most a day: a max-age of a year must not stop a feed."""
    success = feeds.success[rows]
    wish = np.fmax(feeds.fresh_until[rows], success + feeds.wish[rows])
    return np.asarray(np.minimum(wish, success + MAX_HINT))


def _find_waking_time(feeds: PolitenessFacts, rows: Rows, at: Floats) -> Floats:
    """Return the first time from `at` outside the hours and days that `rows` skip.

    A feed that skips every hour or every day is not taken at its word and gets `at` itself.
    """
    moment = at.copy()
    hours, days = feeds.skip_hours[rows], feeds.skip_days[rows]
    left = np.flatnonzero(np.isfinite(at) & (hours != EVERY_HOUR) & (days != EVERY_DAY))
    while len(left):
        hour = np.floor(moment[left] / HOUR).astype(np.int64)
        of_day, weekday = hour % 24, (hour // 24 + 3) % 7  # 1 January 1970 was a Thursday
        day_off = (days[left] >> weekday) & 1 == 1
        asleep = np.where(day_off, 24 - of_day, _count_skipped_hours(hours[left], of_day))
        moment[left] = np.where(asleep > 0, (hour + asleep) * HOUR, moment[left])
        left = left[(asleep > 0) & (days[left] != 0)]  # the new time may be skipped as well
    return moment


def _count_skipped_hours(skipped: NDArray[np.int32], hour: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the consecutive skipped hours from `hour` on, past midnight if need be.

    >>> _count_skipped_hours(np.array([0b111, 0b1 | 0b11 << 22, 0]), np.array([1, 22, 0])).tolist()
    [2, 3, 0]
    """
    turned = ((skipped | (skipped.astype(np.int64) << 24)) >> hour) & EVERY_HOUR
    first_free = ~turned & (turned + 1)  # its lowest bit that is not set
    return np.asarray(np.frexp(first_free)[1] - 1, np.int64)
