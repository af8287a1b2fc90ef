"""The experiments `peers` and `limit`: their rows and checks, and bounds that no strategy exceeds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from headwater.errors import NotFound, TraceError
from headwater.lab.experiment import ExperimentResult, LabSettings, ignore_progress, load_experiment
from headwater.lab.experiments import peers
from headwater.lab.experiments.limit import CLAIRVOYANT, OPEN_BOUND, check_bounds, draw_figure, run_world
from headwater.lab.simulation import bounds as limits
from headwater.lab.simulation import equal_cost
from headwater.lab.simulation.cycles import CycleSettings
from headwater.lab.simulation.equal_cost import choose_knob, replay_at_cost, sample_by_activity
from headwater.lab.simulation.replay import ReplaySettings
from headwater.lab.traces.trace import Trace, load_trace
from headwater.schedule.strategies.peer_rules import MediaCloud
from headwater.times import DAY

FIELDS = {
    "strategy",
    "budget",
    "requests",
    "completeness",
    "freshness",
    "mean_delay_s",
    "median_delay_s",
    "p95_delay_s",
    "polls_per_item",
    "error",
    "lost",
    "bytes",
}


@pytest.fixture
def small_trace(tmp_path: Path) -> Path:
    rng = np.random.default_rng(9)
    source, times = [], []
    for feed, rate in enumerate(10 ** rng.uniform(-0.7, 1.0, 12)):
        many = int(rng.poisson(rate * 40))
        source += [f"feed {feed}"] * many
        times += rng.integers(1_600_000_000, 1_600_000_000 + 40 * 86_400, many).tolist()
    order = np.argsort(times)
    path = tmp_path / "small.parquet"
    parquet.write_table(
        pa.table({"source": [source[k] for k in order], "published_at": [times[k] for k in order]}), path
    )
    return path


def test_a_trace_with_a_few_dates_far_in_the_future_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ahead.csv"
    rows = [f"a,{1_600_000_000 + 3600 * k}" for k in range(1000)] + ["a,4070908800"]
    path.write_text("\n".join(["source,published_at", *rows]))
    with pytest.raises(TraceError, match=r"ahead.csv goes up to 2099-01-01, but of its 1,001 items only 1 lie"):
        load_experiment("peers").run(LabSettings(trace=path, jobs=1), ignore_progress)


def test_peers_has_one_row_per_strategy_at_the_given_rate_and_equal_cost(small_trace: Path) -> None:
    names = ("value", "value_online", "open_loop", "uniform", "miniflux_entry_frequency", "two_steps")
    given = LabSettings(trace=small_trace, per_day=(2.0,), strategies=names, jobs=1)
    result = load_experiment("peers").run(given, ignore_progress)
    assert [row["strategy"] for row in result.rows] == list(names)
    for row in result.rows:
        assert set(row) >= FIELDS
        assert set(row["completeness"]) == set(row["freshness"]) == {"mean", "sd"}
        assert row["budget"] == 2.0
        wanted = 2.0 * 12 * result.settings["measured_days"]
        near = 0.3 if row["strategy"] == "value_online" else 0.05
        assert row["requests"] == pytest.approx(wanted, rel=near)
    again = load_experiment("peers").run(given, ignore_progress)
    assert again.rows == result.rows
    draw = load_experiment("peers").draw
    assert draw is not None
    points, bars = draw(result).axes
    assert {text.get_text() for text in points.texts} == set(names)
    order = [text.get_text().split(" ")[0] for text in bars.get_yticklabels()]
    assert order == [row["strategy"] for row in sorted(result.rows, key=lambda row: row["mean_delay_s"])]


def test_without_a_rate_peers_also_shows_rules_as_they_are(small_trace: Path) -> None:
    given = LabSettings(trace=small_trace, strategies=("uniform", "fix_1d"), jobs=1)
    result = load_experiment("peers").run(given, ignore_progress)
    rows = result.rows
    as_is = [row for row in rows if row["strategy"] == "fix_1d as it is"]
    assert len(as_is) == 1
    assert as_is[0]["budget"] == pytest.approx(1.0, rel=0.02)
    assert sorted({row["budget"] for row in rows if row["strategy"] == "uniform"}) == [0.25, 1.0, 4.0]
    draw = load_experiment("peers").draw
    assert draw is not None
    assert len(draw(result).axes) == 8  # three costs and the rules as they are, points above bars


def test_without_a_rate_a_sample_of_a_large_trace_is_replayed_and_with_one_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "many.csv"
    rows = [f"feed{feed},{day * 86_400 + feed}" for feed in range(220) for day in range(0, 30, 3)]
    path.write_text("\n".join(["source,published_at", *rows]))
    monkeypatch.setattr(peers, "USUAL_REFRESHES", 1000)
    for per_day, feeds in (((), 110), ((0.25,), 220)):
        given = LabSettings(trace=path, per_day=per_day, strategies=("fix_1d",), jobs=1)
        result = load_experiment("peers").run(given, ignore_progress)
        assert result.settings["feeds"] == feeds
        assert any("110 of 220 feeds" in note for note in result.notes) == (feeds == 110)


def test_peers_refuses_missing_or_wrong_settings(small_trace: Path) -> None:
    with pytest.raises(TraceError, match="needs a trace"):
        load_experiment("peers").run(LabSettings(), ignore_progress)
    with pytest.raises(NotFound, match="Did you mean value"):
        load_experiment("peers").run(LabSettings(trace=small_trace, strategies=("valu",)), ignore_progress)
    with pytest.raises(TraceError, match="leave nothing to measure"):
        load_experiment("peers").run(LabSettings(trace=small_trace, warmup_days=400.0), ignore_progress)


def test_only_the_last_days_of_a_long_trace_are_replayed_and_a_note_says_so(
    small_trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "MAX_DAYS", 30.0)
    peers._load_reduced.cache_clear()
    given = LabSettings(trace=small_trace, per_day=(1.0,), strategies=("fix_1d",), jobs=1)
    result = load_experiment("peers").run(given, ignore_progress)
    peers._load_reduced.cache_clear()
    assert result.settings["measured_days"] == pytest.approx(9.0, abs=1.0)
    assert any("the last 30 of 40 days" in note for note in result.notes)


def test_a_sample_has_slow_and_busy_feeds_in_proportion() -> None:
    trace = Trace.from_lists([[float(t) for t in range(many)] for many in range(1, 101)])
    assert sample_by_activity(trace, 10).counts.mean() == pytest.approx(trace.counts.mean(), rel=0.05)


@pytest.mark.parametrize("name", ["open_loop", "value", "miniflux_entry_frequency"])
def test_the_constant_is_searched_on_a_sample_of_a_large_trace_first(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(equal_cost, "SAMPLE_REFRESHES", 500)
    rng = np.random.default_rng(4)
    trace = Trace.from_lists([np.sort(rng.uniform(0, 30 * DAY, k % 40 + 1)).tolist() for k in range(210)])
    fitted = replay_at_cost(
        peers.make_knob(name, trace, ReplaySettings(warmup_days=5.0), 1.0), trace, ReplaySettings(warmup_days=5.0), 1.0
    )
    assert fitted.is_close
    assert fitted.replay.trace.feeds == 210


def test_the_constant_of_an_adaptive_rule_is_found(small_trace: Path) -> None:
    trace = load_trace(small_trace)
    fitted = replay_at_cost(choose_knob(MediaCloud, 3.0), trace, ReplaySettings(), 3.0)
    assert fitted.replay.per_day == pytest.approx(3.0, rel=0.02)


def test_bounds_are_ordered_and_exact_in_simple_cases() -> None:
    rates, share = np.array([2.0, 0.5]), np.array([1.0, 1.0])
    seen = [limits.bound_seen(rates, share, 4, b) for b in (0.3, 1.0)]
    open_loop = [limits.bound_open_loop(rates, share, 4, b) for b in (0.3, 1.0)]
    assert open_loop[0] < open_loop[1] < 2.5
    assert all(s >= o - 1e-3 for s, o in zip(seen, open_loop, strict=True))
    # One refresh a cycle for each: everything but the rare overflow of four is obtained.
    assert limits.bound_open_loop(rates, share, 4, 2.0) == pytest.approx(2.5, abs=0.1)


def test_no_strategy_exceeds_its_bound_in_a_small_world() -> None:
    settings = CycleSettings(feeds=15, window=4, warmup=60, measured=40)
    worlds = [run_world(5.0, seed, settings, bound_seen=True) for seed in range(2)]
    bounds = [check for check in check_bounds(5.0, worlds) if "exceed" in check.statement]
    assert len(bounds) == 10
    assert all(check.holds for check in bounds), [check for check in bounds if not check.holds]
    assert all(found[OPEN_BOUND].completeness <= found[CLAIRVOYANT].completeness for found in worlds)


def test_the_figure_of_limit_has_a_panel_per_budget_with_the_bounds_as_lines() -> None:
    spread = {"mean": 0.5, "sd": 0.1}
    names = ("value, online", "uniform", "bound, open loop", "bound, clairvoyant")
    rows = [{"strategy": name, "budget": b, "completeness": spread} for b in (10.0, 30.0) for name in names]
    figure = draw_figure(ExperimentResult("limit", {"feeds": 9, "window": 5, "seeds": 2}, rows))
    assert [axis.get_title() for axis in figure.axes] == ["b = 10 requests per cycle", "b = 30 requests per cycle"]
    for axis in figure.axes:
        assert [text.get_text() for text in axis.get_yticklabels()] == ["value, online", "uniform"]
        legend = axis.get_legend()
        assert legend is not None
        assert [text.get_text() for text in legend.get_texts()] == ["open loop 0.500", "clairvoyant 0.500"]
