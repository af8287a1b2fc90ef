"""Which dates of a document may be learned from."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.estimate.kinds import ALL_NOW, Kind, believable, dating, ordinary
from headwater.formats.dates import parse_date
from headwater.model import Ending, Known, Outcome

AT_ONCE = 5.0  # seconds within which all items of a document are dated when it is made at the request


def dates_of(
    known: Known, outcome: Outcome, dates: Sequence[float | None], names: Sequence[str], at: float
) -> tuple[Sequence[float | None], str]:
    """The date of each item where it can be believed, and in words what is odd about them (a `Kind`), if anything."""
    if ordinary(dates, at):
        return dates, ""
    if outcome.ending is Ending.PARTIAL:  # a few new items of one moment are no forgery: only the whole window tells
        return [believable([date], at)[0] for date in dates], ""
    last = known.last_success
    kind = dating(dates, at, last)
    if kind is Kind.ON_THE_FLY and not _made_now(known, names, dates):
        last = at  # a lively feed, not a forged one
        kind = dating(dates, at, last)
    return believable(dates, at, last), "" if kind is None else kind.value


def _made_now(known: Known, names: Sequence[str], dates: Sequence[float | None]) -> bool:
    """Whether dates that all lie in the last minutes are the moment of the request.

    Items we had before and that are dated after our last look prove it. Where there are none, the document was made in
    one go: within seconds.
    """
    before = {name for name, _ in known.window}
    old = [date for name, date in zip(names, dates, strict=True) if name in before and date is not None]
    if old:
        return sum(date > (known.last_success or 0.0) for date in old) * 2 > len(old)
    real = [date for date in dates if date is not None]
    return max(real) - min(real) < AT_ONCE


def by_last_modified(known: Known, outcome: Outcome, new: int, at: float) -> tuple[float, ...]:
    """Dates of new items that have none of their own: the newest is as old as the document, the others lie evenly
    since the last refresh. A document made anew for every request tells nothing."""
    since = known.last_success
    changed = parse_date(outcome.validators.last_modified) if outcome.validators else None
    if not new or since is None or changed is None or not since < changed < at - ALL_NOW:
        return ()
    return tuple(since + (changed - since) * (place + 1) / new for place in range(new))


def in_order(dates: Sequence[float | None], at: float) -> tuple[float, ...]:
    """The dates there are, oldest first, none of them after the refresh: clocks differ.

    >>> in_order([30.0, None, 10.0, 25.0], 20.0)
    (10.0, 20.0, 20.0)
    """
    told = sorted([date for date in dates if date is not None])
    if told and told[-1] > at:
        told = [min(date, at) for date in told]
    return tuple(told)
