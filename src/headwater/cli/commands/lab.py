"""`headwater lab`: run the papers' experiments, print them beside the papers' values, draw and report them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.cli.console.command import command, make_group
from headwater.cli.console.output import err, out, show_progress_by_step
from headwater.cli.views.lab import (
    render_catalogue,
    render_description,
    render_experiments,
    render_result,
    render_retrieval_times,
    render_training,
)
from headwater.errors import HeadwaterError, SettingsError, StrategyError

if TYPE_CHECKING:
    from headwater.lab.experiment import ExperimentResult
    from headwater.lab.experiment import Progress as Watcher

top = typer.Typer()
lab = make_group("Measure strategies on synthetic and real traces, and reproduce the papers' tables.")
top.add_typer(lab, name="lab")


TraceFile = Annotated[Path | None, typer.Option("--trace", metavar="FILE", help="A trace: Parquet, CSV or JSON lines.")]
Columns = Annotated[
    str | None,
    typer.Option("--columns", metavar="NAME=COLUMN,…", help="The trace's columns: source=feed,published_at=date."),
]
Seeds = Annotated[int | None, typer.Option("--seeds", metavar="N", help="How many random worlds.")]
Jobs = Annotated[int, typer.Option("--jobs", metavar="J", help="Processes; 0 means one per core.")]
Dask = Annotated[str | None, typer.Option("--dask", metavar="ADDRESS", help="A Dask scheduler, tcp://…")]
PlotFile = Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw into FILE: .png or .svg.")]


@command(lab, "list", view=render_experiments)
def list_experiments() -> list[dict[str, str]]:
    """List the experiments with their sources and summaries."""
    from headwater.lab import experiment

    known = [experiment.load_experiment(name) for name in experiment.list_experiments()]
    return [{"name": one.name, "source": one.source, "summary": one.summary} for one in known]


@command(lab, "strategies", view=render_catalogue, example="headwater lab strategies advarss")
def list_strategies(
    name: Annotated[str | None, typer.Argument(help="A strategy or an estimator; all if left out.")] = None,
) -> list[dict[str, Any]]:
    """List strategies and estimators with their parameters, defaults, equations and sources."""
    from headwater.schedule.listing import describe_class, list_classes

    return list_classes() if name is None else describe_class(name)


@command(
    lab,
    "run",
    view=render_result,
    as_json=lambda result: result.as_json(),
    example="headwater lab run two-steps --seeds 40 --plot two-steps.png",
)
def run_experiment(
    name: Annotated[str, typer.Argument(help="One of `headwater lab list`.")],
    seeds: Seeds = None,
    trace: TraceFile = None,
    columns: Columns = None,
    window: Annotated[int | None, typer.Option("--window", metavar="W", help="Items a document shows.")] = None,
    per_day: Annotated[
        list[float] | None, typer.Option("--per-day", metavar="R", help="Polls per feed and day.")
    ] = None,
    budget: Annotated[list[float] | None, typer.Option("--budget", metavar="B", help="Requests per cycle.")] = None,
    warmup_days: Annotated[float | None, typer.Option("--warmup-days", metavar="D", help="Days not measured.")] = None,
    strategy: Annotated[
        list[str] | None,
        typer.Option("--strategy", help="Only these, such as “advarss(c=.5)”; may be repeated. See `lab strategies`."),
    ] = None,
    estimator: Annotated[list[str] | None, typer.Option("--estimator", help="Only these; may be repeated.")] = None,
    query: Annotated[str | None, typer.Option("--query", metavar="CONDITION", help="Which items are wanted.")] = None,
    jobs: Jobs = 0,
    plot: PlotFile = None,
    save: Annotated[Path | None, typer.Option("--save", metavar="FILE", help="Write the result as JSON.")] = None,
    dask: Dask = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small size that still shows the effect.")] = False,
) -> ExperimentResult:
    """Run an experiment and print its results beside the paper's values."""
    from headwater.estimate.class_spec import split_specs
    from headwater.lab.experiment import LabSettings, check_trace, load_experiment

    chosen = load_experiment(name)
    settings = LabSettings(
        seeds=seeds,
        trace=_rename_columns(trace, columns),
        window=window,
        per_day=tuple(per_day or ()),
        budget=tuple(budget or ()),
        warmup_days=warmup_days,
        strategies=tuple(part for each in strategy or () for part in split_specs(each)),
        estimators=tuple(part for each in estimator or () for part in split_specs(each)),
        query=query,
        jobs=jobs,
        dask=dask,
        quick=quick,
    )
    chosen.refuse_unused(settings)
    check_trace(settings)
    if save is not None and not save.parent.is_dir():
        raise SettingsError(f"The result cannot be written to {save}: the folder does not exist.")
    saves = None
    if plot is not None:
        from headwater.errors import TraceError
        from headwater.lab.figures import prepare_saving

        if chosen.draw is None:
            raise TraceError(f"The experiment {name} has no figure: leave out --plot.")
        saves = prepare_saving(plot)  # before the run, so that a wrong file name is reported at once
    with _show_lab_progress() as progress:
        began = time.perf_counter()
        try:
            result = chosen.run(chosen.select_settings(settings), progress)
        except HeadwaterError:
            raise
        except Exception as error:
            own = [name for name in settings.strategies if ":" in name]
            if not own:
                raise
            what = f"{type(error).__name__}: {error}"  # a user's own strategy may fail in any way
            raise StrategyError(f"{' or '.join(own)} failed while it was run ({what}).") from error
        result.seconds = time.perf_counter() - began
    if saves is not None and chosen.draw is not None:
        saves(chosen.draw(result))
    if save is not None:
        from headwater.lab.result_files import save_result

        save_result(save, result, settings, _today(), columns)
    return result


def _today() -> str:
    import datetime

    return datetime.datetime.now(datetime.UTC).date().isoformat()


def _rename_columns(trace: Path | None, columns: str | None) -> Path | None:
    """Return the trace, or a copy with renamed columns that lasts as long as the process."""
    if columns is None:
        return trace
    if trace is None:
        raise SettingsError("--columns names the columns of a trace: give one by --trace, or leave it out.")
    import atexit
    import shutil
    import tempfile

    from headwater.lab.traces.trace_files import rename_columns

    folder = tempfile.mkdtemp(prefix="headwater-trace-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return rename_columns(trace, columns, Path(folder))


@contextmanager
def _show_lab_progress() -> Iterator[Watcher]:
    with show_progress_by_step() as progress:
        yield lambda done, total, what: progress(what, done, total, what)


@command(
    lab, "describe", view=render_description, example="headwater lab describe --trace news.parquet --plot news.png"
)
def describe_trace_file(
    trace: TraceFile = None,
    columns: Columns = None,
    high: Annotated[float, typer.Option("--high", help="ε₁: a slot this many times the mean is a peak.")] = 1.5,
    low: Annotated[float, typer.Option("--low", help="ε₂: a slot below this share of the mean is silent.")] = 0.5,
    share: Annotated[float, typer.Option("--share", help="Slots that are enough in the less strict variant.")] = 0.8,
    plot: PlotFile = None,
) -> dict[str, Any]:
    """Describe a trace: activity, periodicity, shapes, patterns, rates, habits, subjects, duplicates."""
    from headwater.errors import TraceError
    from headwater.lab.description.description import describe_trace
    from headwater.lab.traces.trace import load_trace

    if trace is None:
        raise TraceError("Missing --trace: give a Parquet or CSV file with the columns source and published_at.")
    saves = None
    if plot is not None:
        from headwater.lab.figures import prepare_saving

        saves = prepare_saving(plot)
    found = describe_trace(load_trace(_rename_columns(trace, columns) or trace, text=True), high, low, share)
    if saves is not None:
        from headwater.lab.description.description_figure import draw_description

        saves(draw_description(found, trace.name))
    return {"trace": trace.name, **found.as_json()}


@command(
    lab,
    "retrieval-times",
    view=render_retrieval_times,
    example="headwater lab retrieval-times --pattern sine --retrievals 6 --plot times.png",
)
def plan_retrievals(
    pattern: Annotated[
        str, typer.Option("--pattern", help="sine, flat, noon, working-day, or numbers: postings by slot of the day.")
    ] = "sine",
    retrievals: Annotated[int, typer.Option("--retrievals", metavar="M", help="Retrievals a day.")] = 6,
    method: Annotated[str, typer.Option("--method", help="refine, or search (exhaustive).")] = "refine",
    plot: PlotFile = None,
) -> dict[str, Any]:
    """Print the best times of the day to retrieve a feed whose postings follow a pattern (Sia & Cho, fig. 5)."""
    from headwater.lab.retrieval_times import draw_day, plan_day, read_pattern

    saves = None
    if plot is not None:
        from headwater.lab.figures import prepare_saving

        saves = prepare_saving(plot)
    found = plan_day(read_pattern(pattern), retrievals, method)
    if saves is not None:
        saves(draw_day(found))
    return found


@command(
    lab,
    "deltas",
    view=render_result,
    as_json=lambda result: result.as_json(),
    example="headwater lab deltas --documents feeds.tar.xz",
)
async def measure_deltas(
    documents: Annotated[
        Path | None, typer.Option("--documents", metavar="PLACE", help="Feed documents: a folder or a tar archive.")
    ] = None,
    save: Annotated[Path | None, typer.Option("--save", metavar="FILE", help="Write the result as JSON.")] = None,
) -> ExperimentResult:
    """Measure what sending only new items saves, on the farm and on feed documents (Sia & Cho, 4.6)."""
    from headwater.farm.delta_saving import describe_deltas, measure_saving
    from headwater.lab.result_files import write_result

    began = time.perf_counter()
    result = await measure_saving(documents)
    result.seconds = time.perf_counter() - began
    if save is not None:
        write_result(save, result, describe_deltas(documents), {}, _today())
    return result


@command(
    lab,
    "train-forecast",
    view=render_training,
    example="headwater lab train-forecast --trace news.parquet --trace releases.parquet --out forecast.npz",
)
def train_forecast_on_traces(
    trace: Annotated[
        list[Path] | None, typer.Option("--trace", metavar="FILE", help="A trace: Parquet or CSV; may be repeated.")
    ] = None,
    out_file: Annotated[Path, typer.Option("--out", metavar="FILE.npz", help="The weights to write.")] = Path(
        "forecast.npz"
    ),
    feeds_held_out: Annotated[
        float, typer.Option("--feeds-held-out", metavar="SHARE", help="Feeds kept from training, to measure on.")
    ] = 0.2,
    rows: Annotated[int, typer.Option("--rows", metavar="N", help="Refreshes to train on.")] = 2_400_000,
    epochs: Annotated[int, typer.Option("--epochs", metavar="N", help="Passes over them.")] = 16,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of rows and first weights.")] = 0,
    jobs: Jobs = 0,
) -> dict[str, Any]:
    """Train the learned forecast on traces, and measure it on feeds held out."""
    from headwater.errors import TraceError
    from headwater.lab.training.train_forecast import TrainingSettings, train_forecast

    if not out_file.parent.is_dir():
        raise TraceError(f"The weights cannot be written to {out_file}: the folder does not exist.")
    settings = TrainingSettings(tuple(trace or ()), rows, epochs, feeds_held_out, seed, jobs)
    with _show_lab_progress() as progress:
        return train_forecast(settings, out_file, progress)


@command(
    lab,
    "report",
    view=lambda report: out.print(f"Written to {report['out']}.", highlight=False),
    example="headwater lab report --out evaluation.html --trace news.parquet",
)
def write_report(
    out_file: Annotated[Path, typer.Option("--out", metavar="FILE.html", help="The page to write.")] = Path(
        "headwater-lab.html"
    ),
    seeds: Seeds = None,
    trace: TraceFile = None,
    columns: Columns = None,
    jobs: Jobs = 0,
    dask: Dask = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes that still show the effects.")] = False,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Only these experiments, or describe, comma-separated.")
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option("--keep", metavar="FOLDER", help="Keep each result here, and do not run again what is kept."),
    ] = None,
) -> dict[str, Any]:
    """Run every experiment and write one page with figures, settings, seeds, versions and durations."""
    import datetime

    from headwater.errors import TraceError
    from headwater.lab import experiment
    from headwater.lab.experiment import LabSettings, check_trace
    from headwater.lab.figures import create_figure
    from headwater.lab.published import DESCRIPTION
    from headwater.lab.report import describe_section, keep_section, load_kept_section, render_report, run_section

    if not out_file.parent.is_dir():
        raise TraceError(f"The page cannot be written to {out_file}: the folder does not exist.")
    if keep is not None and not keep.is_dir():
        raise TraceError(f"The results cannot be kept in {keep}: the folder does not exist.")
    create_figure()  # if matplotlib is missing, say so before hours of work
    trace = _rename_columns(trace, columns)
    settings = LabSettings(seeds=seeds, trace=trace, jobs=jobs, dask=dask, quick=quick)
    check_trace(settings)
    only = [name.strip() for names in only for name in names.split(",")] if only else None
    if only is not None and DESCRIPTION in only and trace is None:
        raise SettingsError("--only describe describes a trace: give one by --trace.")
    chosen = [experiment.load_experiment(name) for name in only or experiment.list_experiments() if name != DESCRIPTION]
    sections = []
    for each in chosen:
        last = load_kept_section(keep, each, settings) if keep is not None else None
        if last is None:
            with _show_lab_progress() as progress:
                last = run_section(each, settings, progress, columns)
            if keep is not None:
                keep_section(keep, last, settings, _today(), columns)
        sections.append(last)
        outcome = f"not run: {last.trouble}"
        if last.result is not None:
            kept = f", kept from {last.date}" if last.date else ""
            outcome = f"{last.held} of {len(last.result.checks)} statements hold, {last.result.seconds:.0f} s{kept}"
        err.print(f"{each.name}: {outcome}", highlight=False)
    if trace is not None and (only is None or DESCRIPTION in only):
        sections.append(describe_section(trace, columns))
    made = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    out_file.write_text(render_report(sections, made), encoding="utf-8")
    return {
        "out": str(out_file),
        "experiments": [
            {"experiment": section.experiment.name, "error": section.trouble}
            if section.result is None
            else section.result.as_json()
            for section in sections
        ],
    }
