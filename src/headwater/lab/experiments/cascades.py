"""Runs a network over several sources in which every aggregator refreshes by a strategy (thesis 1.6 and future work).

Sources with half of the words each, rates from ten to 500 items a day, and query feeds that join the tree of every
source in whose radius they are. The aggregator of the first level, which reads sources only, refreshes by one strategy
and those below by another, in all pairs, so that the quality at each level is a function of the strategies above it.
With the last strategy on all levels the aggregators also work together: query feeds tell their readers how much they
have published, or push their items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.lab.experiment import (
    Check,
    Experiment,
    ExperimentResult,
    LabSettings,
    Progress,
    Row,
    make_strategy,
    mean_sd,
    measure_intervals,
)
from headwater.lab.figures import create_figure, line_style
from headwater.lab.simulation.cycles import make_rng
from headwater.lab.simulation.subscription_graph import (
    PublishedItems,
    SubscriptionGraph,
    Teamwork,
    join_trees,
    measure_pairs,
    run_graph,
)
from headwater.lab.sweep import run_grid
from headwater.schedule.strategy import Strategy
from headwater.times import DAY

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STRATEGY_NAMES = ("uniform", "two_steps")
SOURCES, QUERIES, WORDS = 12, 60, 12
ALPHA, RADIUS = 4.0, 0.8
MIN_RATE, MAX_RATE = 10.0, 500.0  # items per source and day
DAYS, EDGE = 8.0, 2.0  # days at either end are not measured
CYCLE = 600.0
MIN_PAIRS = 30  # query feed and source; fewer at a hop are not reported
FEW_DEEP = "the deepest level has few query feeds, and its interval spans 0; at all levels above it is so"
LOST_BELOW = "what the first level gains is lost one level below, in the windows of its query feeds"
MEASURED = ("completeness", "freshness", "mean_delay_s")
TEAMWORK: dict[Teamwork, str] = {
    "told": "query feeds that tell their readers how much they have published",
    "pushed": "query feeds that push their items, so that all requests go to sources,",
}
Arm = tuple[str, str, Teamwork]  # strategy of the first level, of those below, and how they work together


def draw_network(seed: int) -> tuple[SubscriptionGraph, PublishedItems]:
    """Draw profiles, grow the graph and draw the items of all sources; each item has one word of its source."""
    rng = make_rng(seed, 11)
    share = np.concatenate([np.full(SOURCES, 0.5), rng.uniform(0.1, 0.6, QUERIES)])
    profiles = rng.random((SOURCES + QUERIES, WORDS)) < share[:, None]
    profiles[~profiles.any(1), 0] = True
    counts = rng.poisson(np.exp(rng.uniform(np.log(MIN_RATE), np.log(MAX_RATE), SOURCES)) * DAYS)
    sources = np.repeat(np.arange(SOURCES), counts)
    words = np.concatenate([rng.choice(np.flatnonzero(profiles[k]), counts[k]) for k in range(SOURCES)])
    times = rng.random(len(sources)) * DAYS * DAY
    order = np.argsort(times)
    items = PublishedItems(times[order], sources[order], 1 << words[order])
    return join_trees(profiles, SOURCES, ALPHA, RADIUS), items


def _make(first: str, below: str, seed: int, level: int) -> Strategy:
    return make_strategy(first if level == 1 else below, rng=make_rng(seed, 12, level))


def run_network(first: str, below: str, teamwork: Teamwork, seed: int, window: int, per_day: float) -> dict[str, Any]:
    """Run one pair of strategies on one network; return its requests and the quality by level."""
    graph, items = draw_network(seed)
    make = partial(_make, first, below, seed)
    run = run_graph(graph, items, make, window, CYCLE, per_day * CYCLE / DAY, teamwork)
    begin, end = EDGE * DAY, (DAYS - EDGE) * DAY
    pairs = measure_pairs(graph, items, run, window, begin, end, np.linspace(begin, end, 60))
    by_level = {
        level: [(p.completeness, p.freshness, p.mean_delay, p.got, p.lost, p.passed) for p in pairs if p.level == level]
        for level in sorted({p.level for p in pairs})
    }
    connected = [len(each) for each in graph.parents[SOURCES:] if len(each)]
    return {
        "by_level": by_level,
        "requests": run.requests,
        "several": float(np.mean([count > 1 for count in connected])),
        "levels": int(graph.levels.max()),
    }


def run_experiment(given: LabSettings, progress: Progress) -> ExperimentResult:
    """Run every pair of strategies on every network, and the last strategy with aggregators that work together."""
    names = given.add_estimators(given.choose_strategies(STRATEGY_NAMES))
    seeds = given.seeds or (3 if given.quick else 20)
    window, per_day = given.window or 20, given.single_rate("cascades", 24.0)
    arms: list[Arm] = [(first, below, "none") for first, below in product(names, names)]
    arms += [(names[-1], names[-1], teamwork) for teamwork in TEAMWORK]
    runs = run_grid(run_network, arms, seeds, given, progress, "networks", window=window, per_day=per_day)
    rows: list[Row] = []
    for (first, below, teamwork), found in runs.items():
        for level in sorted({level for run in found for level in run["by_level"]}):
            values = np.array([value for run in found for value in run["by_level"].get(level, ())])
            if len(values) < MIN_PAIRS:
                continue
            row = {"first": first, "below": below, "teamwork": teamwork, "level": level, "pairs": len(values)}
            measured: Row = {name: mean_sd(values[:, k]) for k, name in enumerate(MEASURED[:2])}
            delay, got, lost, passed = values[:, 2:].T
            measured["mean_delay_s"] = float(np.nanmean(delay))
            measured["delay_of_items_s"] = float(np.nansum(delay * got) / got.sum())
            measured["lost_after_parents"] = float(passed.sum() / lost.sum()) if lost.any() else None
            rows.append(row | measured)
    whole = next(iter(runs.values()))
    settings = {"seeds": seeds, "sources": SOURCES, "queries": QUERIES, "words": WORDS, "alpha": ALPHA}
    settings |= {"radius": RADIUS, "window": window, "per_day": per_day, "cycle_s": CYCLE, "days": DAYS}
    requests = {arm: float(np.mean([run["requests"] for run in found])) for arm, found in runs.items()}
    checks = [_check_degree([run["several"] for run in whole], [run["levels"] for run in whole])]
    by_network = {arm: [_average_levels(run) for run in found] for arm, found in runs.items()}
    checks += [_check_cost(requests), _check_losses(rows, names[0]), *_check_arms(rows, names, by_network)]
    return ExperimentResult("cascades", settings, rows, checks)


def _check_degree(several: list[float], levels: list[int]) -> Check:
    return Check(
        "a query feed reads several feeds once a tree is grown for each source",
        min(several) > 0.5,
        "more than half of the connected query feeds have several parents, in every network",
        {"least share": min(several), "mean share": float(np.mean(several)), "levels": float(np.mean(levels))},
        "thesis 1.6.2",
    )


def _check_cost(requests: dict[Arm, float]) -> Check:
    low, high = min(requests.values()), max(requests.values())
    return Check(
        "all pairs of strategies make as many requests, and all ways to work together",
        high <= 1.02 * low,
        "within 2 %",
        {_name_arm(arm): count for arm, count in requests.items()},
        "ours",
    )


def _name_arm(arm: Arm) -> str:
    first, below, teamwork = arm
    return f"{first}, then {below}" + (f", {teamwork}" if teamwork != "none" else "")


def _check_losses(rows: list[Row], below: str) -> Check:
    """Check where the second level loses items: above it, or in the windows that it reads."""
    shares = {
        f"{row['first']}, then {below}": row["lost_after_parents"]
        for row in rows
        if (row["level"], row["below"], row["teamwork"]) == (2, below, "none") and row["lost_after_parents"] is not None
    }
    return Check(
        f"most items that a second level of {below} loses were in a window that it reads, and left it unread",
        bool(shares) and min(shares.values()) > 0.5,
        "more than half, whatever strategy is on the first level",
        shares,
        "ours",
    )


def _average_levels(run: Mapping[str, Any]) -> dict[tuple[int, str], float]:
    """Return one network's completeness and freshness by level."""
    return {
        (level, name): float(np.mean([values[place] for values in some]))
        for level, some in run["by_level"].items()
        for place, name in enumerate(MEASURED[:2])
    }


def _check_arms(
    rows: list[Row],
    names: tuple[str, ...],
    by_network: Mapping[Arm, Sequence[Mapping[tuple[int, str], float]]],
) -> list[Check]:
    """Compare each strategy with the first one, on the first level, below it and on all; and aggregators that work
    together with those that do not. Intervals are over networks, of the difference within each."""
    found = {(row["first"], row["below"], row["teamwork"], row["level"]): row for row in rows}
    levels = sorted({row["level"] for row in rows})
    base: Arm = (names[0], names[0], "none")

    def compare(words: str, arm: Arm, other: Arm, least: int, source: str, because: Mapping[str, str]) -> list[Check]:
        checks = []
        for measure in MEASURED[:2]:
            gains = {
                f"level {level}": found[*arm, level][measure]["mean"] - found[*other, level][measure]["mean"]
                for level in levels
                if level >= least
            }
            pairs = list(zip(by_network[arm], by_network[other], strict=True))
            by_level = {
                name: [one[key] - two[key] for one, two in pairs if key in one and key in two]
                for name in gains
                for key in [(int(name.split()[1]), measure)]
            }
            checks.append(
                Check(
                    f"{words} {measure} at every level from there on",
                    bool(gains) and min(gains.values()) > 0,
                    "mean difference over all query feeds and sources above 0",
                    gains,
                    source,
                    because.get(measure, ""),
                    measure_intervals(by_level),
                )
            )
        return checks

    checks = []
    cascading = "ours: the cascading effect that the thesis leaves to future work"
    for name in names[1:]:
        for pair, words, least in (
            ((name, names[0]), f"refreshing the first level by {name} instead of {names[0]}", 1),
            ((names[0], name), f"refreshing all other levels by {name} instead of {names[0]}", 2),
            ((name, name), f"refreshing all levels by {name} instead of {names[0]}", 1),
        ):
            because = dict.fromkeys(MEASURED, LOST_BELOW) if pair == ("two_steps", "uniform") else {}
            checks += compare(f"{words} raises", (*pair, "none"), base, least, cascading, because)
    collaborating = "ours: the collaborating nodes that the thesis leaves to future work"
    for teamwork, words in TEAMWORK.items():
        arm: Arm = (names[-1], names[-1], teamwork)
        alone: Arm = (names[-1], names[-1], "none")
        because = {"freshness": FEW_DEEP} if (names[-1], teamwork) == ("two_steps", "told") else {}
        checks += compare(f"{words} raise", arm, alone, 2, collaborating, because)
    return checks


def draw_figure(result: ExperimentResult) -> Figure:
    """Draw each measure by level, one line for each pair of strategies and each way to work together."""
    figure, axes = create_figure(1, 3, width=4.8, height=4.0)
    by_arm: dict[Arm, list[Row]] = {}
    for row in result.rows:
        by_arm.setdefault((row["first"], row["below"], row["teamwork"]), []).append(row)
    for axis, measure in zip(axes, MEASURED, strict=True):
        for place, (arm, mine) in enumerate(by_arm.items()):
            values = [row[measure] / 3600 if measure == "mean_delay_s" else row[measure]["mean"] for row in mine]
            axis.plot([row["level"] for row in mine], values, label=_name_arm(arm), **line_style(place))
        axis.set_xlabel("level (longest path from a source)")
        axis.set_ylabel("mean delay (h)" if measure == "mean_delay_s" else measure)
        axis.set_xticks(sorted({row["level"] for row in result.rows}))
    lines, labels = axes[0].get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside lower center", ncols=3, title="first level, then those below", fontsize=9)
    figure.suptitle(f"{result.settings['sources']} sources, {result.settings['queries']} query feeds: quality by level")
    return figure


EXPERIMENT = Experiment(
    "cascades",
    "Horincar's thesis, 1.6.2 and future work",
    "a network over several sources: quality at each level by the strategies above it",
    run_experiment,
    draw_figure,
    frozenset({"seeds", "window", "per_day", "strategies", "estimators"}),
    question="How does the quality at each level of a network depend on the strategies that refresh the levels above?",
)
