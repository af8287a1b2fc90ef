"""Runs Apprise in a worker process whose sockets reach public addresses only.

Apprise opens its own connections through many libraries, which our guarded client cannot check. Therefore it runs in a
process whose sockets check each address with the address guard before they connect or send.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

import orjson

from headwater.errors import NotAFeed
from headwater.fetch.http.address_guard import REFUSAL, AddressBlocked, is_public
from headwater.fetch.reading.worker_pool import WorkerPool
from headwater.model import Document

WORKER_MODULE = "headwater.publish.delivery.notification_worker"


def start_notifiers(allow_private: bool) -> WorkerPool:
    """Return the worker pool that sends notifications."""
    function = f"{WORKER_MODULE}:{'notify' if allow_private else 'notify_guarded'}"
    return WorkerPool(function, count=2, cpu_seconds=20, wall_seconds=60.0, memory=2 << 30)


async def send_notification(workers: WorkerPool, address: str, title: str, text: str) -> None:
    """Send a notification. Raises NotAFeed if the service fails; `what` is "refused" if a retry is pointless."""
    await workers.read(orjson.dumps([address, title, text]), "", {})


def is_known_service(address: str) -> bool:
    """Return whether Apprise can send to an address like this. Nothing is sent."""
    import apprise

    return apprise.Apprise.instantiate(address, suppress_exceptions=True) is not None


def notify_guarded(body: bytes, url: str, headers: Mapping[str, str]) -> Document:
    """Send one notification in the worker, to a public address only."""
    refused = guard_sockets()
    try:
        return notify(body, url, headers)
    except Exception:  # services report a blocked address in different ways
        if refused():
            raise NotAFeed(REFUSAL, "refused") from None
        raise


def notify(body: bytes, url: str, headers: Mapping[str, str]) -> Document:
    """Send one notification in the worker."""
    try:
        import apprise
    except ImportError as error:
        raise NotAFeed("NOTIFY needs Apprise: install headwater[notify].", "later") from error
    address, title, text = orjson.loads(body)
    service = apprise.Apprise.instantiate(address, suppress_exceptions=True)
    if service is None:
        raise NotAFeed("Apprise does not know this kind of address.", "refused")
    if not service.notify(body=text, title=title):
        raise NotAFeed("The service did not accept the notification.", "later")
    return Document("notified")


_refusals: list[Any] = []  # blocked addresses; a worker handles one message at a time


def guard_sockets() -> Any:
    """Block private addresses for all sockets of this process. Return a function that tells whether one was blocked."""
    if not hasattr(socket.socket, "unguarded"):
        for name in ("connect", "connect_ex", "sendto"):
            setattr(socket.socket, name, _guard_connect(getattr(socket.socket, name)))
        socket.socket.unguarded = False  # type: ignore[attr-defined]
    before = len(_refusals)
    return lambda: len(_refusals) > before


def _guard_connect(method: Any) -> Any:
    def guarded(self: socket.socket, *args: Any) -> Any:
        address = args[-1]  # the only argument of connect, the last one of sendto
        if self.family in (socket.AF_INET, socket.AF_INET6):
            host = address[0]
            try:
                public = is_public(host)
            except ValueError:  # a host name, which would be resolved without a check
                public = False
            if not public:
                _refusals.append(host)
                raise AddressBlocked
        elif self.family == getattr(socket, "AF_UNIX", None):
            _refusals.append(address)
            raise AddressBlocked
        return method(self, *args)

    return guarded
