"""A request that another process makes for us, because it is the only one that may talk to the host.

Everything else about a fetch stays here: redirects are followed by one errand each, documents are decoded and read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from headwater.fetch.http.guarded_session import FetchFailure, GuardedSession, HttpReply
from headwater.model import Ending


@dataclass(frozen=True, slots=True)
class RemoteRequest:
    """One GET of one address, no redirect followed."""

    url: str
    headers: dict[str, str]
    seconds: float | None = None
    max_wire: int | None = None
    every_body: bool | None = False


@dataclass(frozen=True, slots=True)
class RemoteReply:
    """What a hop brought: a reply as `transport.Reply` has it, or how it failed (`ending` and `message`)."""

    status: int | None = None
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    received: int = 0
    spent: float = 0.0
    ending: Ending | None = None
    message: str = ""
    retry_after: float | None = None


async def run_remote_request(transport: GuardedSession, hop: RemoteRequest) -> RemoteReply:
    """The errand, by whom it was given to."""
    given: dict[str, Any] = {"seconds": hop.seconds, "max_wire": hop.max_wire, "every_body": hop.every_body}
    try:
        _, reply = await transport.send_request(hop.url, hop.headers, **given)
    except FetchFailure as failure:
        return RemoteReply(
            failure.status,
            received=failure.received,
            ending=failure.ending,
            message=failure.message,
            retry_after=failure.retry_after,
        )
    headers = tuple((str(name), str(value)) for name, value in reply.headers.items())
    return RemoteReply(reply.status, headers, reply.body, reply.received, reply.spent)


class RemoteSession(GuardedSession):
    """A transport whose GETs others make; whatever else leaves, leaves from here."""

    def __init__(self, send: Callable[[RemoteRequest], Awaitable[RemoteReply]], *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._send = send

    async def send_request(
        self,
        url: str,
        headers: Mapping[str, str],
        *,
        method: str = "GET",
        data: bytes | None = None,
        seconds: float | None = None,
        max_wire: int | None = None,
        every_body: bool | None = False,
    ) -> tuple[URL, HttpReply]:
        if method != "GET":
            given: dict[str, Any] = {"seconds": seconds, "max_wire": max_wire, "every_body": every_body}
            return await super().send_request(url, headers, method=method, data=data, **given)
        target = self.parse_target(url)
        done = await self._send(RemoteRequest(url, dict(headers), seconds, max_wire, every_body))
        if done.ending is not None or done.status is None:
            raise FetchFailure(
                done.ending or Ending.BROKEN,
                done.message,
                done.received,
                status=done.status,
                retry_after=done.retry_after,
            )
        found = CIMultiDictProxy(CIMultiDict(done.headers))
        return target, HttpReply(done.status, found, done.body, done.received, done.spent)
