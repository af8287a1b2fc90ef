"""Shows the state of a cluster on a terminal."""

from __future__ import annotations

from rich.table import Table

from headwater.cli.console.output import out
from headwater.cluster.cluster_status import ClusterStatus, describe_holdings


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
