"""What kind of feed this is, where that changes what its dates and counts can tell.

Dates are a gift that some publishers forge: all equal, all “now”, in the future. `believable` drops those before
anything learns from them; `recognise` names the kind from a few sightings, for the feed's page and for those who tune.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from headwater.estimate.base import DAY, HOUR, MINUTE

EARLIEST = 631_152_000.0  # 1990: no feed is older, so no item's date is
AHEAD = 10 * MINUTE  # clocks differ by minutes; more is a date in the future
ALL_NOW = 2 * MINUTE  # a document dated as it is made
SILENT = 90 * DAY


class Kind(StrEnum):
    """What can be the matter with a feed; an ordinary one has none of these."""

    UNDATED = "its items have no dates"
    EQUAL_DATES = "all its items have the same date"
    ON_THE_FLY = "its items are dated with the moment of each request"
    FUTURE_DATES = "its items are dated in the future"
    CHANGING_WINDOW = "its document changes size"
    BATCH = "its items come in batches"
    DEAD = "it has been silent for three months"


DATING = (Kind.UNDATED, Kind.EQUAL_DATES, Kind.ON_THE_FLY, Kind.FUTURE_DATES)
_NONE: frozenset[Kind] = frozenset()


def named(message: str) -> frozenset[Kind]:
    """The kinds of dates that the message of a refresh names.

    >>> named("its items have no dates")
    frozenset({<Kind.UNDATED: 'its items have no dates'>})
    """
    return frozenset([kind for kind in DATING if kind in message]) if message else _NONE


@dataclass(frozen=True, slots=True)
class Sighting:
    """One document as it was seen: when, its items' dates, and how many of them were new."""

    at: float
    published: tuple[float | None, ...]
    new: int


def ordinary(published: Sequence[float | None], now: float) -> bool:
    """Whether every item has a date and nothing is odd about them, told at a glance: then all of them are `believable`.

    >>> ordinary([1e9, 1.1e9], now=1.5e9), ordinary([1e9, None], now=1.5e9), ordinary([1e9, 2e9], now=1.5e9)
    (True, False, False)
    """
    dates = [date for date in published if date is not None]
    if not dates or len(dates) < len(published):
        return False
    first, last = min(dates), max(dates)
    return EARLIEST <= first < last <= now + AHEAD and first < now - ALL_NOW


def believable(
    published: Sequence[float | None], now: float, last_seen: float | None = None
) -> tuple[float | None, ...]:
    """The dates of a document's items (any order) that can be true, None for those that cannot.

    False are dates before 1990 or more than ten minutes ahead; all of them, if three or more are all equal, or are all
    within the last two minutes although the feed was last seen longer ago: such a document is dated as it is made.

    >>> believable([2e9, 1e9, 5e8, None], now=1.5e9)  # ahead, fine, before 1990, none
    (None, 1000000000.0, None, None)
    >>> believable([1e9, 1e9, 1e9], now=1.5e9)
    (None, None, None)
    """
    dates = [d if d is not None and EARLIEST <= d <= now + AHEAD else None for d in published]
    real = [d for d in dates if d is not None]
    if len(real) >= 3 and (min(real) == max(real) or _all_now(real, now, last_seen)):
        return (None,) * len(dates)
    return tuple(dates)


def dating(published: Sequence[float | None], now: float, last_seen: float | None = None) -> Kind | None:
    """What is odd about the dates of one document, None if nothing is; dates are judged only where there are three.

    >>> dating([None, None], 1e9), dating([2e9, 2e9 + 60, 9e8], 1e9), dating([9e8, 8e8, None], 1e9)
    (<Kind.UNDATED: 'its items have no dates'>, <Kind.FUTURE_DATES: 'its items are dated in the future'>, None)
    """
    dates = [date for date in published if date is not None]
    if published and not dates:
        return Kind.UNDATED
    if len(dates) < 3:
        return None
    if min(dates) == max(dates):
        return Kind.EQUAL_DATES
    if sum(date > now + AHEAD for date in dates) > 0.2 * len(dates):
        return Kind.FUTURE_DATES
    return Kind.ON_THE_FLY if _all_now(dates, now, last_seen) else None


def _all_now(dates: Sequence[float], now: float, last_seen: float | None) -> bool:
    return min(dates) >= now - ALL_NOW and (last_seen is None or last_seen < now - ALL_NOW)


def recognise(sightings: Sequence[Sighting], now: float) -> frozenset[Kind]:
    """The kinds that a feed's last documents show, oldest sighting first; empty for an ordinary feed.

    >>> recognise([Sighting(1e9, (None, None), 2)], 1e9)
    frozenset({<Kind.UNDATED: 'its items have no dates'>})
    """
    full = [s for s in sightings if s.published]
    kinds = set()
    if full and all(d is None for s in full for d in s.published):
        kinds.add(Kind.UNDATED)
    dated = [(s, [d for d in s.published if d is not None]) for s in full]
    dated = [(s, dates) for s, dates in dated if len(dates) >= 3]
    if dated and all(min(dates) == max(dates) for _, dates in dated):
        kinds.add(Kind.EQUAL_DATES)
    made = [min(dates) >= s.at - ALL_NOW and max(dates) <= s.at + ALL_NOW for s, dates in dated]
    if len(made) >= 2 and all(made):
        kinds.add(Kind.ON_THE_FLY)
    ahead = [sum(d > s.at + AHEAD for d in dates) / len(dates) for s, dates in dated]
    if ahead and sum(ahead) / len(ahead) > 0.2:
        kinds.add(Kind.FUTURE_DATES)
    sizes = [len(s.published) for s in full]
    if len(sizes) >= 3 and max(sizes) >= 1.5 * min(sizes):
        kinds.add(Kind.CHANGING_WINDOW)
    if _in_batches(sightings, kinds):
        kinds.add(Kind.BATCH)
    if _silent(sightings, now):
        kinds.add(Kind.DEAD)
    return frozenset(kinds)


def _in_batches(sightings: Sequence[Sighting], kinds: set[Kind]) -> bool:
    """Most refreshes bring nothing, the others many items; where dates can be believed, most lie within an hour."""
    later = sightings[1:]
    brought = [s.new for s in later if s.new > 0]
    if len(later) < 6 or len(brought) < 2 or len(brought) > 0.5 * len(later) or sum(brought) < 4 * len(brought):
        return False
    if kinds & {Kind.UNDATED, Kind.EQUAL_DATES, Kind.ON_THE_FLY, Kind.FUTURE_DATES}:
        return True
    dates = sorted({d for s in sightings for d in s.published if d is not None})
    close = sum(b - a < HOUR for a, b in pairwise(dates))
    return close >= 0.6 * max(len(dates) - 1, 1)


def _silent(sightings: Sequence[Sighting], now: float) -> bool:
    """Nothing new for three months, by our own watch or, at first sight, by the dates of its items."""
    if not sightings:
        return False
    news = [s.at for s in sightings[1:] if s.new > 0]
    dates = [d for d in believable(sightings[-1].published, sightings[-1].at) if d is not None]
    newest = max([*news, *dates], default=sightings[0].at)
    return now - newest > SILENT
