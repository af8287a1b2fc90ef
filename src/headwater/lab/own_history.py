"""Compares strategies on a server's own feeds: replays the stored items at equal cost.

Items that the server lost are missing in its trace, so the comparison slightly favours the strategy it ran with. A
worker process runs one strategy at a time, so that progress can be shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headwater.arrays import Floats, Rows
from headwater.errors import SettingsError, TraceError
from headwater.lab.traces.trace import Trace
from headwater.schedule.registry import make_strategy, parse_strategy
from headwater.times import DAY

COMPARED_STRATEGIES = (
    "round_robin",
    "freshrss",
    "top_utility",
    "miniflux_entry_frequency",
    "two_steps",
    "value",
)  # quick ones first
MAX_REFRESHES = 30_000  # of one replay; beyond that a sample of the feeds is replayed
MIN_FEEDS = 50  # in a sample
MIN_DAYS = 2.0


def choose_compared(default: Sequence[str], current: str, wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the strategies to compare: the usual ones, the server's `current` one if it can be, and those `wanted`.
    Raises SettingsError for a wanted one that is unknown or cannot be compared.

    >>> choose_compared(("value",), "value", ("2Steps(tau=2)",))
    ('value', 'two_steps(tau=2)')
    """
    from headwater.lab.experiments.peers import LEFT_OUT

    chosen = list(default)
    for text in (current, *wanted):
        spec = parse_strategy(text)
        if spec.is_own or spec.name in LEFT_OUT:
            if text in wanted:
                raise SettingsError(
                    f"The strategy {text[:100]} cannot be compared here; try `headwater lab run peers`."
                )
            continue
        make_strategy(str(spec))
        if str(spec) not in chosen:
            chosen.append(str(spec))
    return tuple(chosen)


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """The result of one strategy: shares and seconds."""

    strategy: str
    completeness: float
    freshness: float
    mean_delay: float
    median_delay: float
    requests: int
    off: float  # deviation from the common number of requests, as a share


def build_trace(
    feeds: Rows, times: Floats, windows: Mapping[int, int], readers: Mapping[int, int] | None = None
) -> Trace:
    """Make a trace of (feed, time) pairs. Raises TraceError with the time to wait where they are too few."""
    if not len(times) or float(times.max() - times.min()) < MIN_DAYS * DAY:
        days = 0.0 if not len(times) else float(times.max() - times.min()) / DAY
        raise TraceError(
            f"The stored items span {days:.1f} days. A comparison needs dated items of {MIN_DAYS:g} days; try "
            "again later."
        )
    order = np.lexsort((times, feeds))
    feeds, times = feeds[order], times[order]
    ids, first = np.unique(feeds, return_index=True)
    offsets = np.append(first, len(feeds)).astype(np.intp)
    sizes = np.array([max(windows.get(int(id), 20), 1) for id in ids], np.int64)
    counted = None if readers is None else np.array([float(readers.get(int(id), 0)) for id in ids])
    return Trace(tuple(str(id) for id in ids), offsets, times, windows=sizes, readers=counted)


def sample_feeds(trace: Trace, per_day: float) -> Trace:
    """Sample as many feeds as can be replayed while somebody waits, slow and busy ones in proportion."""
    if trace.feeds * trace.days * per_day <= MAX_REFRESHES:
        return trace
    from headwater.lab.simulation.equal_cost import sample_by_activity

    return sample_by_activity(trace, max(int(MAX_REFRESHES / (trace.days * per_day)), MIN_FEEDS))


def compare_strategy(trace: Trace, name: str, per_day: float) -> ComparisonRow:
    """Replay one strategy at `per_day` refreshes per feed and day; a third of the time is history and warm-up."""
    # Imported here, so that a server that only shows rows does not load the simulator.
    from headwater.lab.experiments.peers import make_knob
    from headwater.lab.simulation.equal_cost import replay_at_cost
    from headwater.lab.simulation.replay import ReplaySettings
    from headwater.lab.simulation.scores import score_replay

    protocol = ReplaySettings(history_days=trace.days * 0.1, warmup_days=trace.days * 0.25)
    fitted = replay_at_cost(make_knob(name, trace, protocol, per_day), trace, protocol, per_day)
    got = score_replay(fitted.replay)
    return ComparisonRow(
        name,
        got.completeness.mean,
        got.freshness.mean,
        got.mean_delay_s,
        got.median_delay_s,
        got.requests,
        fitted.off,
    )


def find_best(rows: Sequence[ComparisonRow]) -> ComparisonRow:
    """Return the row of lowest mean delay among those within .005 of the best completeness."""
    fullest = max(row.completeness for row in rows)
    return min((row for row in rows if row.completeness >= fullest - 0.005), key=lambda row: row.mean_delay)
