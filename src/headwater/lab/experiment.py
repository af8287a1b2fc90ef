"""Defines experiments, their settings and results, and finds an experiment by its name.

A result is plain data: it can be printed, drawn, written as JSON and checked. Its rows are measurements, one per
strategy and budget; its checks are statements of a paper, each with the tolerance under which it is accepted and the
figures that decided. A statement that does not hold is a finding, not a failure of the run.

An experiment is one module in `experiments/` with a value `EXPERIMENT`; `two_steps.py` is the experiment `two-steps`.
It is imported only when it is asked for, so that one broken dependency stops one experiment.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import os
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.errors import NotFound, SettingsError, TraceError
from headwater.estimate.registry import suggest_names
from headwater.lab import experiments
from headwater.lab.traces.trace import load_trace
from headwater.schedule.registry import STRATEGIES, accepts_estimator, parse_strategy, set_estimator
from headwater.schedule.registry import make_strategy as make_strategy  # for the experiments

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Progress = Callable[[int, int, str], None]  # done, of how many, what
Row = dict[str, Any]
# Settings that an experiment may use or ignore; every experiment uses `jobs`, `dask` and `quick`.
OPTIONAL_SETTINGS = (
    "seeds",
    "trace",
    "window",
    "per_day",
    "budget",
    "warmup_days",
    "strategies",
    "estimators",
    "query",
)
PUBLISHED_VALUES = ("paper", "thesis")  # keys of a row that hold other people's figures
# Half widths of 95 % intervals in standard errors (Student's t), by number of seeds; the normal value beyond.
STUDENT = {
    2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26, 15: 2.14, 20: 2.09, 40: 2.02,
    61: 2.00, 121: 1.98,
}  # fmt: skip


def ignore_progress(done: int, total: int, what: str) -> None:
    """Report progress to nobody."""


@dataclass(frozen=True, slots=True)
class LabSettings:
    """Settings of a run; None and () stand for the experiment's own default.

    `per_day` are polls per feed and day, `budget` requests per cycle (or per whatever the experiment calls its cycle).
    `query` is a condition of the query language that says which items of a trace are wanted. `quick` asks for the
    smallest size that still shows the effect; tests and `report --quick` use it.
    """

    seeds: int | None = None
    trace: Path | None = None
    window: int | None = None
    per_day: tuple[float, ...] = ()
    budget: tuple[float, ...] = ()
    warmup_days: float | None = None
    strategies: tuple[str, ...] = ()
    estimators: tuple[str, ...] = ()
    query: str | None = None
    jobs: int = 0
    dask: str | None = None
    quick: bool = False

    def __post_init__(self) -> None:
        for name, value, least in (("--seeds", self.seeds, 1), ("--window", self.window, 1), ("--jobs", self.jobs, 0)):
            if value is not None and value < least:
                raise TraceError(f"{name} is {value}; it must be at least {least}.")
        if self.per_day and self.budget:
            raise TraceError("--per-day and --budget say the same thing in two ways; give one of them.")
        for name, amounts in (("--per-day", self.per_day), ("--budget", self.budget)):
            for amount in amounts:
                if not (0 < amount < float("inf")):
                    raise TraceError(f"{name} is {amount:g}; it must be a number above 0.")
        if self.warmup_days is not None and not (0 <= self.warmup_days < float("inf")):
            raise TraceError(f"--warmup-days is {self.warmup_days:g}; it cannot be negative.")

    def single_rate(self, experiment: str, default: float) -> float:
        """Return the polls per feed and day of an experiment that runs at one rate only."""
        if len(self.per_day) > 1:
            raise TraceError(f"The experiment {experiment} runs at one rate; give --per-day once.")
        return self.per_day[0] if self.per_day else default

    def choose_strategies(self, default: Sequence[str], known: Sequence[str] = tuple(STRATEGIES)) -> tuple[str, ...]:
        """Return the strategies to run, with their parameters. Raises NotFound for a name that is neither known nor a
        class of one's own, SettingsError for a wrong parameter."""
        chosen = []
        for given in self.strategies:
            spec = parse_strategy(given) if given not in known else None  # an experiment may have names of its own
            name = given if spec is None else spec.name
            if ":" not in name and name not in known:
                raise NotFound(f"There is no strategy called “{name}” here. {suggest_names(name, known)}")
            if spec is not None:
                make_strategy(str(spec))
            chosen.append(given if spec is None else str(spec))
        return tuple(chosen) or tuple(default)

    def add_estimators(self, strategies: Sequence[str]) -> tuple[str, ...]:
        """Return each strategy with each of the estimators asked for, or as it is if none is. Those that do not accept
        the estimator are left out, unless a person named them: then SettingsError is raised."""
        if not self.estimators:
            return tuple(strategies)
        known = [name for name in strategies if name.partition("(")[0] in STRATEGIES]  # not an experiment's own names
        named = bool(self.strategies)
        return tuple(
            set_estimator(name, estimator)
            for name in (strategies if named else known)
            for estimator in self.estimators
            if named or accepts_estimator(name, estimator)
        )

    @property
    def process_count(self) -> int:
        return self.jobs or os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Check:
    """A statement, the tolerance under which it is accepted, whether it held, and the figures that say so.

    `because` is the reason why a statement is known not to hold. docs/lab.md lists the runs that showed it. `intervals`
    are half widths of the 95 % intervals, by the names of the figures that have one.
    """

    statement: str
    holds: bool
    tolerance: str
    figures: Mapping[str, float] = field(default_factory=dict)
    source: str = ""
    because: str = ""
    intervals: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_surprise(self) -> bool:
        return self.holds == bool(self.because)


@dataclass(slots=True)
class ExperimentResult:
    """Everything a run found. `data` holds what only the figures need (curves, histograms), as plain arrays."""

    experiment: str
    settings: dict[str, Any]
    rows: list[Row]
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    def add_trace(self, rows: Sequence[Row], checks: Sequence[Check], trace_name: str) -> None:
        """Add the rows and checks of a real trace. Rows get its name and have no published values beside them."""
        self.settings["trace"] = trace_name
        for row in rows:
            measured = {key: value for key, value in row.items() if key not in PUBLISHED_VALUES}
            self.rows.append(measured | {"strategy": f"{row['strategy']} on {trace_name}"})
        self.checks += checks

    def as_json(self) -> dict[str, Any]:
        return {
            "experiment": self.experiment,
            "settings": self.settings,
            "rows": [to_json_value(row) for row in self.rows],
            "checks": [to_json_value(_check_as_json(check)) for check in self.checks],
            "notes": self.notes,
            "seconds": round(self.seconds, 3),
        }


def _check_as_json(check: Check) -> dict[str, Any]:
    found = dataclasses.asdict(check)
    if not check.intervals:
        del found["intervals"]
    return found


@dataclass(frozen=True, slots=True)
class Experiment:
    """A named experiment. `takes` names the settings it uses; others are refused.

    `draw` turns a result into a figure; it may import matplotlib, `run` must work without.
    """

    name: str
    source: str
    summary: str
    run: Callable[[LabSettings, Progress], ExperimentResult]
    draw: Callable[[ExperimentResult], Figure] | None = None
    takes: frozenset[str] = frozenset({"seeds"})
    question: str = ""  # that the experiment answers, for the report

    def select_settings(self, given: LabSettings) -> LabSettings:
        """Return the settings that this experiment uses; the others have their defaults."""
        return dataclasses.replace(given, **{name: getattr(LabSettings(), name) for name in self._ignored_names()})

    def refuse_unused(self, given: LabSettings) -> None:
        """Raise SettingsError for a setting that this experiment cannot heed."""
        for name in self._ignored_names():
            if getattr(given, name) != getattr(LabSettings(), name):
                used = ", ".join(sorted(option_name(each) for each in self.takes))
                raise SettingsError(f"The experiment {self.name} cannot use {option_name(name)}. It takes {used}.")
        if given.trace is None and given.warmup_days is not None:
            raise SettingsError("--warmup-days needs a trace: synthetic worlds have a warm-up of their own.")

    def _ignored_names(self) -> list[str]:
        return [name for name in OPTIONAL_SETTINGS if name not in self.takes]


def option_name(name: str) -> str:
    """Return the option of the command line that sets a setting."""
    return {"strategies": "--strategy", "estimators": "--estimator"}.get(name, "--" + name.replace("_", "-"))


def list_experiments() -> list[str]:
    """Name all experiments: the modules of the package `experiments`.

    >>> list_experiments()[0], list_experiments()[-1]
    ('advarss', 'two-steps')
    """
    return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(experiments.__path__))


def load_experiment(name: str) -> Experiment:
    """Import an experiment by its name. Raises NotFound with the nearest name."""
    names = list_experiments()
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]}?" if near else "`headwater lab list` names them all."
        raise NotFound(f"There is no experiment {name}; {hint}")
    module = importlib.import_module(f"{experiments.__name__}.{name.replace('-', '_')}")
    found: Experiment = module.EXPERIMENT
    return found


def check_trace(settings: LabSettings) -> None:
    """Read the trace once before hours of work. Raises TraceError for a trace that cannot be used."""
    if settings.trace is None:
        return
    trace = load_trace(settings.trace)
    if settings.warmup_days is not None and settings.warmup_days >= trace.days:
        raise TraceError(
            f"--warmup-days is {settings.warmup_days:g}, but the trace {settings.trace.name} has only "
            f"{trace.days:.1f} days; use fewer or a longer trace."
        )


def mean_sd(values: Sequence[float] | np.ndarray[Any, Any]) -> dict[str, float]:
    """Return mean and sample standard deviation, as the rows of a result carry them.

    >>> mean_sd([1.0, 3.0])
    {'mean': 2.0, 'sd': 1.4142135623730951}
    """
    array = np.asarray(values, dtype=float)
    sd = float(array.std(ddof=1)) if len(array) > 1 else 0.0
    return {"mean": float(array.mean()), "sd": sd}


def half_width(sd: float, seeds: int) -> float | None:
    """Return the half width of the 95 % interval of a mean over seeds; None for a single one.

    >>> half_width(0.1, 1), round(half_width(0.1, 4), 3), round(half_width(0.1, 400), 4)
    (None, 0.159, 0.0099)
    """
    if seeds < 2:
        return None
    fewer = max(number for number in STUDENT if number <= seeds)  # of the next smaller number: never too narrow
    return float(STUDENT[fewer] * sd / np.sqrt(seeds))


def half_widths(deviations: Mapping[str, float], seeds: int) -> dict[str, float]:
    """Return the half widths of the 95 % intervals of several means; nothing for a single seed."""
    widths = {name: half_width(sd, seeds) for name, sd in deviations.items()}
    return {name: round(width, 12) for name, width in widths.items() if width is not None}


def measure_intervals(by_name: Mapping[str, Sequence[float] | np.ndarray[Any, Any]]) -> dict[str, float]:
    """Return the half widths of the 95 % intervals of means over seeds, where there are several seeds.

    >>> measure_intervals({"a": [1.0, 3.0], "b": [1.0]})
    {'a': 12.71}
    """
    found: dict[str, float] = {}
    for name, values in by_name.items():
        if len(values) > 1:
            found |= half_widths({name: mean_sd(values)["sd"]}, len(values))
    return found


def measure_spread(by_name: Mapping[str, Sequence[float]]) -> dict[str, dict[str, float]]:
    """Return the entry `sd` of a row whose measures are plain means over seeds; nothing for a single seed.

    >>> measure_spread({"mean_delay_s": [1.0, 3.0]})
    {'sd': {'mean_delay_s': 1.4142135623730951}}
    """
    several = {name: mean_sd(values)["sd"] for name, values in by_name.items() if len(values) > 1}
    return {"sd": several} if several else {}


def to_json_value(value: Any) -> Any:
    """Convert arrays and numpy numbers to what JSON knows; NaN and infinities become null."""
    if isinstance(value, Mapping):
        return {str(key): to_json_value(each) for key, each in value.items()}
    if isinstance(value, np.ndarray):
        return [to_json_value(each) for each in value.tolist()]
    if isinstance(value, list | tuple):
        return [to_json_value(each) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
