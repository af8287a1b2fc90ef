"""Trains the learned forecast on traces and measures it on feeds held out: the work of `lab train-forecast`."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headwater.errors import TraceError
from headwater.estimate.learned.inputs import BIN_INPUTS, REFRESH_INPUTS
from headwater.estimate.learned.network import WEIGHTS, Network, Scaling
from headwater.estimate.models.bayes import Bayes
from headwater.estimate.models.learned_forecast import LearnedForecast, read_network
from headwater.lab.experiment import LabSettings, Progress
from headwater.lab.simulation.equal_cost import price_knob, replay_at_cost, sample_by_activity
from headwater.lab.simulation.replay import ReplaySettings
from headwater.lab.simulation.scores import score_replay
from headwater.lab.sweep import SweepJob, run_jobs
from headwater.lab.traces.trace import Trace, load_trace
from headwater.lab.training.forecast_rows import (
    MAX_DAYS,
    PRICES,
    ForecastRows,
    is_checked,
    is_held_out,
    make_rows,
)
from headwater.lab.training.forecast_training import train_network
from headwater.schedule.value.value import Value
from headwater.times import DAY

CHECK_ROWS = 0.1  # rows that choose the best epoch for each row of training
ROUNDS = 4  # replays of each trace at each price, with other feeds and other noise
COMPARED_REFRESHES = 20_000  # of one replay that compares delays


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """The traces of a training, the rows in all, epochs, the share of feeds held out, the seed, and processes."""

    traces: tuple[Path, ...]
    rows: int = 2_400_000
    epochs: int = 16
    held_out: float = 0.2
    seed: int = 0
    jobs: int = 0

    def __post_init__(self) -> None:
        if not self.traces:
            raise TraceError("Missing --trace: give at least one Parquet or CSV file.")
        if not 0 < self.held_out < 1:
            raise TraceError(f"--feeds-held-out is {self.held_out:g}; it must lie between 0 and 1, for example .2.")
        if self.rows < 2000 or self.epochs < 1:
            raise TraceError("Give at least 2000 --rows and one of --epochs.")


def train_forecast(settings: TrainingSettings, out: Path, progress: Progress) -> dict[str, Any]:
    """Train a network, write it to `out`, and return the report."""
    shares = share_rows([len(load_trace(path).times) for path in settings.traces])
    lab = LabSettings(jobs=settings.jobs)
    jobs = list_jobs(settings, shares)
    made: list[ForecastRows] = run_jobs([SweepJob(make_part, (settings, *job)) for job in jobs], lab, progress, "rows")
    rows, check = (
        ForecastRows.join([part for job, part in zip(jobs, made, strict=True) if job.part == name])
        for name in ("train", "check")
    )
    if not len(rows) or not len(check):
        raise TraceError("The traces give no rows to train on or to check with: give longer ones.")
    progress(0, settings.epochs, "epochs")
    trained = train_network(
        rows, check, settings.epochs, settings.seed, lambda epoch, *_: progress(epoch, settings.epochs, "epochs")
    )
    write_network(out, trained.network, describe_training(settings))
    delays = run_jobs(
        [SweepJob(compare_delays, (path, settings.held_out, out)) for path in settings.traces], lab, progress, "delays"
    )
    return {
        "out": str(out),
        "seed": settings.seed,
        "rows": len(rows),
        "rows_held_out": len(check),
        "feeds_held_out": settings.held_out,
        "loss": min(trained.losses),
        "loss_of_belief": trained.belief_loss,
        "losses": list(trained.losses),
        "delays": delays,
    }


class RowJob(NamedTuple):
    """Rows to make: of which feeds of a trace, at which price, how many, in which round."""

    path: Path
    part: str
    price: float
    rows: int
    round: int


def list_jobs(settings: TrainingSettings, shares: list[float]) -> list[RowJob]:
    """List the rows to make of each trace, given each trace's share of them."""
    return [
        RowJob(path, part, price, max(int(settings.rows * share * of_rows / len(PRICES) / rounds), 100), k)
        for part, of_rows, rounds in (("train", 1.0, ROUNDS), ("check", CHECK_ROWS, 1))
        for path, share in zip(settings.traces, shares, strict=True)
        for price in PRICES
        for k in range(rounds)
    ]


def share_rows(items: list[int]) -> list[float]:
    """Share the rows by the roots of the traces' items, so that a large trace does not drown the others.

    >>> share_rows([588_793, 154_062, 67_588, 7_583])
    [0.51, 0.26, 0.17, 0.06]
    """
    roots = np.sqrt(items)
    return [round(float(root), 2) for root in roots / roots.sum()]


def make_blank_network() -> Network:
    """Return a network that corrects nothing, for making rows."""
    one = np.ones(REFRESH_INPUTS + BIN_INPUTS, np.float32)
    return Network(np.zeros(WEIGHTS, np.float32), Scaling(-one, one, 0 * one, one))


def describe_training(settings: TrainingSettings) -> str:
    """Return the command that makes these weights again, and the SHA-256 of each trace."""
    traces = "".join(f" --trace {path.name}" for path in settings.traces)
    digests = "".join(f"\n{sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in settings.traces)
    return (
        f"headwater lab train-forecast{traces} --rows {settings.rows} --epochs {settings.epochs} "
        f"--feeds-held-out {settings.held_out:g} --seed {settings.seed}{digests}"
    )


def write_network(path: Path, network: Network, made: str) -> None:
    """Write a network as .npz, with a text that says how it was made."""
    scaling = network.scaling
    with path.open("wb") as file:
        np.savez(
            file,
            weights=network.weights,
            low=scaling.low,
            high=scaling.high,
            mean=scaling.mean,
            deviation=scaling.deviation,
            made=np.array(made),
        )


def select_feeds(path: Path, share: float, part: str) -> Trace:
    """Load a part of the feeds: those that train, those that choose the best epoch (`check`), or those held out."""
    trace = load_trace(path)
    held_out, checked = is_held_out(trace.names, share), is_checked(trace.names, share)
    chosen = np.flatnonzero({"train": ~held_out & ~checked, "check": checked, "held_out": held_out}[part])
    if not len(chosen):
        raise TraceError(f"The trace {path.name} has too few feeds to hold some out.")
    return trace.select_feeds(chosen)


def make_part(settings: TrainingSettings, path: Path, part: str, price: float, rows: int, number: int) -> ForecastRows:
    """Make the rows of one job."""
    trace = select_feeds(path, settings.held_out, part)
    return make_rows(trace, price, rows, make_blank_network(), settings.seed * ROUNDS + number, fast=True)


def compare_delays(path: Path, share: float, weights: Path) -> dict[str, Any]:
    """Replay some held-out feeds at one poll a day, with the belief alone and with the network as it is."""
    trace = select_feeds(path, share, "held_out")
    if trace.days > MAX_DAYS:
        trace = trace.select_period(trace.end - MAX_DAYS * DAY, np.inf)
    trace = sample_by_activity(trace, max(int(COMPARED_REFRESHES / trace.days), 40))
    with weights.open("rb") as file:
        network = read_network(file)
    found: dict[str, Any] = {"trace": path.name, "feeds": trace.feeds}
    for name in ("bayes", "forecast"):

        def make(price: float, name: str = name) -> Value:
            learned = name == "forecast"
            estimator = LearnedForecast(network=network, learning=False, fast=True) if learned else Bayes(fast=True)
            return Value(price=price, estimator=estimator, fast=True)

        protocol = ReplaySettings(history_days=min(7.0, trace.days / 10), warmup_days=min(14.0, trace.days / 5))
        fitted = replay_at_cost(price_knob(make, 1.0, 0.08), trace, protocol, 1.0)
        found[f"{name}_h"] = score_replay(fitted.replay).mean_delay_s * (1 + fitted.off) / 3600
    return found | {"ratio": found["forecast_h"] / found["bayes_h"]}
