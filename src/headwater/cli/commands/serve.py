"""`headwater serve` and `headwater web`: the running server."""

from __future__ import annotations

import socket
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from headwater.assembly import build, freeze_startup_objects
from headwater.cli.console import logs
from headwater.cli.console.command import command
from headwater.cli.console.options import wants_json
from headwater.cli.console.output import err, print_json
from headwater.cli.console.resources import make_data_folder
from headwater.errors import SettingsError
from headwater.node.node import Node
from headwater.settings import Settings, is_shared_database
from headwater.store.database.sqlite import lock_database_file
from headwater.web.server import open_listener, serve_pages
from headwater.web.tls import Certificate

Host = Annotated[str | None, typer.Option(help="The address to listen on (127.0.0.1).")]
Port = Annotated[int | None, typer.Option(help="The port to listen on (8040; 0 picks a free one).")]
PublicUrl = Annotated[
    str | None,
    typer.Option("--public-url", "--base", help="The server's address as others see it, such as https://a.example."),
]
LogLevel = Annotated[str, typer.Option(help="debug, info, warning or error.")]

top = typer.Typer()


@command(
    top,
    "serve",
    settings_options=(
        *("host", "port", "budget", "budget_bytes", "host_budget", "strategy", "estimator", "objective"),
        *("target_completeness", "target_freshness", "target_delay", "public_url", "tls", "tls_cert", "tls_key"),
    ),
    example="headwater serve  ·  headwater serve --data /srv/feeds --port 80 --budget 200",
)
async def serve_node(
    settings: Settings,
    host: Host = None,
    port: Port = None,
    budget: Annotated[float | None, typer.Option(help="Requests per minute (60).")] = None,
    budget_bytes: Annotated[float | None, typer.Option(help="Bytes per second (no limit).")] = None,
    host_budget: Annotated[float | None, typer.Option(help="Requests per minute to one domain (no limit).")] = None,
    strategy: Annotated[
        str | None,
        typer.Option(help="How the budget is spent: a name, such as “advarss(c=.5)”, or package.module:Name."),
    ] = None,
    estimator: Annotated[
        str | None, typer.Option(help="How it predicts feeds: a name, such as “periodic”, or package.module:Name.")
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            help="Optimise for: balanced, completeness, freshness, delay, or completeness=3,freshness=0,delay=1."
        ),
    ] = None,
    target_completeness: Annotated[
        float | None,
        typer.Option(help="Completeness target instead of a budget: the share of items to catch, such as .99."),
    ] = None,
    target_freshness: Annotated[
        float | None,
        typer.Option(help="Freshness target instead of a budget: the share of the sources' windows to have."),
    ] = None,
    target_delay: Annotated[
        float | None, typer.Option(help="Delay target instead of a budget: the mean delay in seconds.")
    ] = None,
    public_url: PublicUrl = None,
    tls: Annotated[bool | None, typer.Option("--tls", help="Serve HTTPS, with a self-signed certificate.")] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="The certificate (PEM) to use.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key (PEM).")] = None,
    log_level: LogLevel = "info",
) -> None:
    """Run the server: refresh feeds within the budget and serve the pages."""
    logs.configure_logs(log_level, as_json=wants_json())
    make_data_folder(settings)
    with lock_database_file(settings.database_url), open_listener(settings.host, settings.port) as listener:
        async with build("node", settings) as node:
            await serve_node_pages(node, listener)


@command(
    top,
    "web",
    settings_options=("host", "port", "nats", "nats_prefix", "member", "public_url"),
    example="headwater web --database postgresql://headwater@db/headwater --nats nats://nats:4222",
)
async def serve_web(
    settings: Settings,
    host: Host = None,
    port: Port = None,
    nats: Annotated[str | None, typer.Option(help="The address of NATS, if the cluster uses it.")] = None,
    nats_prefix: Annotated[str | None, typer.Option(help="The prefix of stream names.")] = None,
    member: Annotated[str | None, typer.Option(help="The name of this process in the cluster.")] = None,
    public_url: PublicUrl = None,
    log_level: LogLevel = "info",
) -> None:
    """Serve the pages of a cluster from a process of their own."""
    logs.configure_logs(log_level, as_json=wants_json())
    if not is_shared_database(settings):
        raise SettingsError("The pages of a cluster need its database: --database postgresql://USER@HOST/NAME.")
    with open_listener(settings.host, settings.port) as listener:
        async with build("web", settings) as node:
            await serve_node_pages(node, listener)


async def serve_node_pages(node: Node, listener: socket.socket) -> None:
    """Print the address and serve the pages until the process is told to stop."""
    freeze_startup_objects()
    await serve_pages(node, listener, partial(_print_address, node))


def _print_address(node: Node, address: str, certificate: Certificate | None) -> None:
    if wants_json():
        print_json({"url": address, "feeds": node.status().feeds})
    else:
        err.print(f"Headwater runs at [bold]{address}[/bold] – stop it with Ctrl-C.")
    if certificate is not None and node.settings.tls_cert is None:
        err.print(f"Its certificate is self-signed; SHA-256 {certificate.fingerprint()}", style="dim")
