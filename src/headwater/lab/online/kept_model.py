"""Measures a model that is learned from frequent refreshes for four weeks and then kept (thesis 7.3.4)."""

from __future__ import annotations

import numpy as np

from headwater.arrays import Floats
from headwater.lab.experiment import Check, LabSettings, Progress, Row, measure_intervals, measure_spread
from headwater.lab.online.shaped_feeds import FEEDS, MEASURED_DAYS, PER_FEED, SHAPES, draw_counts, make_model
from headwater.lab.simulation.cycles import make_rng
from headwater.lab.simulation.estimator_error import CYCLES_PER_DAY, draw_refreshes, measure_error
from headwater.lab.sweep import run_each

LEARNING_DAYS = 28  # of hourly refreshes before a model is kept


def measure_kept_model(shape: str, hours: float, seeds: int, changing: bool) -> dict[str, Floats]:
    """Return the errors, by seed, of a periodic model that always learns, and of one that is learned and then kept.

    The latter learns from hourly refreshes for four weeks. Both are refreshed every `hours` after them. With `changing`
    the feed takes another shape then.
    """
    days = LEARNING_DAYS + 2 * MEASURED_DAYS
    edge, warmup = LEARNING_DAYS * CYCLES_PER_DAY, (LEARNING_DAYS + MEASURED_DAYS) * CYCLES_PER_DAY
    other = SHAPES[(SHAPES.index(shape) + 1) % len(SHAPES)]
    counts, often, rarely = [], [], []
    for seed in range(seeds):
        rng = make_rng(seed, SHAPES.index(shape), 11)
        parts = ((shape, LEARNING_DAYS), (other, days - LEARNING_DAYS)) if changing else ((shape, days),)
        counts.append(np.vstack([draw_counts(each, FEEDS, part, rng) for each, part in parts]))
        rare = draw_refreshes(days * CYCLES_PER_DAY, FEEDS, hours, rng)
        rarely.append(rare)
        often.append(np.vstack([draw_refreshes(edge, FEEDS, 1.0, rng), rare[edge:]]))
    groups = np.repeat(np.arange(seeds), FEEDS)
    found = {}
    for name, plans, until in (("online", rarely, None), ("learned apart, then kept", often, edge)):
        error = measure_error(
            make_model("periodic", 0.1),
            np.hstack(counts),
            np.hstack(plans),
            groups,
            warmup,
            learn_until=until,
        )
        found[name] = np.asarray(error.divergence / PER_FEED)
    return found


def add_kept_models(given: LabSettings, progress: Progress, seeds: int, rows: list[Row]) -> list[Check]:
    """Measure thesis 7.3.4: a model learned apart and kept, at one refresh a day, for feeds that stay or change."""
    keys = [(shape, 24.0, changing) for shape in ("peaks", "waves") for changing in (False, True)]
    found = {}
    jobs = [(shape, hours, seeds, changing) for shape, hours, changing in keys]
    for (shape, hours, _, changing), errors in run_each(measure_kept_model, jobs, given, progress, "kept").items():
        label = f"{shape}, then another shape" if changing else shape
        for name, error in errors.items():
            rows.append(
                {"shape": label, "strategy": f"periodic, {name}", "hours": hours, "budget": 24.0 / hours}
                | {"divergence_error": float(error.mean())}
                | measure_spread({"divergence_error": error.tolist()})
            )
        found[shape, changing] = errors["learned apart, then kept"], errors["online"]
    ratios = {key: float(kept.mean() / online.mean()) for key, (kept, online) in found.items()}
    stays, moves = (
        {shape: ratio for (shape, moved), ratio in ratios.items() if moved is part} for part in (False, True)
    )
    stays_width, moves_width = (
        measure_intervals({shape: kept / online for (shape, moved), (kept, online) in found.items() if moved is part})
        for part in (False, True)
    )
    return [
        Check(
            "at one refresh a day a model learned apart and then kept errs less than one that learns online",
            max(stays.values()) < 1.0,
            "ratio of the errors below 1 for feeds that keep their shape",
            stays,
            "thesis 7.3.4",
            intervals=stays_width,
        ),
        Check(
            "a kept model is not reliable for feeds that change",
            max(moves.values()) > 1.0,
            "ratio of the errors above 1 for one shape at least",
            moves,
            "thesis 7.3.4",
            intervals=moves_width,
        ),
    ]
