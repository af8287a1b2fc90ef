"""`headwater controller`, `terminal`, `storer`, `processor`, `publisher`: the roles of a cluster with NATS."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Annotated

import typer

from headwater.cli.console import logs
from headwater.cli.console.command import add_command, current_settings, wants_json
from headwater.cli.console.resources import run_async
from headwater.cluster.roles import ROLES
from headwater.node.process_memory import freeze_startup_objects
from headwater.settings import Settings

Nats = Annotated[
    str | None, typer.Option(help="The address of NATS: nats://user:password@host:4222, or tls://…?ca=FILE.")
]
Member = Annotated[str | None, typer.Option(help="The name of this process in the cluster.")]
Prefix = Annotated[str | None, typer.Option(help="Before the names of streams, where clusters share a NATS.")]
Level = Annotated[str, typer.Option(help="debug, info, warning or error.")]

ROLE_HELP = {
    "controller": "Decide what to refresh and hand the jobs out; of several, one leads and the others stand by.",
    "terminal": "Fetch and read feeds for the cluster. Needs NATS only: give it no database.",
    "storer": "Judge and store what terminals bring, and pass new items on.",
    "processor": "Match new items with the standing queries; of several, one does and the others stand by.",
    "publisher": "Send what queries deliver: mails, web hooks, notices.",
}


def register(app: typer.Typer) -> None:
    for name in ROLES:
        example = f"Example:  headwater {name} --nats nats://nats:4222"
        database = "" if name == "terminal" else " --database postgresql://headwater@db/headwater"
        add_command(app, name, help=ROLE_HELP[name], epilog=example + database)(_make_role_command(name))


def _make_role_command(name: str) -> Callable[..., None]:
    def start(
        nats: Nats = None,
        member: Member = None,
        nats_prefix: Prefix = None,
        budget: Annotated[float | None, typer.Option(help="Requests per minute (controller).")] = None,
        concurrency: Annotated[int | None, typer.Option(help="Fetches at a time (terminal).")] = None,
        log_level: Level = "info",
    ) -> None:
        logs.configure_logs(log_level, as_json=wants_json())
        given = current_settings(
            nats=nats, member=member, nats_prefix=nats_prefix, budget=budget, concurrency=concurrency
        )
        run_async(run_role_until_signal(name, given))

    start.__name__ = name
    return start


async def run_role_until_signal(role: str, given: Settings) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    freeze_startup_objects()
    await ROLES[role](given, stop)
