"""Listening on several addresses at once, and ending every connection when that is over."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Sequence

from headwater.errors import InputError
from headwater.lab.farm.http import FarmProtocol, FarmSite


class FarmListener:
    """Serves a site on any number of addresses under one port."""

    def __init__(self, site: FarmSite) -> None:
        self._site = site
        self._servers: list[asyncio.Server] = []
        self._connections: set[FarmProtocol] = set()

    async def start(self, addresses: Sequence[str], port: int) -> int:
        """The port: with 0 the first address picks it for all."""
        loop = asyncio.get_running_loop()
        try:
            for address in addresses:
                sock = _open_socket(address, port)
                port = sock.getsockname()[1]
                self._servers.append(await loop.create_server(self._make_connection, sock=sock))
        except BaseException:
            await self.stop()
            raise
        return port

    async def stop(self) -> None:
        for server in self._servers:
            server.close()
        for connection in list(self._connections):
            connection.abort()
        for server in self._servers:
            await server.wait_closed()
        self._servers.clear()

    def _make_connection(self) -> FarmProtocol:
        return FarmProtocol(self._site, self._connections)


def _open_socket(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(4096)  # a benchmark opens its connections all at once
        sock.setblocking(False)
    except (OSError, OverflowError) as error:
        sock.close()
        reasons = {
            errno.EADDRINUSE: "something else listens there",
            errno.EACCES: "the system does not allow that port",
        }
        reason = reasons.get(getattr(error, "errno", None) or 0, str(error))
        raise InputError(f"The farm cannot listen on {host}:{port}: {reason}; choose another --port.") from error
    return sock
