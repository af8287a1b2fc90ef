"""Renders all experiments as one HTML page.

It opens with every table and figure of the five documents: our result, and where it differs. Then each experiment
has a section of the same form: the question, the setup, the figure, what came out, our values beside the paper's with
intervals, every statement with its figures, and every measurement.
"""

from __future__ import annotations

import base64
import dataclasses
import importlib.metadata
import io
import platform
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import numpy as np

from headwater import __version__
from headwater.errors import HeadwaterError, TraceError
from headwater.lab.description.activity import CLASS_NAMES, HABITS, PUBLISHED_HABITS
from headwater.lab.description.description import describe_trace
from headwater.lab.description.description_figure import PAPER_SLOPE, draw_description
from headwater.lab.experiment import Check, Experiment, ExperimentResult, LabSettings, Progress, Row, half_width
from headwater.lab.published import DESCRIPTION, DOCUMENTS, judge_figures
from headwater.lab.result_files import answers_settings, describe_command, load_result, read_saved, save_result
from headwater.lab.tables import (
    HIDDEN_COLUMNS,
    describe_figures,
    describe_measure,
    find_value,
    format_spread,
    format_value,
    is_change,
)
from headwater.lab.traces.trace import load_trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDED_ROWS = 40  # longer tables are folded
ROW_NAMES = (
    "strategy",
    "measure",
    "mode",
    "budget",
    "learn_days",
    "start",
    "truth",
    "items_per_day",
)  # tell rows apart
UNSEEN = 5e-4  # a relative difference that rounds to 0.0 %
PRODUCED_BY_TOP = 0.97  # share of the items; thesis 6.2
PACKAGES = ("numpy", "matplotlib", "pyarrow", "numba")


@dataclass(frozen=True, slots=True)
class Deviation:
    """The distance of our values of one measure from the published ones, as a share of these.

    `where` names the row that is farthest off, with both of its values.
    """

    measure: str
    values: int
    median: float
    worst: float
    where: str


def name_row(row: Row) -> str:
    """Name a row by what tells it apart; numbers with their meaning.

    >>> name_row({"strategy": "uniform", "budget": 4.55127, "learn_days": 14.0})
    'uniform, budget 4.551, learn days 14'
    """
    return ", ".join(format_value(row[key], describe_measure(key)[0] + " {:.4g}") for key in ROW_NAMES if key in row)


def measure_deviations(rows: Sequence[Row]) -> list[Deviation]:
    """Compare the rows with the values that the paper gives for them, measure by measure.

    >>> measure_deviations([{"strategy": "a", "requests": 11.0, "paper": {"requests": 10.0}}])[0].where
    'a: 11, paper 10'
    """
    found = []
    for key in dict.fromkeys(key for row in rows for key in row.get("paper", {}) if not is_change(key)):
        off: list[tuple[float, str]] = []
        for row in rows:
            ours, theirs = row.get(key), row.get("paper", {}).get(key)
            ours = ours["mean"] if isinstance(ours, Mapping) else ours
            if ours is None or not theirs:
                continue
            label = name_row(row)
            form = describe_measure(key)[1]
            text = f"{label}: {format_value(ours, form)}, paper {format_value(theirs, form)}"
            off.append((abs(ours / theirs - 1), text))
        if off:
            worst = max(off)
            found.append(Deviation(key, len(off), statistics.median(share for share, _ in off), *worst))
    return found


@dataclass(frozen=True, slots=True)
class ReportSection:
    """One experiment on the page: its result and figure, or a sentence that says why it did not run."""

    experiment: Experiment
    result: ExperimentResult | None = None
    picture: bytes = b""
    trouble: str = ""
    command: str = ""
    date: str = ""  # of a run that was kept

    @property
    def held(self) -> int:
        return sum(check.holds for check in self.result.checks) if self.result else 0

    @property
    def findings(self) -> list[Check]:
        """List the statements that do not hold."""
        return [check for check in self.result.checks if not check.holds] if self.result else []

    @property
    def deviations(self) -> list[Deviation]:
        return measure_deviations(self.result.rows) if self.result else []

    @property
    def comparisons(self) -> list[Comparison]:
        if self.result is None:
            return []
        return compare_values(self.result.rows, int(self.result.settings.get("seeds", 1)))

    @property
    def tables(self) -> list[tuple[list[str], list[Row]]]:
        """Return the measurements as tables of rows with the same columns, in the order in which these appear."""
        found: dict[tuple[str, ...], list[Row]] = {}
        for row in self.result.rows if self.result else []:
            columns = tuple(key for key in row if key not in HIDDEN_COLUMNS and row[key] is not None)
            found.setdefault(columns, []).append(row)
        return [(list(columns), rows) for columns, rows in found.items()]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One of our values beside the published one.

    `interval` is the half width of the mean's 95 % interval, `spread` the standard deviation of single worlds: a paper
    that shows one world can be as far from our mean as any of ours.
    """

    label: str
    measure: str
    ours: float
    interval: float | None
    paper: float
    spread: float | None = None

    @property
    def in_spreads(self) -> float | None:
        """Our mean less the published value, in standard deviations of single worlds; None where they are equal."""
        if not self.spread or abs(self.off) < UNSEEN:
            return None
        return (self.ours - self.paper) / self.spread

    @property
    def off(self) -> float:
        return self.ours / self.paper - 1 if self.paper else 0.0

    @property
    def difference(self) -> str:
        """Return the distance in per cent of the published value, or in points where that is in per cent itself."""
        if is_change(self.measure):
            return f"{100 * (self.ours - self.paper):+.1f} points"
        return f"{100 * self.off:+.1f} %" if abs(self.off) >= UNSEEN else "0 %"


def compare_values(rows: Sequence[Row], seeds: int) -> list[Comparison]:
    """Set our values beside the published ones; the interval comes from the standard deviation over the seeds.

    >>> row = {"strategy": "a", "freshness": {"mean": 0.5, "sd": 0.1}, "paper": {"freshness": 0.4}}
    >>> [found] = compare_values([row], seeds=4)
    >>> found.label, round(found.interval, 3), round(found.off, 2)
    ('a', 0.159, 0.25)
    """
    found = []
    for row in rows:
        label = name_row(row)
        published = [(label, *item) for item in row.get("paper", {}).items()]
        published += [(f"{label}, corrected in the thesis", *item) for item in row.get("thesis", {}).items()]
        for name, key, theirs in published:
            ours, interval, spread = find_value(row, key), None, None
            if isinstance(ours, Mapping):
                interval, spread = half_width(ours["sd"], seeds), ours["sd"]
                ours = ours["mean"]
            if ours is not None and theirs:
                found.append(Comparison(name, key, ours, interval, theirs, spread))
    return found


def describe_section(path: Path, columns: str | None = None) -> ReportSection:
    """Describe the trace as a section: activity, shapes, power law, patterns and subjects of its feeds."""
    began = time.perf_counter()
    found = describe_trace(load_trace(path, text=True), 1.5, 0.5, 0.8)
    rows: list[Row] = [{"measure": f"feeds on {name}", "feeds": float(count)} for name, count in found.subjects.items()]
    for names, codes, published in (
        (CLASS_NAMES, found.classes, {}),
        (HABITS, found.habits, PUBLISHED_HABITS),
    ):
        shares = np.bincount(codes, minlength=len(names)) / found.feeds
        for name, share in zip(names, shares.tolist(), strict=True):
            label = name if names is HABITS else f"{name} items a day"
            row: Row = {"measure": label, "share_of_feeds": share}
            rows.append(row | ({"paper": {"share_of_feeds": published[name]}} if name in published else {}))
    produced = {"share_of_items": found.share_of_top, "paper": {"share_of_items": PRODUCED_BY_TOP}}
    rows.append({"measure": "items of the 17 % most productive feeds"} | produced)
    checks = []
    if found.law is not None:
        slope = found.law.line
        rows.append({"measure": "slope of the power law", "value": slope, "paper": {"value": PAPER_SLOPE}})
        checks.append(
            Check(
                "the numbers of postings of feeds follow a power law",
                -1.2 <= slope <= -0.4,
                f"slope of the line through the logarithms from −1.2 to −.4 (paper: {PAPER_SLOPE:g})",
                {"slope": slope, "paper": PAPER_SLOPE},
                "Sia & Cho, fig. 7",
            )
        )
    if found.clusters is not None:
        centres = found.clusters.centres
        figures = {
            "clusters": float(len(centres)),
            "hours with a peak": float(len(set(centres.argmax(1).tolist()))),
            "largest share of two hours": float((centres + np.roll(centres, 1, axis=1)).max()),
        }
        checks.append(
            Check(
                "feeds have diverse daily patterns, with peaks at different hours and bursts of about two hours",
                figures["hours with a peak"] >= len(centres) / 2 and figures["largest share of two hours"] >= 1 / 3,
                "peaks in at least half as many hours as there are clusters; two hours with a third of a cluster's day",
                figures,
                "Sia & Cho, fig. 12",
            )
        )
    settings = {"trace": path.name, "feeds": found.feeds, "items": found.items, "days": round(found.days, 1)}
    experiment = Experiment(
        DESCRIPTION,
        "Horincar's thesis, figs 6.1, 6.2; Sia & Cho, figs 7, 12",
        "activity, daily shapes, power law, habits, twelve daily patterns and subjects of the trace",
        lambda given, progress: ExperimentResult(DESCRIPTION, {}, []),
        question="How do the feeds of the trace publish?",
    )
    result = ExperimentResult(DESCRIPTION, settings, rows, checks)
    picture = render_png(draw_description(found, path.name))
    result.seconds = time.perf_counter() - began
    command = f"headwater lab describe --trace {path.name}" + (f" --columns {columns}" if columns else "")
    return ReportSection(experiment, result, picture, command=command)


def run_section(
    experiment: Experiment, settings: LabSettings, progress: Progress, columns: str | None = None
) -> ReportSection:
    """Run one experiment with the settings it uses, without the trace if it cannot use that one."""
    began = time.perf_counter()
    try:
        result = _run_with_fallback(experiment, experiment.select_settings(settings), progress)
    except HeadwaterError as error:
        return ReportSection(experiment, trouble=str(error))
    result.seconds = time.perf_counter() - began
    picture = render_png(experiment.draw(result)) if experiment.draw is not None else b""
    command = describe_command(experiment.name, experiment.select_settings(settings), columns)
    return ReportSection(experiment, result, picture, command=command)


def keep_section(
    folder: Path, section: ReportSection, settings: LabSettings, date: str, columns: str | None = None
) -> None:
    """Write a section's result and figure into a folder, from which `load_kept_section` reads them."""
    if section.result is None:
        return
    name = section.experiment.name
    if section.experiment.draw is not None:
        (folder / f"{name}.png").write_bytes(section.picture)
    written = folder / f"{name}.json.part"
    save_result(written, section.result, section.experiment.select_settings(settings), date, columns)
    written.replace(folder / f"{name}.json")  # whole or not at all


def load_kept_section(folder: Path, experiment: Experiment, settings: LabSettings) -> ReportSection | None:
    """Return the section that a folder keeps, or None if there is none of this version and these settings."""
    file, figure = folder / f"{experiment.name}.json", folder / f"{experiment.name}.png"
    if not file.is_file() or (experiment.draw is not None and not figure.is_file()):
        return None
    saved = read_saved(file)
    if not answers_settings(saved, experiment.select_settings(settings)):
        return None
    picture = figure.read_bytes() if experiment.draw is not None else b""
    return ReportSection(experiment, load_result(saved), picture, command=saved["command"], date=saved["date"])


def _run_with_fallback(experiment: Experiment, settings: LabSettings, progress: Progress) -> ExperimentResult:
    try:
        return experiment.run(settings, progress)
    except TraceError as error:
        if settings.trace is None:
            raise
        try:
            result = experiment.run(dataclasses.replace(settings, trace=None, query=None), progress)
        except HeadwaterError:  # the experiment has nothing but the trace
            raise error from None
        result.notes.append(f"On synthetic worlds only: {error}")
        return result


def render_png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def list_versions() -> dict[str, str]:
    """Return the versions of everything that made the numbers."""
    found = {"headwater": __version__, "python": platform.python_version(), "machine": platform.machine()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "absent"
    return found


def render_report(sections: list[ReportSection], made: str) -> str:
    """Render the whole page. `made` is the date it was made, as text."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("headwater.lab"),
        autoescape=True,
        trim_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "base64": lambda data: base64.b64encode(data).decode(),
        "duration": _format_seconds,
        "heading": lambda key: describe_measure(key)[0],
        "measured": lambda value, key: format_value(value, describe_measure(key)[1]),
        "figures": lambda check: describe_figures(check.figures, check.intervals),
        "spread": lambda value, key: format_spread(value, describe_measure(key)[1]),
        "value_of": find_value,
        "setting": _format_setting,
    }
    results = [section.result for section in sections if section.result]
    return environment.get_template("report.html").render(
        sections=sections,
        documents=DOCUMENTS,
        verdicts=judge_figures({section.experiment.name: section.result for section in sections if section.result}),
        held=sum(section.held for section in sections),
        checks=sum(len(result.checks) for result in results),
        seconds=sum(result.seconds for result in results),
        made=made,
        versions=list_versions(),
        folded_rows=FOLDED_ROWS,
    )


def _format_seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.1f} minutes"


def _format_setting(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(_format_setting(each) for each in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
