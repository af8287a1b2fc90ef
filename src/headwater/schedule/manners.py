"""What stands before any strategy: until when a feed must be left alone, and why.

Strategies only see candidates; this module makes them. Each rule gives a moment before which the feed is not asked; the
latest of them holds, and its name is the reason that pages and `feeds explain` show. `Standing` has the facts as
arrays, one row per feed, so that a million feeds are judged at once; `next_allowed` answers for one feed from what the
store keeps.

Two strengths. A server's *word* (Retry-After, for the feed or its host) holds even when a person asks for a refresh;
its *wishes* (max-age, ttl, skipHours, sy:*) and our own restraint (floors, back-off) give way to a person, but nothing
is ever asked twice within two minutes. A wish can slow us to one poll a day, never silence a feed.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from headwater.estimate.base import DAY, HOUR, MINUTE, Bools, Floats, Rows
from headwater.estimate.slots import chunks
from headwater.model import Known
from headwater.schedule.wishes import day_mask, hour_mask, sy_interval, wished_interval

FLOOR = HOUR  # an unproven feed gets one poll an hour
LEAST = 2 * MINUTE  # and no feed ever more than one in two minutes
LONGEST_WISH = DAY  # a year of max-age must not silence a feed
SAFETY = 12 * HOUR  # a pushed feed is still looked at, in case the hub has forgotten us
BACK_OFF = 10 * MINUTE  # first pause after an error, doubled up to one a day: always recovers
BACK_OFFS = np.array([0.0, *(min(BACK_OFF * 2.0**errors, DAY) for errors in range(9))])

BLOCK = 16_384  # feeds judged at a time


class Reason(IntEnum):
    """Why a feed may not be asked before a moment; `said` is the sentence for a person."""

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
    FLOOR = 10
    LEAST = 11

    @property
    def said(self) -> str:
        return _SAID[self]


_SAID = {
    Reason.FREE: "may be refreshed now",
    Reason.PAUSED: "paused by a person",
    Reason.GONE: "gone: the server said 410",
    Reason.RETRY_AFTER: "the server asked us to wait (Retry-After)",
    Reason.HOST: "the whole host asked us to wait or is being paced",
    Reason.BACK_OFF: "backing off after errors",
    Reason.FRESH: "the server's copy is still fresh (max-age, Expires, ttl or sy:updatePeriod)",
    Reason.SKIPPED: "the feed asks to be left alone at this hour or day (skipHours, skipDays)",
    Reason.PUSHED: "a hub pushes this feed; only a slow safety poll remains",
    Reason.UNCHANGING: "it answers without validators and without change: once a day",
    Reason.FLOOR: "one poll an hour, unless the feed has earned more",
    Reason.LEAST: "no feed is asked twice within its shortest interval",
}


@dataclass(slots=True)
class Standing:
    """What the rules need to know, one row per feed. −inf stands for never, NaN in `earned` for nothing earned.

    `earned` is the interval that a learned rate, a hint or a person's setting justifies; `jitter` in [0, 1) is drawn by
    the caller, once per feed and refresh, so that no herd forms; `host` points into the hosts' `not_before`.
    """

    last: Floats  # last refresh, however it ended
    success: Floats  # last refresh that ended well
    change: Floats  # last refresh that brought something
    not_before: Floats  # the server's word
    fresh_until: Floats  # its wish: max-age, Expires
    wish: Floats  # seconds between polls the document asks for: ttl, sy:* (NaN: none)
    failures: NDArray[np.int32]
    validators: Bools
    paused: Bools
    gone: Bools
    pushed: Bools
    asked: Bools  # a person wants it now
    earned: Floats
    skip_hours: NDArray[np.int32]  # bit h: not in that hour, UTC
    skip_days: NDArray[np.int32]  # bit d: not on that weekday, Monday = 0
    jitter: Floats
    host: Rows

    @classmethod
    def of(cls, feeds: int) -> Standing:
        never, no, zero = np.full(feeds, -np.inf), np.zeros(feeds, bool), np.zeros(feeds, np.int32)
        given = {
            "wish": np.full(feeds, np.nan),
            "earned": np.full(feeds, np.nan),
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


def allowed_from(
    feeds: Standing, now: float, host_not_before: Floats | None = None, *, least: float = LEAST
) -> tuple[Floats, NDArray[np.int8]]:
    """Each feed's earliest moment and the reason that sets it; `now` and FREE where nothing holds it back.

    `least` is lowered only for servers of one's own: a demonstration, a test network.
    """
    if len(feeds) <= BLOCK:
        return _allowed_from(feeds, now, host_not_before, least)
    names = [f.name for f in fields(Standing)]
    blocks = [
        _allowed_from(Standing(**{name: getattr(feeds, name)[part] for name in names}), now, host_not_before, least)
        for part in chunks(len(feeds), BLOCK)  # so that what is computed on the way stays in the cache
    ]
    return np.concatenate([at for at, _ in blocks]), np.concatenate([why for _, why in blocks])


def _allowed_from(
    feeds: Standing, now: float, host_not_before: Floats | None, least: float
) -> tuple[Floats, NDArray[np.int8]]:
    at = np.full(len(feeds), now)
    why = np.zeros(len(feeds), np.int8)

    def hold(until: Floats, reason: Reason, where: Bools | None = None) -> None:
        later = np.flatnonzero(until > at if where is None else (until > at) & where)
        at[later] = until[later]
        why[later] = reason

    alone = ~feeds.asked
    stretch = 1 + 0.1 * feeds.jitter
    hold(feeds.last + least, Reason.LEAST)
    floor, bare = _floor(feeds, least)
    earned = feeds.last + floor * stretch
    hold(earned, Reason.FLOOR, alone & ~bare)
    hold(earned, Reason.UNCHANGING, alone & bare)
    hold(feeds.last + SAFETY * stretch, Reason.PUSHED, alone & feeds.pushed)
    wish = np.fmax(feeds.fresh_until, feeds.success + feeds.wish)
    hold(np.minimum(wish, feeds.success + LONGEST_WISH), Reason.FRESH, alone & np.isfinite(feeds.success))
    hold(feeds.last + back_off(feeds.failures, feeds.jitter), Reason.BACK_OFF, alone & (feeds.failures > 0))
    awake = _awake(feeds, at)
    hold(awake, Reason.SKIPPED, alone)
    hold(feeds.not_before, Reason.RETRY_AFTER)
    if host_not_before is not None:
        hold(host_not_before[feeds.host], Reason.HOST)
    forever = np.full(len(feeds), np.inf)
    hold(forever, Reason.PAUSED, feeds.paused & alone)
    gone = np.flatnonzero(feeds.gone & alone)
    at[gone], why[gone] = np.inf, Reason.GONE
    return at, why


def candidates(feeds: Standing, now: float, host_not_before: Floats | None = None) -> tuple[Bools, NDArray[np.int8]]:
    """Which feeds a strategy may choose from at `now`, and for every other one the reason (a `Reason`)."""
    at, why = allowed_from(feeds, now, host_not_before)
    return at <= now, why


def next_allowed(
    known: Known,
    now: float,
    *,
    paused: bool = False,
    gone: bool = False,
    pushed: bool = False,
    asked: bool = False,
    earned: float | None = None,
    host_not_before: float | None = None,
    jitter: float = 0.0,
    least: float = LEAST,
) -> tuple[float, Reason]:
    """When one feed may next be asked, and why not earlier; `(now, FREE)` if at once, `(inf, …)` if never."""
    one = Standing.of(1)
    _fill(one, 0, known)
    one.paused[0], one.gone[0], one.pushed[0], one.asked[0], one.jitter[0] = paused, gone, pushed, asked, jitter
    one.earned[0] = np.nan if earned is None else earned
    host = None if host_not_before is None else np.array([host_not_before])
    at, why = allowed_from(one, now, host, least=least)
    return float(at[0]), Reason(int(why[0]))


def fill(feeds: Standing, rows: Rows, known: list[Known]) -> None:
    """Copy what the store keeps of some feeds into the arrays; once per refresh, not per decision."""
    for row, what in zip(rows.tolist(), known, strict=True):
        _fill(feeds, row, what)


def _fill(feeds: Standing, row: int, known: Known) -> None:
    def moment(time: float | None) -> float:
        return -np.inf if time is None else time

    feeds.last[row] = moment(known.last_refresh)
    feeds.success[row] = moment(known.last_success)
    feeds.change[row] = moment(known.last_change)
    feeds.not_before[row] = moment(known.not_before)
    wish = wished_interval(known.hints)
    at = sy_interval(known.hints, known.last_success)
    feeds.fresh_until[row] = max(moment(known.fresh_until), moment(at))
    feeds.wish[row] = np.nan if wish is None else wish
    feeds.failures[row] = known.failures
    feeds.validators[row] = known.validators.etag is not None or known.validators.last_modified is not None
    feeds.skip_hours[row] = hour_mask(known.hints.skip_hours)
    feeds.skip_days[row] = day_mask(known.hints.skip_days)


def back_off(failures: NDArray[np.int32], jitter: Floats) -> Floats:
    """10 min after the first failure, doubled each time up to a day, plus up to half of it by chance.

    >>> back_off(np.array([0, 1, 2, 3, 50]), np.zeros(5)).tolist()
    [0.0, 600.0, 1200.0, 2400.0, 86400.0]
    """
    return np.asarray(BACK_OFFS[np.minimum(failures, len(BACK_OFFS) - 1)] * (1 + jitter / 2))


def earned_interval(rate: Floats, least: float = LEAST) -> Floats:
    """The interval that a learned rate (items per second) justifies: one item's worth, at least two minutes.

    >>> earned_interval(np.array([1 / 600, 1.0])).tolist()  # an item every ten minutes; one a second
    [600.0, 120.0]
    """
    return np.maximum(1.0 / np.maximum(rate, 1e-12), least)


def _floor(feeds: Standing, least: float) -> tuple[Floats, Bools]:
    """The shortest interval each feed has earned, and which feeds stand under the once-a-day rule."""
    hinted = np.full(len(feeds), np.nan)
    told = np.isfinite(feeds.fresh_until) & np.isfinite(feeds.success)
    hinted[told] = feeds.fresh_until[told] - feeds.success[told]
    best = np.fmin(np.fmin(feeds.earned, feeds.wish), hinted)
    best = np.where(best > 0, best, np.nan)
    floor = np.fmax(np.fmin(best, FLOOR), least)
    bare = ~feeds.validators & (feeds.change < feeds.last) & np.isfinite(feeds.success)
    # Without validators every poll costs a whole document: an hour at best, a day unless something was earned.
    return np.where(bare, np.fmax(np.fmin(best, DAY), FLOOR), floor), bare


def _awake(feeds: Standing, at: Floats) -> Floats:
    """The first moment from `at` that lies in no skipped hour or day; `at` itself if all are skipped."""
    moment = at.copy()
    rows = np.flatnonzero((feeds.skip_hours != 0) | (feeds.skip_days != 0))
    rows = rows[np.isfinite(at[rows])]
    for _ in range(7 * 24 + 1):
        if not len(rows):
            return moment
        hour = np.floor(moment[rows] / HOUR).astype(np.int64)
        weekday = (hour // 24 + 3) % 7  # 1 January 1970 was a Thursday
        asleep = ((feeds.skip_hours[rows] >> (hour % 24)) | (feeds.skip_days[rows] >> weekday)) & 1 == 1
        moment[rows[asleep]] = (hour[asleep] + 1) * HOUR
        rows = rows[asleep]
    moment[rows] = at[rows]  # a feed that skips every hour of the week asks for nothing sensible
    return moment
