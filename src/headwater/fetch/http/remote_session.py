"""Sends a request through another process, the one that may talk to the host.

The rest of a fetch stays in this process: it follows redirects by one remote request each, and decodes and reads.
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
    """One GET of one address; redirects are not followed."""

    url: str
    headers: dict[str, str]
    seconds: float | None = None
    max_wire: int | None = None
    every_body: bool | None = False


@dataclass(frozen=True, slots=True)
class RemoteReply:
    """The response to a RemoteRequest as in HttpReply, or its failure (`ending` and `message`)."""

    status: int | None = None
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    received: int = 0
    spent: float = 0.0
    ending: Ending | None = None
    message: str = ""
    retry_after: float | None = None


async def run_remote_request(session: GuardedSession, request: RemoteRequest) -> RemoteReply:
    """Send the request from the process that received it."""
    given: dict[str, Any] = {"seconds": request.seconds, "max_wire": request.max_wire, "every_body": request.every_body}
    try:
        _, reply = await session.send_request(request.url, request.headers, **given)
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
    """A session that sends its GETs through another process, and other methods itself."""

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
