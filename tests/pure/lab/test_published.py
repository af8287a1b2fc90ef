"""Every table and figure of the five documents stands in the report, with its statements and where it differs."""

from __future__ import annotations

import json
import re
from pathlib import Path

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
from headwater.lab.published import (
    DESCRIPTION,
    DOCUMENTS,
    PUBLISHED_FIGURES,
    FigureVerdict,
    PublishedFigure,
    judge_figures,
)
from headwater.lab.report import (
    ReportSection,
    compare_values,
    describe_section,
    keep_section,
    load_kept_section,
    render_report,
    run_section,
)

NUMBER = re.compile(r"Table \d[\d.]*|\d[\d.]*[ab]?")
RESULTS = Path(__file__).parents[3] / "docs" / "results"
# Numbers of the captions in the documents, without figures that only explain (docs/papers.md names these too).
CAPTIONS = {
    "T": "1.6 2.1 2.2 2.3 4.1 4.2 4.3 4.4 6.1 6.2 6.3 6.4 6.5 6.6 6.7 7.2 7.6 7.7 7.8 7.9 7.10 Table 4.1",
    "P": "1 2a 2b Table 2",
    "S": "3 5 7 8 9 10 11 12 13 Table 1 Table 2 4.6",
    "A": "4 5",
    "U": "1 2 3 4 Table 1",
}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_measured_figure_and_table_of_a_document_is_listed(document: str) -> None:
    names = [figure.name for figure in PUBLISHED_FIGURES if figure.document == document]
    assert set(NUMBER.findall(" ".join(names))) == set(NUMBER.findall(CAPTIONS[document]))


@pytest.mark.parametrize("figure", PUBLISHED_FIGURES, ids=lambda figure: f"{figure.document} {figure.name}")
def test_a_listed_figure_has_statements_in_the_saved_result_of_its_experiment(figure: PublishedFigure) -> None:
    if figure.experiment == DESCRIPTION:
        return  # it describes a trace, which has no saved result
    assert figure.experiment in list_experiments()
    saved = json.loads((RESULTS / f"{figure.experiment}.json").read_text())
    assert bool(figure.select_checks([Check(**check) for check in saved["checks"]])) == bool(figure.marks)


def test_measurements_of_different_kinds_stand_in_tables_of_their_own() -> None:
    rows = [
        {"network": "points", "hubs": 3.0, "paper": {"hubs": 4.0}},
        {"network": "profiles", "hops": 2.0},
        {"network": "points", "hubs": 5.0, "lost": None},
    ]
    experiment = load_experiment("network")
    tables = ReportSection(experiment, ExperimentResult("network", {}, rows)).tables
    assert tables == [(["network", "hubs"], [rows[0], rows[2]]), (["network", "hops"], [rows[1]])]
    page = render_report([ReportSection(experiment, ExperimentResult("network", {}, rows))], "today")
    assert "<th>hops</th></tr>" in page
    assert "<td></td>" not in page.split("Measurements")[1]


def test_differences_are_grouped_by_their_reason() -> None:
    figure = PublishedFigure("T", "Fig. 9.9", "x", "tau", ("9.9",), "Ours is another world.")
    checks = [
        Check("a", True, ""),
        Check("b", False, "", because="it rains"),
        Check("c", False, "", because="it rains"),
    ]
    found = FigureVerdict(figure, [*checks, Check("d", False, "")], present=True)
    assert found.summary == "1 of 4 hold"
    assert found.differences == [
        "Ours is another world.",
        "Not found: “b”; “c”. Reason: it rains.",
        "Not found: “d”. No reason is known.",
    ]
    many = FigureVerdict(figure, [Check(str(k), False, "") for k in range(4)], present=True)
    assert many.differences[1] == "4 statements do not hold without a known reason; the section lists them."
    assert FigureVerdict(figure, [], present=True).summary == "none at this size"


def test_figures_of_experiments_that_did_not_run_are_reported_not_to_have_run() -> None:
    result = ExperimentResult("tau", {"seeds": 2}, [], [Check("τ settles", True, "", {}, "thesis fig. 4.4")])
    verdicts = {verdict.figure.name: verdict for verdict in judge_figures({"tau": result})["T"]}
    assert (verdicts["Fig. 4.4"].present, verdicts["Fig. 4.4"].held) == (True, 1)
    assert not verdicts["Fig. 7.9"].present


def test_values_stand_beside_the_papers_with_their_interval() -> None:
    row = {"strategy": "a", "requests": 11.0, "freshness": {"mean": 0.5, "sd": 0.2}}
    requests, freshness = compare_values([row | {"paper": {"requests": 10.0, "freshness": 0.4}}], seeds=10)
    assert (requests.interval, requests.off) == (None, pytest.approx(0.1))
    assert freshness.interval == pytest.approx(2.26 * 0.2 / 10**0.5)  # Student's t with nine degrees of freedom
    assert freshness.in_spreads == pytest.approx(0.5)  # half a standard deviation of single worlds above the paper
    assert compare_values([row], seeds=10) == []
    twice = row | {"paper": {"freshness": 0.4}, "thesis": {"freshness": 0.45}}
    assert [each.paper for each in compare_values([twice], seeds=10)] == [0.4, 0.45]
    (change,) = compare_values(
        [{"strategy": "a", "more_in_all_feeds": -0.25, "paper": {"more_in_all_feeds": 0.05}}], 10
    )
    assert (requests.difference, change.difference) == ("+10.0 %", "-30.0 points")
    plain = {"strategy": "a", "error": 2.0, "paper": {"error": 3.0}, "sd": {"error": 0.5}}
    assert compare_values([plain], seeds=10)[0].interval == pytest.approx(2.26 * 0.5 / 10**0.5)


def test_values_that_look_equal_are_not_counted_in_deviations() -> None:
    """A retrieval a day waits for 24 hours at most; that it is 23.9999 in some worlds says nothing."""
    row = {"strategy": "a", "max_delay_s": 86_399.0, "sd": {"max_delay_s": 1.0}, "paper": {"max_delay_s": 86_400.0}}
    (found,) = compare_values([row], seeds=4)
    assert (found.difference, found.in_spreads) == ("0 %", None)


def test_published_percentages_stand_beside_ours_in_the_report() -> None:
    row = {"strategy": "a", "more_in_all_feeds": -0.25, "sd": {"more_in_all_feeds": 0.02}}
    result = ExperimentResult("advarss", {"seeds": 4}, [row | {"paper": {"more_in_all_feeds": 0.05}}], [])
    text = render_report([ReportSection(load_experiment("advarss"), result)], "today")
    assert "Published values beside ours: 1" in text
    assert "-30.0 points" in text
    assert "± 3.2%" in text  # Student's t of three degrees of freedom × .02 / 2
    assert "no table of values" not in text


def test_the_report_describes_the_trace(tmp_path: Path) -> None:
    lines = ["source,published_at,title"]
    lines += [
        f"{name},{1_600_000_000 + k * gap},vaccine" for name, gap in (("a", 3000), ("b", 40000)) for k in range(60)
    ]
    (tmp_path / "small.csv").write_text("\n".join(lines))
    text = render_report([describe_section(tmp_path / "small.csv")], "today")
    assert "headwater lab describe --trace small.csv" in text
    assert "Fig. 6.1" in text


def test_a_report_goes_on_from_the_results_that_were_kept(tmp_path: Path) -> None:
    experiment, settings = load_experiment("concepts"), LabSettings(quick=True)
    assert load_kept_section(tmp_path, experiment, settings) is None
    made = run_section(experiment, settings, ignore_progress)
    keep_section(tmp_path, made, settings, "2026-11-18")
    kept = load_kept_section(tmp_path, experiment, settings)
    assert kept is not None
    assert (kept.command, kept.date, kept.picture) == (made.command, "2026-11-18", made.picture)
    first, again = (" ".join(render_report([each], "today").split()) for each in (made, kept))
    assert again.replace(" on <b>2026-11-18</b>", "") == first
    assert load_kept_section(tmp_path, experiment, LabSettings()) is None  # another size
    trace = tmp_path / "a.csv"
    assert load_kept_section(tmp_path, experiment, LabSettings(quick=True, trace=trace)) is None  # without this trace
    old = json.loads((tmp_path / "concepts.json").read_text()) | {"version": "0.0.1"}
    (tmp_path / "concepts.json").write_text(json.dumps(old))
    assert load_kept_section(tmp_path, experiment, settings) is None
    (tmp_path / "concepts.json").write_text("[]")
    with pytest.raises(TraceError, match="no result of the lab"):
        load_kept_section(tmp_path, experiment, settings)
