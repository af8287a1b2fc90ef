"""Measures how near the strategies come to the bounds of what is possible, in the two-steps world.

There are three kinds of knowledge, each with its bound: known rates only (open loop), windows seen at every cycle (seen
divergence), and only what refreshes return (bounded by the open loop too, since knowing the rates could only help). The
clairvoyant bound is above all. Online strategies are also measured after all rates have changed.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.arrays import Bools, Floats, Ragged, Rows
from headwater.estimate.models.bayes import Bayes, expect_given_at_least
from headwater.estimate.models.fixed import FixedRate
from headwater.estimate.models.smoothing import SingleRate
from headwater.lab.experiment import Check, Experiment, ExperimentResult, LabSettings, Progress, Row, mean_sd
from headwater.lab.figures import COLOURS, LINES, create_figure
from headwater.lab.simulation import bounds
from headwater.lab.simulation.cycles import CycleSettings, CycleWorld, draw_cycle_world, make_rng, run_cycles
from headwater.lab.sweep import run_grid
from headwater.schedule.strategies.round_robin import Uniform
from headwater.schedule.strategies.two_steps import TwoSteps
from headwater.schedule.strategy import Strategy
from headwater.schedule.value.value_index import ValueIndex

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BOUND = "bound, "
VALUE_COLOUR, OTHER_COLOUR = COLOURS[1], COLOURS[0]
BOUND_COLOURS = {"open loop": COLOURS[2], "seen divergence": COLOURS[3], "clairvoyant": COLOURS[6]}
BUDGETS = (10.0, 30.0, 50.0)
BALANCE = 0.65  # θ of the runs that weigh freshness too
KNOWN, VALUE_SEEN = "value, known rates", "value, seen divergence"
KNOWN_FRESH = "value, known rates, θ=.65, equal cost"
ONLINE, ONLINE_FRESH = "value, online", "value, online, θ=.65, equal cost"
TWO_SEEN, TWO_ONLINE = "two_steps, seen divergence", "two_steps, online"
TWO_IMPUTED = "two_steps, online, imputing"
UNIFORM = "uniform"
CHANGED, TWO_CHANGED = "value, online, after a change", "two_steps, online, after a change"
OPEN_BOUND, SEEN_BOUND, CLAIRVOYANT = "bound, open loop", "bound, seen divergence", "bound, clairvoyant"


class ImputingSingle(SingleRate):
    """Smoothing that replaces the count of a full window by its expectation, given that it is at least that many."""

    name = "imputing_single"

    def learn(
        self,
        rows: Rows,
        start: Floats,
        end: Floats,
        new: Floats,
        saturated: Bools,
        published: Ragged | None,
        alpha: Floats | float | None = None,
    ) -> None:
        believed = self._columns["rate"][rows].astype(np.float64) * (end - start)
        super().learn(
            rows,
            start,
            end,
            np.where(saturated, expect_given_at_least(new, believed), new),
            saturated,
            published,
            alpha=alpha,
        )


@dataclass(frozen=True, slots=True)
class WorldMeasure:
    """One measurement in one world; a bound has no freshness and uses the whole budget."""

    completeness: float
    requests: float
    freshness: float = float("nan")


def make_estimator() -> Bayes:
    """Make `bayes` for cycles as days: no shape, no dates, one slow memory, reset on change."""
    return Bayes(
        scales=(100.0,),
        doubts=(),
        prior=(1.0, 0.5),
        shaped=False,
        trusting=False,
        reset=4.0,
        dispersion=1.0,
        day=1.0,
    )


def draw_rates(settings: CycleSettings, seed: int) -> Floats:
    """Draw the rates of a world's feeds."""
    return make_rng(seed, 2).uniform(0.0, settings.top_rate, settings.feeds)


def draw_changing_world(settings: CycleSettings, seed: int) -> CycleWorld:
    """Draw a world whose feeds all get other rates when measuring begins."""
    after = make_rng(seed, 3).uniform(0.0, settings.top_rate, settings.feeds)
    rates = np.where(np.arange(settings.cycles)[:, None] < settings.warmup, draw_rates(settings, seed), after)
    return draw_cycle_world(settings, make_rng(seed, 0), rates)


def run_world(budget: float, seed: int, settings: CycleSettings, bound_seen: bool) -> dict[str, WorldMeasure]:
    """Measure every strategy and bound in one world at one budget."""
    rates = draw_rates(settings, seed)
    world = draw_cycle_world(settings, make_rng(seed, 0), rates)
    changed = draw_changing_world(settings, seed)
    feeds = settings.feeds
    known = FixedRate(feeds)
    known.set_rates(np.arange(feeds), rates)

    def chance() -> np.random.Generator:
        return make_rng(seed, 1)

    def index(theta: float = 0.0, estimator: FixedRate | Bayes | None = None) -> Strategy:
        return ValueIndex(feeds, step=1.0, freshness=theta, estimator=estimator or make_estimator(), rng=chance())

    def two_steps(kind: type[SingleRate] = SingleRate) -> Strategy:
        return TwoSteps(feeds, estimator=kind(alpha=0.1, rate=1.0), capped=True, rng=chance())

    found: dict[str, WorldMeasure] = {}

    def measure(
        name: str, strategy: Strategy, of: CycleWorld, sees_windows: bool = False, give: float = budget
    ) -> None:
        scores = run_cycles(of, strategy, give, "divergence" if sees_windows else "nothing")
        found[name] = WorldMeasure(scores.completeness, scores.requests, scores.freshness)

    def spent_by(name: str) -> float:
        """Return the requests per cycle; two_steps does not spend its whole budget and is compared at its real cost."""
        return found[name].requests / settings.measured

    measure(KNOWN, index(estimator=known), world)
    measure(VALUE_SEEN, index(estimator=known), world, sees_windows=True)
    measure(ONLINE, index(), world)
    measure(TWO_SEEN, two_steps(), world, sees_windows=True)
    measure(TWO_ONLINE, two_steps(), world)
    measure(TWO_IMPUTED, two_steps(ImputingSingle), world)
    measure(UNIFORM, Uniform(feeds, rng=chance()), world)
    measure(KNOWN_FRESH, index(BALANCE, known), world, give=spent_by(TWO_ONLINE))
    measure(ONLINE_FRESH, index(BALANCE), world, give=spent_by(TWO_ONLINE))
    measure(TWO_CHANGED, two_steps(), changed)
    measure(CHANGED, index(BALANCE), changed, give=spent_by(TWO_CHANGED))

    total = float((rates * world.selectivity).sum())
    allowed = budget * settings.measured
    bound = bounds.bound_open_loop(rates, world.selectivity, settings.window, budget) / total
    found[OPEN_BOUND] = WorldMeasure(min(bound, 1.0), allowed)
    if bound_seen:
        bound = bounds.bound_seen(rates, world.selectivity, settings.window, budget) / total
        found[SEEN_BOUND] = WorldMeasure(min(bound, 1.0), allowed)
    wanted = world.count_relevant(world.published[-1]) - world.count_relevant(world.published[settings.warmup - 1])
    bound = bounds.bound_clairvoyant(world, budget) * settings.measured / max(int(wanted.sum()), 1)
    found[CLAIRVOYANT] = WorldMeasure(bound, allowed)
    return found


def run_experiment(given: LabSettings, progress: Progress) -> ExperimentResult:
    """Measure strategies and bounds at every budget."""
    settings = CycleSettings(window=given.window or 10)
    budgets = given.budget or ((30.0,) if given.quick else BUDGETS)
    seeds = given.seeds or (3 if given.quick else 20)
    bound_seen = settings.window <= 10  # larger windows have too many states, 2^(W+1)
    by_budget = run_grid(run_world, budgets, seeds, given, progress, "worlds", settings=settings, bound_seen=bound_seen)
    rows = [_make_row(name, budget, found) for budget, found in by_budget.items() for name in found[0]]
    checks = [check for budget, found in by_budget.items() for check in check_bounds(budget, found)]
    return ExperimentResult("limit", {"seeds": seeds, **dataclasses.asdict(settings)}, rows, checks)


def _make_row(name: str, budget: float, worlds: list[dict[str, WorldMeasure]]) -> Row:
    row: Row = {
        "strategy": name,
        "budget": budget,
        "requests": float(np.mean([found[name].requests for found in worlds])),
        "completeness": mean_sd([found[name].completeness for found in worlds]),
    }
    if not name.startswith("bound"):
        row["freshness"] = mean_sd([found[name].freshness for found in worlds])
    return row


def check_bounds(budget: float, worlds: list[dict[str, WorldMeasure]]) -> list[Check]:
    """Check that `value` comes near its bounds, and that no strategy exceeds the bound of its knowledge."""

    def mean(name: str) -> float:
        return float(np.mean([found[name].completeness for found in worlds]))

    def fresh(name: str) -> float:
        return float(np.mean([found[name].freshness for found in worlds]))

    at = f"b = {budget:g}"
    checks = [
        _check_least(f"{at}: value with known rates reaches the open-loop bound", mean(KNOWN), 0.99 * mean(OPEN_BOUND))
    ]
    if SEEN_BOUND in worlds[0]:
        text = f"{at}: value with seen divergence reaches its bound"
        checks.append(_check_least(text, mean(VALUE_SEEN), 0.97 * mean(SEEN_BOUND)))
    if budget == 30:
        gets = f"{at}: online, as dear as two_steps with smoothing of censored counts, value gets .04 more"
        known = {"with the rates known": mean(KNOWN_FRESH)}  # no learning can exceed this
        checks += [
            _check_least(gets, mean(ONLINE_FRESH), mean(TWO_ONLINE) + 0.04, known),
            _check_least(f"{at}: … and its windows are no less fresh", fresh(ONLINE_FRESH), fresh(TWO_ONLINE)),
            _check_least(f"{at}: after a change of all rates not below it", mean(CHANGED), mean(TWO_CHANGED)),
        ]
    above = {
        KNOWN: OPEN_BOUND,
        KNOWN_FRESH: OPEN_BOUND,
        ONLINE: OPEN_BOUND,
        ONLINE_FRESH: OPEN_BOUND,
        TWO_ONLINE: OPEN_BOUND,
    }
    above |= {
        TWO_IMPUTED: OPEN_BOUND,
        UNIFORM: OPEN_BOUND,
        VALUE_SEEN: SEEN_BOUND,
        TWO_SEEN: SEEN_BOUND,
        SEEN_BOUND: CLAIRVOYANT,
    }
    for name, bound in above.items():
        if bound in worlds[0] and name in worlds[0]:
            # A world's items are random; three standard errors of the difference are not an excess.
            apart = np.array([found[name].completeness - found[bound].completeness for found in worlds])
            excess = float(apart.mean())
            # Costs are only nearly equal; the gain of a few more requests is not an excess either.
            dearer = np.mean([found[name].requests / found[bound].requests for found in worlds])
            excess -= max(float(dearer) - 1.0, 0.0)
            noise = 3 * float(apart.std()) / max(len(worlds), 1) ** 0.5 + 0.01 / max(len(worlds), 1) ** 0.5
            text = f"{at}: {name} does not exceed the {bound}"
            checks.append(Check(text, excess <= noise, "three standard errors", {"by": excess}))
    return checks


def _check_least(statement: str, value: float, least: float, beside: dict[str, float] | None = None) -> Check:
    return Check(statement, value >= least, f"≥ {least:.4f}", {"value": value, "least": least, **(beside or {})})


def draw_figure(result: ExperimentResult) -> Figure:
    """Draw the completeness of every strategy beside the bounds, for each budget."""
    budgets = sorted({row["budget"] for row in result.rows})
    many = sum(row["budget"] == budgets[0] and not row["strategy"].startswith(BOUND) for row in result.rows)
    figure, axes = create_figure(1, len(budgets), width=5.6, height=1.6 + 0.3 * many)
    for axis, budget in zip(axes, budgets, strict=True):
        _draw_budget(axis, [row for row in result.rows if row["budget"] == budget])
        axis.set_title(f"b = {budget:g} requests per cycle", fontsize=10)
    about = result.settings
    figure.suptitle(
        f"Who knows what, and how near it comes to the bound: {about['feeds']} feeds, W = {about['window']}, "
        f"{about['seeds']} worlds",
        fontsize=11,
    )
    return figure


def _draw_budget(axis: Any, rows: list[Row]) -> None:
    bounds = {row["strategy"].removeprefix(BOUND): row for row in rows if row["strategy"].startswith(BOUND)}
    shown = sorted(
        (row for row in rows if not row["strategy"].startswith(BOUND)), key=lambda row: -row["completeness"]["mean"]
    )
    for place, row in enumerate(shown):
        mean, sd = row["completeness"]["mean"], row["completeness"]["sd"]
        colour = VALUE_COLOUR if row["strategy"].startswith("value") else OTHER_COLOUR
        axis.errorbar(mean, place, xerr=sd, fmt="o", color=colour, ecolor=colour, capsize=3, markersize=6)
        axis.text(
            0.995, place, f"{mean:.3f}", fontsize=8, va="center", ha="right", transform=axis.get_yaxis_transform()
        )
    for line, (name, row) in zip(LINES, bounds.items(), strict=False):
        mean = row["completeness"]["mean"]
        axis.axvline(mean, color=BOUND_COLOURS[name], linestyle=line, linewidth=1.6, label=f"{name} {mean:.3f}")
    axis.set_yticks(range(len(shown)), [row["strategy"] for row in shown], fontsize=8)
    axis.set_ylim(len(shown) - 0.4, -0.6)
    axis.grid(visible=False, axis="y")
    lowest = min(row["completeness"]["mean"] - row["completeness"]["sd"] for row in shown)
    highest = max(row["completeness"]["mean"] + row["completeness"]["sd"] for row in rows)
    axis.set_xlim(lowest - 0.02, highest + 0.15 * (highest - lowest))
    axis.set_xlabel("feed completeness C_F (whisker: sd over the worlds)")
    axis.legend(title="bound", fontsize=7.5, title_fontsize=8, loc="upper center", bbox_to_anchor=(0.4, -0.16), ncols=3)


EXPERIMENT = Experiment(
    name="limit",
    source="ours",
    summary="every kind of knowledge beside the bound of what it allows: open loop, seen divergence, clairvoyant",
    run=run_experiment,
    draw=draw_figure,
    takes=frozenset({"seeds", "window", "budget"}),
    question="How near does each strategy come to the bound that its knowledge sets?",
)
