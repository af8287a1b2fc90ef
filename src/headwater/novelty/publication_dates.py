"""Drops dates that cannot be true; dates items by Last-Modified."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.formats.values.dates import parse_date
from headwater.model import Ending, Known, Outcome
from headwater.novelty.feed_kinds import (
    REQUEST_MOMENT,
    FeedKind,
    are_dates_plausible,
    drop_false_dates,
    find_date_problem,
)

SAME_MOMENT = 5.0  # seconds between the dates of a document that is generated on request


def judge_dates(
    known: Known, outcome: Outcome, dates: Sequence[float | None], names: Sequence[str], at: float
) -> tuple[Sequence[float | None], str]:
    """Return the plausible date of each item, and the problem with the dates in words (a `FeedKind`), if any."""
    if are_dates_plausible(dates, at):
        return dates, ""
    if outcome.ending is Ending.PARTIAL:  # a few items of one moment may be genuine: only a whole window shows
        return [drop_false_dates([date], at)[0] for date in dates], ""
    last = known.last_success
    kind = find_date_problem(dates, at, last)
    if kind is FeedKind.ON_THE_FLY and not _are_made_on_request(known, names, dates):
        last = at  # a busy feed, not forged dates
        kind = find_date_problem(dates, at, last)
    return drop_false_dates(dates, at, last), "" if kind is None else kind.value


def _are_made_on_request(known: Known, names: Sequence[str], dates: Sequence[float | None]) -> bool:
    """Say whether dates that all lie in the last minutes are the time of the request.

    Known items dated after the last refresh prove it. Without known items, dates within a few seconds of each other do.
    """
    before = {name for name, _ in known.window}
    old = [date for name, date in zip(names, dates, strict=True) if name in before and date is not None]
    if old:
        return sum(date > (known.last_success or 0.0) for date in old) * 2 > len(old)
    real = [date for date in dates if date is not None]
    return max(real) - min(real) < SAME_MOMENT


def date_by_last_modified(known: Known, outcome: Outcome, new: int, at: float) -> tuple[float, ...]:
    """Date new items that have no dates by Last-Modified.

    The newest is as old as the document, the others are evenly spaced since the last refresh. A document generated for
    each request gives no dates.
    """
    since = known.last_success
    changed = parse_date(outcome.validators.last_modified) if outcome.validators else None
    if not new or since is None or changed is None or not since < changed < at - REQUEST_MOMENT:
        return ()
    return tuple(since + (changed - since) * (place + 1) / new for place in range(new))


def order_dates(dates: Sequence[float | None], at: float) -> tuple[float, ...]:
    """Return the existing dates, oldest first and none after the refresh, because clocks differ.

    >>> order_dates([30.0, None, 10.0, 25.0], 20.0)
    (10.0, 20.0, 20.0)
    """
    ordered = sorted([date for date in dates if date is not None])
    if ordered and ordered[-1] > at:
        ordered = [min(date, at) for date in ordered]
    return tuple(ordered)
