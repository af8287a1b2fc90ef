"""Shows results of the lab on a terminal: tables beside the papers' values, statements, descriptions of traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from headwater.cli.console.output import out
from headwater.lab.tables import (
    HIDDEN_COLUMNS,
    MEASURES,
    describe_figures,
    describe_measure,
    find_value,
    format_value,
)

if TYPE_CHECKING:
    from headwater.lab.experiment import ExperimentResult


def render_experiments(experiments: list[dict[str, str]]) -> None:
    table = Table("experiment", "source", "shows", box=None, pad_edge=False)
    for one in experiments:
        table.add_row(one["name"], one["source"], one["summary"])
    out.print(table, soft_wrap=False)


def render_catalogue(classes: list[dict[str, Any]]) -> None:
    """Print one line per strategy and estimator, or the whole of one name."""
    if len({one["name"] for one in classes}) == 1:
        for one in classes:
            _render_class(one)
        return
    for noun in ("strategy", "estimator"):
        table = Table(noun, "equation", "source", "parameters", box=None, pad_edge=False)
        for one in classes:
            if one["type"] == noun:
                given = ", ".join(f"{each['name']}={_format_default(each['default'])}" for each in one["parameters"])
                table.add_row(one["name"], one["equation"], one["source"], given)
        wide = out if out.is_terminal else Console(width=180)
        wide.print(table, soft_wrap=False, markup=False)
        out.print()


def _render_class(one: dict[str, Any]) -> None:
    out.print(f"[bold]{one['name']}[/bold] ({one['type']}): {escape(one['equation'])}", highlight=False)
    if one["also_called"]:
        out.print(f"also called {', '.join(map(escape, one['also_called']))}", highlight=False)
    out.print(f"source: {escape(one['source'])}\n\n{escape(one['description'])}\n", highlight=False)
    table = Table("parameter", "default", "value", "meaning", box=None, pad_edge=False)
    for each in one["parameters"]:
        table.add_row(each["name"], _format_default(each["default"]), each["kind"], each["meaning"])
    if one["parameters"]:
        out.print(table, soft_wrap=False)
        out.print()


def _format_default(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return escape(f"[{', '.join(map(_format_default, value))}]")
    return f"{value:g}" if isinstance(value, float) else str(value)


def render_training(report: dict[str, Any]) -> None:
    """Print the results of a training on held-out feeds."""
    out.print(
        f"{report['rows']:,} rows, {report['rows_held_out']:,} of feeds that chose the epoch. Loss per bin there "
        f"{report['loss']:.5f}, of the belief alone {report['loss_of_belief']:.5f}.",
        highlight=False,
    )
    table = Table("trace", "feeds", "belief (h)", "forecast (h)", "ratio", box=None, pad_edge=False)
    for one in report["delays"]:
        table.add_row(
            one["trace"],
            str(one["feeds"]),
            f"{one['bayes_h']:.3g}",
            f"{one['forecast_h']:.3g}",
            f"{one['ratio']:.3f}",
        )
    out.print(table, soft_wrap=False)
    out.print(f"Written to {report['out']}.", highlight=False)


def render_result(result: ExperimentResult) -> None:
    """Print the table, the statements and the notes of a result."""
    rows = result.rows
    others = [
        key for key in dict.fromkeys(key for row in rows for key in row) if key not in (*MEASURES, *HIDDEN_COLUMNS)
    ]
    labels = [key for key in others if not any(isinstance(row.get(key), dict) for row in rows)]
    measures = [key for key in MEASURES if any(key in row for row in rows)]
    measures += [key for key in others if key not in labels]
    table = Table(title=f"{result.experiment}  ({', '.join(f'{k} {v}' for k, v in result.settings.items())})")
    for label in labels:
        table.add_column(label.replace("_", " "), no_wrap=True)
    papers = {key for row in rows for key in row.get("paper", {})}
    for key in measures:
        table.add_column(describe_measure(key)[0], justify="right")
        if key in papers:
            table.add_column("paper", justify="right", style="dim")
    brief = len(measures) > 6  # many columns: means without their deviations
    for row in rows:
        cells = [format_value(row.get(label), "{:g}") for label in labels]
        for key in measures:
            value = find_value(row, key)
            cells.append(
                format_value(value["mean"] if brief and isinstance(value, dict) else value, describe_measure(key)[1])
            )
            if key in papers:
                cells.append(format_value(row.get("paper", {}).get(key), describe_measure(key)[1]))
        table.add_row(*cells)
    wide = out if out.is_terminal else Console(width=180)  # a file or a pipe has no width of its own
    wide.print(table, soft_wrap=False)
    for check in result.checks:
        figures = describe_figures(check.figures, check.intervals)
        word = "[green]holds[/green]" if check.holds else "[red]does not hold[/red]"
        known = f" (known: {check.because})" if check.because and not check.holds else ""
        out.print(f"{word}: {check.statement} ({check.tolerance}): {figures}{known}", highlight=False)
    for note in result.notes:
        out.print(note, highlight=False)


def render_description(found: dict[str, Any]) -> None:
    """Print the description of a trace."""
    out.print(f"{found['feeds']:,} feeds, {found['items']:,} items, {found['days']:,.1f} days", highlight=False)
    shapes = Table(title="activity classes (items per day) and daily shapes", title_justify="left")
    for heading in ("class", "feeds", "peaks", "uniform", "waves", "peaks*", "uniform*", "waves*"):
        shapes.add_column(heading, justify="right")
    for name, count in found["activity"].items():
        strict, relaxed = found["shapes"]["all_slots"][name], found["shapes"]["share_of_slots"][name]
        shapes.add_row(name, f"{count:,}", *(f"{n:,}" for n in (*strict.values(), *relaxed.values())))
    out.print(shapes, soft_wrap=False)
    out.print(f"* where {found['shapes']['share']:.0%} of the hours are enough", highlight=False)
    for title, key in (("habits", "habits"), ("subjects", "subjects"), ("duplicates", "duplicates")):
        out.print(f"{title}: " + ", ".join(f"{name} {count:,}" for name, count in found[key].items()), highlight=False)
    regular = found["periodicity"]
    for above in ("10", "48"):
        part = regular[f"cv_at_most_1_above_{above}_per_day"]
        share = "there are none" if part is None else f"{part:.0%} repeat their day (CV ≤ 1)"
        out.print(f"of the feeds with more than {above} items a day {share}", highlight=False)
    out.print(f"17 % of the feeds produce {found['top_17_percent_produce']:.0%} of the items", highlight=False)
    if found["power_law"]:
        law = found["power_law"]
        out.print(
            f"power law: exponent {law['likelihood']:.2f} by likelihood, slope {law['line']:.2f} on logarithms",
            highlight=False,
        )
    if found["patterns"]:
        sizes = ", ".join(f"{pattern['feeds']:,}" for pattern in found["patterns"])
        out.print(f"daily patterns (K-means): clusters of {sizes} feeds", highlight=False)


def render_retrieval_times(found: dict[str, Any]) -> None:
    """Print the retrieval times of a day and their mean delay."""
    minutes = [round(60 * time) % (24 * 60) for time in found["times_h"]]
    out.print("retrieve at " + ", ".join(f"{each // 60:02d}:{each % 60:02d}" for each in minutes), highlight=False)
    best, even = 60 * found["mean_delay_h"], 60 * found["even_mean_delay_h"]
    out.print(f"mean delay {best:.1f} min; at even intervals {even:.1f} min", highlight=False)
