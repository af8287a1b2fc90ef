"""Urbansky et al.'s measures of a replay: how late and how often successful polls are, per feed and per poll.

Their Table 1 tells what they counted. Polling every day is half a day late in both averages, which holds only if an
item is late until the next poll whether or not the document still shows it. An interval of one mean gap needs 1.6 polls
for a new item: of Poisson intervals that long 63 % are not empty, and 1/.63 = 1.58, so a *find* is a poll that brought
something, however much.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.estimate.base import Floats
from headwater.lab.replay import Replay


@dataclass(frozen=True, slots=True)
class FindScores:
    """Minutes from publication to the next poll and polls per find: averages over feeds, and over finds."""

    delay_of_feeds: float
    delay_of_polls: float
    polls_of_feeds: float
    polls_of_polls: float


def score_finds(run: Replay) -> FindScores:
    """The measures over the measured span; items that no poll has come to yet are not counted."""
    owner = run.trace.item_feeds()
    met = find_next_poll(run)
    counted = np.isfinite(met) & (run.trace.times >= run.measured)
    feed, at, late = owner[counted], met[counted], (met - run.trace.times)[counted] / 60
    # Items of one find lie side by side: a poll's are those that share its feed and moment.
    begins = np.flatnonzero(np.append(True, (np.diff(feed) > 0) | (np.diff(at) > 0))) if len(feed) else np.zeros(0, int)
    per_find = np.add.reduceat(late, begins) / np.diff(np.append(begins, len(late))) if len(feed) else np.zeros(0)
    many = np.bincount(feed[begins], minlength=run.trace.feeds)
    some = many > 0
    total = np.bincount(feed[begins], weights=per_find, minlength=run.trace.feeds)
    return FindScores(
        delay_of_feeds=float((total[some] / many[some]).mean()) if some.any() else 0.0,
        delay_of_polls=float(per_find.mean()) if len(per_find) else 0.0,
        polls_of_feeds=float((run.polls[some] / many[some]).mean()) if some.any() else 0.0,
        polls_of_polls=run.requests / max(int(many.sum()), 1),
    )


def find_next_poll(run: Replay) -> Floats:
    """When each item's feed was next polled after its publication; NaN if never.

    A lost item was passed over by the poll that brought the first one after it.

    >>> from headwater.lab.replay import Protocol, replay
    >>> from headwater.lab.traces import Trace
    >>> from headwater.schedule import STRATEGIES
    >>> trace = Trace.from_lists([[0.0, 10.0, 20.0, 30.0, 7000.0]])
    >>> run = replay(STRATEGIES["fix_1h"](), trace, Protocol(window=1, history_days=0, warmup_days=0))
    >>> find_next_poll(run)[1:4].tolist() == [run.obtained[3]] * 3
    True
    """
    met, owner = run.obtained.copy(), run.trace.item_feeds()
    place = np.where(np.isnan(met), len(met), np.arange(len(met)))
    following = np.minimum.accumulate(place[::-1])[::-1]
    inside = following < run.trace.offsets[owner + 1]
    met[inside] = run.obtained[following[inside]]
    return met
