"""Measures the divergence error of the models by shape and refresh rate (thesis fig. 7.8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headwater.arrays import Floats
from headwater.lab.experiment import Check, LabSettings, Progress, Row, mean_sd, measure_intervals
from headwater.lab.figures import line_style
from headwater.lab.online.shaped_feeds import (
    FEEDS,
    MEASURED_DAYS,
    MODELS,
    PER_FEED,
    SHAPES,
    WARMUP_DAYS,
    draw_counts,
    make_model,
    select_real_counts,
)
from headwater.lab.simulation.cycles import make_rng
from headwater.lab.simulation.estimator_error import CYCLES_PER_DAY, draw_refreshes, measure_error
from headwater.lab.sweep import run_each

ErrorsByKey = Mapping[tuple[str, str, float], Floats]
STEADY_HYBRID = "hybrid(errors=5)"
ALPHAS = (0.02, 0.07, 0.2)  # the best is used for each model, shape and refresh rate, as in the thesis


def measure_errors(shape: str, name: str, hours: float, alpha: float, seeds: int) -> Floats:
    """Return eq. 7.4 for every seed, as a share of a day's items. Feeds are independent, so all seeds run as one
    array."""
    days = WARMUP_DAYS + MEASURED_DAYS
    rngs = [make_rng(seed, SHAPES.index(shape), 7) for seed in range(seeds)]
    counts = np.hstack([draw_counts(shape, FEEDS, days, rng) for rng in rngs])
    plan = np.hstack([draw_refreshes(days * CYCLES_PER_DAY, FEEDS, hours, rng) for rng in rngs])
    groups = np.repeat(np.arange(seeds), FEEDS)
    return (
        measure_error(make_model(name, alpha), counts, plan, groups, WARMUP_DAYS * CYCLES_PER_DAY).divergence / PER_FEED
    )


def add_error_rows(
    given: LabSettings,
    progress: Progress,
    seeds: int,
    hours: tuple[float, ...],
    models: Sequence[str],
    rows: list[Row],
) -> dict[tuple[str, str, float], Floats]:
    """Measure the errors with the best smoothing factor, and add their rows."""
    keys = [(shape, name, each) for shape in SHAPES for name in models for each in hours]
    jobs = [(*key, alpha) for key in keys for alpha in (ALPHAS if key[1] in (*MODELS, STEADY_HYBRID) else ALPHAS[:1])]
    found = run_each(measure_errors, jobs, given, progress, "divergence errors", seeds=seeds)
    best: dict[tuple[str, str, float], Floats] = {}
    for shape, name, each in keys:
        tried = [a for a in ALPHAS if (shape, name, each, a) in found]
        alpha = min(tried, key=lambda a: float(found[shape, name, each, a].mean()))
        best[shape, name, each] = found[shape, name, each, alpha]
        rows.append(
            {"shape": shape, "strategy": name, "hours": each, "budget": 24.0 / each, "alpha": alpha}
            | {"divergence_error": mean_sd(best[shape, name, each])}
        )
    return best


def _error_ratios(errors: ErrorsByKey, shape: str, hours: Sequence[float]) -> dict[str, float]:
    """Return the error of periodic over that of single by refresh interval."""
    return {
        f"{each:g} h": float(errors[shape, "periodic", each].mean() / errors[shape, "single", each].mean())
        for each in hours
    }


def _ratio_intervals(errors: ErrorsByKey, shape: str, hours: Sequence[float]) -> dict[str, float]:
    """Return the half widths of the 95 % intervals of these ratios, over the ratios of single seeds."""
    return measure_intervals(
        {f"{each:g} h": errors[shape, "periodic", each] / errors[shape, "single", each] for each in hours}
    )


def check_errors(errors: ErrorsByKey, hours: Sequence[float]) -> list[Check]:
    """Check figure 7.8: which model errs less for which shape."""
    waves, flat = _error_ratios(errors, "waves", hours), _error_ratios(errors, "uniform", hours)
    peaks = _error_ratios(errors, "peaks", hours)
    width = {shape: _ratio_intervals(errors, shape, hours) for shape in ("waves", "uniform", "peaks")}
    often = {key: value for key, value in peaks.items() if float(key[:-2]) <= 1.0}
    rare = {key: value for key, value in peaks.items() if float(key[:-2]) >= 8.0}
    hybrids = [
        _check_hybrid(errors, name, words, hours, source, because)
        for name, words, source, because in (
            (
                "hybrid",
                "hybrid model",
                "thesis 7.2.3",
                "it switches on the error of one refresh, which is mostly chance",
            ),
            (STEADY_HYBRID, "hybrid model that compares the mean errors of five refreshes", "ours", ""),
        )
        if (SHAPES[0], name, hours[0]) in errors
    ]
    return [
        Check(
            "for waves the periodic model errs less than the single one, however often feeds are refreshed",
            max(waves.values()) < 1.0,
            "ratio of the errors below 1 at every refresh rate",
            waves,
            "thesis fig. 7.8c",
            intervals=width["waves"],
        ),
        Check(
            "for peaks the periodic model errs less when feeds are refreshed often",
            max(often.values()) < 1.0,
            "ratio below 1 up to one hour",
            often,
            "thesis fig. 7.8a",
            intervals={key: value for key, value in width["peaks"].items() if key in often},
        ),
        Check(
            "for peaks the single model becomes as good when feeds are refreshed rarely",
            min(rare.values()) > 0.9,
            "ratio above .9 from eight hours on",
            rare,
            "thesis fig. 7.8a",
            intervals={key: value for key, value in width["peaks"].items() if key in rare},
        ),
        Check(
            "for uniform feeds both models do alike",
            all(0.9 <= value <= 1.15 for value in flat.values()),
            "ratio within .9 … 1.15 at every refresh rate",
            flat,
            "thesis fig. 7.8b",
            intervals=width["uniform"],
        ),
        *hybrids,
    ]


def _check_hybrid(
    errors: ErrorsByKey, name: str, words: str, hours: Sequence[float], source: str, because: str
) -> Check:
    ratios = [
        float(errors[shape, name, each].mean() / min(errors[shape, one, each].mean() for one in MODELS[:2]))
        for shape in SHAPES
        for each in hours
    ]
    return Check(
        f"the {words} follows the better of the two",
        max(ratios) <= 1.15,
        "error at most 1.15 times that of the better model",
        {"worst": max(ratios), "mean": float(np.mean(ratios))},
        source,
        because,
    )


def measure_trace_errors(path: Path, hours: tuple[float, ...]) -> dict[str, dict[str, list[float]]]:
    """Measure divergence errors on the real feeds of each shape, by model and refresh rate."""
    found: dict[str, dict[str, list[float]]] = {}
    for label, counts in select_real_counts(path).items():
        # Normalised as in the thesis, because only the shape counts. Ten thousandths of a day's items keep the counts
        # whole.
        normal = np.round(counts / counts.sum(0) * 28 * 10_000).astype(np.int64)
        feeds = counts.shape[1]
        found[label] = {name: [] for name in MODELS}
        for each in hours:
            plan = draw_refreshes(len(counts), feeds, each, make_rng(0, SHAPES.index(label), round(each * 10)))
            for name in MODELS:
                errors = [
                    measure_error(
                        make_model(name, a),
                        normal,
                        plan,
                        np.zeros(feeds, dtype=np.int64),
                        WARMUP_DAYS * CYCLES_PER_DAY,
                    )
                    for a in ALPHAS
                ]
                found[label][name].append(min(float(each_error.divergence[0]) for each_error in errors) / 10_000)
    return found


def check_trace_errors(
    real: Mapping[str, Mapping[str, Sequence[float]]], hours: Sequence[float], name: str
) -> list[Check]:
    """Check the statements about waves and uniform feeds on a real trace."""
    checks = []
    for shape, low, high, text in (
        ("waves", 0.0, 1.0, "the periodic model errs less than the single one for waves"),
        ("uniform", 0.85, 1.15, "both models do alike for uniform feeds"),
    ):
        if shape not in real:
            continue
        ratio = {
            f"{each:g} h": periodic / single
            for each, periodic, single in zip(hours, real[shape]["periodic"], real[shape]["single"], strict=True)
        }
        checks.append(
            Check(
                f"on {name}: {text}",
                all(low <= value < high for value in ratio.values()),
                f"ratio of the errors within {low:g} … {high:g} at every refresh rate",
                ratio,
                "thesis fig. 7.8",
            )
        )
    return checks


def draw_errors(axis: Any, errors: Any, shape: str, hours: Any, names: Sequence[str]) -> None:
    for place, name in enumerate(names, 1):  # as in figures 7.9 and 7.10, where the true day comes first
        axis.plot(hours, [errors[shape, name, each].mean() * 100 for each in hours], label=name, **line_style(place))
    axis.set_xscale("log", base=2)
    axis.set_xticks(hours, [f"{each:g}" for each in hours])
    axis.set_xlabel("mean hours between refreshes")
    axis.set_ylabel("divergence error\n(% of a day's items)")
    axis.set_title(f"Fig. 7.8: divergence error, {shape}", fontsize=10)
