"""Grows aggregation networks for α = 4, 20, 100 and measures their shapes and the quality along cascades (thesis 1.6).

With `--trace` the cascades also run on a real source of about sixty items a day; the query feeds choose among its
commonest words.
"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.arrays import Floats
from headwater.lab.experiment import (
    Check,
    Experiment,
    ExperimentResult,
    LabSettings,
    Progress,
    Row,
    mean_sd,
    measure_intervals,
)
from headwater.lab.figures import COLOURS, create_figure, line_style
from headwater.lab.simulation.cycles import make_rng
from headwater.lab.simulation.query_network import (
    NodeQuality,
    grow_by_place,
    grow_by_profile,
    measure_nodes,
    run_cascade,
)
from headwater.lab.sweep import run_grid
from headwater.lab.traces.trace_queries import select_source
from headwater.times import DAY

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWN_MEASURES = (
    ("completeness", "completeness", 1.0),
    ("freshness", "freshness", 1.0),
    ("mean_delay_s", "mean delay (h)", 3600.0),
)
ALPHA_LABELS = {4.0: "a few hubs", 20.0: "clusters", 100.0: "chains of near neighbours"}
ALPHAS = (4.0, 20.0, 100.0)
STAR = 0.5  # below 1/√2 the root is nearer than any other node, whatever the distance
PICTURE_NODES, NODES = 10_000, 2_000
QUERIES, WORDS, RADIUS = 150, 12, 0.8
PER_DAY_ITEMS, DAYS = 60.0, 10.0


def measure_shape(alpha: float, seed: int, nodes: int) -> dict[str, float]:
    """Measure degrees and depth of one network of points in the plane."""
    tree = grow_by_place(draw_points(seed, nodes), alpha)
    degrees = tree.degrees
    return {
        "root_degree": float(degrees[0]),
        "max_degree": float(degrees.max()),
        "depth": float(tree.hops.max()),
        "mean_hops": float(tree.hops[1:].mean()),
        "leaves": float((degrees == 0).mean()),
        "hub_share": int(np.sort(degrees)[::-1][:20].sum()) / max(int(degrees.sum()), 1),
    }


def draw_points(seed: int, nodes: int) -> Floats:
    """Draw points of the unit square; the first one, the root, is its centre."""
    points = make_rng(seed, 0).random((nodes, 2))
    points[0] = 0.5
    return points


def run_tree(alpha: float, seed: int, window: int, interval: float, path: str | None = None) -> list[NodeQuality]:
    """Grow a tree of query feeds over one source with all its words, and measure what reaches each of them."""
    rng = make_rng(seed, 1)
    profiles = rng.random((QUERIES + 1, WORDS)) < rng.uniform(0.1, 0.6, (QUERIES + 1, 1))
    profiles[0] = True
    profiles[~profiles.any(1), 0] = True
    tree = grow_by_profile(profiles, alpha, RADIUS)
    if path is None:
        end = DAYS * DAY
        count = int(rng.poisson(PER_DAY_ITEMS * DAYS))
        times = np.sort(rng.random(count) * end)
        words = 1 << rng.integers(0, WORDS, count)  # one word an item
    else:
        times, words = select_source(path, PER_DAY_ITEMS, WORDS)
        end = float(times[-1])
    edge = min(2 * DAY, end / 5)  # the first items have no past, the last ones no time to arrive
    have = run_cascade(tree, profiles, times, words, window, interval, rng.random(QUERIES + 1) * interval)
    samples = rng.uniform(edge, end - edge, 100)
    return measure_nodes(have, tree, profiles, times, words, window, edge, end - edge, samples)


def run_experiment(given: LabSettings, progress: Progress) -> ExperimentResult:
    """Grow networks and run cascades on a synthetic source, and on a source of the trace if there is one."""
    seeds = given.seeds or (4 if given.quick else 20)
    nodes = 600 if given.quick else NODES
    if given.trace is not None:
        select_source(str(given.trace), PER_DAY_ITEMS, WORDS)  # raises TraceError if there is none
    window = given.window or 20
    per_day = given.single_rate("network", 24.0)
    interval = DAY / per_day
    rows: list[Row] = []
    forms: dict[float, list[dict[str, float]]]
    forms = run_grid(measure_shape, (STAR, *ALPHAS), seeds, given, progress, "networks", nodes=nodes)
    for alpha, found in forms.items():
        measured = {key: mean_sd([form[key] for form in found]) for key in found[0]}
        rows.append({"network": "points", "alpha": alpha} | measured)
    by_hops, worlds = _add_cascades(given, progress, rows, seeds, window, interval)
    settings = {"seeds": seeds, "nodes": nodes, "queries": QUERIES, "words": WORDS, "radius": RADIUS}
    settings |= {"window": window, "per_day": per_day, "items_per_day": PER_DAY_ITEMS}
    data: dict[str, Any] = {"by_hops": by_hops, "picture_nodes": 1500 if given.quick else PICTURE_NODES}
    result = ExperimentResult(
        "network", settings, rows, _check_shapes(forms, nodes) + _check_cascades(by_hops, interval, worlds), data=data
    )
    if given.trace is not None:
        result.settings["trace"] = given.trace.name
        real, worlds = _add_cascades(given, progress, rows, seeds, window, interval, given.trace)
        result.checks += [
            dataclasses.replace(check, statement=f"on {given.trace.name}: {check.statement}")
            for check in _check_cascades(real, interval, worlds)
        ]
    return result


def _add_cascades(
    given: LabSettings, progress: Progress, rows: list[Row], seeds: int, window: int, interval: float,
    trace: Path | None = None,
) -> tuple[dict[float, dict[int, dict[str, float]]], dict[float, list[list[NodeQuality]]]]:  # fmt: skip
    """Run cascades for every α and seed; add their rows and return the quality by hops, and the nodes of each world."""
    what, name = ("cascades", "profiles") if trace is None else ("trace", f"profiles on {trace.name}")
    path = None if trace is None else str(trace)
    runs = run_grid(run_tree, ALPHAS, seeds, given, progress, what, window=window, interval=interval, path=path)
    by_hops: dict[float, dict[int, dict[str, float]]] = {}
    for alpha, found in runs.items():
        by_hops[alpha] = _average_by_hops([node for nodes in found for node in nodes])
        for hops, values in by_hops[alpha].items():
            rows.append(
                {"network": name, "alpha": alpha, "hops": hops, "nodes": values["nodes"]}
                | {key: {"mean": values[key], "sd": values[f"{key}_sd"]} for key in ("completeness", "freshness")}
                | {"mean_delay_s": values["mean_delay_s"]}
            )
    return by_hops, runs


def _average_by_hops(served: list[NodeQuality]) -> dict[int, dict[str, float]]:
    """Average the nodes that are equally many hops from the source, where there are at least ten."""
    table = {}
    for hops in sorted({node.hops for node in served}):
        mine = [node for node in served if node.hops == hops]
        if len(mine) >= 10:
            table[hops] = {
                "nodes": float(len(mine)),
                "completeness": float(np.mean([node.completeness for node in mine])),
                "completeness_sd": float(np.std([node.completeness for node in mine])),
                "freshness": float(np.mean([node.freshness for node in mine])),
                "freshness_sd": float(np.std([node.freshness for node in mine])),
                "mean_delay_s": float(np.nanmean([node.mean_delay for node in mine])),
            }
    return table


def _check_shapes(forms: dict[float, list[dict[str, float]]], nodes: int) -> list[Check]:
    """Check the networks of points against the thesis' description."""

    all_hubs, all_depths = (
        {f"α = {alpha:g}": [form[key] for form in forms[alpha]] for alpha in ALPHAS}
        for key in ("hub_share", "mean_hops")
    )
    hubs, depth = ({name: float(np.mean(some)) for name, some in each.items()} for each in (all_hubs, all_depths))
    degrees = [form["root_degree"] for form in forms[STAR]]
    star = float(np.mean(degrees))
    return [
        Check(
            "with a very small α the network is a star around the source",
            star >= nodes - 1,
            f"at α = {STAR:g} every node reads the root",
            {"readers of the root": star, "nodes": float(nodes - 1)},
            "thesis 1.6.2",
            intervals=measure_intervals({"readers of the root": degrees}),
        ),
        Check(
            "a few hubs serve most of the network when α is small, and fewer of it the larger α is",
            hubs["α = 4"] > hubs["α = 20"] > hubs["α = 100"] and hubs["α = 4"] > 0.5,
            "share of all links at the twenty largest hubs falls from α = 4 (more than half) to 20 to 100",
            hubs,
            "thesis fig. 1.6",
            intervals=measure_intervals(all_hubs),
        ),
        Check(
            "paths grow longer with α",
            depth["α = 4"] < depth["α = 20"] < depth["α = 100"],
            "mean hops to the source, in this order",
            depth,
            "thesis fig. 1.6",
            intervals=measure_intervals(all_depths),
        ),
    ]


def _check_cascades(
    by_hops: dict[float, dict[int, dict[str, float]]], interval: float, worlds: dict[float, list[list[NodeQuality]]]
) -> list[Check]:
    """Check delay, freshness and completeness along the cascades. Intervals are over the means of each world."""
    by_hops = {alpha: table for alpha, table in by_hops.items() if table}

    def each_world(alpha: float, hops: int | None, measure: str, scale: float = 1.0) -> list[float]:
        values = ([getattr(n, measure) for n in nodes if hops in (None, n.hops)] for nodes in worlds[alpha])
        return [float(np.nanmean(some)) / scale for some in values if some and not np.isnan(some).all()]

    ends = {
        f"α = {a:g}, {end} hop": (a, list(t)[at])
        for end, at in (("first", 0), ("last", -1))
        for a, t in by_hops.items()
    }
    delays = {
        f"α = {alpha:g}, {hops} hops": values["mean_delay_s"] / interval
        for alpha, table in by_hops.items()
        for hops, values in table.items()
    }
    fit = max(
        (
            abs(values["mean_delay_s"] / interval - hops / 2)
            for table in by_hops.values()
            for hops, values in table.items()
        ),
        default=math.nan,
    )
    complete = {alpha: [values["completeness"] for values in table.values()] for alpha, table in by_hops.items()}
    fresh = {alpha: [values["freshness"] for values in table.values()] for alpha, table in by_hops.items()}
    weighted = {
        f"α = {alpha:g}": sum(v["completeness"] * v["nodes"] for v in t.values()) / sum(v["nodes"] for v in t.values())
        for alpha, t in by_hops.items()
    }
    return [
        Check(
            "every hop adds half a polling interval of delay",
            fit <= 0.25,
            "mean delay within a quarter of an interval of hops/2 intervals",
            delays,
            "ours: cascades of thesis 1.6",
            intervals=measure_intervals(
                {
                    f"α = {a:g}, {h} hops": each_world(a, h, "mean_delay", interval)
                    for a, t in by_hops.items()
                    for h in t
                }
            ),
        ),
        Check(
            "freshness falls along a cascade",
            bool(fresh) and all(values[-1] < values[0] for values in fresh.values() if len(values) > 1),
            "at the last hop below that at the first, for every α",
            {f"α = {alpha:g}, first hop": values[0] for alpha, values in fresh.items()}
            | {f"α = {alpha:g}, last hop": values[-1] for alpha, values in fresh.items()},
            "ours: cascades of thesis 1.6",
            intervals=measure_intervals({name: each_world(*at, "freshness") for name, at in ends.items()}),
        ),
        Check(
            "reading feeds like one's own (a larger α) brings more of what is wanted than its longer paths lose",
            weighted.get("α = 100", math.nan) >= weighted.get("α = 4", math.nan),
            "completeness over all nodes at α = 100 not below that at α = 4",
            weighted | {f"α = {alpha:g}, first hop": values[0] for alpha, values in complete.items()},
            "ours: cascades of thesis 1.6",
            intervals=measure_intervals(
                {f"α = {alpha:g}": each_world(alpha, None, "completeness") for alpha in by_hops}
                | {name: each_world(*at, "completeness") for name, at in ends.items() if "first" in name}
            ),
            because="an item that a parent's query drops never reaches its descendants",
        ),
    ]


def draw_figure(result: ExperimentResult) -> Figure:
    """Draw a network for each α with its degrees, and the quality by hops."""
    figure, axes = create_figure(3, 3, width=4.8, height=4.0)
    nodes = result.data["picture_nodes"]
    points = draw_points(0, nodes)
    for column, alpha in enumerate(ALPHAS):
        tree = grow_by_place(points, alpha)
        _draw_tree(axes[column], points, tree, f"α = {alpha:g}: {ALPHA_LABELS[alpha]}")
        _draw_degrees(axes[3 + column], tree.degrees, alpha)
    for column, (key, label, scale) in enumerate(DRAWN_MEASURES):
        axis = axes[6 + column]
        for place, (alpha, table) in enumerate(result.data["by_hops"].items()):
            values = [row[key] / scale for row in table.values()]
            axis.plot(list(table), values, label=f"α = {alpha:g}", **line_style(place))
        axis.set_xlabel("hops from the source")
        axis.set_ylabel(label)
        axis.set_title(f"{label.split(' (')[0].capitalize()} along the cascade", fontsize=10)
        axis.set_xticks(sorted({hops for table in result.data["by_hops"].values() for hops in table}))
    axes[6].legend(fontsize=8)
    figure.suptitle(f"Fig. 1.6: networks of {nodes:,} nodes: α trades hubs against likeness, and every hop costs time")
    return figure


def _draw_tree(axis: Any, points: Any, tree: Any, title: str) -> None:
    from matplotlib.collections import LineCollection

    child = np.arange(1, len(points))
    lines = np.stack([points[child], points[tree.parents[child]]], axis=1)
    # Rasterised even in an SVG, which ten thousand lines would make megabytes long.
    axis.add_collection(LineCollection(list(lines), linewidths=0.3, colors=COLOURS[0], alpha=0.6, rasterized=True))
    axis.plot(*points[0], marker="*", color=COLOURS[1], markersize=11)
    axis.set_xlim(0, 1)
    axis.set_ylim(0, 1)
    axis.set_aspect("equal")
    axis.set_xticks(())
    axis.set_yticks(())
    axis.grid(visible=False)
    axis.set_title(title, fontsize=10)


def _draw_degrees(axis: Any, degrees: Any, alpha: float) -> None:
    values, often = np.unique(degrees[degrees > 0], return_counts=True)
    above = often[::-1].cumsum()[::-1] / len(degrees)
    axis.loglog(values, above, ".", color=COLOURS[0], markersize=4)
    axis.set_xlabel("readers of a node (out-degree)")
    axis.set_ylabel("share of nodes with as many or more")
    axis.set_title(f"α = {alpha:g}: largest degree {int(degrees.max()):,}", fontsize=10)


EXPERIMENT = Experiment(
    "network",
    "Horincar's thesis, 1.6",
    "topologies for α = 4, 20, 100 with their degrees; completeness, freshness and delay along cascades",
    run_experiment,
    draw_figure,
    frozenset({"seeds", "trace", "window", "per_day"}),
    question="Which topologies does α give, and what do longer paths cost?",
)
