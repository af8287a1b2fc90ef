"""`headwater controller`, `terminal`, `storer`, `processor` and `publisher`: the roles of a cluster with NATS.

They do not stand beside `headwater serve`, so that a terminal does not load the web server.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

import typer

from headwater.assembly import ROLES, freeze_startup_objects
from headwater.cli.console.command import command
from headwater.cli.console.logs import configure_logs
from headwater.cli.console.options import wants_json
from headwater.cli.main import COMMANDS
from headwater.settings import Settings

Nats = Annotated[
    str | None, typer.Option(help="The address of NATS: nats://user:password@host:4222, or tls://…?ca=FILE.")
]
Member = Annotated[str | None, typer.Option(help="The name of this process in the cluster.")]
Prefix = Annotated[str | None, typer.Option(help="The prefix of stream names, if clusters share a NATS.")]
Budget = Annotated[float | None, typer.Option(help="Requests per minute (controller).")]
Concurrency = Annotated[int | None, typer.Option(help="Fetches at a time (terminal).")]
LogLevel = Annotated[str, typer.Option(help="debug, info, warning or error.")]

NOTES = {
    "controller": "One of several leads, the others stand by.",
    "terminal": "Needs NATS only: do not give it a database.",
    "processor": "One of several works, the others stand by.",
}

top = typer.Typer()


def _make_role_command(role: str) -> Callable[..., Coroutine[Any, Any, None]]:
    async def run_role(
        settings: Settings,
        nats: Nats = None,
        member: Member = None,
        nats_prefix: Prefix = None,
        budget: Budget = None,
        concurrency: Concurrency = None,
        log_level: LogLevel = "info",
    ) -> None:
        configure_logs(log_level, as_json=wants_json())
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        freeze_startup_objects()
        await ROLES[role](settings, stop)

    return run_role


for _role in ROLES:
    _database = "" if _role == "terminal" else " --database postgresql://headwater@db/headwater"
    command(
        top,
        _role,
        settings_options=("nats", "member", "nats_prefix", "budget", "concurrency"),
        help=f"{COMMANDS[_role][1]} {NOTES.get(_role, '')}".strip(),
        example=f"headwater {_role} --nats nats://nats:4222{_database}",
    )(_make_role_command(_role))
