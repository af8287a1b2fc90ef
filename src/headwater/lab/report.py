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
from headwater.errors import HeadwaterError
from headwater.lab.experiments.base import Experiment, LabSettings, Progress, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PACKAGES = ("numpy", "scipy", "matplotlib", "pyarrow", "numba")


@dataclass(frozen=True, slots=True)
class Section:
    """One experiment on the page: its result and figure, or the sentence that says why it did not run."""

    experiment: Experiment
    result: Result | None = None
    picture: bytes = b""
    trouble: str = ""


def run_section(experiment: Experiment, settings: LabSettings, progress: Progress) -> Section:
    """Run one experiment with those of the settings that it heeds."""
    empty = LabSettings()
    kept = {
        name: getattr(settings, name) if name in experiment.takes else getattr(empty, name)
        for name in ("seeds", "trace", "window", "per_day", "budget", "warmup_days", "strategies", "query")
    }
    began = time.perf_counter()
    try:
        result = experiment.run(dataclasses.replace(settings, **kept), progress)
    except HeadwaterError as error:
        return Section(experiment, trouble=str(error))
    result.seconds = time.perf_counter() - began
    return Section(experiment, result, png(experiment.draw(result)) if experiment.draw is not None else b"")


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
        f"<p>{len(sections)} experiments, {held} of {len(checks)} statements hold. {_text(made)}; "
        f"{seconds / 60:.1f} minutes. {_text(tools)}.</p>",
        "<p>Made by <code>headwater lab report</code>; the same seeds give the same numbers.</p><ul>",
        *(
            f"<li><a href='#{each.experiment.name}'>{each.experiment.name}</a>: {_outcome(each)}</li>"
            for each in sections
        ),
        "</ul>",
        *(_section(each) for each in sections),
        "</body></html>",
    ]
    return "\n".join(parts)


def _outcome(section: Section) -> str:
    if section.result is None:
        return _text(section.trouble)
    checks = section.result.checks
    return f"{sum(check.holds for check in checks)} of {len(checks)} statements hold"


def _section(section: Section) -> str:
    name = section.experiment.name
    head = f"<h2 id='{name}'>{name}</h2><p>{_text(section.experiment.source)}: {_text(section.experiment.summary)}.</p>"
    if section.result is None:
        return head + f"<p class=no>Not run: {_text(section.trouble)}</p>"
    result = section.result
    told = ", ".join(f"{key} {value}" for key, value in result.settings.items())
    parts = [head, f"<p>{_text(told)}; {result.seconds:.0f} s</p>"]
    if section.picture:
        data = base64.b64encode(section.picture).decode()
        parts.append(f"<img alt='{name}' src='data:image/png;base64,{data}'>")
    parts += [_table(result), _statements(result), *(f"<p>{_text(note)}</p>" for note in result.notes)]
    return "\n".join(parts)


def _table(result: Result) -> str:
    keys = list(dict.fromkeys(key for row in result.rows for key in row if key not in ("paper", "thesis")))
    papers = {key for row in result.rows for key in row.get("paper", {})}
    heads = "".join(f"<th>{_text(key)}</th>" + ("<th class=paper>paper</th>" if key in papers else "") for key in keys)
    body = []
    for row in result.rows:
        cells = ""
        for key in keys:
            cells += f"<td>{_cell(row.get(key))}</td>"
            if key in papers:
                cells += f"<td class=paper>{_cell(row.get('paper', {}).get(key))}</td>"
        body.append(f"<tr>{cells}</tr>")
    return f"<details open><summary>measurements</summary><table><tr>{heads}</tr>{''.join(body)}</table></details>"


def _statements(result: Result) -> str:
    rows = "".join(
        f"<tr class={'yes' if check.holds else 'no'}><td>{'holds' if check.holds else 'does not hold'}</td>"
        f"<td>{_text(check.statement)}</td><td>{_text(check.tolerance)}</td>"
        f"<td>{_text(', '.join(f'{key} {value:.4g}' for key, value in check.figures.items()))}</td>"
        f"<td>{_text(check.source)}</td></tr>"
        for check in result.checks
    )
    heads = "<tr><th></th><th>statement</th><th>tolerance</th><th>figures</th><th>source</th></tr>"
    return f"<table>{heads}{rows}</table>" if rows else ""


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict):
        return f"{_cell(value.get('mean'))} ± {_cell(value.get('sd'))}"
    if isinstance(value, float):
        return "–" if value != value else f"{value:,.4g}" if abs(value) < 1e5 else f"{value:,.0f}"
    return _text(str(value))


def _text(value: str) -> str:
    return html.escape(value)


STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
img { max-width: 100%; height: auto; }
table { border-collapse: collapse; margin: .5rem 0 1rem; font-size: 13px; }
th, td { border-bottom: 1px solid #ddd; padding: .15rem .5rem; text-align: left; vertical-align: top; }
.paper { color: #777; }
tr.no td:first-child, p.no { color: #b03a00; font-weight: 600; }
tr.yes td:first-child { color: #00694e; }
"""
