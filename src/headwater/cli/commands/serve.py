"""`headwater serve`, `web` and `demo`: the running server."""

from __future__ import annotations

import contextlib
import socket
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from headwater.assembly import build, freeze_startup_objects
from headwater.cli.console import logs
from headwater.cli.console.command import command
from headwater.cli.console.options import wants_json
from headwater.cli.console.output import err, print_json, show_progress
from headwater.cli.console.resources import make_data_folder, open_store
from headwater.errors import SettingsError
from headwater.farm.demo_world import BUDGET, TAG, make_demo_farm, make_demo_history, replay_demo
from headwater.farm.farm_history import VirtualClock
from headwater.node.node import Node
from headwater.settings import Settings, is_shared_database, load_settings
from headwater.store.content.feeds import list_feeds
from headwater.store.database.server_lock import lock_database_file
from headwater.times import DAY
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
            await _serve_node_pages(node, listener)


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
            await _serve_node_pages(node, listener)


@command(top, "demo", settings_options=("port",), example="headwater demo --feeds 50")
async def serve_demo(
    settings: Settings,
    feeds: Annotated[int, typer.Option(min=1, help="How many feeds the farm has.")] = 30,
    port: Annotated[int | None, typer.Option(help="The port of the pages (8040; 0 picks a free one).")] = None,
    speed: Annotated[float, typer.Option(min=1, help="How much faster than real feeds they publish.")] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Another seed gives other feeds.")] = 1,
    days: Annotated[float, typer.Option(min=0, help="Days of the past to replay first.")] = 14.0,
) -> None:
    """Start test feeds and a server that watches them, without the internet.

    Two weeks of the feeds' past are replayed first, by the server's own code. Data goes to a temporary folder, unless
    --data names one.
    """
    logs.configure_logs("error")
    with contextlib.ExitStack() as stack:
        data = settings.data
        if settings.database is None and "data" not in settings.given_fields:
            data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headwater-demo-")))
        usual = {"budget": BUDGET * speed, "per_host": 16, "host_pause": 0.0}
        if speed > 1:
            usual["least_interval"] = max(120.0 / speed, 5.0)
        lively = load_settings(**{**usual, **settings.given_values(), "data": data, "allow_private": True})
        make_data_folder(lively)
        stack.enter_context(lock_database_file(lively.database_url))
        await _run_demo(lively, feeds, seed, speed, days)


async def _run_demo(settings: Settings, feeds: int, seed: int, speed: float, days: float) -> None:
    clock = VirtualClock()
    started, port = time.time() - days * DAY / speed, 0
    async with open_store(settings) as store:
        before = await store.read(list_feeds, tag=TAG, limit=1)
    if before:  # the feeds of an earlier demo in this folder publish again
        started, port = before[0].added, urlsplit(before[0].url).port or 0
    async with make_demo_farm(feeds, seed, speed, clock, started, port) as farm:
        with open_listener(settings.host, settings.port) as listener:
            if not before:
                err.print(f"Two weeks in the life of {feeds} feeds are replayed by the server's own code.")
                async with open_store(settings) as store:
                    with show_progress("replaying", unit="hours") as on_progress:
                        history = make_demo_history(store, settings, farm, clock, time.time())
                        await replay_demo(history, started, on_progress)
            async with build("node", settings) as node:
                err.print(f"{farm.feeds} feeds publish at {farm.base_url()}/ and are being refreshed.")
                await _serve_node_pages(node, listener)


async def _serve_node_pages(node: Node, listener: socket.socket) -> None:
    freeze_startup_objects()
    await serve_pages(node, listener, partial(_print_address, node))


def _print_address(node: Node, address: str, certificate: Certificate | None) -> None:
    if wants_json():
        print_json({"url": address, "feeds": node.status().feeds})
    else:
        err.print(f"Headwater runs at [bold]{address}[/bold] – stop it with Ctrl-C.")
    if certificate is not None and node.settings.tls_cert is None:
        err.print(f"Its certificate is self-signed; SHA-256 {certificate.fingerprint()}", style="dim")
