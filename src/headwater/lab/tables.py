"""Names and formats the lab's measures for terminals and pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DURATION, NUMBER = "duration", "number"
MEASURES = {
    "requests": ("requests", "{:,.0f}"),
    "completeness": ("completeness", "{:.4f}"),
    "freshness": ("freshness", "{:.4f}"),
    "mean_delay_s": ("mean delay", DURATION),
    "median_delay_s": ("median", DURATION),
    "p95_delay_s": ("p95", DURATION),
    "max_delay_s": ("max", DURATION),
    "sd_delay_s": ("sd", DURATION),
    "mean_age_s": ("mean age", DURATION),
    "fresh_copies": ("fresh copies", "{:.1%}"),
    "delay_of_items_s": ("delay per item", DURATION),
    "lost_after_parents": ("lost after parents", "{:.0%}"),
    "mean_delay_per_feed_s": ("mean delay per feed", DURATION),
    "polls_per_item": ("polls/item", "{:.2f}"),
    "polls_per_item_per_feed": ("polls/item per feed", "{:.2f}"),
    "error": ("error", "{:,.1f}"),
    "lost": ("lost", "{:,.0f}"),
    "pending": ("pending", "{:,.0f}"),
    "items": ("items", "{:,.0f}"),
    "bytes": ("bytes", "{:,.0f}"),
    "off_budget": ("off budget", "{:+.2%}"),
    "more_in_fullest_feed": ("more in fullest feed", "{:+.1%}"),
    "more_in_all_feeds": ("more in all feeds", "{:+.1%}"),
    "cv_at_most_1": ("share with CV ≤ 1", "{:.1%}"),
    "share_of_feeds": ("share of the feeds", "{:.1%}"),
    "share_of_items": ("share of the items", "{:.1%}"),
    "feeds": ("feeds", "{:,.0f}"),
    **{
        f"labelled_{shape}{key}": (f"labelled {shape}{words}", "{:.1%}")
        for shape in ("peaks", "uniform", "waves")
        for key, words in (("", ""), ("_80", " (80 % variant)"))
    },
}
ROUNDING = 1e-12  # a smaller relative deviation is none
HIDDEN_COLUMNS = ("paper", "thesis", "sd")  # `sd` has the standard deviations of plain values of the same row


def describe_measure(key: str) -> tuple[str, str]:
    """Return a measure's heading and the format of its values."""
    return MEASURES.get(key, (key.replace("_", " "), NUMBER))


def is_change(key: str) -> bool:
    """Return whether a measure is itself a share or a difference in per cent, of which a ratio says nothing.

    >>> is_change("more_in_all_feeds"), is_change("requests")
    (True, False)
    """
    return describe_measure(key)[1].endswith("%}")


def find_value(row: Mapping[str, Any], key: str) -> Any:
    """Return a row's value with its standard deviation where the row has one.

    >>> find_value({"error": 2.0, "lost": 1.0, "sd": {"error": 0.1}}, "error")
    {'mean': 2.0, 'sd': 0.1}
    """
    value, spread = row.get(key), row.get("sd", {})
    return {"mean": value, "sd": spread[key]} if key in spread and value is not None else value


def describe_figures(figures: Mapping[str, float | None], intervals: Mapping[str, float]) -> str:
    """Write the figures of a statement in one line, with the half widths of their 95 % intervals.

    >>> describe_figures({"gain": 0.25, "paper": None, "error": 10590.2}, {"gain": 0.0125, "error": 833.0})
    'gain 0.25 ± 0.013, paper –, error 10,590 ± 830'
    >>> describe_figures({"λ = 5, r = 2": 0.0, "λ = 20, r = 2": -0.0}, {})
    'λ = 5, r = 2: 0; λ = 20, r = 2: 0'
    """
    after, between = (": ", "; ") if any("," in name for name in figures) else (" ", ", ")
    return between.join(
        f"{name}{after}{'–' if value is None else format_number(value, 4)}"
        + (f" ± {format_number(intervals[name], 2)}" if name in intervals else "")
        for name, value in figures.items()
    )


def format_number(value: float, digits: int = 4) -> str:
    """Write a number with some significant digits, large ones in full.

    >>> [format_number(each) for each in (0.1234, 37.0, 10590.2, 36520.0, 1e-6)], format_number(833.0, 2)
    (['0.1234', '37', '10,590', '36,520', '1e-06'], '830')
    """
    short = float(f"{value:.{digits}g}") + 0.0  # no −0
    return f"{short:,.0f}" if 10**digits <= abs(short) < 1e9 else f"{short:.{digits}g}"


def format_value(value: Any, form: str) -> str:
    """Format one value of a row; a mean is followed by its standard deviation unless that is 0, as for a single run.

    >>> format_value({"mean": 0.5, "sd": 0.1}, "{:.2f}"), format_value(9000.0, DURATION), format_value(None, DURATION)
    ('0.50 ±0.10', '2.50 h', '')
    """
    if value is None:
        return ""
    if isinstance(value, Mapping):
        seen = value["sd"] > ROUNDING * abs(value["mean"])
        spread = f" ±{format_spread(value['sd'], form)}" if seen else ""
        return format_value(value["mean"], form) + spread
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if value != value:
        return "–"
    if form == DURATION:
        return f"{value / 3600:,.2f} h" if value >= 5400 else f"{value / 60:.1f} min"
    return format_number(value) if form == NUMBER else form.format(value)


def format_spread(value: float, form: str) -> str:
    """Format a deviation or half an interval, without the sign that a difference has.

    >>> format_spread(0.03, "{:+.1%}")
    '3.0%'
    """
    return format_value(value, form).lstrip("+")
