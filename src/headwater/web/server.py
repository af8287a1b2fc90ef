"""Opens the listener and serves the application until a signal arrives."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator

import structlog
import uvicorn

from headwater.errors import SettingsError
from headwater.fetch.client import Fetcher
from headwater.fetch.http.address_guard import WEB_PORTS
from headwater.node.aggregator import Aggregator
from headwater.node.websub import PushService
from headwater.settings import Settings
from headwater.web.app import create_app
from headwater.web.auth.client_address import TrustedProxyHeaders
from headwater.web.auth.oidc import OidcClient, OidcProvider, effective_port
from headwater.web.auth.password_login import PasswordLogin
from headwater.web.http_server import HttpServer, make_connection_limits
from headwater.web.pages.account_page import setup_url
from headwater.web.tls import Certificate, list_own_names, load_certificate

CERTIFICATE_CHECK_SECONDS = 60.0
log = structlog.get_logger()

OnReady = Callable[[str, Certificate | None], None]
"""Hears the server's address, and the certificate it uses."""


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


async def serve_pages(aggregator: Aggregator, listener: socket.socket, on_ready: OnReady) -> None:
    """Serve pages and APIs until a signal arrives. `on_ready` is called just before requests are answered."""
    settings = aggregator.settings
    certificate = await asyncio.to_thread(_load_certificate, settings) if settings.uses_tls else None
    address = _format_listener_url(listener, "http" if certificate is None else "https")
    base = settings.public_url or address
    async with PushService(aggregator, base) as push_service, _open_provider(settings) as oidc:
        app = create_app(aggregator, base=base, push_service=push_service, oidc=oidc)
        # Live streams never end by themselves, so the shutdown does not wait for them.
        config = uvicorn.Config(
            TrustedProxyHeaders(app, settings.trusted_proxies),
            log_config=None,
            lifespan="off",
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=2,
            proxy_headers=False,  # TrustedProxyHeaders does it, and keeps the address of the peer
            ssl_context_factory=None if certificate is None else lambda config, default: certificate.context,
        )
        server = HttpServer(config, make_connection_limits(settings), settings.trusted_proxies)
        on_ready(address, certificate)
        if await app.state.authenticator.is_open():
            _log_welcome_link(app.state.login, base)
        async with _stop_when_broken(aggregator, server), _watch_certificate(certificate):
            await server.serve(sockets=[listener])


def _log_welcome_link(login: PasswordLogin, base: str) -> None:
    """Log the link by which the owner sets a password; until then only this machine may sign in."""
    link = setup_url(base, login)
    log.warning("no_owner_yet", note="open to this machine only; the link sets name and password", link=link)


@contextlib.asynccontextmanager
async def _open_provider(settings: Settings) -> AsyncIterator[OidcProvider | None]:
    """Open the client of the configured OpenID Connect provider, which may have a private address."""
    if settings.oidc_issuer is None:
        yield None
        return
    secret = settings.oidc_client_secret
    client = OidcClient(
        settings.oidc_issuer,
        settings.oidc_client_id or "",
        secret.reveal() if secret is not None else "",
        settings.oidc_claim,
    )
    ports = {*WEB_PORTS, effective_port(settings.oidc_issuer)}
    async with Fetcher(allow_private=True, ports=ports, deadline=10.0, per_host=8, gap=0.0) as fetcher:
        yield OidcProvider(client, fetcher, time.time)


def _format_listener_url(listener: socket.socket, scheme: str) -> str:
    host, port = listener.getsockname()[:2]
    shown = "localhost" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}:{port}/"


def _load_certificate(settings: Settings) -> Certificate:
    names = list_own_names(settings.host, settings.own_names)
    return load_certificate(settings.tls_cert, settings.tls_key, settings.data, names)


@contextlib.asynccontextmanager
async def _watch_certificate(certificate: Certificate | None) -> AsyncIterator[None]:
    """Reload the certificate when its files change."""

    async def watch(certificate: Certificate) -> None:
        while True:
            await asyncio.sleep(CERTIFICATE_CHECK_SECONDS)
            try:
                if await asyncio.to_thread(certificate.reload_if_changed):
                    log.info("certificate_read_again", file=str(certificate.file))
            except SettingsError as error:
                log.error("certificate_refused", message=str(error))

    watching = None if certificate is None else asyncio.create_task(watch(certificate))
    try:
        yield
    finally:
        if watching is not None:
            watching.cancel()


@contextlib.asynccontextmanager
async def _stop_when_broken(aggregator: Aggregator, server: HttpServer) -> AsyncIterator[None]:
    """Stop the server if the aggregator breaks, instead of serving pages that no longer change."""

    async def watch() -> None:
        await aggregator.wait_until_broken()
        server.stop()

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()
