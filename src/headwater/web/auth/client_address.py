"""Tells the sending peer from the visitor behind trusted proxies."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from headwater.web.connections import group_address

PEER_KEY = "headwater.peer"
PROXY_HEADERS = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class TrustedProxyHeaders:
    """Middleware that believes what trusted proxies say about the visitor, and remembers the sending peer."""

    def __init__(self, app: ASGIApp, trusted: Sequence[str]) -> None:
        self._app: Any = ProxyHeadersMiddleware(app, list(trusted)) if trusted else app  # type: ignore[arg-type]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("client"):
            scope[PEER_KEY] = scope["client"][0]
        await self._app(scope, receive, send)


def peer_address(request: HTTPConnection) -> str | None:
    """Return the address of the sending peer, regardless of the headers."""
    real: str | None = request.scope.get(PEER_KEY)
    return real or visitor_address(request)


def visitor_address(request: HTTPConnection) -> str | None:
    """Return the visitor's address: behind a trusted proxy, the one that it names."""
    return request.client.host if request.client else None


def visitor_group(request: HTTPConnection) -> str:
    """Return what limits count as one visitor: the address, in IPv6 its network of 64 bits; empty if unknown."""
    return group_address(visitor_address(request) or "")


def is_loopback(request: HTTPConnection) -> bool:
    """Return whether this machine sent the request, and not a proxy on it for somebody else."""
    if any(name in request.headers for name in PROXY_HEADERS):
        return False
    return is_within(peer_address(request), _LOOPBACK)


def is_secure(request: HTTPConnection) -> bool:
    return request.url.scheme == "https"


def parse_networks(given: Sequence[str]) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(each, strict=False) for each in given)


def is_within(host: str | None, among: Sequence[Network]) -> bool:
    try:
        address = ipaddress.ip_address((host or "").partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address in network for network in among if network.version == address.version)


_LOOPBACK = parse_networks(["127.0.0.0/8", "::1/128"])
