"""All experiments on one HTML page: settings, measurements beside the papers' values, statements, figures, versions."""

from __future__ import annotations

import base64
import dataclasses
import html
import importlib.metadata
import io
import platform
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater import __version__
from headwater.errors import HeadwaterError, TraceError
from headwater.lab.experiment import Experiment, ExperimentResult, LabSettings, Progress
from headwater.lab.tables import HIDDEN_COLUMNS, describe_measure, format_value

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDED_ROWS = 40  # rows: longer tables are folded
PACKAGES = ("numpy", "matplotlib", "pyarrow", "numba")


@dataclass(frozen=True, slots=True)
class ReportSection:
    """One experiment on the page: its result and figure, or the sentence that says why it did not run."""

    experiment: Experiment
    result: ExperimentResult | None = None
    picture: bytes = b""
    trouble: str = ""


def run_section(experiment: Experiment, settings: LabSettings, progress: Progress) -> ReportSection:
    """Run one experiment with those of the settings that it heeds; without the trace if it cannot use that."""
    began = time.perf_counter()
    heeded = experiment.select_settings(settings)
    try:
        result = _run_with_fallback(experiment, heeded, progress)
    except HeadwaterError as error:
        return ReportSection(experiment, trouble=str(error))
    result.seconds = time.perf_counter() - began
    return ReportSection(
        experiment, result, render_png(experiment.draw(result)) if experiment.draw is not None else b""
    )


def _run_with_fallback(experiment: Experiment, heeded: LabSettings, progress: Progress) -> ExperimentResult:
    try:
        return experiment.run(heeded, progress)
    except TraceError as error:
        if heeded.trace is None or "seeds" not in experiment.takes:  # there is nothing but the trace
            raise
        result = experiment.run(dataclasses.replace(heeded, trace=None, query=None), progress)
        result.notes.append(f"On synthetic worlds only: {error}")
        return result


def render_png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def list_versions() -> dict[str, str]:
    """What the numbers were made with."""
    found = {"headwater": __version__, "python": platform.python_version(), "machine": platform.machine()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "absent"
    return found


def render_report(sections: list[ReportSection], made: str) -> str:
    """The whole page. `made` is the date it was made, as text."""
    checks = [check for each in sections if each.result for check in each.result.checks]
    held = sum(check.holds for check in checks)
    seconds = sum(each.result.seconds for each in sections if each.result)
    tools = ", ".join(f"{name} {version}" for name, version in list_versions().items())
    parts = [
        "<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>Headwater: evaluation</title><style>{STYLE}</style></head><body>",
        "<h1>Headwater: evaluation</h1>",
        f"<p>{len(sections)} experiments, {held} of {len(checks)} statements hold. Made {_escape(made)} in "
        f"{_format_seconds(seconds)} by <code>headwater lab report</code>; the same seeds give the same numbers.</p>",
        f"<p class=quiet>{_escape(tools)}</p>",
        "<table class=contents><tr><th>experiment<th>from<th>statements<th>seeds<th>took</tr>",
        *(_contents_row(each) for each in sections),
        "</table>",
        *(_render_section(each) for each in sections),
        "</body></html>",
    ]
    return "\n".join(parts)


def _contents_row(section: ReportSection) -> str:
    """A line of the contents."""
    name, result = section.experiment.name, section.result
    head = f"<tr><td><a href='#{name}'>{name}</a></td><td>{_escape(section.experiment.source)}</td>"
    if result is None:
        return head + f"<td colspan=3 class=no>not run: {_escape(section.trouble)}</td></tr>"
    held = sum(check.holds for check in result.checks)
    look = "yes" if held == len(result.checks) else "no"
    seeds = _escape(str(result.settings.get("seeds", "–")))
    told = f"{held} of {len(result.checks)} hold"
    return head + f"<td class={look}>{told}</td><td>{seeds}</td><td>{_format_seconds(result.seconds)}</td></tr>"


def _format_seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.1f} minutes"


def _render_section(section: ReportSection) -> str:
    name = section.experiment.name
    head = f"<h2 id='{name}'>{name}</h2><p>{_escape(section.experiment.source)}: {_escape(section.experiment.summary)}.</p>"
    if section.result is None:
        return head + f"<p class=no>Not run: {_escape(section.trouble)}</p>"
    result = section.result
    told = " · ".join(
        f"{_escape(key.replace('_', ' '))} <b>{_format_setting(value)}</b>" for key, value in result.settings.items()
    )
    parts = [head, f"<p class=quiet>{told} · took <b>{_format_seconds(result.seconds)}</b></p>"]
    if section.picture:
        data = base64.b64encode(section.picture).decode()
        parts.append(f"<img alt='Figure of {name}' src='data:image/png;base64,{data}'>")
    parts += [_render_checks(result), _render_rows(result), *(f"<p>{_escape(note)}</p>" for note in result.notes)]
    return "\n".join(parts)


def _format_setting(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(_format_setting(each) for each in value)
    return _escape(f"{value:g}" if isinstance(value, float) else str(value))


def _render_rows(result: ExperimentResult) -> str:
    keys = list(dict.fromkeys(key for row in result.rows for key in row if key not in HIDDEN_COLUMNS))
    papers = {key for row in result.rows for key in row.get("paper", {})}
    heads = "".join(
        f"<th>{_escape(describe_measure(key)[0])}</th>" + ("<th class=paper>paper</th>" if key in papers else "")
        for key in keys
    )
    body = []
    for row in result.rows:
        cells = ""
        for key in keys:
            text = isinstance(row.get(key), str)
            cells += f"<td{'' if text else ' class=number'}>{_format_cell(row.get(key), key)}</td>"
            if key in papers:
                cells += f"<td class='number paper'>{_format_cell(row.get('paper', {}).get(key), key)}</td>"
        body.append(f"<tr>{cells}</tr>")
    shut = "" if len(result.rows) > FOLDED_ROWS else " open"
    table = f"<div class=wide><table><tr>{heads}</tr>{''.join(body)}</table></div>"
    return f"<details{shut}><summary>{len(result.rows)} measurements</summary>{table}</details>"


def _render_checks(result: ExperimentResult) -> str:
    rows = "".join(
        f"<tr class={'yes' if check.holds else 'no'}><td>{'holds' if check.holds else 'does not hold'}</td>"
        f"<td>{_escape(check.statement)}</td><td>{_escape(check.tolerance)}</td>"
        f"<td>{_escape(', '.join(f'{key} {value:.4g}' for key, value in check.figures.items()))}</td>"
        f"<td>{_escape(check.source)}</td></tr>"
        for check in result.checks
    )
    heads = "<tr><th></th><th>statement</th><th>tolerance</th><th>figures</th><th>source</th></tr>"
    return f"<div class=wide><table>{heads}{rows}</table></div>" if rows else ""


def _format_cell(value: Any, key: str) -> str:
    return _escape(format_value(value, describe_measure(key)[1]))


def _escape(value: str) -> str:
    return html.escape(value)


STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 80rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h2 { margin-top: 3rem; border-top: 1px solid #ccc; padding-top: 1rem; }
img { max-width: 100%; height: auto; display: block; margin: 1rem 0; }
table { border-collapse: collapse; margin: .5rem 0 1rem; font-size: 13px; }
th, td { border-bottom: 1px solid #ddd; padding: .15rem .6rem; text-align: left; vertical-align: top; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.wide { overflow-x: auto; }
.paper, .quiet { color: #666; }
.quiet { font-size: 13px; }
.contents { font-size: 15px; }
summary { cursor: pointer; color: #444; }
tr.no td:first-child, td.no, p.no { color: #b03a00; font-weight: 600; }
tr.yes td:first-child, td.yes { color: #00694e; }
tr td:first-child { white-space: nowrap; }
"""
