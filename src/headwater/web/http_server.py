"""Accepts connections within the limits of `connections`, and leaves file descriptors for fetching.

Connections are accepted one by one, so that a connection counts before its TLS handshake, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import ssl
import time
from collections import Counter
from collections.abc import Coroutine, Iterator, Sequence
from types import FrameType
from typing import Any

import structlog
import uvicorn

from headwater.loops import REPEAT_SECONDS, pause
from headwater.settings import Settings
from headwater.web.auth.client_address import is_within, parse_networks
from headwater.web.connections import REPLACED, ClientConnection, ConnectionLimits, ConnectionTable
from headwater.web.http_protocol import LimitedHttpProtocol

DATE_SECONDS = 1.0  # between two Date headers, and two looks for slow clients
MAX_DESCRIPTORS = 65_536
OTHER_DESCRIPTORS = 256  # for the database, worker processes, deliveries and files
MAX_CONNECTIONS = 24_000  # 15 kB of memory each

log = structlog.get_logger()


class HttpServer(uvicorn.Server):
    """Serves until it is stopped or a signal arrives. Uvicorn would raise the signal again and interrupt the shutdown.

    It wakes once a second; Uvicorn's own loop wakes ten times to see whether it is to stop.
    """

    def __init__(self, config: uvicorn.Config, limits: ConnectionLimits, proxies: Sequence[str] = ()) -> None:
        super().__init__(config)
        trusted = parse_networks(proxies)
        self.table = ConnectionTable(limits, lambda address: is_within(address, trusted))
        self._stopping = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._logged: Counter[str] = Counter()
        self._logged_at = 0.0

    def stop(self) -> None:
        self.should_exit = True
        self._stopping.set()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._stopping.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):  # Windows
                loop.add_signal_handler(number, self.handle_exit, number, None)
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.servers = []
        for listener in sockets or ():
            listener.setblocking(False)
            self._start_task(self._accept_clients(listener))
        self.started = True

    async def main_loop(self) -> None:
        while not await self.on_tick(0):  # 0: a full second, at which the Date header is made anew
            self._check_clients(time.monotonic())
            await pause(self._stopping, DATE_SECONDS)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await super().shutdown(sockets)

    def _start_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept_clients(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, address = await loop.sock_accept(listener)
            except OSError as error:  # a client that is gone already, or no descriptor
                log.warning("client_not_accepted", error=str(error))
                await asyncio.sleep(0.1)
                continue
            self._admit_client(client, str(address[0]))

    def _admit_client(self, client: socket.socket, address: str) -> None:
        one, replaced = self.table.admit(address, time.monotonic())
        if replaced is not None:
            replaced.close(REPLACED)
        if one is None:
            client.close()
            return
        opening = self._start_task(self._open_client(client, one))

        def cancel_opening(reason: str) -> None:
            opening.cancel()

        one.close = cancel_opening

    async def _open_client(self, client: socket.socket, one: ClientConnection) -> None:
        """Hand a connection to its protocol, after the TLS handshake if there is one."""
        opened = False
        seconds = None if self.config.ssl is None else self.table.limits.head_seconds
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._make_protocol(one), client, ssl=self.config.ssl, ssl_handshake_timeout=seconds
            )
            opened = True
        except (OSError, ssl.SSLError, TimeoutError) as error:
            log.debug("client_not_opened", error=str(error))
        finally:
            if not opened:
                self.table.remove(one)
                client.close()

    def _make_protocol(self, one: ClientConnection) -> LimitedHttpProtocol:
        given = {"config": self.config, "server_state": self.server_state, "app_state": self.lifespan.state}
        return LimitedHttpProtocol(one, self.table, **given)

    def _check_clients(self, now: float) -> None:
        """End connections of slow clients, and log once a minute how many."""
        for protocol in list(self.server_state.connections):
            if isinstance(protocol, LimitedHttpProtocol):
                protocol.check_client(now)
        if self.table.closed != self._logged and now >= self._logged_at + REPEAT_SECONDS:
            log.warning("clients_cut_off", open=len(self.table), **(self.table.closed - self._logged))
            self._logged, self._logged_at = Counter(self.table.closed), now


def make_connection_limits(settings: Settings) -> ConnectionLimits:
    """Return the limits of a server, after raising the process's limit of descriptors as far as it may."""
    descriptors = raise_descriptor_limit()
    room = descriptors - count_reserved_descriptors(settings.concurrency, descriptors)
    total = settings.connections or min(room, MAX_CONNECTIONS)
    return ConnectionLimits(total=max(min(total, room), 1), per_address=settings.connections_per_address)


def count_reserved_descriptors(concurrency: int, descriptors: int) -> int:
    """Return the descriptors kept for everything but clients: two for each fetch (see `make_fetcher`), and others.

    >>> count_reserved_descriptors(64, 1024), count_reserved_descriptors(4096, 1024)
    (384, 512)
    """
    return min(2 * concurrency + OTHER_DESCRIPTORS, descriptors // 2)


def raise_descriptor_limit() -> int:
    """Raise the limit of open files as far as the system allows; return it."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return MAX_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return MAX_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
