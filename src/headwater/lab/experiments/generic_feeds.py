"""Repeats Urbansky et al.'s evaluation: delay, polls per item and their product for five interval strategies.

Their feeds are not public. The synthetic world follows their description: 19 million items of 180,000 feeds in three
weeks (five a day on average), a large part of the feeds with intervals above three weeks, 30 % that change their rate.
A power law x^−1.3 on .003 … 300 items a day has that mean and that median, and a document shows its last items however
old they are. Every feed weighs the same in the mode "feeds", every poll in "polls"; `FindScores` explains the counts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.arrays import Bools, Floats, Rows
from headwater.lab.experiment import (
    PUBLISHED_VALUES,
    Check,
    Experiment,
    ExperimentResult,
    LabSettings,
    Progress,
    Row,
    half_widths,
    make_strategy,
    mean_sd,
    measure_intervals,
    measure_spread,
)
from headwater.lab.figures import COLOURS, create_figure, line_style
from headwater.lab.simulation.cycles import make_rng
from headwater.lab.simulation.replay import ENTRY_BYTES, HEADER_BYTES, Replay, ReplaySettings, replay_trace
from headwater.lab.simulation.scores import FindScores, ReplayScores, score_finds, score_replay
from headwater.lab.sweep import run_each
from headwater.lab.traces.synthetic_world import MONDAY, WorldSettings, draw_world, join_times
from headwater.lab.traces.trace import Trace, load_trace
from headwater.schedule.strategies.learned_interval import LONGEST
from headwater.times import DAY

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEARNING_STRATEGIES = ("fix_learned", "post_rate", "moving_average")
STRATEGY_NAMES = ("fix_1h", "fix_1d", "fix_learned", "post_rate", "moving_average")
# Delay in minutes, polls per item, error (Table 1), by mode.
PAPER: dict[str, dict[str, tuple[float, float, float]]] = {
    "feeds": {
        "fix_1h": (30, 222.06, 6662),
        "fix_1d": (729, 9.52, 6931),
        "fix_learned": (3273, 41.90, 137139),
        "post_rate": (3411, 3.57, 12174),
        "moving_average": (4477, 1.96, 8773),
    },
    "polls": {
        "fix_1h": (30, 21.02, 179),
        "fix_1d": (745, 1.91, 1423),
        "fix_learned": (74, 7.77, 570),
        "post_rate": (51, 5.88, 300),
        "moving_average": (4, 1.61, 6),
    },
}
WINDOW = 20
MIXED_WINDOWS, UNDATED = (10, 20, 50), 0.2  # feeds of several sizes, a fifth of them without dates
SYNTHETIC = "synthetic feeds"  # the name of the made worlds in statements
LATE_FINDS = (200, 300)  # finds over which figure 3 is read
PAPER_LATE = {"fix_1h": 30.0, "fix_learned": 7.0, "moving_average": 8.0}  # minutes, figure 3
PAPER_SAVING = 0.9  # of fix_1h's traffic, by post_rate and moving_average (figure 2)
BUSY_UPDATES, BUSY_SPAN = 300, 21 * DAY  # updates of the feeds in figure 3, and the paper's three weeks
# Every other row of Table 1 obeys eq. 4, error = delay × polls per item. Fix 1h by polls is printed as 179.
CORRECTED_ERROR = {("polls", "fix_1h"): 30 * 21.02}
EVEN, ALIKE = "days without a shape", 0.1  # worlds in which no strategy can know the night
KNOWS_THE_NIGHT = (
    "post_rate knows the hours without items, moving_average polls in them; on days without a shape both poll alike"
)
FEW_DATES = (
    "fix_learned stays at one hour where a document has fewer than two dates, and these feeds make most of its polls"
)
MOSTLY_SLOW = "on feeds of fewer than ten items in three weeks, which most of the trace's are, post_rate polls nearer"
OFTEN = 2.1 * DAY  # ten items in three weeks
MEASURED_DAYS, REAL_WARMUP = 21.0, 14.0  # the paper's three weeks: the last of a trace, so that documents have a past


@dataclasses.dataclass(frozen=True, slots=True)
class ReplayMeasures:
    """The measures of one strategy's replay."""

    scores: ReplayScores
    finds: FindScores
    per_day: float  # polls per feed
    whole: float  # bytes if every poll brought the whole document
    intervals: dict[str, Floats]
    finds_late: Floats  # minutes of delay at the n-th find: sum over the busy feeds
    finds_count: Floats  # busy feeds that had an n-th find


def run_worlds(
    name: str, feeds: int, window: int, seeds: int, mixed: bool = False, even: bool = False
) -> list[ReplayMeasures]:
    """Replay one strategy on the worlds of all seeds; with `mixed` windows differ and some feeds have no dates.

    With `even` the hours of a day are alike.

    An interval strategy treats every feed by itself, so the worlds run as one array of feeds.
    """
    settings = WorldSettings(
        feeds=feeds,
        days=42.0,
        low=0.003,
        high=300.0,
        exponent=1.3,
        shape="mixed",
        share=0.0 if even else 0.7,
        burst=2.0,
        changes=(0.6,),
        changing=0.3,
        past=max(MIXED_WINDOWS) if mixed else window,
        windows=MIXED_WINDOWS if mixed else (),
        undated=UNDATED if mixed else 0.0,
    )
    worlds = [draw_world(settings, make_rng(seed, 6)).trace for seed in range(seeds)]
    together = join_times([world.feed_times(feed) for world in worlds for feed in range(feeds)])
    if mixed:
        windows, dated = ([getattr(world, key) for world in worlds] for key in ("windows", "dated"))
        together = dataclasses.replace(together, windows=np.concatenate(windows), dated=np.concatenate(dated))
    done = _replay_strategy(name, together, window, 7.0, MONDAY + 14 * DAY)
    found = []
    for seed in range(seeds):
        rows = np.arange(seed * feeds, (seed + 1) * feeds)
        mine = slice(together.offsets[rows[0]], together.offsets[rows[-1] + 1])
        part = dataclasses.replace(
            done,
            trace=together.select_feeds(rows),
            obtained=done.obtained[mine],
            polls=done.polls[rows],
            bytes=done.bytes / seeds,
        )
        found.append(_measure(part))
    return found


def run_trace(name: str, path: Path, window: int, warmup: float) -> list[ReplayMeasures]:
    """Replay one strategy over the last three weeks of a trace, after a warm-up."""
    trace = load_trace(path)
    begin = max(trace.start + 14 * DAY, trace.end - (MEASURED_DAYS + warmup) * DAY)
    return [_measure(_replay_strategy(name, trace, window, warmup, begin))]


def _replay_strategy(name: str, trace: Trace, window: int, warmup: float, begin: float) -> Replay:
    history = (begin - trace.start) / DAY
    settings = ReplaySettings(window=window, history_days=history, warmup_days=warmup)
    return replay_trace(make_strategy(name, trace.feeds), trace, settings)


def _measure(done: Replay) -> ReplayMeasures:
    """Measure one replay."""
    trace, span = done.trace, done.end - done.measured
    inside = (trace.times >= done.measured) & (trace.times <= done.end)
    items = np.bincount(trace.item_feeds()[inside], minlength=trace.feeds)
    shown = np.minimum(done.windows, np.diff(trace.offsets))
    late, count = measure_late_finds(done, select_busy(items, span))
    return ReplayMeasures(
        score_replay(done),
        score_finds(done),
        done.per_day,
        float((done.polls * (HEADER_BYTES + ENTRY_BYTES * shown)).sum()),
        {"real": span / np.maximum(items, 1e-9), "polled": span / np.maximum(done.polls, 1e-9)},
        late,
        count,
    )


def select_busy(items: Rows, span: float) -> Bools:
    """Return which feeds publish as often as those of figure 3: 300 updates in the paper's three weeks.

    >>> [select_busy(np.array([300, 2000]), days * DAY).tolist() for days in (21, 105)]
    [[True, True], [False, True]]
    """
    return np.asarray(items >= BUSY_UPDATES * span / BUSY_SPAN)


def measure_late_finds(done: Replay, busy: Bools) -> tuple[Floats, Floats]:
    """Sum the mean delay (minutes) of each feed's n-th find over the busy feeds, and count those feeds (figure 3)."""
    owner, most = done.trace.item_feeds(), LATE_FINDS[1]
    got = np.flatnonzero(np.isfinite(done.obtained) & busy[owner] & (done.trace.times >= done.begin))
    late, count = np.zeros(most), np.zeros(most)
    if not len(got):
        return late, count
    feed, at = owner[got], done.obtained[got]
    starts = np.flatnonzero(np.append(True, (np.diff(feed) != 0) | (np.diff(at) != 0)))
    size = np.diff(np.append(starts, len(got)))
    mean = np.add.reduceat(at - done.trace.times[got], starts) / size / 60.0
    first = np.flatnonzero(np.append(True, np.diff(feed[starts]) != 0))
    number = np.arange(len(starts)) - np.repeat(first, np.diff(np.append(first, len(starts))))
    inside = number < most
    np.add.at(late, number[inside], mean[inside])
    np.add.at(count, number[inside], 1.0)
    return late, count


def run_experiment(given: LabSettings, progress: Progress) -> ExperimentResult:
    """Replay the strategies on synthetic feeds, and on the trace if there is one."""
    seeds = given.seeds or (2 if given.quick else 20)
    feeds = 150 if given.quick else 400
    window = given.window or WINDOW
    names = given.choose_strategies(STRATEGY_NAMES)
    found = run_each(run_worlds, names, given, progress, feeds=feeds, window=window, seeds=seeds)
    rows = _make_rows(found)
    late = _average_late_finds(found)
    result = ExperimentResult(
        "generic-feeds",
        {"seeds": seeds, "feeds": feeds, "window": window, "days": 21},
        rows,
        check_statements(rows, SYNTHETIC, seeds)
        + check_late_finds(late, SYNTHETIC, _mean_late_finds(found))
        + check_intervals(found, SYNTHETIC),
        data={"intervals": {name: _join_intervals(measures) for name, measures in found.items()}, "late": late},
    )
    if given.window is None:
        more = {"feeds": feeds, "window": window, "seeds": max(seeds // 4, 1), "mixed": True}
        mixed = _make_rows(run_each(run_worlds, names, given, progress, "mixed windows", **more))
        label = f"windows {', '.join(map(str, MIXED_WINDOWS))}, {UNDATED:.0%} undated"
        result.rows += [_drop_published(row) | {"strategy": f"{row['strategy']}, {label}"} for row in mixed]
    pair = tuple(name for name in ("post_rate", "moving_average") if name in names)
    fewer = max(seeds // 4, min(seeds, 2))
    more = {"feeds": feeds, "window": window, "seeds": fewer, "even": True}
    even = _make_rows(run_each(run_worlds, pair, given, progress, EVEN, **more))
    result.rows += [_drop_published(row) | {"strategy": f"{row['strategy']}, {EVEN}"} for row in even]
    result.checks += check_even_days(even, fewer)
    if given.trace is not None:
        warmup = REAL_WARMUP if given.warmup_days is None else given.warmup_days
        real = run_each(run_trace, names, given, progress, "trace", path=given.trace, window=window, warmup=warmup)
        rows = _make_rows(real)
        checks = check_statements(rows, given.trace.name, 1)
        checks += check_late_finds(_average_late_finds(real), given.trace.name)
        checks += check_intervals(real, given.trace.name)
        result.add_trace(rows, checks, given.trace.name)
    return result


def check_even_days(rows: Sequence[Row], seeds: int) -> list[Check]:
    """Check that post_rate polls less than moving_average only because it knows the hours of a day."""
    found = {row["strategy"]: row for row in rows if row["mode"] == "polls"}
    polls = {name: row["polls_per_item"] for name, row in found.items()}
    if len(polls) < 2:
        return []
    return [
        Check(
            f"on {EVEN} moving_average needs about as few polls per item as post_rate",
            polls["moving_average"] <= (1 + ALIKE) * polls["post_rate"],
            f"averaged over polls, at most {ALIKE:.0%} more",
            polls,
            "ours",
            intervals=half_widths(
                {name: row["sd"]["polls_per_item"] for name, row in found.items() if "sd" in row}, seeds
            ),
        )
    ]


def _drop_published(row: Row) -> Row:
    return {key: value for key, value in row.items() if key not in PUBLISHED_VALUES}


def _join_intervals(measures: list[ReplayMeasures]) -> dict[str, Floats]:
    """Join the intervals of all seeds."""
    return {key: np.concatenate([each.intervals[key] for each in measures]) for key in ("real", "polled")}


def _average_late_finds(found: Mapping[str, list[ReplayMeasures]]) -> dict[str, Floats]:
    """Return the mean delay (minutes) of the n-th find of busy feeds; NaN where fewer than five feeds have one."""
    curves = {}
    for name, measures in found.items():
        late, count = (
            np.sum([getattr(each, key) for each in measures], axis=0) for key in ("finds_late", "finds_count")
        )
        curves[name] = np.where(count >= 5, late / np.maximum(count, 1.0), np.nan)
    return curves


def check_late_finds(
    late: Mapping[str, Floats], where: str, by_seed: Mapping[str, Sequence[float]] | None = None
) -> list[Check]:
    """Check figure 3: the delay of busy feeds once the strategies have learned. `by_seed` has each world's means."""
    order = ("fix_learned", "moving_average", "post_rate", "fix_1h")
    if not late.keys() >= set(order) or any(np.isnan(late[name][LATE_FINDS[0] :]).all() for name in order):
        return []
    minutes = {name: float(np.nanmean(late[name][LATE_FINDS[0] :])) for name in order}
    worlds = {name: np.array(by_seed[name]) for name in order} if by_seed else {}
    pair = {name: worlds[name] for name in order[:2]} if worlds else {}
    if pair and len(pair["fix_learned"]) == len(pair["moving_average"]):
        pair["difference"] = pair["fix_learned"] - pair["moving_average"]
    return [
        Check(
            f"{where}: busy feeds are read soonest by fix_learned and moving_average, then by post_rate, fix_1h last",
            max(minutes["fix_learned"], minutes["moving_average"]) < minutes["post_rate"] < minutes["fix_1h"],
            f"feeds of 300 updates, finds {LATE_FINDS[0]} to {LATE_FINDS[1]}: the first two in either order",
            minutes,
            "fig. 3",
            intervals=measure_intervals(worlds),
        ),
        Check(
            f"{where}: busy feeds are read about as soon by fix_learned as by moving_average",
            abs(minutes["fix_learned"] / minutes["moving_average"] - 1) <= 1 / 7,
            "mean delays as near as the paper's 7 and 8 minutes",
            {name: minutes[name] for name in order[:2]}
            | ({"difference": float(pair["difference"].mean())} if "difference" in pair else {}),
            "fig. 3",
            intervals=measure_intervals(pair),
        ),
    ]


def check_intervals(found: Mapping[str, Sequence[ReplayMeasures]], where: str) -> list[Check]:
    """Check figure 4: how far the intervals between polls scatter around the real ones. On a trace, of which most feeds
    are slow, also for those with ten items or more in three weeks."""
    if not found.keys() >= set(LEARNING_STRATEGIES):
        return []
    checks = []
    for longest, which, source in (
        (LONGEST, "the real intervals", "fig. 4"),
        (OFTEN, "those of feeds with ten", "ours"),
    ):
        if source == "ours" and where == SYNTHETIC:
            continue
        scatter = {name: [_scatter(each.intervals, longest) for each in found[name]] for name in LEARNING_STRATEGIES}
        mean = {name: float(np.mean(values)) for name, values in scatter.items()}
        words = "" if source == "fig. 4" else " items or more in three weeks"
        checks.append(
            Check(
                f"{where}: moving_average polls nearest to {which}{words}, then post_rate, fix_learned last",
                mean["moving_average"] < mean["post_rate"] < mean["fix_learned"],
                "standard deviation of log10(interval between polls ÷ between items) over the feeds that publish",
                mean,
                source,
                because=MOSTLY_SLOW if where != SYNTHETIC and source == "fig. 4" else "",
                intervals=measure_intervals(scatter),
            )
        )
    return checks


def _scatter(intervals: Mapping[str, Floats], longest: float) -> float:
    """Return the standard deviation of log10(polled ÷ real) over the feeds whose real interval is below `longest`.

    >>> round(_scatter({"real": np.array([10.0, 10.0, np.inf]), "polled": np.array([1.0, 100.0, 5.0])}, 99.0), 3)
    1.0
    """
    some = intervals["real"] < longest
    polled = np.minimum(intervals["polled"][some], LONGEST)
    return float(np.log10(polled / intervals["real"][some]).std()) if some.any() else float("nan")


def _mean_late_finds(found: Mapping[str, list[ReplayMeasures]]) -> dict[str, list[float]]:
    """Return the mean delay (minutes) of the late finds of busy feeds in each world that has some."""
    means = {}
    for name, measures in found.items():
        late, count = (
            np.array([getattr(each, key)[LATE_FINDS[0] :].sum() for each in measures])
            for key in ("finds_late", "finds_count")
        )
        means[name] = list(late[count > 0] / count[count > 0])
    return means


def _make_rows(found: Mapping[str, list[ReplayMeasures]]) -> list[Row]:
    return [_make_row(name, mode, measures) for mode in ("feeds", "polls") for name, measures in found.items()]


def _make_row(name: str, mode: str, measured: list[ReplayMeasures]) -> Row:
    """Average one mode over the seeds; the error is minutes × polls per item, as in the paper's eq. 4."""

    def mean(of: Callable[[ReplayMeasures], float]) -> float:
        return float(np.mean([of(each) for each in measured]))

    all_minutes, all_polls = (
        [getattr(one.finds, f"{key}_of_{mode}") for one in measured] for key in ("delay", "polls")
    )
    minutes, polls = float(np.mean(all_minutes)), float(np.mean(all_polls))
    row: Row = {
        "strategy": name,
        "mode": mode,
        "budget": mean(lambda each: each.per_day),
        "requests": mean(lambda each: each.scores.requests),
        "completeness": mean_sd([each.scores.completeness.mean for each in measured]),
        "mean_delay_s": 60.0 * minutes,
        "polls_per_item": polls,
        "error": minutes * polls,
        "lost": mean(lambda each: each.scores.lost),
        "bytes": mean(lambda each: each.scores.bytes),
        "bytes_whole": mean(lambda each: each.whole),
    }
    row |= measure_spread(
        {
            "mean_delay_s": [60.0 * each for each in all_minutes],
            "polls_per_item": all_polls,
            "error": [one * two for one, two in zip(all_minutes, all_polls, strict=True)],
            "bytes_whole": [each.whole for each in measured],
        }
    )
    if mode == "polls":
        row["median_delay_s"] = mean(lambda each: each.scores.median_delay_s)
        row["p95_delay_s"] = mean(lambda each: each.scores.p95_delay_s)
    if name in PAPER[mode]:
        minutes, paper_polls, error = PAPER[mode][name]
        row["paper"] = {"mean_delay_s": 60.0 * minutes, "polls_per_item": paper_polls, "error": error}
    return row


def check_statements(rows: list[Row], where: str, seeds: int) -> list[Check]:
    """Check Table 1 and figure 2; needs all five strategies. The rows are means over `seeds` worlds."""
    means = {mode: {row["strategy"]: row for row in rows if row["mode"] == mode} for mode in ("feeds", "polls")}
    feeds, polls = means["feeds"], means["polls"]
    if not feeds.keys() >= set(STRATEGY_NAMES):
        return []
    traffic = {name: each["bytes_whole"] for name, each in polls.items()}

    def of(mode: dict[str, Row], key: str, scale: float = 1.0) -> dict[str, float]:
        return {name: each[key] / scale for name, each in mode.items()}

    def around(mode: dict[str, Row], key: str, scale: float = 1.0, label: str = "") -> dict[str, float]:
        deviations = {name + label: each["sd"][key] / scale for name, each in mode.items() if "sd" in each}
        return half_widths(deviations, seeds)

    least = {mode: min(each, key=lambda name: each[name]["polls_per_item"]) for mode, each in means.items()}
    errors = of(polls, "error")
    alike = {name: feeds[name] for name in ("post_rate", "moving_average")}
    ranks = {mode: _rank({name: each[name]["error"] for name in STRATEGY_NAMES}) for mode, each in means.items()}
    published = {
        mode: _rank({name: CORRECTED_ERROR.get((mode, name), table[name][2]) for name in STRATEGY_NAMES})
        for mode, table in PAPER.items()
    }
    agree = sum(ranks[mode][name] == published[mode][name] for mode in PAPER for name in STRATEGY_NAMES)
    return [
        Check(
            f"{where}: the errors of the five strategies have the paper's order in both averages",
            agree == 2 * len(STRATEGY_NAMES),
            "all ten ranks, with 30 × 21.02 = 631 for the paper's misprinted 179 (Fix 1h by polls)",
            {"ranks that agree": float(agree)}
            | {f"{name}, {mode}": each[name]["error"] for mode, each in means.items() for name in STRATEGY_NAMES},
            "Table 1",
            because=f"{FEW_DATES}; {KNOWS_THE_NIGHT}" if where != SYNTHETIC else "",
            intervals=around(feeds, "error", label=", feeds") | around(polls, "error", label=", polls"),
        ),
        Check(
            f"{where}: polling every hour is about half an hour late, every day about half a day",
            abs(polls["fix_1h"]["mean_delay_s"] / 1800 - 1) < 0.1
            and abs(polls["fix_1d"]["mean_delay_s"] / 43200 - 1) < 0.2,
            "30 min ± 10 %, 12 h ± 20 %",
            of(polls, "mean_delay_s", 60.0),
            "Table 1",
            intervals=around(polls, "mean_delay_s", 60.0),
        ),
        Check(
            f"{where}: fix_1h has the highest traffic, fix_1d the lowest, the learning strategies save most",
            max(traffic, key=lambda name: traffic[name]) == "fix_1h"
            and min(traffic, key=lambda name: traffic[name]) == "fix_1d"
            and max(traffic["moving_average"], traffic["post_rate"]) <= 0.5 * traffic["fix_1h"],
            "whole documents: moving_average and post_rate at most half of fix_1h's bytes (paper: a tenth)",
            {f"{name}, whole": value / traffic["fix_1h"] for name, value in traffic.items()}
            | {f"{name}, unchanged as 304": each["bytes"] / polls["fix_1h"]["bytes"] for name, each in polls.items()},
            "fig. 2",
            intervals=around(polls, "bytes_whole", traffic["fix_1h"], ", whole"),
        ),
        Check(
            f"{where}: averaged over feeds, fix_1h has the shortest delay and the most polls per item",
            min(feeds, key=lambda name: feeds[name]["mean_delay_s"]) == "fix_1h"
            and max(feeds, key=lambda name: feeds[name]["polls_per_item"]) == "fix_1h",
            "first in both",
            of(feeds, "mean_delay_s", 60.0)
            | {f"{name}, polls": each["polls_per_item"] for name, each in feeds.items()},
            "Table 1",
            intervals=around(feeds, "mean_delay_s", 60.0) | around(feeds, "polls_per_item", label=", polls"),
        ),
        Check(
            f"{where}: moving_average needs the fewest polls per item of all, in both averages",
            set(least.values()) == {"moving_average"},
            "lowest of the five",
            of(polls, "polls_per_item") | {f"{name}, per feed": each["polls_per_item"] for name, each in feeds.items()},
            "Table 1",
            because=KNOWS_THE_NIGHT,
            intervals=around(polls, "polls_per_item") | around(feeds, "polls_per_item", label=", per feed"),
        ),
        Check(
            f"{where}: averaged over polls, moving_average has the smallest error (delay × polls per item)",
            min(errors, key=lambda name: errors[name]) == "moving_average",
            "lowest of the five",
            errors,
            "Table 1",
            because=KNOWS_THE_NIGHT if where != SYNTHETIC else "",
            intervals=around(polls, "error"),
        ),
        Check(
            f"{where}: post_rate and moving_average have similar delays averaged over feeds, post_rate polls more",
            feeds["post_rate"]["polls_per_item"] > feeds["moving_average"]["polls_per_item"]
            and 0.5 <= feeds["post_rate"]["mean_delay_s"] / feeds["moving_average"]["mean_delay_s"] <= 2.0,
            "delays within a factor of two (paper: 57 h and 75 h)",
            of(alike, "mean_delay_s", 3600.0),
            "Table 1, section 4.4",
            because=KNOWS_THE_NIGHT if where != SYNTHETIC else "",
            intervals=around(alike, "mean_delay_s", 3600.0),
        ),
    ]


def _rank(values: Mapping[str, float]) -> dict[str, int]:
    return {name: place for place, name in enumerate(sorted(values, key=lambda name: values[name]))}


def draw_figure(result: ExperimentResult) -> Figure:
    """Draw the paper's figures 2–4: traffic, delay by number of finds, and polled against real intervals."""
    learning = [name for name in LEARNING_STRATEGIES if name in result.data["intervals"]]
    figure, axes = create_figure(2, 3, width=5.0)
    names = list(result.data["intervals"])
    polls = [row for row in result.rows if row["strategy"] in names and row["mode"] == "polls"]
    bars = axes[0].bar(
        [row["strategy"] for row in polls], [row["bytes_whole"] / 1e9 for row in polls], color=COLOURS[0]
    )
    axes[0].bar_label(bars, fmt="%.2f", padding=2, fontsize=8)
    hourly = next((row["bytes_whole"] / 1e9 for row in polls if row["strategy"] == "fix_1h"), None)
    saving = [row["strategy"] for row in polls if row["strategy"] in ("post_rate", "moving_average")]
    if hourly is not None and saving:
        left = [(1 - PAPER_SAVING) * hourly] * len(saving)
        axes[0].plot(saving, left, "x", color=COLOURS[1], markersize=9, label=f"paper: {PAPER_SAVING:.0%} saved")
        axes[0].legend(fontsize=8)
    axes[0].tick_params(axis="x", rotation=30, labelsize=8)
    axes[0].set_ylabel("transferred in three weeks (GB)")
    axes[0].set_title("Fig. 2: traffic if every poll brings the whole document", fontsize=10)
    for place, (name, curve) in enumerate(result.data["late"].items()):
        if name != "fix_1d" and not np.isnan(curve).all():  # as in the paper, half a day is off the scale
            look = line_style(place, marker=False)
            axes[1].plot(np.arange(1, len(curve) + 1), curve, label=name, linewidth=1.0, **look)
            if name in PAPER_LATE:
                axes[1].plot(len(curve), PAPER_LATE[name], "x", color=look["color"], markersize=9)
    axes[1].set_ylim(0, 60)
    axes[1].set_xlabel("finds of a feed")
    axes[1].set_ylabel("mean delay (min)")
    axes[1].set_title("Fig. 3: feeds of 300 updates or more (× paper)", fontsize=10)
    if axes[1].lines:
        axes[1].legend(fontsize=8)
    for axis, name in zip(axes[2:], learning, strict=False):
        _draw_intervals(axis, name, result.data["intervals"][name])
    for axis in axes[2 + len(learning) :]:
        axis.remove()
    return figure


def _draw_intervals(axis: Any, name: str, intervals: Any) -> None:
    """Draw figure 4 for one strategy.

    Feeds without an item in the measured time stand at 100 days, feeds without a poll in it at 31 days, the bound.
    """
    real = np.clip(intervals["real"] / 3600, 1 / 60, 2400.0)
    polled = np.clip(intervals["polled"] / 3600, 1 / 60, LONGEST / 3600)
    axis.hexbin(
        real, polled, gridsize=30, xscale="log", yscale="log", mincnt=1, cmap="viridis", bins="log", linewidths=0
    )
    ends = np.array([1 / 30, 31 * 24.0])
    axis.plot(ends, ends, color=COLOURS[1], linewidth=1.0, label="polled as often as published")
    axis.axhline(1 / 30, color=COLOURS[3], linewidth=1.0, linestyle="--", label="two minutes, 31 days")
    axis.axhline(LONGEST / 3600, color=COLOURS[3], linewidth=1.0, linestyle="--")
    axis.axvline(2400.0, color="#777777", linewidth=0.8, linestyle=":", label="silent feeds")
    axis.set_ylim(1 / 60, 2400.0)
    axis.set_xlabel("real interval between items (h)")
    axis.set_ylabel("interval between polls (h)")
    axis.set_title(f"Fig. 4: {name}", fontsize=10)
    axis.legend(fontsize=7, loc="lower right")


EXPERIMENT = Experiment(
    "generic-feeds",
    "Urbansky et al.: Table 1, figs 2–4",
    "delay, polls per item, error and traffic of five interval strategies, averaged over feeds and over polls",
    run_experiment,
    draw_figure,
    frozenset({"seeds", "trace", "window", "warmup_days", "strategies"}),
    question="Which rule for update intervals finds new items soonest for the fewest polls?",
)
