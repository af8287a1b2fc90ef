"""The client of a cluster's process: as the settings say, and so that a fetch ends while its partition is leased."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from headwater.cluster.leases.lease_clock import LeaseTiming
from headwater.fetch.client import Fetcher
from headwater.fetch.http.remote_session import RemoteReply, RemoteRequest
from headwater.settings import Settings

COURIER_CONNECTIONS = 256  # more than all pools of deliveries and the hub have places

RequestProxy = Callable[[RemoteRequest], Awaitable[RemoteReply]]


def make_fetcher(
    settings: Settings,
    timing: LeaseTiming | None = None,
    clock: Callable[[], float] | None = None,
    proxy: RequestProxy | None = None,
) -> Fetcher:
    """Return the client of a process; in a cluster a fetch ends while its partition is leased.

    With a `proxy`, requests are made by the process that holds the host.
    """
    more: dict[str, Any] = {} if clock is None else {"clock": clock}
    if timing is not None:
        more["deadline"] = timing.fetch_seconds
    return Fetcher(
        allow_private=settings.allow_private,
        contact=settings.contact,
        per_host=settings.per_host,
        pause=settings.host_pause,
        connections=2 * settings.concurrency,
        proxy=proxy,
        **more,
    )


def make_courier(settings: Settings) -> Fetcher:
    """Return the client for web hooks and callbacks of the hub. Their queues limit it, not the pace of fetching."""
    return Fetcher(
        allow_private=settings.allow_private,
        contact=settings.contact,
        per_host=COURIER_CONNECTIONS,
        gap=0.0,
        connections=COURIER_CONNECTIONS,
    )
