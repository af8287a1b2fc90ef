"""Recognises undated, batch, forged-date and dead feeds.

Some publishers forge dates: all equal, all “now”, in the future. `drop_false_dates` drops those before anything learns
from them; `recognise_feed_kinds` names the kinds of a feed from a few documents, for the feed's page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from headwater.times import DAY, HOUR, MINUTE

EARLIEST = 631_152_000.0  # 1990: no feed is older
CLOCK_TOLERANCE = 10 * MINUTE  # clocks differ by minutes; more is a date in the future
REQUEST_MOMENT = 2 * MINUTE  # dates this recent may be the time of the request
SILENT_AFTER = 90 * DAY


class FeedKind(StrEnum):
    """A peculiarity of a feed's dates or publication; an ordinary feed has none."""

    UNDATED = "its items have no dates"
    EQUAL_DATES = "all its items have the same date"
    ON_THE_FLY = "its items are dated with the moment of each request"
    FUTURE_DATES = "its items are dated in the future"
    CHANGING_WINDOW = "its document changes size"
    BATCH = "its items come in batches"
    DEAD = "it has been silent for three months"


DATE_PROBLEMS = (FeedKind.UNDATED, FeedKind.EQUAL_DATES, FeedKind.ON_THE_FLY, FeedKind.FUTURE_DATES)
_NONE: frozenset[FeedKind] = frozenset()


def find_named_kinds(message: str) -> frozenset[FeedKind]:
    """Return the date problems that the message of a refresh names.

    >>> find_named_kinds("its items have no dates")
    frozenset({<FeedKind.UNDATED: 'its items have no dates'>})
    """
    return frozenset([kind for kind in DATE_PROBLEMS if kind in message]) if message else _NONE


@dataclass(frozen=True, slots=True)
class Sighting:
    """One fetched document: its time, the dates of its items, and how many of them were new."""

    at: float
    published: tuple[float | None, ...]
    new: int


def are_dates_plausible(published: Sequence[float | None], now: float) -> bool:
    """Say quickly whether every item has a date and nothing is wrong with them; `drop_false_dates` would then keep all.

    >>> [are_dates_plausible(dates, now=1.5e9) for dates in ([1e9, 1.1e9], [1e9, None], [1e9, 2e9])]
    [True, False, False]
    """
    dates = [date for date in published if date is not None]
    if not dates or len(dates) < len(published):
        return False
    first, last = min(dates), max(dates)
    return EARLIEST <= first < last <= now + CLOCK_TOLERANCE and first < now - REQUEST_MOMENT


def drop_false_dates(
    published: Sequence[float | None], now: float, last_seen: float | None = None
) -> tuple[float | None, ...]:
    """Return the dates of a document's items (in any order), with None for those that cannot be true.

    Dates before 1990 or more than ten minutes ahead are false. If there are three or more, all are false if they are
    all equal, or if all lie within the last two minutes although the feed was last seen longer ago: such a document is
    dated when it is generated.

    >>> drop_false_dates([2e9, 1e9, 5e8, None], now=1.5e9)  # ahead, fine, before 1990, none
    (None, 1000000000.0, None, None)
    >>> drop_false_dates([1e9, 1e9, 1e9], now=1.5e9)
    (None, None, None)
    """
    dates = [d if d is not None and EARLIEST <= d <= now + CLOCK_TOLERANCE else None for d in published]
    real = [d for d in dates if d is not None]
    if len(real) >= 3 and (min(real) == max(real) or _are_all_recent(real, now, last_seen)):
        return (None,) * len(dates)
    return tuple(dates)


def find_date_problem(published: Sequence[float | None], now: float, last_seen: float | None = None) -> FeedKind | None:
    """Return the problem with the dates of one document, None if there is none; fewer than three dates are not judged.

    >>> find_date_problem([None, None], 1e9), find_date_problem([9e8, 8e8, None], 1e9)
    (<FeedKind.UNDATED: 'its items have no dates'>, None)
    """
    dates = [date for date in published if date is not None]
    if published and not dates:
        return FeedKind.UNDATED
    if len(dates) < 3:
        return None
    if min(dates) == max(dates):
        return FeedKind.EQUAL_DATES
    if sum(date > now + CLOCK_TOLERANCE for date in dates) > 0.2 * len(dates):
        return FeedKind.FUTURE_DATES
    return FeedKind.ON_THE_FLY if _are_all_recent(dates, now, last_seen) else None


def _are_all_recent(dates: Sequence[float], now: float, last_seen: float | None) -> bool:
    return min(dates) >= now - REQUEST_MOMENT and (last_seen is None or last_seen < now - REQUEST_MOMENT)


def recognise_feed_kinds(sightings: Sequence[Sighting], now: float) -> frozenset[FeedKind]:
    """Return the kinds that a feed's last documents show, oldest sighting first; empty for an ordinary feed.

    >>> recognise_feed_kinds([Sighting(1e9, (None, None), 2)], 1e9)
    frozenset({<FeedKind.UNDATED: 'its items have no dates'>})
    """
    full = [s for s in sightings if s.published]
    kinds = set()
    if full and all(d is None for s in full for d in s.published):
        kinds.add(FeedKind.UNDATED)
    dated = [(s, [d for d in s.published if d is not None]) for s in full]
    dated = [(s, dates) for s, dates in dated if len(dates) >= 3]
    if dated and all(min(dates) == max(dates) for _, dates in dated):
        kinds.add(FeedKind.EQUAL_DATES)
    made = [min(dates) >= s.at - REQUEST_MOMENT and max(dates) <= s.at + REQUEST_MOMENT for s, dates in dated]
    if len(made) >= 2 and all(made):
        kinds.add(FeedKind.ON_THE_FLY)
    ahead = [sum(d > s.at + CLOCK_TOLERANCE for d in dates) / len(dates) for s, dates in dated]
    if ahead and sum(ahead) / len(ahead) > 0.2:
        kinds.add(FeedKind.FUTURE_DATES)
    sizes = [len(s.published) for s in full]
    if len(sizes) >= 3 and max(sizes) >= 1.5 * min(sizes):
        kinds.add(FeedKind.CHANGING_WINDOW)
    if _comes_in_batches(sightings, kinds):
        kinds.add(FeedKind.BATCH)
    if _is_silent(sightings, now):
        kinds.add(FeedKind.DEAD)
    return frozenset(kinds)


def _comes_in_batches(sightings: Sequence[Sighting], kinds: set[FeedKind]) -> bool:
    """Say whether few refreshes bring many items each, and all others none.

    Plausible dates must lie mostly within an hour of each other.
    """
    later = sightings[1:]
    brought = [s.new for s in later if s.new > 0]
    if len(later) < 6 or len(brought) < 2 or len(brought) > 0.5 * len(later) or sum(brought) < 4 * len(brought):
        return False
    if kinds & {FeedKind.UNDATED, FeedKind.EQUAL_DATES, FeedKind.ON_THE_FLY, FeedKind.FUTURE_DATES}:
        return True
    dates = sorted({d for s in sightings for d in s.published if d is not None})
    close = sum(b - a < HOUR for a, b in pairwise(dates))
    return close >= 0.6 * max(len(dates) - 1, 1)


def _is_silent(sightings: Sequence[Sighting], now: float) -> bool:
    """Say whether the feed had nothing new for three months, by our refreshes or by the dates of its items."""
    if not sightings:
        return False
    news = [s.at for s in sightings[1:] if s.new > 0]
    dates = [d for d in drop_false_dates(sightings[-1].published, sightings[-1].at) if d is not None]
    newest = max([*news, *dates], default=sightings[0].at)
    return now - newest > SILENT_AFTER
