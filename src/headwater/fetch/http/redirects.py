"""Follows redirects hop by hop, or stops after each hop so that somebody else decides about the next request.

Each hop is a request of its own, so that the guard checks every address and Retry-After is honoured on every hop.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from urllib.parse import urldefrag, urljoin

from headwater.fetch.http.guarded_session import FetchFailure, GuardedSession, HttpReply
from headwater.fetch.http.headers import MINUTE, parse_retry_after
from headwater.model import Document, Ending, Markup, Outcome, Validators

MAX_REDIRECTS = 10
_REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
_PERMANENT_STATUSES = frozenset({301, 308})
_MAX_POSTPONED = 10_000
_SAFE_LOCATION = re.compile(r"[^\x00-\x1f\x7f-\x9f\\]+")


@dataclass(frozen=True, slots=True)
class Handover:
    """A fetch that was redirected, to be continued by a request of its own: here or by another process."""

    asked: str
    at: str
    started: float
    elapsed: float
    permanent: bool
    hops: int
    received: int
    spent: float
    seen: tuple[str, ...] = ()  # the addresses before `at`


class Redirected(Exception):
    """A fetch that goes hop by hop was redirected."""


@dataclass(slots=True)
class FetchProgress:
    """The state of one fetch: its current address, hops and cost."""

    asked: str
    at: str
    started: float
    begin: float
    permanent: bool = True
    hops: int = 0
    received: int = 0
    spent: float = 0.0  # seconds of the deadline, without waiting for a host's turn
    seen: tuple[str, ...] = ()  # the addresses before `at`
    hop_by_hop: bool = False  # stop at a redirect

    @classmethod
    def resume(cls, way: Handover) -> FetchProgress:
        begin = time.monotonic() - way.elapsed
        return cls(
            way.asked, way.at, way.started, begin, way.permanent, way.hops, way.received, way.spent, way.seen, True
        )  # fmt: skip

    def make_handover(self) -> Handover:
        elapsed = time.monotonic() - self.begin
        return Handover(
            self.asked, self.at, self.started, elapsed, self.permanent, self.hops, self.received, self.spent, self.seen
        )  # fmt: skip

    def make_outcome(
        self,
        ending: Ending,
        message: str = "",
        *,
        status: int | None = None,
        document: Document[Markup] | None = None,
        validators: Validators | None = None,
        fresh_for: float | None = None,
        retry_after: float | None = None,
        body_hash: str | None = None,
    ) -> Outcome:
        return Outcome(
            ending,
            self.asked,
            self.at,
            self.started,
            time.monotonic() - self.begin,
            status,
            document,
            validators,
            self.at if self.hops and self.permanent and ending.ok else None,
            fresh_for,
            retry_after,
            self.received,
            body_hash,
            message,
        )


HoldGrant = Callable[[], AbstractAsyncContextManager[None]]
"""Waits for the permission to send one request, which the block sends."""


class RedirectFollower:
    """Follows redirects through a session, and remembers redirects with Retry-After."""

    def __init__(self, session: GuardedSession, deadline: float, clock: Callable[[], float]) -> None:
        self.hold_grant: HoldGrant = nullcontext
        self._session = session
        self._deadline = deadline
        self._clock = clock
        self._postponed: dict[tuple[str, str], float] = {}

    async def follow(
        self, progress: FetchProgress, headers: Mapping[str, str], max_wire: int | None = None
    ) -> HttpReply:
        """Follow redirects to the final response. Every hop gets the same headers, because validators belong to the
        feed. Raises Redirected where the fetch goes hop by hop."""
        while True:
            seconds = self._deadline - progress.spent if progress.hops else None
            # A fetch that goes hop by hop is a job: its request is in the budget already.
            async with nullcontext() if progress.hop_by_hop else self.hold_grant():
                target, reply = await self._session.send_request(
                    progress.at, headers, seconds=seconds, max_wire=max_wire
                )
            progress.received += reply.received
            if reply.status not in _REDIRECT_STATUSES:
                return reply
            progress.spent += reply.spent
            self._honour_retry_after(progress, reply)
            progress.hops += 1
            progress.permanent = progress.permanent and reply.status in _PERMANENT_STATUSES
            progress.seen = (*progress.seen, progress.at)
            progress.at = resolve_location(str(target), reply.headers.get("Location"))
            if progress.at in progress.seen:
                raise FetchFailure(Ending.REDIRECTS, f"{progress.asked} redirects in a loop.", status=reply.status)
            if progress.hops > MAX_REDIRECTS:
                raise FetchFailure(
                    Ending.REDIRECTS,
                    f"{progress.asked} redirects more than {MAX_REDIRECTS} times.",
                    status=reply.status,
                )
            if progress.spent >= self._deadline:
                raise FetchFailure(Ending.TIMEOUT, f"{progress.asked} was not reached within {self._deadline:g} s.")
            if progress.hop_by_hop:
                raise Redirected

    def _honour_retry_after(self, progress: FetchProgress, reply: HttpReply) -> None:
        """Raise THROTTLED while a redirect's Retry-After has not passed (RFC 9110 §10.2.3)."""
        now = self._clock()
        wait = parse_retry_after(reply.headers, now)
        if wait is None:
            return
        redirect = (progress.at, reply.headers.get("Location", ""))
        due = self._postponed.pop(redirect, None)
        if due is not None and due <= now:
            return
        while len(self._postponed) >= _MAX_POSTPONED:
            del self._postponed[next(iter(self._postponed))]
        due = self._postponed[redirect] = now + wait if due is None else due
        raise FetchFailure(
            Ending.THROTTLED,
            f"{progress.at} redirects and asks to wait {due - now:.0f} s.",
            status=reply.status,
            retry_after=max(due - now, MINUTE),
        )


def resolve_location(here: str, location: str | None) -> str:
    """Return the target of a redirect. Raises FetchFailure if it is not a web address."""
    if location is None:
        raise FetchFailure(Ending.REDIRECTS, f"{here} redirects without a Location header.")
    try:
        address = urldefrag(urljoin(here, location)).url if _SAFE_LOCATION.fullmatch(location) else ""
    except ValueError:
        address = ""
    if not address.lower().startswith(("http://", "https://")):
        raise FetchFailure(Ending.REDIRECTS, f"{here} redirects to an address that is not http or https.")
    return address
