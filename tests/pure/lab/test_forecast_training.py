"""The learned forecast is trained from traces by a command, on other feeds than those it is measured on."""

from __future__ import annotations

import itertools
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from headwater.errors import TraceError
from headwater.estimate.learned.network import WEIGHTS
from headwater.estimate.models.learned_forecast import load_network, read_network
from headwater.lab.experiment import ignore_progress
from headwater.lab.experiments.forecast import GROUPS, LookAhead, hide_inputs, make_value
from headwater.lab.simulation.clairvoyant import choose_refreshes, replay_clairvoyant
from headwater.lab.simulation.replay import ReplaySettings, replay_trace
from headwater.lab.simulation.scores import score_replay
from headwater.lab.traces.trace import Trace
from headwater.lab.training.forecast_rows import is_checked, is_held_out
from headwater.lab.training.train_forecast import TrainingSettings, train_forecast
from headwater.times import DAY

START = 20_000 * DAY


def punctual_lists(feeds: int = 20, days: int = 12) -> list[list[float]]:
    rng = np.random.default_rng(7)
    minutes = rng.integers(0, 1440, (feeds, 2)) * 60.0
    return [
        sorted(START + day * DAY + at + float(rng.integers(60)) for day in range(days) for at in minutes[feed])
        for feed in range(feeds)
    ]


def test_a_training_writes_weights_and_reports_what_it_measured(tmp_path: Path) -> None:
    trace = tmp_path / "small.csv"
    lines = [f"feed {k},{int(at)}" for k, times in enumerate(punctual_lists()) for at in times]
    trace.write_text("source,published_at\n" + "\n".join(lines) + "\n", encoding="utf-8")
    out = tmp_path / "weights.npz"
    report = train_forecast(TrainingSettings((trace,), rows=2000, epochs=1, jobs=1), out, ignore_progress)
    with out.open("rb") as file:
        assert read_network(file).weights.shape == (WEIGHTS,)
    with np.load(out) as saved:
        made = str(saved["made"]).splitlines()
    assert made[0] == (
        "headwater lab train-forecast --trace small.csv --rows 2000 --epochs 1 --feeds-held-out 0.2 --seed 0"
    )
    assert made[1] == f"{sha256(trace.read_bytes()).hexdigest()}  small.csv"
    assert report["rows"] > 300
    assert report["rows_held_out"] > 30
    assert report["loss_of_belief"] > 0
    assert report["delays"][0]["ratio"] == pytest.approx(
        report["delays"][0]["forecast_h"] / report["delays"][0]["bayes_h"]
    )


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(TraceError, match="--trace"):
        TrainingSettings(())
    with pytest.raises(TraceError, match="between 0 and 1"):
        TrainingSettings((Path("x"),), held_out=1.0)


def test_feeds_are_held_out_by_name() -> None:
    names = tuple(f"feed {k}" for k in range(1000))
    held = is_held_out(names, 0.2)
    assert 150 < held.sum() < 250
    np.testing.assert_array_equal(is_held_out(names[::-1], 0.2)[::-1], held)
    checked = is_checked(names, 0.2)
    assert 60 < checked.sum() < 140
    assert not (held & checked).any()


def test_looking_ahead_beats_the_belief() -> None:
    trace = Trace.from_lists(punctual_lists(feeds=6, days=9))
    settings = ReplaySettings(history_days=2.0, warmup_days=1.0)
    late = []
    for name in ("belief", "look_ahead"):
        run = replay_trace(make_value(name, trace, 0.05), trace, settings)
        late.append(score_replay(run).mean_delay_s * run.per_day)
    assert late[1] < 0.8 * late[0]
    assert LookAhead(trace).name == "look_ahead"


@pytest.mark.parametrize("price", [0.01, 0.3, 5.0])
def test_the_clairvoyant_oracle_finds_the_best_refreshes(price: float) -> None:
    """Every choice of refreshes is tried on eight items; the last of them must be obtained, and no window overflows."""
    days = np.sort(np.random.default_rng(3).uniform(0, 6, 8))
    costs = {}
    for chosen in itertools.product((False, True), repeat=7):
        marks = np.array([*chosen, True])
        refreshes = np.flatnonzero(marks)
        if np.diff(refreshes, prepend=-1).max() <= 4:
            got = refreshes[np.searchsorted(refreshes, np.arange(8))]
            costs[tuple(marks.tolist())] = float((days[got] - days).sum() + price * len(refreshes))
    found = choose_refreshes(Trace.from_lists([(days * DAY).tolist()]), price, 4)
    assert costs[tuple(found.tolist())] == pytest.approx(min(costs.values()))


def test_no_plan_beats_the_clairvoyant_oracle_at_its_cost() -> None:
    trace = Trace.from_lists(punctual_lists(feeds=6, days=9))
    settings = ReplaySettings(history_days=2.0, warmup_days=1.0)
    looked = replay_trace(make_value("look_ahead", trace, 0.05), trace, settings)
    oracle = replay_clairvoyant(trace, settings, looked.per_day)
    assert oracle.off <= 0.01
    assert score_replay(oracle.replay).mean_delay_s < score_replay(looked).mean_delay_s
    assert score_replay(oracle.replay).completeness.mean == 1.0


def test_hidden_inputs_change_nothing() -> None:
    network = hide_inputs(load_network(), GROUPS["no_gaps"])
    rng = np.random.default_rng(1)
    refresh, bins = rng.normal(size=(2, 35)).astype(np.float32), rng.normal(size=(2, 72, 26)).astype(np.float32)
    other_refresh, other_bins = refresh.copy(), bins.copy()
    other_refresh[:, 14:17] += 2.0
    other_bins[:, :, 13:20] -= 3.0
    np.testing.assert_array_equal(network.correct(refresh, bins)[1], network.correct(other_refresh, other_bins)[1])
