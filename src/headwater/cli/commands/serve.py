"""`headwater serve`, `web` and `demo`: the running server."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import structlog
import typer
import uvicorn

from headwater.assembly import build, freeze_startup_objects
from headwater.cli.console import logs
from headwater.cli.console.command import command
from headwater.cli.console.options import wants_json
from headwater.cli.console.output import err, print_json
from headwater.cli.console.resources import make_data_folder, open_store
from headwater.errors import SettingsError
from headwater.farm.farm import Farm
from headwater.fetch.client import Fetcher
from headwater.fetch.http.address_guard import WEB_PORTS
from headwater.node.aggregator import Aggregator
from headwater.node.new_feed import add_feed_from_address
from headwater.node.websub.push_service import PushService
from headwater.settings import Settings, is_shared_database, load_settings
from headwater.store.content.feeds import AddedFeed, FeedQuotaCheck, NewFeed, list_feeds
from headwater.store.database.server_lock import lock_database_file
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.web.app import create_app
from headwater.web.auth.authentication import AccessSettings
from headwater.web.auth.client_address import TrustedProxyHeaders
from headwater.web.auth.oidc import OidcClient, OidcProvider, effective_port
from headwater.web.auth.password_login import PasswordLogin
from headwater.web.pages.account_page import setup_url
from headwater.web.site import AddFeedWithinQuota
from headwater.web.tls import Certificate, list_own_names, load_certificate

CERTIFICATE_CHECK_SECONDS = 60.0
log = structlog.get_logger()


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
        str | None, typer.Option(help="How the budget is spent: a name or package.module:Name.")
    ] = None,
    estimator: Annotated[str | None, typer.Option(help="How it predicts feeds: a name or package.module:Name.")] = None,
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
            await serve_pages(node, listener)


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
            await serve_pages(node, listener)


@command(top, "demo", settings_options=("port",), example="headwater demo --feeds 50")
async def serve_demo(
    settings: Settings,
    feeds: Annotated[int, typer.Option(min=1, help="How many feeds the farm has.")] = 30,
    port: Annotated[int | None, typer.Option(help="The port of the pages (8040; 0 picks a free one).")] = None,
    speed: Annotated[float, typer.Option(min=1, help="How much faster than real feeds they publish.")] = 2000.0,
    seed: Annotated[int, typer.Option(min=0, help="Another seed gives other feeds.")] = 1,
) -> None:
    """Start test feeds and a server that watches them, without the internet.

    Data goes to a temporary folder, unless --data names one.
    """
    logs.configure_logs("warning")
    with contextlib.ExitStack() as stack:
        data = settings.data
        if settings.database is None and "data" not in settings.given_fields:
            data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headwater-demo-")))
        lively = load_settings(
            **settings.given_values()
            | {"data": data, "allow_private": True, "budget": 600.0, "per_host": 16, "least_interval": 5.0}
            | ({} if "strategy" in settings.given_fields else {"strategy": "top_utility"})
        )
        make_data_folder(lively)
        stack.enter_context(lock_database_file(lively.database_url))
        await _run_demo(lively, Farm(feeds, seed, speed, hints=False))


async def _run_demo(settings: Settings, farm: Farm) -> None:
    async with open_store(settings) as store:
        before = await store.read(list_feeds, tag="demo", limit=1)
    if before:  # the feeds of an earlier demo in this folder publish again
        farm.port = urlsplit(before[0].url).port or 0
    async with farm:
        with open_listener(settings.host, settings.port) as listener:
            async with build("node", settings) as node:
                addresses = [NewFeed(farm.url(k), tags=("demo",)) for k in range(farm.feeds)]
                await node.store.write(add_and_subscribe, addresses, time.time())
                err.print(f"{farm.feeds} feeds publish at {farm.base_url()}/ and are being refreshed.")
                await serve_pages(node, listener)


async def serve_pages(node: Aggregator, listener: socket.socket) -> None:
    """Serve the pages until a signal arrives."""
    freeze_startup_objects()
    given = node.settings
    secured = await asyncio.to_thread(_load_certificate, given) if given.uses_tls else None
    address = _format_listener_url(listener, "http" if secured is None else "https")
    base = given.public_url or address
    pushing = PushService(node, base)
    knowing = _make_provider_fetcher(given)
    app = create_app(
        node.store,
        node.status,
        add=_make_adder(node),
        names=given.own_names,
        base=base,
        live=node.live,
        node=node,
        pushing=pushing,
        access=AccessSettings(given.own_names, given.registration, given.proxy_header, given.trusted_proxies),
        provider=None if knowing is None else OidcProvider(_make_oidc_client(given), knowing, time.time),
    )
    # Live streams never end by themselves, so the shutdown does not wait for them.
    config = uvicorn.Config(
        TrustedProxyHeaders(app, given.trusted_proxies),
        log_config=None,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=2,
        proxy_headers=False,  # TrustedProxyHeaders does it, and keeps the address of the peer
        ssl_context_factory=None if secured is None else lambda config, default: secured.context,
    )
    server = _SignalServer(config)
    if wants_json():
        print_json({"url": address, "feeds": node.status().feeds})
    else:
        err.print(f"Headwater runs at [bold]{address}[/bold] – stop it with Ctrl-C.")
    if await app.state.authenticator.is_open():
        _log_welcome_link(app.state.login, base)
    if secured is not None and given.tls_cert is None:
        err.print(f"Its certificate is self-signed; SHA-256 {secured.fingerprint()}", style="dim")
    async with (
        pushing,
        knowing or contextlib.nullcontext(),
        _stop_when_broken(node, server),
        _watch_certificate(secured),
    ):
        await server.serve(sockets=[listener])


def _log_welcome_link(door: PasswordLogin, base: str) -> None:
    """Log the link by which the owner sets a password; until then only this machine may sign in."""
    link = setup_url(base, door)
    log.warning("no_owner_yet", note="open to this machine only; the link sets name and password", link=link)


def _make_oidc_client(given: Settings) -> OidcClient:
    secret = given.oidc_client_secret
    return OidcClient(
        given.oidc_issuer or "",
        given.oidc_client_id or "",
        secret.reveal() if secret is not None else "",
        given.oidc_claim,
    )


def _make_provider_fetcher(given: Settings) -> Fetcher | None:
    """Make a client for the configured OpenID Connect provider, which may have a private address."""
    if given.oidc_issuer is None:
        return None
    ports = {*WEB_PORTS, effective_port(given.oidc_issuer)}
    return Fetcher(allow_private=True, ports=ports, deadline=10.0, per_host=8, gap=0.0)


def _format_listener_url(listener: socket.socket, scheme: str) -> str:
    host, port = listener.getsockname()[:2]
    shown = "localhost" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}:{port}/"


def _load_certificate(given: Settings) -> Certificate:
    return load_certificate(given.tls_cert, given.tls_key, given.data, list_own_names(given.host, given.own_names))


@contextlib.asynccontextmanager
async def _watch_certificate(secured: Certificate | None) -> AsyncIterator[None]:
    """Reload the certificate when its files change."""

    async def watch(secured: Certificate) -> None:
        while True:
            await asyncio.sleep(CERTIFICATE_CHECK_SECONDS)
            try:
                if await asyncio.to_thread(secured.reload_if_changed):
                    log.info("certificate_read_again", file=str(secured.file))
            except SettingsError as error:
                log.error("certificate_refused", message=str(error))

    watching = None if secured is None else asyncio.create_task(watch(secured))
    try:
        yield
    finally:
        if watching is not None:
            watching.cancel()


def _make_adder(node: Aggregator) -> AddFeedWithinQuota:
    """Make the function behind the page's form: like `headwater feeds add`, with the first feed of a page."""

    async def add(address: str, user_id: int, allowed: FeedQuotaCheck | None) -> AddedFeed:
        done = await add_feed_from_address(
            node.store,
            node.fetcher,
            address,
            now=time.time(),
            choose=lambda _, found: found[0],
            subscriber=user_id,
            allowed=allowed,
        )
        return AddedFeed(done.feed, done.created)

    return add


class _SignalServer(uvicorn.Server):
    """Stops at a signal. Uvicorn would raise it again and interrupt the shutdown of the node."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):  # Windows
                loop.add_signal_handler(number, self.handle_exit, number, None)
        yield


@contextlib.asynccontextmanager
async def _stop_when_broken(node: Aggregator, server: uvicorn.Server) -> AsyncIterator[None]:
    """Stop the server if the node breaks, instead of serving pages that no longer change."""

    async def watch() -> None:
        await node.wait_until_broken()
        server.should_exit = True

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()


@contextlib.contextmanager
def open_listener(host: str, port: int) -> Iterator[socket.socket]:
    """Open the server's socket before anything else starts, so that a used port is reported at once."""
    with contextlib.ExitStack() as stack:
        try:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            listener = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            listener.listen(2048)  # from now on connections wait instead of being refused
        except OSError as error:
            reason = error.strerror or str(error)
            raise SettingsError(
                f"Cannot listen on {host}:{port}: {reason}. Choose another with --host and --port."
            ) from error
        yield listener
