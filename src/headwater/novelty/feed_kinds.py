"""What kind of feed this is, where that changes what its dates and counts can tell.

Dates are a gift that some publishers forge: all equal, all “now”, in the future. `believable` drops those before
anything learns from them; `recognise` names the kind from a few sightings, for the feed's page and for those who tune.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from headwater.times import DAY, HOUR, MINUTE

EARLIEST = 631_152_000.0  # 1990: no feed is older, so no item's date is
CLOCK_TOLERANCE = 10 * MINUTE  # clocks differ by minutes; more is a date in the future
REQUEST_MOMENT = 2 * MINUTE  # a document dated as it is made
SILENT_AFTER = 90 * DAY


class FeedKind(StrEnum):
    """What can be the matter with a feed; an ordinary one has none of these."""

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
    """The kinds of dates that the message of a refresh names.

    >>> find_named_kinds("its items have no dates")
    frozenset({<FeedKind.UNDATED: 'its items have no dates'>})
    """
    return frozenset([kind for kind in DATE_PROBLEMS if kind in message]) if message else _NONE


@dataclass(frozen=True, slots=True)
class Sighting:
    """One document as it was seen: when, its items' dates, and how many of them were new."""

    at: float
    published: tuple[float | None, ...]
    new: int


def are_dates_plausible(published: Sequence[float | None], now: float) -> bool:
    """Whether every item has a date and nothing is odd about them, told at a glance: then all of them are `believable`.

    >>> are_dates_plausible([1e9, 1.1e9], now=1.5e9), are_dates_plausible([1e9, None], now=1.5e9), are_dates_plausible([1e9, 2e9], now=1.5e9)
    (True, False, False)
    """
    dates = [date for date in published if date is not None]
    if not dates or len(dates) < len(published):
        return False
    first, last = min(dates), max(dates)
    return EARLIEST <= first < last <= now + CLOCK_TOLERANCE and first < now - REQUEST_MOMENT


def drop_false_dates(
    published: Sequence[float | None], now: float, last_seen: float | None = None
) -> tuple[float | None, ...]:
    """The dates of a document's items (any order) that can be true, None for those that cannot.

    False are dates before 1990 or more than ten minutes ahead; all of them, if three or more are all equal, or are all
    within the last two minutes although the feed was last seen longer ago: such a document is dated as it is made.

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
    """What is odd about the dates of one document, None if nothing is; dates are judged only where there are three.

    >>> find_date_problem([None, None], 1e9), find_date_problem([2e9, 2e9 + 60, 9e8], 1e9), find_date_problem([9e8, 8e8, None], 1e9)
    (<FeedKind.UNDATED: 'its items have no dates'>, <FeedKind.FUTURE_DATES: 'its items are dated in the future'>, None)
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
    """The kinds that a feed's last documents show, oldest sighting first; empty for an ordinary feed.

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
    """Most refreshes bring nothing, the others many items; where dates can be believed, most lie within an hour."""
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
    """Nothing new for three months, by our own watch or, at first sight, by the dates of its items."""
    if not sightings:
        return False
    news = [s.at for s in sightings[1:] if s.new > 0]
    dates = [d for d in drop_false_dates(sightings[-1].published, sightings[-1].at) if d is not None]
    newest = max([*news, *dates], default=sightings[0].at)
    return now - newest > SILENT_AFTER
