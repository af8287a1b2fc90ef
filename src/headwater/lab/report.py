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
from headwater.lab.experiments.base import Experiment, LabSettings, Progress, Result
from headwater.lab.measures import NOT_SHOWN, cell, measure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MANY = 40  # rows: longer tables are folded
PACKAGES = ("numpy", "matplotlib", "pyarrow", "numba")


@dataclass(frozen=True, slots=True)
class Section:
    """One experiment on the page: its result and figure, or the sentence that says why it did not run."""

    experiment: Experiment
    result: Result | None = None
    picture: bytes = b""
    trouble: str = ""


def run_section(experiment: Experiment, settings: LabSettings, progress: Progress) -> Section:
    """Run one experiment with those of the settings that it heeds; without the trace if it cannot use that."""
    began = time.perf_counter()
    heeded = experiment.heeded(settings)
    try:
        result = _run(experiment, heeded, progress)
    except HeadwaterError as error:
        return Section(experiment, trouble=str(error))
    result.seconds = time.perf_counter() - began
    return Section(experiment, result, png(experiment.draw(result)) if experiment.draw is not None else b"")


def _run(experiment: Experiment, heeded: LabSettings, progress: Progress) -> Result:
    try:
        return experiment.run(heeded, progress)
    except TraceError as error:
        if heeded.trace is None or "seeds" not in experiment.takes:  # there is nothing but the trace
            raise
        result = experiment.run(dataclasses.replace(heeded, trace=None, query=None), progress)
        result.notes.append(f"On synthetic worlds only: {error}")
        return result


def png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def versions() -> dict[str, str]:
    """What the numbers were made with."""
    found = {"headwater": __version__, "python": platform.python_version(), "machine": platform.machine()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "absent"
    return found


def page(sections: list[Section], made: str) -> str:
    """The whole page. `made` is the date it was made, as text."""
    checks = [check for each in sections if each.result for check in each.result.checks]
    held = sum(check.holds for check in checks)
    seconds = sum(each.result.seconds for each in sections if each.result)
    tools = ", ".join(f"{name} {version}" for name, version in versions().items())
    parts = [
        "<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>Headwater: evaluation</title><style>{STYLE}</style></head><body>",
        "<h1>Headwater: evaluation</h1>",
        f"<p>{len(sections)} experiments, {held} of {len(checks)} statements hold. Made {_text(made)} in "
        f"{_lasted(seconds)} by <code>headwater lab report</code>; the same seeds give the same numbers.</p>",
        f"<p class=quiet>{_text(tools)}</p>",
        "<table class=contents><tr><th>experiment<th>from<th>statements<th>seeds<th>took</tr>",
        *(_entry(each) for each in sections),
        "</table>",
        *(_section(each) for each in sections),
        "</body></html>",
    ]
    return "\n".join(parts)


def _entry(section: Section) -> str:
    """A line of the contents."""
    name, result = section.experiment.name, section.result
    head = f"<tr><td><a href='#{name}'>{name}</a></td><td>{_text(section.experiment.source)}</td>"
    if result is None:
        return head + f"<td colspan=3 class=no>not run: {_text(section.trouble)}</td></tr>"
    held = sum(check.holds for check in result.checks)
    look = "yes" if held == len(result.checks) else "no"
    seeds = _text(str(result.settings.get("seeds", "–")))
    told = f"{held} of {len(result.checks)} hold"
    return head + f"<td class={look}>{told}</td><td>{seeds}</td><td>{_lasted(result.seconds)}</td></tr>"


def _lasted(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.1f} minutes"


def _section(section: Section) -> str:
    name = section.experiment.name
    head = f"<h2 id='{name}'>{name}</h2><p>{_text(section.experiment.source)}: {_text(section.experiment.summary)}.</p>"
    if section.result is None:
        return head + f"<p class=no>Not run: {_text(section.trouble)}</p>"
    result = section.result
    told = " · ".join(
        f"{_text(key.replace('_', ' '))} <b>{_setting(value)}</b>" for key, value in result.settings.items()
    )
    parts = [head, f"<p class=quiet>{told} · took <b>{_lasted(result.seconds)}</b></p>"]
    if section.picture:
        data = base64.b64encode(section.picture).decode()
        parts.append(f"<img alt='Figure of {name}' src='data:image/png;base64,{data}'>")
    parts += [_statements(result), _table(result), *(f"<p>{_text(note)}</p>" for note in result.notes)]
    return "\n".join(parts)


def _setting(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(_setting(each) for each in value)
    return _text(f"{value:g}" if isinstance(value, float) else str(value))


def _table(result: Result) -> str:
    keys = list(dict.fromkeys(key for row in result.rows for key in row if key not in NOT_SHOWN))
    papers = {key for row in result.rows for key in row.get("paper", {})}
    heads = "".join(
        f"<th>{_text(measure(key)[0])}</th>" + ("<th class=paper>paper</th>" if key in papers else "") for key in keys
    )
    body = []
    for row in result.rows:
        cells = ""
        for key in keys:
            text = isinstance(row.get(key), str)
            cells += f"<td{'' if text else ' class=number'}>{_cell(row.get(key), key)}</td>"
            if key in papers:
                cells += f"<td class='number paper'>{_cell(row.get('paper', {}).get(key), key)}</td>"
        body.append(f"<tr>{cells}</tr>")
    shut = "" if len(result.rows) > MANY else " open"
    table = f"<div class=wide><table><tr>{heads}</tr>{''.join(body)}</table></div>"
    return f"<details{shut}><summary>{len(result.rows)} measurements</summary>{table}</details>"


def _statements(result: Result) -> str:
    rows = "".join(
        f"<tr class={'yes' if check.holds else 'no'}><td>{'holds' if check.holds else 'does not hold'}</td>"
        f"<td>{_text(check.statement)}</td><td>{_text(check.tolerance)}</td>"
        f"<td>{_text(', '.join(f'{key} {value:.4g}' for key, value in check.figures.items()))}</td>"
        f"<td>{_text(check.source)}</td></tr>"
        for check in result.checks
    )
    heads = "<tr><th></th><th>statement</th><th>tolerance</th><th>figures</th><th>source</th></tr>"
    return f"<div class=wide><table>{heads}{rows}</table></div>" if rows else ""


def _cell(value: Any, key: str) -> str:
    return _text(cell(value, measure(key)[1]))


def _text(value: str) -> str:
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
