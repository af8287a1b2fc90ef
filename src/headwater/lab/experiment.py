"""What an experiment is: settings in, a result out that can be printed, drawn, written as JSON and checked.

A result is plain data. Its rows are measurements, one per strategy and budget; its checks are statements of a paper,
each with the tolerance under which it is accepted and the figures that decided. A statement that does not hold is a
finding, not a failure of the run.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.errors import TraceError
from headwater.lab.traces.trace import load_trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Progress = Callable[[int, int, str], None]  # done, of how many, what
Row = dict[str, Any]
# What experiments heed or not; all of them heed `jobs`, `dask` and `quick`.
OPTIONAL_SETTINGS = ("seeds", "trace", "window", "per_day", "budget", "warmup_days", "strategies", "query")


def ignore_progress(done: int, total: int, what: str) -> None:
    """Nobody watches."""


@dataclass(frozen=True, slots=True)
class LabSettings:
    """What a person may set for a run; None and () mean that the experiment's own default holds.

    `per_day` are polls per feed and day, `budget` requests per cycle (or whatever the experiment calls its cycle).
    `query` is a condition of the query language that says which items of a trace are wanted.
    `quick` asks for the smallest size that still shows the effect; it is what tests and `report --quick` use.
    """

    seeds: int | None = None
    trace: Path | None = None
    window: int | None = None
    per_day: tuple[float, ...] = ()
    budget: tuple[float, ...] = ()
    warmup_days: float | None = None
    strategies: tuple[str, ...] = ()
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

    def single_rate(self, experiment: str, usual: float) -> float:
        """The polls per feed and day of an experiment that runs at one rate only."""
        if len(self.per_day) > 1:
            raise TraceError(f"The experiment {experiment} runs at one rate; give --per-day once.")
        return self.per_day[0] if self.per_day else usual

    @property
    def process_count(self) -> int:
        return self.jobs or os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Check:
    """A statement, the tolerance under which it is accepted, whether it held, and the figures that say so."""

    statement: str
    holds: bool
    tolerance: str
    figures: Mapping[str, float] = field(default_factory=dict)
    source: str = ""


@dataclass(slots=True)
class ExperimentResult:
    """Everything a run found. `data` holds what only the plots need (curves, histograms), as plain arrays."""

    experiment: str
    settings: dict[str, Any]
    rows: list[Row]
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        return {
            "experiment": self.experiment,
            "settings": self.settings,
            "rows": [to_json_value(row) for row in self.rows],
            "checks": [dataclasses.asdict(check) for check in self.checks],
            "notes": self.notes,
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True, slots=True)
class Experiment:
    """A named experiment. `takes` names the settings it heeds; of any other that is given the result says so.

    `draw` turns its result into a figure; it may import matplotlib, `run` may not need it.
    """

    name: str
    source: str
    summary: str
    run: Callable[[LabSettings, Progress], ExperimentResult]
    draw: Callable[[ExperimentResult], Figure] | None = None
    takes: frozenset[str] = frozenset({"seeds"})

    def select_settings(self, given: LabSettings) -> LabSettings:
        """The settings with only those that this experiment takes; the others are as if nobody had given them."""
        return dataclasses.replace(given, **{name: getattr(LabSettings(), name) for name in self._ignored_names()})

    def list_ignored_settings(self, given: LabSettings) -> list[str]:
        """A sentence for each setting that was given in vain."""
        heeds = ", ".join(sorted(_option_name(name) for name in self.takes))
        return [
            f"{_option_name(name)} was not heeded: the experiment {self.name} has no use for it; it heeds {heeds}."
            for name in self._ignored_names()
            if getattr(given, name) != getattr(LabSettings(), name)
        ]

    def _ignored_names(self) -> list[str]:
        return [name for name in OPTIONAL_SETTINGS if name not in self.takes]


def _option_name(name: str) -> str:
    return "--strategy" if name == "strategies" else "--" + name.replace("_", "-")


def check_trace(settings: LabSettings) -> None:
    """Read the trace once before hours of work, so that what is wrong with it is told at once."""
    if settings.trace is None:
        return
    trace = load_trace(settings.trace)
    if settings.warmup_days is not None and settings.warmup_days >= trace.days:
        raise TraceError(
            f"--warmup-days is {settings.warmup_days:g}, but the trace {settings.trace.name} has only "
            f"{trace.days:.1f} days; use fewer or a longer trace."
        )


def mean_sd(values: Sequence[float] | np.ndarray[Any, Any]) -> dict[str, float]:
    """Mean and sample standard deviation, as the rows of a result carry them.

    >>> mean_sd([1.0, 3.0])
    {'mean': 2.0, 'sd': 1.4142135623730951}
    """
    array = np.asarray(values, dtype=float)
    sd = float(array.std(ddof=1)) if len(array) > 1 else 0.0
    return {"mean": float(array.mean()), "sd": sd}


def to_json_value(value: Any) -> Any:
    """Arrays and numpy numbers as what JSON knows; NaN becomes null."""
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
