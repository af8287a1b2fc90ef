"""`headwater cluster`: show the state of a cluster, or try one on this machine."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.console import logs as logging
from headwater.cli.console.command import command, make_group
from headwater.cli.console.options import wants_json
from headwater.cli.console.output import err, fail
from headwater.cli.console.resources import open_store
from headwater.cli.views.cluster import render_cluster_status, render_demo_verdict, show_demo_progress
from headwater.cluster.cluster_status import ClusterStatus, read_cluster_status
from headwater.cluster.leases.lease_clock import LeaseTiming
from headwater.cluster.transport.nats_connection import connect_nats
from headwater.cluster.transport.nats_streams import NatsStreams
from headwater.settings import Settings, is_shared_database

if TYPE_CHECKING:
    from headwater.cluster.demo.demo import DemoVerdict

top = typer.Typer()
cluster = make_group("Show the state of a cluster, or try one on this machine.")
top.add_typer(cluster, name="cluster")


@command(
    cluster,
    "status",
    view=render_cluster_status,
    as_json=lambda found: {**asdict(found), "leader": found.leader},
    settings_options=("nats",),
    example="headwater cluster status --database postgresql://headwater@db/headwater",
)
async def show_cluster_status(
    settings: Settings,
    nats: Annotated[str | None, typer.Option(help="The address of NATS, to show its streams too.")] = None,
) -> ClusterStatus:
    """Show leaders, members, partitions, backlogs, rates and problems."""
    if not is_shared_database(settings):
        fail("A cluster uses PostgreSQL: give its address with --database postgresql://USER@HOST/NAME.")
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store(settings))
        streams = None
        if settings.nats is not None:
            link = await connect_nats(settings.nats, "status", patience=2.0)
            stack.push_async_callback(link.close)
            streams = NatsStreams(link, settings.nats_prefix, LeaseTiming(settings.cluster_lease))
        return await read_cluster_status(store, streams)


@command(
    cluster,
    "demo",
    view=render_demo_verdict,
    as_json=asdict,
    exit_code=lambda verdict: int(not verdict.ok),
    example="headwater cluster demo --terminals 3 --chaos --seconds 60",
)
async def run_cluster_demo(
    terminals: Annotated[int, typer.Option(min=1, max=32, help="How many terminals.")] = 3,
    chaos: Annotated[bool, typer.Option("--chaos", help="Kill processes at random while it runs.")] = False,
    seconds: Annotated[float, typer.Option(min=5, help="How long to run.")] = 60.0,
    feeds: Annotated[int, typer.Option(min=1, help="How many feeds the farm has.")] = 60,
    seed: Annotated[int, typer.Option(min=0, help="Another seed gives other feeds and other kills.")] = 1,
    logs: Annotated[
        Path | None, typer.Option("--logs", metavar="DIR", help="Keep the logs of all processes in this folder.")
    ] = None,
) -> DemoVerdict:
    """Run a whole cluster on this machine: PostgreSQL, NATS, a feed farm, every role as a process.

    At the end it reports whether anything was lost; the exit code is 1 if so.
    """
    from headwater.cluster.demo.demo import DemoPlan, run_demo

    logging.configure_logs("warning", as_json=wants_json())
    plan = DemoPlan(terminals, chaos, seconds, feeds, seed, logs)
    if wants_json():
        return await run_demo(plan)
    err.print("Starting PostgreSQL, NATS, a feed farm and every role …")
    with show_demo_progress() as show:
        return await run_demo(plan, show)
