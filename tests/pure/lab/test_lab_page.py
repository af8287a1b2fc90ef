"""The figures in the text of docs/lab.md are settings, the papers', or those of the saved results."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "lab.md").read_text()
TEXT = " ".join(re.sub(r"<!-- (result|rows) .*?<!-- /\1 -->", "", PAGE, flags=re.DOTALL).split())
FIGURE = re.compile(r"[+−-]?(?<![\w.])\.\d+|\d+ %")
GIVEN = (  # settings and figures of the papers
    "95 % interval over the seeds",
    "`intervals`",
    "the half widths of their 95 %",
    "τ₀ = .01, 1, 10",
    "x^−.78 on",
    "and 32 % of the paper's do",
    "15 % of them retrieved per hour",
    "inside two_steps it is .1",
    "beside it by .042 and leaves",
    "radius .8, window 20",
    "At α = .5 every node",
    "with 95 % intervals by resampling",
    "95 % of the published C_F and F_W within",
    "within .5 % of the common cost",
)


def load(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DOCS / "results" / f"{name}.json").read_text())
    return found


def find_row(model: str, hours: float) -> dict[str, Any]:
    rows = load("online")["rows"]
    return next(row for row in rows if (row["shape"], row["strategy"], row["hours"]) == ("waves", model, hours))


def find_figures(experiment: str, words: str) -> dict[str, float]:
    found: dict[str, float] = next(one["figures"] for one in load(experiment)["checks"] if words in one["statement"])
    return found


def at_equal_cost(model: str) -> float:
    return float(find_row(f"two_steps, {model}, equal cost", 7.5)["completeness"]["mean"])


def lost_by_costs(others: bool) -> list[float]:
    """Return by how much completeness falls if a strategy knows the costs: of `value`, or of the others."""
    rows = [row for row in load("costs")["rows"] if (row["strategy"] != "value") is others]
    found = {(row["strategy"], row["costs"], row["knows_costs"]): row["completeness"]["mean"] for row in rows}
    return [mean - found[name, costs, True] for (name, costs, knows), mean in found.items() if not knows]


def by_budget() -> float:
    one, other = (find_row(f"two_steps, {name}", 6.0)["completeness"]["mean"] for name in ("periodic", "single"))
    return float(one - other)


def largest_change_below() -> float:
    changed = [
        value
        for measure in ("completeness", "freshness")
        for level, value in find_figures(
            "cascades", f"first level by two_steps instead of uniform raises {measure}"
        ).items()
        if level != "level 1"
    ]
    return max(map(abs, changed))


def gains_by_teamwork(words: str, measure: str) -> list[float]:
    """Return what aggregators gain below the first level by working together."""
    return list(find_figures("cascades", f"query feeds that {words} raise {measure}").values())


def delay_saved_by_pushing() -> float:
    rows = [row for row in load("cascades")["rows"] if (row["first"], row["below"]) == ("two_steps", "two_steps")]
    late = {(row["teamwork"], row["level"]): row["delay_of_items_s"] for row in rows if row["level"] > 1}
    return float(min(1 - late["pushed", level] / late["none", level] for way, level in late if way == "none"))


def real_gaps(words: str) -> list[float]:
    return list(find_figures("online", f"on news.parquet: for waves two_steps is more complete {words}").values())


def saved_bytes(where: str) -> list[float]:
    return [row["saving"] for row in load("deltas")["rows"] if row["where"] == where]


def gain_at(share: float) -> dict[str, Any]:
    found: dict[str, Any] = next(row for row in load("fast-news")["rows"] if row.get("pattern_share") == share)
    return found


TOLD: dict[str, Callable[[], bool]] = {
    "The paper's 10 % come out at a share of .3 (9 % ± 2 of single worlds)": lambda: (
        round(gain_at(0.3)["gain"], 2) == 0.09 and round(gain_at(0.3)["sd"]["gain"], 2) == 0.02
    ),
    "Then 53 % of its feeds post daily": lambda: (
        round(load("fast-news")["settings"]["feeds_that_post_daily"], 2) == 0.53
    ),
    "15 % and 35 % of our worlds have these orders": lambda: (
        [
            find_figures("two-steps", f"window freshness at b = {pair}")["share of worlds with this order"]
            for pair in ("10: two_steps > uniform", "30: two_steps > only_tau")
        ]
        == [0.15, 0.35]
    ),
    "completeness rises by about .01 at every level": lambda: all(
        0.005 < gain < 0.02
        for gain in gains_by_teamwork("tell their readers how much they have published", "completeness")
    ),
    "it rises by .05 to .08, freshness by .1 or more": lambda: (
        min(gains_by_teamwork("push their items, so that all requests go to sources,", "completeness")) > 0.045
        and max(gains_by_teamwork("push their items, so that all requests go to sources,", "completeness")) < 0.085
        and min(gains_by_teamwork("push their items, so that all requests go to sources,", "freshness")) > 0.1
    ),
    "Completeness falls by .005 to .012": lambda: (
        [round(end(lost_by_costs(others=True)), 3) for end in (min, max)] == [0.005, 0.012]
    ),
    "at 160 requests periodic reaches .94": lambda: round(at_equal_cost("periodic"), 2) == 0.94,
    "and single .86": lambda: round(at_equal_cost("single"), 2) == 0.86,
    "By budget periodic is +.065 more complete": lambda: round(by_budget(), 3) == 0.065,
    "changes the quality below it by less than .01": lambda: largest_change_below() < 0.01,
    "less complete at equal cost, by up to .045": lambda: round(-min(real_gaps("with the periodic model")), 3) == 0.045,
    "with a single rate by .021 to .042": lambda: (
        [round(end(real_gaps("with the true day")), 3) for end in (min, max)] == [0.021, 0.042]
    ),
}


def pair_by_level(rows: list[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the rows of two_steps on all levels beside those of uniform."""
    by_pair = {(row["first"], row["below"], row["level"]): row for row in rows if row["teamwork"] == "none"}
    levels = {row["level"] for row in rows}
    return [(by_pair["two_steps", "two_steps", each], by_pair["uniform", "uniform", each]) for each in levels]


def find_measure(strategy: str, mode: str, key: str) -> float:
    rows = load("generic-feeds")["rows"]
    return float(next(row[key] for row in rows if (row["strategy"], row["mode"]) == (strategy, mode)))


SAID: dict[str, Callable[[], bool]] = {
    "over feeds 4.58 polls per item, there 41.9": lambda: (
        round(find_measure("fix_learned", "feeds", "polls_per_item"), 2) == 4.58
    ),
    "On worlds whose days have no shape both need 2.11": lambda: all(
        round(find_measure(f"{name}, days without a shape", "polls", "polls_per_item"), 2) == 2.11
        for name in ("post_rate", "moving_average")
    ),
    "7,242 for `fix_1h` (paper: 6,662), 8,933 for `moving_average` (8,773)": lambda: (
        [round(find_measure(f"{name} on news.parquet", "feeds", "error")) for name in ("fix_1h", "moving_average")]
        == [7242, 8933]
    ),
    "that of `value` does not fall": lambda: max(lost_by_costs(others=False)) < 0.0005,
    "More than four fifths of the items": lambda: (
        min(find_figures("cascades", "most items that a second level").values()) > 0.8
    ),
    "over items it is about as short or shorter": lambda: all(
        slow["delay_of_items_s"] < 1.02 * fast["delay_of_items_s"]
        for slow, fast in pair_by_level(load("cascades")["rows"])
    ),
    "delay of items falls by two fifths or more": lambda: delay_saved_by_pushing() >= 0.4,
    "a quarter of `fix_1h`'s bytes": lambda: (
        0.2 < find_measure("fix_learned", "polls", "bytes_whole") / find_measure("fix_1h", "polls", "bytes_whole") < 0.3
    ),
    "deltas save two thirds of the bytes": lambda: round(saved_bytes("farm")[2], 2) == 0.67,
    "Half of the farm's saving": lambda: 0.45 <= saved_bytes("farm")[1] / saved_bytes("farm")[2] <= 0.55,
    "most of that of published documents": lambda: all(
        saved_bytes(where)[1] / saved_bytes(where)[2] > 0.6
        for where in ("published documents, plain", "published documents, compressed")
    ),
    "from one refresh per 5 h on it is less complete": lambda: (
        [gap < 0 for gap in real_gaps("with the periodic model")] == [False, True, True, True, True]
    ),
}


@pytest.mark.parametrize("words", [*TOLD, *SAID])
def test_a_figure_in_the_text_is_that_of_the_saved_result(words: str) -> None:
    assert words in TEXT
    assert {**TOLD, **SAID}[words]()


def test_every_figure_in_the_text_has_a_source() -> None:
    rest = TEXT
    for words in (*GIVEN, *TOLD):
        assert words in rest, words
        rest = rest.replace(words, "")
    assert FIGURE.findall(rest) == []
