"""Shows the quality report on a terminal."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from headwater.cli.console.output import format_count, out
from headwater.schedule.budget import describe_limit
from headwater.times import describe_waiting, format_number, format_relative, format_share

if TYPE_CHECKING:
    from headwater.node.quality.quality_report import QualityReport
    from headwater.schedule.quality.tally_period import TallyPeriod


def render_quality(report: QualityReport) -> None:
    for line in write_report(report, time.time()):
        out.print(line)
    if report.losing:
        out.print(_make_losing_table(report))


def write_report(report: QualityReport, now: float) -> list[str]:
    """Write the report as sentences with rich's markup."""
    feeds = format_count(report.feeds, "feed")
    lines = [f"[bold]{feeds}[/bold], as of {format_relative(report.at, now)}, by {escape(report.strategy)}."]
    if report.problem:
        lines.append(f"[red]{escape(report.problem)}[/red]")
    if report.completeness is None:
        lines.append("Nothing was published in the last day, so completeness and freshness are not known.")
    else:
        caught, likely = (
            format_share(one, report.published) for one in (report.completeness, report.expected_completeness)
        )
        lines.append(
            f"Completeness in the last day: {caught}; with estimated losses not noticed yet: {likely}. "
            f"Freshness: {format_share(report.freshness, report.published)}."
        )
    lines += [
        f"{name}: {_format_stretch(one)}" for name, one in (("Last hour", report.hour), ("Last day ", report.day))
    ]
    if report.plan_check is not None and (checked := report.plan_check.describe()):
        lines.append(checked)
    if report.forecast is not None:
        lines.append(report.forecast.describe())
    spent = f"Requests: {report.used_requests} of {describe_limit(report.budget_requests)}"
    if report.budget_bytes is not None:
        spent += f", {report.used_bytes / 1e6:.2g} of {report.budget_bytes / 1e6:.2g} MB"
    price = "" if report.price is None else f"; the price of a refresh is {_format_price(report)}"
    lines.append(f"{spent}{price}.")
    if report.target is not None:
        lines.append(f"Target {'reached' if report.target_reached else 'not reached'}: {escape(report.target)}")
    saturated = format_count(report.saturated, "feed") if report.saturated else "No feed"
    lines.append(
        f"{saturated} may be losing items at this moment (an estimated {format_number(report.lost_now)} items)."
    )
    return lines


def _format_stretch(one: TallyPeriod) -> str:
    counts = f"{one.requests} requests, {one.bytes / 1e6:.3g} MB, {one.got} new items, {one.lost:.3g} lost"
    if one.delay is None:
        return counts + "."
    waits = [f"they waited {_format_minutes(one.delay.mean)} on average"]
    if one.delay.median is not None:
        waits.append(f"{_format_minutes(one.delay.median)} in the median")
    if one.delay.p95 is not None:
        waits.append(f"{_format_minutes(one.delay.p95)} at the 95th percentile")
    return f"{counts}; {', '.join(waits)}."


def _format_price(report: QualityReport) -> str:
    """Write the price in the strategy's unit: `value` counts the waiting that a refresh saves."""
    assert report.price is not None
    return f"{describe_waiting(report.price)} of waiting" if report.strategy == "value" else format_number(report.price)


def _format_minutes(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _make_losing_table(report: QualityReport) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", title="Feeds that lose items", title_justify="left")
    for heading, side in (("id", "right"), ("feed", "left"), ("lost in a day", "right"), ("lost now", "right")):
        table.add_column(heading, justify=side)  # type: ignore[arg-type]
    table.add_column("chance", justify="right")
    table.add_column("what helps", overflow="fold")
    for one in report.losing:
        name = one.title if len(one.title) <= 40 else one.title[:39] + "…"
        chance = format_share(one.chance_of_loss, 1)
        row = (str(one.feed_id), escape(name), f"{one.lost:.3g}", f"{one.lost_now:.2g}", chance)
        table.add_row(*row, escape(one.helps))
    return table
