"""From settled verdicts to what a strategy learns from: the one bridge between refreshes and arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headwater.estimate.base import Floats, Ragged, Rows
from headwater.estimate.kinds import believable, named
from headwater.model import Outcome, Refresh, Verdict
from headwater.schedule.base import Observed, Table


def observed(table: Table, rows: Rows, verdicts: Sequence[Verdict], outcomes: Sequence[Outcome]) -> Observed:
    """What the refreshes of these rows showed, in the order given; all of them must have ended well."""
    refreshes = [verdict.refresh for verdict in verdicts]
    return Observed(
        rows=rows,
        start=table.last[rows],
        end=np.array([refresh.at for refresh in refreshes]),
        new=np.array([float(refresh.new) for refresh in refreshes]),
        window=np.array([float(refresh.window or 0) for refresh in refreshes]),
        saturated=np.array([refresh.saturated for refresh in refreshes], bool),
        published=ragged([refresh.published for refresh in refreshes]),
        shown=ragged([_shown(outcome, refresh) for outcome, refresh in zip(outcomes, refreshes, strict=True)]),
        bytes=np.array([float(refresh.bytes) for refresh in refreshes]),
        hint=np.array([np.nan if outcome.fresh_for is None else outcome.fresh_for for outcome in outcomes]),
    )


def _shown(outcome: Outcome, refresh: Refresh) -> list[float]:
    entries = outcome.document.items if outcome.document and not named(refresh.message) else ()
    dates = (believable([entry.published], refresh.at)[0] for entry in entries)
    return sorted(min(date, refresh.at) for date in dates if date is not None)


def ragged(rows: Sequence[Sequence[float]]) -> Ragged:
    counts = np.array([len(times) for times in rows], np.intp)
    times: Floats = np.array([time for row in rows for time in row], np.float64)
    return Ragged(np.concatenate([[0], np.cumsum(counts)]).astype(np.intp), times)
