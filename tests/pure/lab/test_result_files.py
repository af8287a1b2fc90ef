"""Results are saved with their command and date, compared number by number, and docs/lab.md shows the saved ones."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from headwater.errors import TraceError
from headwater.lab.experiment import (
    Check,
    ExperimentResult,
    LabSettings,
    ignore_progress,
    list_experiments,
    load_experiment,
)
from headwater.lab.experiments import concepts
from headwater.lab.result_files import compare_results, read_settings, render_page, save_result
from headwater.lab.simulation.scores import saturation_coefficient
from headwater.lab.traces.synthetic_world import join_times

DOCS = Path(__file__).parents[3] / "docs"
RESULTS = sorted((DOCS / "results").glob("*.json"))
REPEATABLE = [file for file in RESULTS if file.stem in list_experiments()]


def test_a_saved_result_names_its_command_and_can_be_repeated(tmp_path: Path) -> None:
    given = LabSettings(seeds=2, budget=(10.0,), trace=tmp_path / "news.csv", jobs=3)
    result = ExperimentResult(
        "tau", {"seeds": 2}, [{"strategy": "a", "tau": 1.5}], [Check("so", True, "±", {"x": 1.0})]
    )
    save_result(tmp_path / "tau.json", result, given, "2026-11-18")
    saved = json.loads((tmp_path / "tau.json").read_text())
    assert saved["command"] == "headwater lab run tau --seeds 2 --trace news.csv --budget 10"
    assert (saved["date"], saved["rows"][0]["tau"]) == ("2026-11-18", 1.5)
    with pytest.raises(TraceError, match="not there"):
        read_settings(saved, None)
    (tmp_path / "news.csv").touch()
    assert read_settings(saved, tmp_path) == given


def test_a_verdict_of_numpy_can_be_saved(tmp_path: Path) -> None:
    check = Check("so", np.bool_(True), "±", {"x": np.float32(1.0)})  # type: ignore[arg-type,dict-item]
    save_result(tmp_path / "tau.json", ExperimentResult("tau", {}, [], [check]), LabSettings(), "2026-11-18")
    assert json.loads((tmp_path / "tau.json").read_text())["checks"][0]["holds"] is True


def test_numbers_are_compared_not_names() -> None:
    old = {"rows": [{"a": {"mean": 1.0, "sd": 0.1}, "name": "x"}], "checks": [{"holds": True}]}
    new = {"rows": [{"a": {"mean": 1.001, "sd": 0.1}, "name": "x"}], "checks": [{"holds": False}]}
    assert compare_results(old, old) == []
    assert compare_results(old, new) == ["rows[0].a.mean: 1.0, now 1.001", "checks[0].holds: True, now False"]


def test_deviations_are_compared_where_they_were_saved() -> None:
    plain = {"rows": [{"error": 1.0}], "checks": []}
    spread = {"rows": [{"error": 1.0, "sd": {"error": 0.1}}], "checks": []}
    other = {"rows": [{"error": 1.0, "sd": {"error": 0.2}}], "checks": []}
    assert compare_results(plain, spread) == []  # saved before deviations were recorded
    assert compare_results(spread, other) == ["rows[0].sd.error: 0.1, now 0.2"]
    assert compare_results(spread, plain) == ["rows[0].sd: {'error': 0.1}, now None"]


def test_statements_are_shown_with_their_intervals(tmp_path: Path) -> None:
    rows = [{"strategy": "a", "error": 2.0, "paper": {"error": 3.0}, "sd": {"error": 0.5}}]
    check = Check("so", True, "±", {"gain": 0.25}, intervals={"gain": 0.0125})
    save_result(tmp_path / "tau.json", ExperimentResult("tau", {}, rows, [check]), LabSettings(), "2026-11-18")
    page = render_page("<!-- result tau -->\n<!-- /result -->\n<!-- rows tau -->\n<!-- /rows -->\n", tmp_path)
    assert "gain 0.25 ± 0.013" in page
    assert "| a | 2.0 ±0.5 (3.0) |" in page  # the published value in brackets
    assert "| a | 2.0 ±0.5 |" in page


def test_the_page_of_the_lab_shows_the_saved_results() -> None:
    assert RESULTS
    page = (DOCS / "lab.md").read_text()
    for file in RESULTS:
        assert f"<!-- result {file.stem} -->" in page, f"{file.name} is not shown"
    assert render_page(page, DOCS / "results") == page, (
        "run python -m headwater.lab.result_files docs/lab.md docs/results"
    )


def test_a_page_shows_all_rows_of_a_result_where_it_asks_for_them(tmp_path: Path) -> None:
    rows = [{"strategy": "a", "requests": 1200.0, "paper": {"requests": 1}}, {"strategy": "b", "mean_delay_s": 60.0}]
    save_result(tmp_path / "tau.json", ExperimentResult("tau", {}, rows), LabSettings(), "2026-11-18")
    shown = render_page("<!-- rows tau -->\nold\n<!-- /rows -->\n", tmp_path).splitlines()
    assert shown[1:-1] == [
        "| strategy | requests | mean delay |",
        "|---|---|---|",
        "| a | 1,200 |  |",
        "| b |  | 1.0 min |",
    ]
    for texts in ("b", "-a"):
        some = render_page(f"<!-- rows tau {texts} -->\n<!-- /rows -->\n", tmp_path).splitlines()
        assert some[1:-1] == ["| strategy | mean delay |", "|---|---|", "| b | 1.0 min |"]


def test_the_saturation_coefficient_is_the_loss_at_even_intervals() -> None:
    for rate, refreshes in ((5.0, 1.0), (20.0, 1.0), (80.0, 2.0)):
        assert concepts.measure_loss(10, refreshes, rate) == pytest.approx(
            float(saturation_coefficient(10, refreshes, rate)), abs=0.02
        )


def test_window_divergence_falls_only_after_saturation_and_only_under_a_filter() -> None:
    curves = concepts.follow_divergence(10)
    assert (np.diff(curves["window, all"]) >= 0).all()
    assert (np.diff(curves["window, filtered"][:11]) >= 0).all()
    assert (np.diff(curves["window, filtered"][10:]) < 0).any()
    assert concepts.compute_utilities()["utility"]["late"] > concepts.compute_utilities()["utility"]["early"]


def test_the_aperiodic_feed_of_a_trace_is_the_one_of_largest_variation() -> None:
    rng = np.random.default_rng(0)
    steady = np.sort(rng.uniform(0, 20 * 86_400, 960))
    brief = np.sort(rng.uniform(0, 12 * 86_400, 1200))  # very regular, but in the first twelve days only
    days = concepts.choose_days(join_times([steady, brief]))
    assert days["aperiodic"]["cv"] > days["periodic"]["cv"]
    assert days["periodic"]["cv"] == pytest.approx((24 / 48) ** 0.5, rel=0.1)  # a Poisson feed: σ/μ = 1/√μ per hour


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("file", REPEATABLE, ids=lambda file: file.stem)
def test_a_saved_result_comes_out_again(file: Path, shared_data: Path) -> None:
    saved = json.loads(file.read_text())
    settings = read_settings(saved, shared_data / "traces")
    again = load_experiment(saved["experiment"]).run(settings, ignore_progress)
    assert compare_results(saved, again.as_json()) == []
