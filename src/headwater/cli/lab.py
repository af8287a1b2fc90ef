"""`headwater lab`: the papers' experiments, run, printed beside the papers' values, drawn and reported."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from headwater.cli.common import as_json, command, err, group, out, print_json

if TYPE_CHECKING:
    from headwater.lab.experiments.base import Progress as Watcher
    from headwater.lab.experiments.base import Result

app = group("Measure strategies on synthetic and real traces, and reproduce the papers' tables.")

TraceFile = Annotated[Path | None, typer.Option("--trace", metavar="FILE", help="A trace: Parquet or CSV.")]
Seeds = Annotated[int | None, typer.Option("--seeds", metavar="N", help="How many random worlds.")]
Jobs = Annotated[int, typer.Option("--jobs", metavar="J", help="Processes; 0 means one per core.")]
Dask = Annotated[str | None, typer.Option("--dask", metavar="ADDRESS", help="A Dask scheduler, tcp://…")]
PerDay = Annotated[list[float] | None, typer.Option("--per-day", metavar="R", help="Polls per feed and day.")]
PlotFile = Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw into FILE: .png or .svg.")]


@command(app, "list")
def list_experiments() -> None:
    """Name every experiment, where it comes from and what it shows."""
    from headwater.lab.experiments import experiments

    known = experiments()
    if as_json():
        return print_json([{"name": e.name, "source": e.source, "summary": e.summary} for e in known])
    table = Table("experiment", "source", "shows", box=None, pad_edge=False)
    for each in known:
        table.add_row(each.name, each.source, each.summary)
    return out.print(table, soft_wrap=False)


@command(app, "run", epilog="headwater lab run two-steps --seeds 40 --plot two-steps.png")
def run(
    name: Annotated[str, typer.Argument(help="One of `headwater lab list`.")],
    seeds: Seeds = None,
    trace: TraceFile = None,
    window: Annotated[int | None, typer.Option("--window", metavar="W", help="Items a document shows.")] = None,
    per_day: Annotated[
        list[float] | None, typer.Option("--per-day", metavar="R", help="Polls per feed and day.")
    ] = None,
    budget: Annotated[list[float] | None, typer.Option("--budget", metavar="B", help="Requests per cycle.")] = None,
    warmup_days: Annotated[float | None, typer.Option("--warmup-days", metavar="D", help="Days not measured.")] = None,
    strategy: Annotated[list[str] | None, typer.Option("--strategy", help="Only these; may be repeated.")] = None,
    jobs: Jobs = 0,
    plot: PlotFile = None,
    dask: Dask = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small size that still shows the effect.")] = False,
) -> None:
    """Run an experiment and print what came out beside the paper's values."""
    from headwater.lab.experiments import experiment
    from headwater.lab.experiments.base import LabSettings

    chosen = experiment(name)
    settings = LabSettings(
        seeds=seeds,
        trace=trace,
        window=window,
        per_day=tuple(per_day or ()),
        budget=tuple(budget or ()),
        warmup_days=warmup_days,
        strategies=tuple(part for each in strategy or () for part in each.split(",") if part),
        jobs=jobs,
        dask=dask,
        quick=quick,
    )
    chosen.refuse_unknown(settings)
    saves = None
    if plot is not None:
        from headwater.lab.plots import saver

        saves = saver(plot)  # before the run: a wrong file name is told at once
    with watched() as progress:
        began = time.perf_counter()
        result = chosen.run(settings, progress)
        result.seconds = time.perf_counter() - began
    if saves is not None and chosen.draw is not None:
        saves(chosen.draw(result))
    if as_json():
        print_json(result.as_json())
    else:
        show(result)


@contextmanager
def watched() -> Iterator[Watcher]:
    """A progress bar on standard error, where a person watches; standard output stays the result's."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        tasks: dict[str, Any] = {}

        def progress(done: int, total: int, what: str) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done, total=total)

        yield progress


MEASURES = {
    "requests": ("requests", "{:,.0f}"),
    "completeness": ("completeness", "{:.4f}"),
    "freshness": ("freshness", "{:.4f}"),
    "mean_delay_s": ("mean delay", "duration"),
    "median_delay_s": ("median", "duration"),
    "p95_delay_s": ("p95", "duration"),
    "max_delay_s": ("max", "duration"),
    "sd_delay_s": ("sd", "duration"),
    "polls_per_item": ("polls/item", "{:.2f}"),
    "error": ("error", "{:,.1f}"),
    "lost": ("lost", "{:,.0f}"),
    "bytes": ("bytes", "{:,.0f}"),
}


NOT_SHOWN = ("paper", "thesis")


def measure(key: str) -> tuple[str, str]:
    """A measure's heading and how its values are written."""
    return MEASURES.get(key, (key.replace("_", " "), "{:.4g}"))


def cell(value: Any, form: str) -> str:
    """One value of a row as text; a mean carries its standard deviation."""
    if value is None:
        return ""
    if isinstance(value, dict):
        return f"{cell(value['mean'], form)} ±{cell(value['sd'], form)}"
    if not isinstance(value, int | float):
        return str(value)
    if value != value:
        return "–"
    if form == "duration":
        return f"{value / 3600:.2f} h" if value >= 5400 else f"{value / 60:.1f} min"
    return form.format(value)


def show(result: Result) -> None:
    """The table, the statements and the notes of a result."""
    rows = result.rows
    others = [key for key in dict.fromkeys(key for row in rows for key in row) if key not in (*MEASURES, *NOT_SHOWN)]
    labels = [key for key in others if not any(isinstance(row.get(key), dict) for row in rows)]
    measures = [key for key in MEASURES if any(key in row for row in rows)]
    measures += [key for key in others if key not in labels]
    table = Table(title=f"{result.experiment}  ({', '.join(f'{k} {v}' for k, v in result.settings.items())})")
    for label in labels:
        table.add_column(label.replace("_", " "), no_wrap=True)
    papers = {key for row in rows for key in row.get("paper", {})}
    for key in measures:
        table.add_column(measure(key)[0], justify="right")
        if key in papers:
            table.add_column("paper", justify="right", style="dim")
    brief = len(measures) > 6  # many columns: means without their deviations
    for row in rows:
        cells = [cell(row.get(label), "{:g}") for label in labels]
        for key in measures:
            value = row.get(key)
            cells.append(cell(value["mean"] if brief and isinstance(value, dict) else value, measure(key)[1]))
            if key in papers:
                cells.append(cell(row.get("paper", {}).get(key), measure(key)[1]))
        table.add_row(*cells)
    wide = out if out.is_terminal else Console(width=180)  # a file or a pipe has no width of its own
    wide.print(table, soft_wrap=False)
    for check in result.checks:
        figures = ", ".join(f"{name} {value:.4g}" for name, value in check.figures.items())
        word = "[green]holds[/green]" if check.holds else "[red]does not hold[/red]"
        out.print(f"{word}: {check.statement} ({check.tolerance}): {figures}", highlight=False)
    for note in result.notes:
        out.print(note, highlight=False)


@command(app, "describe", epilog="headwater lab describe --trace news.parquet --plot news.png")
def describe(
    trace: TraceFile = None,
    high: Annotated[float, typer.Option("--high", help="ε₁: a slot this many times the mean is a peak.")] = 1.5,
    low: Annotated[float, typer.Option("--low", help="ε₂: a slot below this share of the mean is silent.")] = 0.5,
    share: Annotated[float, typer.Option("--share", help="Slots that are enough in the less strict variant.")] = 0.8,
    plot: PlotFile = None,
) -> None:
    """Say what a trace is like: activity, periodicity, shapes, patterns, rates, habits, subjects, duplicates."""
    from headwater.errors import TraceError
    from headwater.lab.describe import describe as describe_trace
    from headwater.lab.traces import load_trace

    if trace is None:
        raise TraceError("--trace is missing; give a Parquet or CSV file with the columns source and published_at.")
    saves = None
    if plot is not None:
        from headwater.lab.plots import saver

        saves = saver(plot)
    found = describe_trace(load_trace(trace, text=True), high, low, share)
    if saves is not None:
        from headwater.lab.describe_plot import describe_figure

        saves(describe_figure(found, trace.name))
    if as_json():
        return print_json({"trace": trace.name, **found.as_json()})
    return _show_description(found.as_json())


def _show_description(found: dict[str, Any]) -> None:
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
        told = "there are none" if part is None else f"{part:.0%} repeat their day (CV ≤ 1)"
        out.print(f"of the feeds with more than {above} items a day {told}", highlight=False)
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
