"""A description finds the properties that a trace was made with."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from headwater.arrays import Ragged
from headwater.errors import QueryError, TraceError
from headwater.estimate.models.cluster_pattern import ClusterPattern
from headwater.lab.description import activity, description
from headwater.lab.description.description import cluster_patterns, describe_trace, hour_shares
from headwater.lab.simulation.cycles import make_rng
from headwater.lab.traces import trace_queries
from headwater.lab.traces.synthetic_world import SIX_SHAPES, WorldSettings, draw_world, join_times
from headwater.lab.traces.trace import Trace, load_trace
from headwater.lab.traces.trace_queries import compile_condition
from headwater.times import DAY
from support.commands import run_command

HOUR = 3600.0


def titled(times: list[list[float]], titles: list[str], categories: list[str]) -> Trace:
    trace = Trace.from_lists(times)
    return Trace(trace.names, trace.offsets, trace.times, tuple(titles), tuple(categories))


def test_hourly_counts_and_deviations_are_those_of_a_dense_table() -> None:
    trace = draw_world(WorldSettings(feeds=15, days=9, low=0.5, high=60), make_rng(1)).trace
    counts = activity.count_by_hour(trace)
    days = activity.count_days(trace)
    dense = np.zeros((trace.feeds, days, 24))
    for feed in range(trace.feeds):
        for when in trace.feed_times(feed):
            dense[feed, int(when // DAY - trace.start // DAY), int(when % DAY // HOUR)] += 1
    assert counts.days == days
    assert counts.mean == pytest.approx(dense.mean(1))
    assert counts.sd == pytest.approx(dense.std(1))


def test_a_feed_that_repeats_its_day_has_no_variation() -> None:
    times = np.arange(0, 20) * DAY + 9 * HOUR
    assert activity.measure_variation(activity.count_by_hour(join_times([times])))[0] == 0.0


@given(st.lists(st.floats(0.01, 100), min_size=24, max_size=24), st.sampled_from([1.0, 0.8]))
def test_a_day_has_one_shape_whatever_its_scale(slots: list[float], share: float) -> None:
    day = np.array([slots])
    shape = activity.classify_shapes(day, share=share)[0]
    assert shape == activity.classify_shapes(7.5 * day, share=share)[0]
    outside = ((day >= 1.5 * day.mean()) | (day < 0.5 * day.mean())).sum()
    if outside == 24:
        assert shape == activity.DayShape.PEAKS
    if outside == 0:
        assert shape == activity.DayShape.UNIFORM


def test_k_means_finds_the_six_shapes_that_feeds_were_drawn_from() -> None:
    world = draw_world(WorldSettings(feeds=180, days=60, low=20, high=20, shape="six"), make_rng(2))
    found = cluster_patterns(hour_shares(activity.count_by_hour(world.trace).total), 6)
    for cluster in range(6):
        kinds = world.kinds[found.of == cluster]
        assert (kinds == kinds[0]).all()
    assert sorted(found.sizes.tolist(), reverse=True) == found.sizes.tolist()
    assert len(SIX_SHAPES) == len(set(world.kinds.tolist()))


def test_the_clusters_drawn_are_those_of_the_strategies() -> None:
    world = draw_world(WorldSettings(feeds=120, days=28, low=20, high=20, shape="six"), np.random.default_rng(3))
    trace, rows = world.trace, np.arange(120)
    estimator = ClusterPattern(120, rate=1e-9)
    counted, published = trace.counts.astype(float), Ragged(trace.offsets, trace.times)
    estimator.observe(rows, np.full(120, trace.start - 1), np.full(120, trace.end), counted, rows < 0, published)
    estimator.recluster()
    drawn = describe_trace(trace).clusters
    assert drawn is not None
    used = estimator.shapes[estimator.cluster(rows)]
    assert drawn.centres[drawn.of] == pytest.approx(used, abs=1e-6)


def test_more_clusters_than_feeds_give_as_many_as_there_are() -> None:
    assert len(cluster_patterns(np.eye(3), 12).centres) == 3
    with pytest.raises(TraceError, match="no feed to group"):
        cluster_patterns(np.zeros((0, 24)), 12)


@pytest.mark.parametrize("exponent", [0.78, 1.4, 2.0])
def test_the_exponent_of_a_power_law_is_found_by_likelihood(exponent: float) -> None:
    support = np.arange(1, 1001)
    chance = support**-exponent / (support**-exponent).sum()
    counts = make_rng(3).choice(support, 8000, p=chance)
    law = description.fit_power_law(counts)
    assert law is not None
    assert law.likelihood == pytest.approx(exponent, abs=0.05)
    assert description.fit_power_law(np.array([1, 2, 3])) is None


def test_habits_are_named_by_their_rules() -> None:
    end = 200 * DAY
    feeds = {
        "zombie": [1 * DAY, 2 * DAY],
        "spontaneous": list(np.arange(0, 201, 10) * DAY),
        "constant": list(np.arange(0, end, HOUR)),
        "sliced": [day * DAY + minute * 1200 for day in range(200) for minute in range(9)],
        "chunked": [day * DAY + second for day in range(0, 200, 2) for second in range(5)],
    }
    named = activity.classify_habits(Trace.from_lists([sorted(times) for times in feeds.values()]))
    assert [activity.HABITS[k] for k in named] == list(feeds)


def test_a_feed_that_gives_old_titles_new_dates_is_written_on_the_fly() -> None:
    times = list(np.arange(0, 40) * HOUR)
    trace = titled([times], [f"item {k % 4}" for k in range(40)], [""] * 40)
    assert activity.HABITS[activity.classify_habits(trace)[0]] == "on-the-fly"


def test_subjects_come_from_names_and_categories() -> None:
    trace = titled([[1.0, 2.0], [3.0], [4.0]], ["a", "b", "c", "d"], ["Sport;Health", "", "money market", ""])
    trace = Trace(("x", "y", "the climate blog"), trace.offsets, trace.times, trace.titles, trace.categories)
    found = trace_queries.find_subjects(trace)
    assert {name: which.tolist() for name, which in found.items() if which.any()} == {
        "sport": [True, False, False],
        "health": [True, False, False],
        "economy": [False, True, False],
        "environment": [False, False, True],
    }


def test_a_standing_query_gives_every_feed_its_selectivity() -> None:
    trace = titled([[1.0, 2.0, 3.0, 4.0], [5.0], []], ["Rain today", "sun", "rain; again", "x", "train"], [""] * 5)
    kept = trace_queries.match_items(trace, trace_queries.KeywordQuery.from_words("RAIN"))
    assert kept.tolist() == [True, False, True, False, False]
    assert trace_queries.share_matched(trace, kept).tolist() == [0.5, 0.0, 0.0]
    with pytest.raises(TraceError, match="neither titles nor categories"):
        trace_queries.match_items(Trace.from_lists([[1.0]]), trace_queries.KeywordQuery.from_words("rain"))
    with pytest.raises(TraceError, match="without words"):
        trace_queries.KeywordQuery.from_words(" ")


def test_duplicates_within_a_feed_and_across_feeds_are_counted_apart() -> None:
    trace = titled([[1.0, 1.0, 2.0], [3.0, 9.0]], ["a", "a", "b", "a", "c"], [""] * 5)
    assert describe_trace(trace).duplicates == {
        "same_feed_same_time": 1,
        "titled_items": 5,
        "same_feed_same_title": 1,
        "other_feed_same_title": 1,
    }


@pytest.mark.parametrize("wrong", [{"high": 1.0}, {"low": 1.0}, {"share": 0.4}])
def test_invalid_thresholds_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(TraceError, match=r"must be above|must be at least"):
        describe_trace(Trace.from_lists([[1.0]]), **wrong)


def test_a_trace_of_one_item_can_be_described() -> None:
    found = describe_trace(Trace.from_lists([[1.0]])).as_json()
    assert found["feeds"] == found["items"] == 1
    assert found["patterns"] is None
    assert found["power_law"] is None
    json.dumps(found)


def test_the_command_prints_json_and_draws(tmp_path: Path) -> None:
    trace = draw_world(WorldSettings(feeds=30, words=10), make_rng(4)).trace
    file, plot = tmp_path / "t.parquet", tmp_path / "t.png"
    columns = {
        "source": [trace.names[k] for k in trace.item_feeds()],
        "published_at": trace.times,
        "title": trace.titles,
    }
    parquet.write_table(pa.table(columns), file)
    answer = run_command("lab", "describe", "--trace", str(file), "--json", "--plot", str(plot))
    assert answer.code == 0, answer.err
    found = answer.json
    assert found["feeds"] == 30
    assert sum(found["activity"].values()) == 30
    assert plot.stat().st_size > 10_000


def test_a_real_trace_is_described(shared_data: Path) -> None:
    found = describe_trace(load_trace(shared_data / "traces" / "blogs.parquet", text=True))
    assert found.feeds == 447
    assert found.as_json()["activity"]["< 1"] == 447


def test_conditions_of_the_query_language_choose_items_of_a_trace() -> None:
    trace = titled([[1.0, 2.0, 3.0]], ["Rain in Spain", "sun", "Stormy"], ["", "weather; rain", "sport"])
    kept = trace_queries.match_items(trace, compile_condition('TITLE CONTAINS "rain" OR CATEGORY = "rain"'))
    assert kept.tolist() == [True, True, False]
    with pytest.raises(QueryError):
        compile_condition("TITLE CONTAINS")
