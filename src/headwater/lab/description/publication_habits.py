"""Classifies the publication habits of feeds: zombie, spontaneous, sliced, constant, chunked, on-the-fly.

The names come from a study of 200,000 feeds that the thesis reports (5.1), which describes them but gives no rules. The
rules are ours and stand beside each name, so that anybody can judge the shares.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Floats
from headwater.lab.traces.trace import Trace
from headwater.times import DAY

HABIT_RULES = {
    "zombie": "nothing in the last 60 days, or in the last half of a trace shorter than 120 days",
    "on-the-fly": "four of five items repeat a title of the same feed under another date",
    "chunked": "at least three items, four of five of which come within a minute of another",
    "constant": "mean gap ≤ 2 h, and gaps longer than that fill at most a tenth of the time",
    "spontaneous": "mean gap ≥ 1 day",
    "sliced": "everything between constant and spontaneous: bursts and pauses",
}
HABITS = tuple(HABIT_RULES)


def classify_habits(trace: Trace) -> NDArray[np.int64]:
    """Return the habit of each feed as an index of `HABITS`; the first rule that fits wins."""
    silent = min(60 * DAY, (trace.end - trace.start) / 2)
    found = np.full(trace.feeds, HABITS.index("sliced"))
    repeats = _repeat_shares(trace)
    for feed in range(trace.feeds):
        times = trace.feed_times(feed)
        found[feed] = HABITS.index(_classify_feed(times, trace.end, silent, repeats[feed]))
    return found


def _classify_feed(times: Floats, end: float, silent: float, repeated: float) -> str:
    if not len(times) or end - times[-1] > silent:
        return "zombie"
    if repeated >= 0.8:
        return "on-the-fly"
    if len(times) < 2:
        return "spontaneous"
    gaps = np.diff(times)
    close = gaps <= 60.0
    together = np.append(close, False) | np.insert(close, 0, False)
    if len(times) >= 3 and together.mean() >= 0.8:
        return "chunked"
    mean = float(gaps.mean())
    if mean <= 2 * 3600.0 and float(gaps[gaps > 2 * 3600.0].sum()) <= 0.1 * float(gaps.sum()):
        return "constant"
    return "spontaneous" if mean >= DAY else "sliced"


def _repeat_shares(trace: Trace) -> Floats:
    """Return the share of each feed's items whose title it also uses with another date; 0 without titles."""
    share = np.zeros(trace.feeds)
    if trace.titles is None:
        return share
    for feed in range(trace.feeds):
        start, end = int(trace.offsets[feed]), int(trace.offsets[feed + 1])
        titled = {(trace.titles[k], trace.times[k]) for k in range(start, end) if trace.titles[k]}
        often = Counter(title for title, _ in titled)
        share[feed] = sum(often[title] > 1 for title, _ in titled) / max(len(titled), 1)
    return share
