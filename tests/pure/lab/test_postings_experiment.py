"""Postings by week and hour, the stability of rates, new postings of a document, and the moving average's timeline."""

from __future__ import annotations

import numpy as np
import pytest

from headwater.errors import TraceError
from headwater.lab.experiment import LabSettings, ignore_progress, load_experiment
from headwater.lab.experiments import postings
from headwater.lab.traces.trace import Trace
from headwater.times import DAY, HOUR


def test_postings_are_counted_in_whole_intervals() -> None:
    trace = Trace.from_lists([[0.0, 10.0, 100.0], [150.0, 250.0]])
    assert postings.count_postings(trace, 100.0).tolist() == [2.0, 2.0]  # the last interval is not whole


def test_a_document_has_as_many_new_postings_as_fit() -> None:
    busy = [k * HOUR for k in range(48)]  # 24 a day, of which a document shows 12
    quiet = [0.0, 2 * DAY]
    assert postings.count_new(Trace.from_lists([busy, quiet]), 12) == pytest.approx((12 + 12 + 1 + 0) / 4)


def test_rates_that_double_leave_the_band_and_equal_ones_stay() -> None:
    steady, doubled = np.full(50, 10.0), np.full(50, 20.0)
    assert postings.measure_band(steady, steady)["share"] == 1.0
    assert postings.measure_band(steady, doubled)["share"] == 0.0


def test_the_day_of_all_feeds_is_a_share_by_hour() -> None:
    day = postings.overlap_days(Trace.from_lists([[HOUR, HOUR + 60.0, 5 * HOUR, DAY + HOUR]]))
    assert (day[1], day[5], day.sum()) == (0.75, 0.25, 1.0)


def test_the_moving_average_waits_longer_while_a_feed_is_slow() -> None:
    line = postings.follow_moving_average()
    slow = (line["polls"] > line["edges"][0] + 30) & (line["polls"] < line["edges"][1])
    assert line["intervals"][slow].min() > line["intervals"][0] == pytest.approx(10.0)
    assert line["intervals"][-1] == pytest.approx(10.0)


def test_the_findings_of_sia_and_cho_hold_in_a_world_of_their_traits() -> None:
    result = load_experiment("postings").run(LabSettings(quick=True), ignore_progress)
    assert [check.statement for check in result.checks if not check.holds] == []
    assert len({check.source for check in result.checks}) == 7


def test_a_trace_of_less_than_four_weeks_is_refused() -> None:
    with pytest.raises(TraceError, match="at least 28"):
        postings.check_length(Trace.from_lists([[0.0, 20 * DAY]]), "short.csv")
