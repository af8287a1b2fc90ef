"""Experiments agree with the papers at sizes that run in seconds; the soak runs them at full size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwater.errors import TraceError
from headwater.lab.experiment import (
    Check,
    Experiment,
    ExperimentResult,
    LabSettings,
    Progress,
    ignore_progress,
    list_experiments,
    load_experiment,
)
from headwater.lab.experiments import shapes, tau, two_steps
from headwater.lab.report import ReportSection, measure_deviations, render_report, run_section
from support.commands import run_command


def run(name: str, **settings: Any) -> ExperimentResult:
    return load_experiment(name).run(LabSettings(jobs=1, **settings), ignore_progress)


def surprises(checks: list[Check]) -> list[str]:
    return [f"{check.statement} {dict(check.figures)}" for check in checks if check.is_surprise]


def broken(result: ExperimentResult) -> list[str]:
    return [f"{check.statement}: {dict(check.figures)}" for check in result.checks if not check.holds]


def test_every_experiment_has_a_name_a_source_and_a_sentence() -> None:
    for name in list_experiments():
        found = load_experiment(name)
        assert found.name == name
        assert found.source
        assert found.summary
        assert found.question.endswith("?")
        assert found.takes


def test_two_steps_orders_the_strategies_as_the_paper_does() -> None:
    result = run("two-steps", seeds=6, budget=(10.0,))
    found = {row["strategy"]: row["completeness"]["mean"] for row in result.rows}
    assert abs(found["two_steps"] - found["only_sat"]) < 0.03
    assert min(found["two_steps"], found["only_sat"]) > max(found["only_tau"], found["top_utility"])
    assert min(found["only_tau"], found["top_utility"]) > found["uniform"]
    assert {row["requests"] for row in result.rows if row["strategy"] in ("top_utility", "uniform")} == {1000.0}


def test_the_thesis_correction_stands_beside_the_papers_value() -> None:
    measures = {"completeness": {"mean": 0.97}, "freshness": {"mean": 0.93}, "requests": 4700.0}
    paper = {"completeness": 0.9781, "freshness": 0.8762, "requests": 4700}
    row = {"strategy": "two_steps", "budget": 50.0, **measures, "paper": paper, "thesis": {"freshness": 0.9187}}
    checked = {check.statement.partition(" ")[0]: check.figures for check in two_steps.check_table([row])}
    assert checked["freshness"]["thesis"] == 0.9187
    assert checked["freshness"]["off"] == pytest.approx(0.93 - 0.9187)
    assert "thesis" not in checked["completeness"]


def test_orders_of_window_freshness_are_checked_world_by_world() -> None:
    result = run("two-steps", seeds=3, budget=(10.0,), strategies=("two_steps", "only_tau", "uniform"))
    checks = {check.statement: check for check in result.checks if "window freshness" in check.statement}
    assert checks["window freshness at b = 10: only_tau > two_steps"].holds
    reversed_ = checks["window freshness at b = 10: two_steps > uniform"]
    assert not reversed_.holds
    assert reversed_.because
    assert reversed_.figures["paper"] == pytest.approx(0.3671 - 0.3620)
    by_name = {row["strategy"]: row["freshness"]["mean"] for row in result.rows}
    assert reversed_.figures["difference"] == pytest.approx(by_name["two_steps"] - by_name["uniform"])
    assert reversed_.intervals["difference"] > 0


def test_every_statement_over_several_worlds_has_intervals() -> None:
    for name, settings in (
        ("two-steps", {"seeds": 2, "budget": (10.0,)}),
        ("generic-feeds", {"seeds": 2, "quick": True}),
        ("tau", {"seeds": 2, "quick": True}),
        ("network", {"seeds": 2, "quick": True}),
        ("shapes", {"seeds": 2, "quick": True}),
    ):
        for check in run(name, **settings).checks:
            counted = check.statement.startswith("the paper's world")  # distances, in deviations of single worlds
            assert check.intervals or counted, check.statement


def test_the_papers_one_world_is_compared_with_the_spread_of_ours() -> None:
    paper = {"completeness": 0.5, "freshness": 0.5}
    rows = [
        {"strategy": "a", "budget": b, "paper": paper, "completeness": {"mean": mean, "sd": 0.1}, "freshness": far}
        for b, mean, far in ((10.0, 0.6, {"mean": 0.5, "sd": 0.2}), (30.0, 0.8, {"mean": 0.5, "sd": 0.0}))
    ]
    [check] = two_steps.check_spread(rows)
    assert not check.holds  # one of three values; a spread of 0 says nothing
    assert check.figures == {"values": 3.0, "beyond": 1.0, "completeness of a at b = 30": pytest.approx(3.0)}
    assert two_steps.check_spread(rows[:1])[0].holds
    assert two_steps.check_spread([]) == []


def test_the_thesis_shares_of_feeds_stand_beside_those_of_a_trace(tmp_path: Path) -> None:
    file = tmp_path / "small.csv"
    items = [f"{name},{1_600_000_000 + k * gap}" for name, gap in (("a", 3000), ("b", 40_000)) for k in range(60)]
    file.write_text("\n".join(["source,published_at", *items]))
    result = ExperimentResult("shapes", {}, [])
    shapes._add_trace(result, file)
    found = {row["items_per_day"]: row for row in result.rows if "paper" in row}
    assert sum(found[name]["share_of_feeds"] for name in shapes.PUBLISHED_CLASSES) == pytest.approx(1.0)
    assert [found[name]["paper"]["share_of_feeds"] for name in shapes.PUBLISHED_CLASSES] == [0.25, 0.52, 0.23]
    assert found["above 48 a day"]["paper"] == {"cv_at_most_1": 0.5}


def test_the_regimes_of_figure_4_2_are_read_off_the_curves() -> None:
    level = {"two_steps": 0.5, "only_sat": 0.49, "only_tau": 0.4, "uniform": 0.3}
    curves = {
        (name, budget): {"completeness": value, "freshness": value, "requests": 100 * budget}
        for name, value in level.items()
        for budget in two_steps.CURVE_BUDGETS
    } | {("reference", 100.0): {"completeness": 1.0, "freshness": 1.0, "requests": 10_000.0}}
    assert [check.holds for check in two_steps.check_regimes(curves, {})] == [True, True, False, True]
    curves["only_tau", 30.0]["completeness"] = 0.6
    assert [check.holds for check in two_steps.check_regimes(curves, {})] == [True, False, False, True]


def test_results_do_not_depend_on_the_number_of_processes() -> None:
    settings = {"seeds": 3, "budget": (10.0,), "strategies": ("two_steps", "uniform")}
    alone, together = (
        load_experiment("two-steps").run(LabSettings(jobs=jobs, **settings), ignore_progress)  # type: ignore[arg-type]
        for jobs in (1, 2)
    )
    assert alone.as_json() == together.as_json()


def test_combined_polling_is_faster_than_either_half_of_it() -> None:
    from headwater.lab.experiments.fast_news import RunSetting, run_world

    delay = {
        name: np.mean([run_world(RunSetting(name, 1.0), seed, 60).mean_delay for seed in range(2)])
        for name in ("uniform", "allocation", "combined")
    }
    assert delay["combined"] < delay["allocation"] < delay["uniform"]


def test_round_robin_lets_the_fullest_feed_grow() -> None:
    from headwater.lab.experiments.advarss import _make_rows, run_world

    found = {name: run_world(name, 0, 14.0, 3.6) for name in ("advarss", "round_robin")}
    assert found["advarss"].fullest.mean() < found["round_robin"].fullest.mean()
    assert found["advarss"].pending.mean() < found["round_robin"].pending.mean()
    ours, theirs = _make_rows({name: [scores] for name, scores in found.items()}, 3.6)
    more = theirs["fullest_feed"]["mean"] / ours["fullest_feed"]["mean"] - 1
    assert theirs["more_in_fullest_feed"] == pytest.approx(more)
    assert theirs["paper"] == {"more_in_fullest_feed": 0.334, "more_in_all_feeds": 0.085}
    assert "paper" not in ours


def test_another_policy_of_short_delays_leaves_fewer_items_waiting_too() -> None:
    from headwater.lab.experiments.advarss import run_world

    advarss, other = (run_world(name, 0, 14.0, 3.6).pending.mean() for name in ("advarss", "combined"))
    assert other < advarss


def test_delays_are_averaged_by_the_number_of_the_find() -> None:
    from headwater.lab.experiments.generic_feeds import measure_late_finds
    from headwater.lab.simulation.replay import Replay
    from headwater.lab.traces.trace import Trace

    trace = Trace.from_lists([[0.0, 60.0, 600.0], [0.0], [120.0]])
    obtained = np.array([120.0, 120.0, 900.0, 60.0, 180.0])  # the first feed has two finds, the others one
    done = Replay(trace, 20, 0.0, 0.0, 1000.0, obtained, np.ones(3, dtype=np.int64), 0.0)
    late, count = measure_late_finds(done, np.array([True, True, False]))
    assert late[:2].tolist() == [1.5 + 1.0, 5.0]  # minutes: (2 + 1)/2 and 1, then 5
    assert count[:3].tolist() == [2.0, 1.0, 0.0]


def test_figure_3_has_a_statement_for_its_closest_pair() -> None:
    from headwater.lab.experiments.generic_feeds import check_late_finds

    minutes = {"fix_learned": 7.0, "moving_average": 8.0, "post_rate": 12.0, "fix_1h": 30.0}
    curves = {name: np.full(301, value) for name, value in minutes.items()}
    groups, pair = check_late_finds(curves, "here")
    assert (groups.holds, pair.holds) == (True, True)
    groups, pair = check_late_finds(curves | {"moving_average": np.full(301, 6.0)}, "here")
    assert (groups.holds, pair.holds) == (True, False)
    groups, _ = check_late_finds(curves | {"post_rate": np.full(301, 7.5)}, "here")
    assert not groups.holds
    worlds = {name: [value - 1.0, value + 1.0] for name, value in minutes.items()}
    _, pair = check_late_finds(curves, "here", worlds | {"moving_average": [8.0, 8.0]})
    assert pair.figures["difference"] == -1.0  # world by world
    assert pair.intervals["difference"] == pytest.approx(12.7, abs=0.1)


def test_the_papers_misprint_is_named_and_the_errors_keep_their_order() -> None:
    from headwater.lab.experiments import generic_feeds

    assert generic_feeds.CORRECTED_ERROR["polls", "fix_1h"] == pytest.approx(630.6)
    for mode, table in generic_feeds.PAPER.items():
        for name, (minutes, polls, error) in table.items():
            shown = generic_feeds.CORRECTED_ERROR.get((mode, name), error)
            assert minutes * polls == pytest.approx(shown, rel=0.05, abs=2), f"eq. 4 of {name} by {mode}"


def test_hourly_polling_is_half_an_hour_late_in_both_averages() -> None:
    result = run("generic-feeds", seeds=1, quick=True, strategies=("fix_1h",))
    equal_windows, mixed_windows = result.rows[:2], result.rows[2:]
    for rows in (equal_windows, mixed_windows):
        assert [row["mode"] for row in rows] == ["feeds", "polls"]
        assert all(row["mean_delay_s"] == pytest.approx(1800, rel=0.15) for row in rows)


def test_a_periodic_model_errs_less_on_waves_and_equally_on_uniform_feeds() -> None:
    from headwater.lab.online.divergence_errors import measure_errors

    error = {
        (shape, name): measure_errors(shape, name, 4.0, 0.07, 2).mean()
        for shape in ("waves", "uniform")
        for name in ("single", "periodic")
    }
    assert error["waves", "periodic"] < 0.8 * error["waves", "single"]
    assert error["uniform", "periodic"] == pytest.approx(error["uniform", "single"], rel=0.15)


def test_models_inside_two_steps_spend_the_same() -> None:
    from headwater.lab.online.two_steps_quality import run_two_steps

    found = {
        (name, carried): run_two_steps("waves", name, 6.0, 0, carried=carried)
        for name in ("single", "periodic")
        for carried in (True, False)
    }
    assert found["single", True].requests == pytest.approx(found["periodic", True].requests, rel=0.02)
    assert found["periodic", False].requests < 0.95 * found["periodic", True].requests  # unused refreshes were lost


def test_at_equal_requests_waves_are_more_complete_with_the_periodic_model() -> None:
    from headwater.lab.online.two_steps_quality import interpolate_quality, run_two_steps

    hours, seeds = (5.0, 6.0), range(2)
    runs = {
        ("waves", name, each): [run_two_steps("waves", name, each, seed) for seed in seeds]
        for name in ("single", "periodic")
        for each in hours
    }
    gain = [
        interpolate_quality(runs, "waves", "periodic", hours, 7.5)[measure].mean()
        - interpolate_quality(runs, "waves", "single", hours, 7.5)[measure].mean()
        for measure in (0, 1)
    ]
    assert gain[0] > 0.05  # completeness; .94 against .86 at 160 requests
    assert abs(gain[1]) < 0.03  # freshness


def test_longer_learning_and_the_past_day_are_measured_on_real_feeds(tmp_path: Path) -> None:
    from headwater.lab.online.two_steps_quality import PAST_DAY, add_long_learning
    from headwater.lab.traces import daily_shapes

    rng, days = np.random.default_rng(0), 28.0
    lines = ["source,published_at"]
    for feed in range(6):
        wave = daily_shapes.wave_shape(top=8.0 + 2 * feed)
        times = daily_shapes.draw_poisson_times(rng, 48.0 / 86_400, wave, 0.0, days * 86_400)
        lines += [f"{feed},{1_600_000_000 + at:.0f}" for at in times]
    (tmp_path / "waves.csv").write_text("\n".join(lines))
    rows: list[Any] = []
    found = add_long_learning(
        LabSettings(jobs=1), ignore_progress, tmp_path / "waves.csv", (5.0, 7.0), rows, alphas=(0.2,)
    )
    assert [check.holds for check in found] == [True, True]  # feeds that keep their day: as the thesis says
    assert {row["strategy"].split(", ")[1] for row in rows} == {"single", "periodic", PAST_DAY}
    assert len({row["requests"] for row in rows}) * 3 == len(rows)  # compared at the same costs


def test_quality_at_a_cost_lies_between_the_neighbouring_budgets() -> None:
    from headwater.lab.online.two_steps_quality import interpolate_quality, select_costs
    from headwater.lab.simulation.cycles import CycleScores

    def make_scores(requests: int, completeness: float) -> list[CycleScores]:
        nothing = np.zeros(0)
        return [CycleScores(completeness, completeness / 2, requests, 0, 0, 0, nothing, nothing.astype(int))]

    runs = {("waves", "single", 4.0): make_scores(240, 0.9), ("waves", "single", 8.0): make_scores(160, 0.7)}
    found = interpolate_quality(runs, "waves", "single", (4.0, 8.0), 6.0)  # 10 feeds × 5 days × 24 h / 6 h = 200
    assert (found[0].tolist(), found[1].tolist()) == ([pytest.approx(0.8)], [pytest.approx(0.4)])
    assert select_costs(runs, "waves", ("single",), (4.0, 8.0)) == [5.0, 6.0, 7.5]  # 300 and 133 lie outside


def test_a_model_learned_apart_beats_one_that_learns_from_rare_refreshes() -> None:
    from headwater.lab.online.kept_model import measure_kept_model

    for shape in ("peaks", "waves"):  # the feeds are the same before and after the model is kept
        errors = measure_kept_model(shape, 24.0, 2, False)
        assert errors["learned apart, then kept"].mean() < 0.9 * errors["online"].mean()


def test_the_mean_of_five_errors_chooses_the_better_model() -> None:
    from headwater.lab.online.divergence_errors import STEADY_HYBRID, measure_errors

    error = {name: measure_errors("waves", name, 4.0, 0.2, 1)[0] for name in ("periodic", "hybrid", STEADY_HYBRID)}
    assert error[STEADY_HYBRID] < 1.1 * error["periodic"] < error["hybrid"]


def test_the_gain_of_retrieval_grows_with_the_share_that_follows_a_pattern() -> None:
    from headwater.lab.experiments.fast_news import RunSetting, run_world

    gain = []
    for share in (0.3, 1.0):
        delay = {
            name: run_world(RunSetting(name, 1.0, share=share), 0, 60).mean_delay for name in ("uniform", "retrieval")
        }
        gain.append(1 - delay["retrieval"] / delay["uniform"])
    assert gain[1] > gain[0] + 0.1


def test_an_estimation_window_slides_over_the_trace() -> None:
    from headwater.lab.experiments.fast_news import SlidingWindow
    from headwater.lab.traces.trace import Trace

    day = 86_400.0
    trace = Trace.from_lists([[k * day / 4 for k in range(40)], [k * day for k in range(20)]])  # 4 a day for ten days
    window, rows = SlidingWindow(trace, 2.0), np.arange(2)
    assert window.daily_rate(rows, np.full(2, 9.5 * day)) * day == pytest.approx([4.0, 1.0], rel=0.2)
    assert window.daily_rate(rows, np.full(2, 15.5 * day)) * day == pytest.approx([0.001, 1.0], rel=0.2)


@pytest.fixture(scope="module")
def written_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a trace: sixty days of a busy source with words in its titles, and of a dozen quieter ones."""
    rng = np.random.default_rng(1)
    lines = ["source,published_at,title"]
    for source in range(13):
        times = np.sort(rng.random(3600 if source == 0 else 900) * 60 * 86_400)
        words = rng.integers(0, 20, len(times))
        lines += [
            f"feed {source},{when:.3f},word{chr(97 + word)} alone" for when, word in zip(times, words, strict=True)
        ]
    file = tmp_path_factory.mktemp("trace") / "written.csv"
    file.write_text("\n".join(lines))
    return file


@pytest.fixture(scope="module")
def networks(written_trace: Path) -> ExperimentResult:
    """Run the experiment once on synthetic sources and once on the written trace."""
    return run("network", seeds=2, quick=True, trace=written_trace)


def test_networks_become_deeper_with_alpha_and_every_hop_costs_time(networks: ExperimentResult) -> None:
    synthetic = [text for text in broken(networks) if not text.startswith("on written.csv")]
    assert not [text for text in synthetic if "hop" in text and "longer paths" not in text]


def test_cascades_run_on_the_words_of_a_real_source(networks: ExperimentResult) -> None:
    real = [row for row in networks.rows if row["network"] == "profiles on written.csv"]
    assert {row["alpha"] for row in real} == {4.0, 20.0, 100.0}
    for row in real:
        assert set(row["completeness"]) == set(row["freshness"]) == {"mean", "sd"}
        assert 0 < row["completeness"]["mean"] <= 1
    hops = next(check for check in networks.checks if check.statement.startswith("on written.csv: every hop adds half"))
    assert hops.holds, hops.figures


def test_tau_finds_one_level_on_a_trace(written_trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tau, "SETTINGS", replace(tau.SETTINGS, feeds=25))
    result = run("tau", seeds=1, trace=written_trace, budget=(4.0,))
    real = [row for row in result.rows if row["strategy"] == "two_steps on written.csv"]
    assert [row["start"] for row in real] == [0.01, 1.0, 10.0, 100.0, 1000.0]
    assert [check.statement for check in result.checks][-1] == "on written.csv: at b = 4 τ converges to one level"
    assert result.checks[-1].holds, result.checks[-1].figures


def test_a_trace_without_text_has_nothing_for_query_feeds(tmp_path: Path) -> None:
    file = tmp_path / "bare.csv"
    file.write_text("source,published_at\n" + "".join(f"a,{k * 1000}\n" for k in range(300)))
    with pytest.raises(TraceError, match="no source with 100 titles or categories"):
        run("network", seeds=1, quick=True, trace=file)


def test_a_report_falls_back_to_synthetic_worlds_where_an_experiment_cannot_use_the_trace() -> None:
    def needs_text(settings: LabSettings, progress: Progress) -> ExperimentResult:
        if settings.trace is not None:
            raise TraceError("The trace has no text.")
        return ExperimentResult("x", {}, [])

    for takes in ({"seeds", "trace"}, {"trace"}):  # one that draws nothing by a seed runs without the trace as well
        experiment = Experiment("x", "A paper", "a thing", needs_text, takes=frozenset(takes))
        section = run_section(experiment, LabSettings(trace=Path("bare.csv")), ignore_progress)
        assert section.result is not None
        assert section.result.notes == ["On synthetic worlds only: The trace has no text."]
    assert "peers needs a trace" in run_section(load_experiment("peers"), LabSettings(), ignore_progress).trouble


def test_without_text_two_steps_wants_every_item_of_a_trace(tmp_path: Path) -> None:
    file = tmp_path / "bare.csv"
    file.write_text("source,published_at\n" + "".join(f"{'ab'[k % 2]},{k * 1000}\n" for k in range(900)))
    given = {"seeds": 1, "budget": (1.0,), "strategies": ("uniform",), "trace": file}
    result = run("two-steps", **given)
    assert (result.settings["query"], result.rows[-1]["strategy"]) == ("every item", "uniform on bare.csv")
    with pytest.raises(TraceError, match="neither titles nor categories"):
        run("two-steps", query='ITEM CONTAINS "x"', **given)


@pytest.mark.parametrize("name", ["two-steps", "shapes"])
def test_the_command_prints_rows_checks_and_a_figure(tmp_path: Path, name: str) -> None:
    more = ("--budget", "10", "--strategy", "uniform") if name == "two-steps" else ("--quick",)
    plot = tmp_path / "figure.svg"
    answer = run_command("lab", "run", name, "--seeds", "1", "--jobs", "1", *more, "--json", "--plot", str(plot))
    assert answer.code == 0, answer.err
    found = answer.json
    assert found["experiment"] == name
    assert found["settings"]["seeds"] == 1
    assert found["rows"]
    assert plot.read_text().startswith("<?xml")
    if name == "two-steps":
        (row,) = found["rows"]
        assert row["strategy"] == "uniform"
        assert set(row["completeness"]) == {"mean", "sd"}


def test_the_report_shows_results_and_experiments_that_could_not_run() -> None:
    row = {"strategy": "x<y", "completeness": {"mean": 0.5, "sd": 0.1}, "paper": {"completeness": 0.4}}
    result = ExperimentResult("a", {"seeds": 3}, [row])
    result.checks = [Check("it is so", True, "± 1", {"found": 1.0}), Check("it is not", False, "± 1")]
    one = Experiment("a", "A paper", "a thing", lambda settings, progress: result)
    text = render_report(
        [ReportSection(one, result, b"png"), ReportSection(one, trouble="no trace & no hope")], "today"
    )
    assert "1 of 2 statements hold" in text
    assert "x&lt;y" in text
    assert "no trace &amp; no hope" in text
    assert "data:image/png;base64,cG5n" in text


def test_the_report_says_how_far_each_measure_is_from_the_paper_and_what_does_not_hold() -> None:
    rows = [
        {"strategy": "a", "budget": 10.0, "requests": 110.0, "paper": {"requests": 100, "freshness": None}},
        {"strategy": "b", "budget": 10.0, "requests": 100.0, "paper": {"requests": 100}},
        {"strategy": "c", "budget": 10.0, "requests": 70.0, "paper": {"requests": 100}},
        {"strategy": "d", "budget": 10.0, "requests": 1.0},
    ]
    (found,) = measure_deviations(rows)
    assert (found.measure, found.values, found.where) == ("requests", 3, "c, budget 10: 70, paper 100")
    assert (found.median, found.worst) == (pytest.approx(0.1), pytest.approx(0.3))
    checks = [Check("it is not", False, "± 1", {"x": 2.0}, "Table 1", because="it rains"), Check("nor this", False, "")]
    experiment = Experiment("a", "A paper", "a thing", lambda settings, progress: result, question="Is it so?")
    result = ExperimentResult("a", {"seeds": 3}, rows, checks)
    text = " ".join(render_report([run_section(experiment, LabSettings(seeds=3), ignore_progress)], "today").split())
    assert "Is it so?" in text
    assert "<code>headwater lab run a --seeds 3</code>" in text
    assert "<li>it is not (Table 1): x 2. Because it rains.</li>" in text
    assert "No reason is known." in text
    assert '<td class="number">10.0 %</td><td class="number">30.0 %</td> <td>c, budget 10: 70, paper 100</td>' in text


def test_a_finding_that_changes_is_a_surprise_in_either_direction() -> None:
    assert not Check("holds", True, "").is_surprise
    assert not Check("is known not to", False, "", because="of a reason").is_surprise
    assert Check("holds no longer", False, "").is_surprise
    assert Check("holds again", True, "", because="of a reason").is_surprise


def test_the_rows_of_a_trace_are_named_after_it_and_have_no_published_values() -> None:
    result = ExperimentResult("x", {}, [{"strategy": "a", "paper": {"lost": 1}}])
    result.add_trace([{"strategy": "a", "lost": 2, "paper": {"lost": 1}}], [Check("b", True, "")], "news.csv")
    assert result.rows[-1] == {"strategy": "a on news.csv", "lost": 2}
    assert result.settings == {"trace": "news.csv"}
    assert [check.statement for check in result.checks] == ["b"]


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "name", [name for name in list_experiments() if name not in ("peers", "forecast")]
)  # traces only
def test_an_experiment_at_full_size_has_only_known_findings(name: str) -> None:
    result = load_experiment(name).run(LabSettings(), ignore_progress)
    assert result.checks
    assert surprises(result.checks) == []


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["advarss", "generic-feeds", "network", "online", "tau", "shapes"])
def test_an_experiment_on_a_real_trace_has_only_known_findings(name: str, shared_data: Path) -> None:
    trace = shared_data / "traces" / "news.parquet"
    result = load_experiment(name).run(LabSettings(trace=trace, quick=True), ignore_progress)
    real = [check for check in result.checks if "news.parquet" in check.statement or name in ("peers", "shapes")]
    assert real
    assert surprises(real) == []
