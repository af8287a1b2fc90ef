"""`headwater quality`: show completeness, freshness, delay and cost of the running server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from headwater.cli.console.command import command
from headwater.cli.console.output import fail
from headwater.cli.views.quality import render_quality

if TYPE_CHECKING:
    from headwater.node.quality.quality_report import QualityReport
    from headwater.store.store import Store

top = typer.Typer()


@command(
    top,
    "quality",
    view=render_quality,
    example="headwater quality   ·   headwater quality --json | jq .completeness",
)
async def show_quality(store: Store) -> QualityReport:
    """Show completeness, freshness, delay and cost of the running server. Feeds that lose items are listed."""
    from headwater.node.quality.quality_report import load_last_report

    report = await load_last_report(store)
    if report is None:
        fail("No server has reported here yet. Start one with headwater serve and ask again after a minute.")
    return report
