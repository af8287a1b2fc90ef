"""Shows the state of a cluster, and of a demo, on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headwater.cli.console.output import err, out
from headwater.cluster.cluster_status import ClusterStatus, describe_holdings

if TYPE_CHECKING:
    from headwater.cluster.demo.demo import DemoProgress, DemoVerdict


def render_cluster_status(found: ClusterStatus) -> None:
    for one in found.seats:
        if one.holder is not None:
            out.print(f"{one.seat:<11} {one.holder} (epoch {one.epoch}, {one.left:.0f} s left)")
        elif one.epoch or one.seat == "controller":
            out.print(f"{one.seat:<11} nobody")
    out.print(make_members_table(found))
    for name, held in describe_holdings(found).items():
        out.print(f"partitions of {name}: {held}", style="dim")
    out.print("waiting:    " + ", ".join(f"{name} {count:,}" for name, count in found.buffers.items()))
    rates = found.rates
    out.print(
        f"last minute: {rates['refreshes']:.1f} refreshes/s, {rates['items']:.1f} new items/s, "
        f"{rates['bytes'] / 1000:.0f} kB/s"
    )
    for problem in found.problems:
        out.print(f"! {problem}", style="yellow")


def make_members_table(found: ClusterStatus) -> Table:
    table = Table(box=None)
    for head in ("member", "role", "partitions", "seen", "CPU s", "done"):  # problems follow below, in whole lines
        table.add_column(head, overflow="fold")  # names must not be cut
    for one in found.members:
        done = ", ".join(f"{name} {count:,}" for name, count in one.counts.items() if count)
        table.add_row(
            one.name,
            one.role,
            str(one.partitions or ""),
            f"{one.seen_ago:.0f} s ago",
            f"{one.cpu:.1f}",
            done,
        )
    return table


@contextmanager
def show_demo_progress() -> Iterator[Callable[[DemoProgress], None]]:
    """Show a table on standard error that each call renews."""
    with Live(console=err, refresh_per_second=2) as live:
        yield lambda progress: live.update(_render_progress(progress))
    if not err.is_terminal:
        err.line()  # in a pipe the last table has no newline


def _render_progress(progress: DemoProgress) -> Group:
    found = progress.status
    lines = [
        f"leads: {found.leader or 'nobody'}   items stored: {progress.items:,}   requests: {progress.requests:,}   "
        f"most at once to a host: {progress.at_once}",
        "waiting: " + ", ".join(f"{name} {count}" for name, count in found.buffers.items()),
        *progress.kills[-3:],
        *(f"! {problem}" for problem in found.problems),
    ]
    return Group(make_members_table(found), Text("\n".join(lines), overflow="fold", no_wrap=False))


def render_demo_verdict(verdict: DemoVerdict) -> None:
    for story in (*verdict.reckoning.stories, *map(str, verdict.left)):
        err.print(Text(story))
    out.print(verdict.sentence, style="green" if verdict.ok else "red")
