"""`headwater cluster`: what a cluster is doing, and one on this machine to watch and to harm."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from headwater.cli.console import logs as logging
from headwater.cli.console.command import add_command, current_settings, fail, make_group, out, print_json, wants_json
from headwater.cli.console.resources import open_store, run_async
from headwater.cluster.cluster_status import ClusterStatus, describe_holdings, read_cluster_status
from headwater.cluster.leases.lease_clock import LeaseTiming
from headwater.cluster.shared_node import is_shared_database
from headwater.cluster.transport.nats_connection import connect_nats
from headwater.cluster.transport.nats_streams import NatsStreams
from headwater.settings import Settings


def register(app: typer.Typer) -> None:
    cluster = make_group("Several machines: what they are doing.")
    add_command(
        cluster, "status", epilog="Example:  headwater cluster status --database postgresql://headwater@db/headwater"
    )(show_cluster_status)
    add_command(cluster, "demo", epilog="Example:  headwater cluster demo --terminals 3 --chaos --seconds 60")(
        run_cluster_demo
    )
    app.add_typer(cluster, name="cluster")


def show_cluster_status(
    nats: Annotated[str | None, typer.Option(help="The address of NATS, to tell the streams' fill too.")] = None,
) -> None:
    """Show who leads, who holds which partitions, what waits in every buffer, rates and problems."""
    given = current_settings(nats=nats)
    if not is_shared_database(given):
        fail("A cluster is on PostgreSQL: give its address by --database postgresql://USER@HOST/NAME.")
    found = run_async(_load_cluster_status(given))
    if wants_json():
        print_json({**asdict(found), "leader": found.leader})
    else:
        render_cluster_status(found)


async def _load_cluster_status(given: Settings) -> ClusterStatus:
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store(given))
        streams = None
        if given.nats is not None:
            link = await connect_nats(given.nats, "status", patience=2.0)
            stack.push_async_callback(link.close)
            streams = NatsStreams(link, given.nats_prefix, LeaseTiming(given.cluster_lease))
        return await read_cluster_status(store, streams)


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
    for head in ("member", "role", "partitions", "seen", "CPU s", "done"):  # problems stand below, in whole lines
        table.add_column(head, overflow="fold")  # a name that is cut is none
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


def run_cluster_demo(
    terminals: Annotated[int, typer.Option(min=1, max=32, help="How many terminals.")] = 3,
    chaos: Annotated[bool, typer.Option("--chaos", help="Kill things at random while it runs.")] = False,
    seconds: Annotated[float, typer.Option(min=5, help="How long to run.")] = 60.0,
    feeds: Annotated[int, typer.Option(min=1, help="How many feeds the farm has.")] = 60,
    seed: Annotated[int, typer.Option(min=0, help="Another seed gives other feeds and other mishaps.")] = 1,
    logs: Annotated[
        Path | None, typer.Option("--logs", metavar="DIR", help="Keep what every process says in this folder.")
    ] = None,
) -> None:
    """Run a whole cluster on this machine: PostgreSQL, NATS, a feed farm, every role as a process.

    At the end it says whether anything was lost; the exit code is 1 if so.
    """
    from headwater.cli.commands.cluster_demo import DemoPlan, run_demo

    logging.configure_logs("warning", as_json=wants_json())
    verdict = run_async(run_demo(DemoPlan(terminals, chaos, seconds, feeds, seed, logs), quiet=wants_json()))
    if wants_json():
        print_json(asdict(verdict))
    else:
        out.print(verdict.sentence, style="green" if verdict.ok else "red")
    if not verdict.ok:
        raise SystemExit(1)
