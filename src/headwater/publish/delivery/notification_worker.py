"""Notifications by Apprise, sent from a worker process in which no socket reaches a private address.

Apprise opens connections of its own, by many libraries, where our guarded client cannot look. So it runs in a process
whose sockets ask the address guard before they connect or send, with the very address they go to.
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
    """Where notifications are sent from."""
    function = f"{WORKER_MODULE}:{'notify' if allow_private else 'notify_guarded'}"
    return WorkerPool(function, count=2, cpu_seconds=20, wall_seconds=60.0, memory=2 << 30)


async def send_notification(workers: WorkerPool, address: str, title: str, text: str) -> None:
    """Returns when the service has taken it; NotAFeed with a sentence, `what` "refused" where it never will."""
    await workers.read(orjson.dumps([address, title, text]), "", {})


def notify_guarded(body: bytes, url: str, headers: Mapping[str, str]) -> Document:
    """In the worker: as `notify`, but only to public addresses."""
    refused = guard_sockets()
    try:
        return notify(body, url, headers)
    except Exception:  # services differ in what they make of a refusal
        if refused():
            raise NotAFeed(REFUSAL, "refused") from None
        raise


def notify(body: bytes, url: str, headers: Mapping[str, str]) -> Document:
    """In the worker: send one notification."""
    try:
        import apprise
    except ImportError as error:
        raise NotAFeed("NOTIFY needs Apprise: install headwater[notify].", "later") from error
    address, title, text = orjson.loads(body)
    service = apprise.Apprise.instantiate(address, suppress_exceptions=True)
    if service is None:
        raise NotAFeed("Apprise does not understand this address.", "refused")
    if not service.notify(body=text, title=title):
        raise NotAFeed("The service did not take the notification.", "later")
    return Document("notified")


_refusals: list[Any] = []  # what the guard of this process has refused; a worker handles one message at a time


def guard_sockets() -> Any:
    """From now on no socket of this process goes to an address that is not public; tells whether one wanted to."""
    if not hasattr(socket.socket, "unguarded"):
        for name in ("connect", "connect_ex", "sendto"):
            setattr(socket.socket, name, _guard_connect(getattr(socket.socket, name)))
        socket.socket.unguarded = False  # type: ignore[attr-defined]
    before = len(_refusals)
    return lambda: len(_refusals) > before


def _guard_connect(method: Any) -> Any:
    def judged(self: socket.socket, *args: Any) -> Any:
        address = args[-1]  # of connect the only argument, of sendto the last
        if self.family in (socket.AF_INET, socket.AF_INET6):
            host = address[0]
            try:
                public = is_public(host)
            except ValueError:  # a name: it would be resolved where nobody looks
                public = False
            if not public:
                _refusals.append(host)
                raise AddressBlocked
        elif self.family == getattr(socket, "AF_UNIX", None):
            _refusals.append(address)
            raise AddressBlocked
        return method(self, *args)

    return judged
