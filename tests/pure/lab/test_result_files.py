"""Results are saved with their command and date, compared number by number, and docs/lab.md shows the saved ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwater.errors import TraceError
from headwater.farm.delta_saving import measure_saving
from headwater.lab.experiment import (
    Check,
    ExperimentResult,
    LabSettings,
    ignore_progress,
    list_experiments,
    load_experiment,
)
from headwater.lab.experiments import concepts
from headwater.lab.result_files import render_page, save_result
from headwater.lab.simulation.scores import saturation_coefficient
from headwater.lab.traces.synthetic_world import join_times
from support.lab_results import compare_results, read_settings

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


def as_result(**parts: Any) -> dict[str, Any]:
    return {"settings": {"seeds": 2}, "rows": [], "checks": [], "notes": ["whole"]} | parts


def test_numbers_are_compared_not_names() -> None:
    old = as_result(rows=[{"a": {"mean": 1.0, "sd": 0.1}, "name": "x"}], checks=[{"holds": True}])
    new = as_result(rows=[{"a": {"mean": 1.001, "sd": 0.1}, "name": "x"}], checks=[{"holds": False}])
    assert compare_results(old, old) == []
    assert compare_results(old, new) == ["rows[0].a.mean: 1.0, now 1.001", "checks[0].holds: True, now False"]
    other = as_result(settings={"seeds": 3}, notes=["sampled"])
    assert compare_results(as_result(), other) == ["settings.seeds: 2, now 3", "notes[0]: whole, now sampled"]


def test_deviations_and_intervals_are_compared_too() -> None:
    plain = as_result(rows=[{"error": 1.0}])
    spread = as_result(rows=[{"error": 1.0, "sd": {"error": 0.1}}])
    other = as_result(rows=[{"error": 1.0, "sd": {"error": 0.2}}])
    assert compare_results(plain, spread) == ["rows[0].sd: None, now {'error': 0.1}"]
    assert compare_results(spread, other) == ["rows[0].sd.error: 0.1, now 0.2"]
    assert compare_results(spread, plain) == ["rows[0].sd: {'error': 0.1}, now None"]
    told, silent = (
        as_result(checks=[{"figures": {"gain": 0.2}} | more]) for more in ({"intervals": {"gain": 0.1}}, {})
    )
    assert compare_results(silent, told) == ["checks[0].intervals: None, now {'gain': 0.1}"]
    assert compare_results(told, silent) != []


def test_statements_are_shown_with_their_intervals(tmp_path: Path) -> None:
    rows = [{"strategy": "a", "error": 2.0, "paper": {"error": 3.0}, "sd": {"error": 0.5}}]
    rows.append({"strategy": "b", "error": 2.0, "paper": {"error": 3.0}, "thesis": {"error": 2.5}})
    check = Check("so", True, "±", {"gain": 0.25}, intervals={"gain": 0.0125})
    save_result(tmp_path / "tau.json", ExperimentResult("tau", {}, rows, [check]), LabSettings(), "2026-11-18")
    page = render_page("<!-- result tau -->\n<!-- /result -->\n<!-- rows tau -->\n<!-- /rows -->\n", tmp_path)
    assert "gain 0.25 ± 0.013" in page
    assert "| a | 2.0 ±0.5 (3.0) |" in page  # the published value in brackets
    assert "| a | 2.0 ±0.5 |" in page
    assert "| b | 2.0 (3.0, thesis 2.5) |" in page


def test_published_values_within_their_tolerance_share_a_line(tmp_path: Path) -> None:
    def check(name: str, off: float, holds: bool = True) -> Check:
        return Check(
            f"cost of {name} is the paper's", holds, "± 6%", {"found": 1.0 + off, "paper": 1.0, "off": off}, "Table 2"
        )

    checks = [check("a", 0.01), check("b", 0.05), check("c", 0.07, holds=False)]
    save_result(tmp_path / "tau.json", ExperimentResult("tau", {}, [], checks), LabSettings(), "2026-11-18")
    page = render_page("<!-- result tau -->\n<!-- /result -->\n", tmp_path)
    assert "| 2 values of cost (Table 2); ± 6% | farthest off 0.05 | yes |" in page
    assert "cost of a" not in page
    assert "| cost of c is the paper's (Table 2); ± 6% | found 1.07, paper 1, off 0.07 | **no** |" in page
    assert "2 of 3 statements hold" in page


def test_the_page_of_the_lab_shows_the_saved_results() -> None:
    assert RESULTS
    page = (DOCS / "lab.md").read_text()
    for file in RESULTS:
        assert f"<!-- result {file.stem} -->" in page, f"{file.name} is not shown"


@pytest.mark.parametrize("name", ["lab.md", "value.md"])
def test_a_page_is_filled_from_the_saved_results(name: str) -> None:
    page = (DOCS / name).read_text()
    assert "<!-- rows " in page
    assert render_page(page, DOCS / "results") == page, (
        "run python -m headwater.lab.result_files docs/results docs/lab.md docs/value.md"
    )


def test_a_page_may_name_and_order_what_it_shows(tmp_path: Path) -> None:
    rows = [{"strategy": name, "mean_delay_s": delay, "lost": 1.0} for name, delay in (("a", 120.0), ("ab", 60.0))]
    rows.append({"strategy": "b", "mean_delay_s": 30.0, "lost": 1.0})
    save_result(tmp_path / "tau.json", ExperimentResult("tau", {}, rows), LabSettings(), "2026-11-18")
    asked = "<!-- rows tau a; columns strategy, mean_delay_s; sort mean_delay_s -->\n<!-- /rows -->\n"
    shown = render_page(asked, tmp_path).splitlines()
    assert shown[1:-1] == ["| strategy | mean delay |", "|---|---|", "| ab | 1.0 min |", "| a | 2.0 min |"]
    shown = render_page("<!-- rows tau; columns strategy -->\n<!-- /rows -->\n", tmp_path).splitlines()
    assert shown[1:-1] == ["| strategy |", "|---|", "| a |", "| ab |", "| b |"]


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


@pytest.mark.parametrize("file", REPEATABLE, ids=lambda file: file.stem)
def test_a_saved_result_over_several_worlds_has_deviations_and_intervals(file: Path) -> None:
    saved = json.loads(file.read_text())
    if saved["settings"].get("seeds", 1) > 1:
        values = [value for row in saved["rows"] for value in (*row.values(), row.get("sd"))]
        assert any(isinstance(value, dict) and value for value in values)
        assert any(check.get("intervals") for check in saved["checks"])


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


def test_divergence_begins_at_0_after_each_refresh() -> None:
    curves = concepts.follow_divergence(10)
    for which in ("all", "filtered"):
        falls = np.flatnonzero(np.diff(curves[f"refreshed, {which}"]) < 0) + 1
        assert falls.tolist() == [10, 25, 40]
        assert (curves[f"refreshed, {which}"][falls] == 0).all()


def test_the_shapes_of_a_trace_include_slow_feeds() -> None:
    days = np.arange(20)[:, None] * 86_400.0
    steady = (days + np.arange(0, 86_400, 1800.0)).ravel()
    noon = (days + 43_200 + np.arange(6) * 60.0).ravel()  # six a day, all of them at noon
    found = concepts.choose_days(join_times([steady, noon]))
    assert found["peaks"]["mean"].argmax() == 12
    assert found["uniform"]["mean"].sum() == pytest.approx(48, rel=0.05)


def test_the_aperiodic_feed_of_a_trace_is_the_one_of_largest_variation() -> None:
    rng = np.random.default_rng(0)
    steady = np.sort(rng.uniform(0, 20 * 86_400, 960))
    brief = np.sort(rng.uniform(0, 12 * 86_400, 1200))  # very regular, but in the first twelve days only
    days = concepts.choose_days(join_times([steady, brief]))
    assert days["aperiodic"]["cv"] > days["periodic"]["cv"]
    assert days["periodic"]["cv"] == pytest.approx((24 / 48) ** 0.5, rel=0.1)  # a Poisson feed: σ/μ = 1/√μ per hour


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_the_saving_by_deltas_comes_out_again(shared_data: Path) -> None:
    saved = json.loads((DOCS / "results" / "deltas.json").read_text())
    again = await measure_saving(shared_data / saved["settings"]["documents"])
    assert compare_results(saved, again.as_json()) == []


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("file", REPEATABLE, ids=lambda file: file.stem)
def test_a_saved_result_comes_out_again(file: Path, shared_data: Path) -> None:
    saved = json.loads(file.read_text())
    settings = read_settings(saved, shared_data / "traces")
    again = load_experiment(saved["experiment"]).run(settings, ignore_progress)
    assert compare_results(saved, again.as_json()) == []
