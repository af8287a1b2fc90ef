"""The measures of Urbansky et al. agree with counting by hand and with a plain loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.lab.simulation.cycles import make_rng
from headwater.lab.simulation.replay import ReplaySettings, replay_trace
from headwater.lab.simulation.scores import find_next_poll, score_finds
from headwater.lab.traces.synthetic_world import MONDAY, WorldSettings, draw_world
from headwater.lab.traces.trace import Trace
from headwater.schedule import STRATEGIES

WHOLE = ReplaySettings(window=2, history_days=0, warmup_days=0)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(0, 60_000), max_size=30), min_size=1, max_size=4).filter(lambda all_: any(all_)))
def test_an_item_is_late_until_the_next_poll_whether_or_not_it_was_still_shown(sources: list[list[int]]) -> None:
    trace = Trace.from_lists([sorted(map(float, times)) for times in sources])
    if trace.end <= trace.start:
        return
    run = replay_trace(STRATEGIES["fix_1h"](), trace, WHOLE)
    got = find_next_poll(run)
    for feed in range(trace.feeds):
        mine = slice(trace.offsets[feed], trace.offsets[feed + 1])
        polls = np.unique(run.obtained[mine][np.isfinite(run.obtained[mine])])
        for at, met in zip(trace.feed_times(feed), got[mine], strict=True):
            later = polls[polls >= at - 1e-3]  # the replay counts in ticks of a 1024th of a second
            assert met == later[0] if len(later) else np.isnan(met)


def test_polls_and_delays_are_averaged_over_feeds_and_over_finds() -> None:
    hours = 3600.0
    busy, slow = [k * hours / 2 for k in range(400)], [100 * hours, 150 * hours]
    found = score_finds(replay_trace(STRATEGIES["fix_1h"](), Trace.from_lists([busy, slow]), WHOLE))
    assert found.polls_of_feeds > 10 * found.polls_of_polls / 2  # the slow feed weighs as much as the busy one
    assert found.polls_of_polls == pytest.approx(2, rel=0.1)  # 400 polls, 202 of them found something
    assert found.delay_of_polls < 60


def test_a_document_shows_its_last_items_however_old_they_are() -> None:
    world = draw_world(WorldSettings(feeds=30, days=3, low=0.01, high=0.02, past=7), make_rng(1, 1))
    before = np.bincount(world.trace.item_feeds()[world.trace.times < MONDAY], minlength=30)
    assert before.max() == 7
    assert (before >= 5).mean() > 0.9
