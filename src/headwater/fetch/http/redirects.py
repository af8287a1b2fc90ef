"""The journey of a fetch over redirects: where it has come to, what it cost, and where it goes next.

Redirects are followed by hand, so that the guard judges every hop and a server's Retry-After is heard on each.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urldefrag, urljoin

from headwater.fetch.http.guarded_session import FetchFailure, GuardedSession, HttpReply
from headwater.fetch.http.headers import MINUTE, parse_retry_after
from headwater.model import Document, Ending, Outcome, Validators

MAX_REDIRECTS = 10
_REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
_PERMANENT_STATUSES = frozenset({301, 308})
_MAX_POSTPONED = 10_000
_SAFE_LOCATION = re.compile(r"[^\x00-\x1f\x7f-\x9f\\]+")


@dataclass(frozen=True, slots=True)
class Handover:
    """How far a fetch has come that was redirected to a host which somebody else talks to: it goes on there."""

    asked: str
    at: str
    started: float
    elapsed: float
    permanent: bool
    hops: int
    received: int
    spent: float


class NotOurHost(Exception):
    """The next hop is not ours."""


@dataclass(slots=True)
class FetchProgress:
    """One fetch under way: where it has come to and what it cost."""

    asked: str
    at: str
    started: float
    begin: float
    permanent: bool = True
    hops: int = 0
    received: int = 0
    spent: float = 0.0  # seconds of the deadline; waiting for a host's turn does not count
    mine: Callable[[str], bool] | None = None  # whether an address is one that we may go to ourselves

    @classmethod
    def resume(cls, way: Handover, mine: Callable[[str], bool]) -> FetchProgress:
        begin = time.monotonic() - way.elapsed
        return cls(
            way.asked, way.at, way.started, begin, way.permanent, way.hops, way.received, way.spent, mine
        )  # fmt: skip

    def make_handover(self) -> Handover:
        elapsed = time.monotonic() - self.begin
        return Handover(
            self.asked, self.at, self.started, elapsed, self.permanent, self.hops, self.received, self.spent
        )  # fmt: skip

    def make_outcome(
        self,
        ending: Ending,
        message: str = "",
        *,
        status: int | None = None,
        document: Document | None = None,
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


class RedirectFollower:
    """Follows redirects through a transport; remembers those that asked to wait before going on."""

    def __init__(self, transport: GuardedSession, deadline: float, clock: Callable[[], float]) -> None:
        self._session = transport
        self._deadline = deadline
        self._clock = clock
        self._postponed: dict[tuple[str, str], float] = {}

    async def follow(
        self, journey: FetchProgress, headers: Mapping[str, str], max_wire: int | None = None
    ) -> HttpReply:
        """Follow redirects to an answer. The same headers go on every hop: validators belong to the feed."""
        seen = {journey.at}
        while True:
            seconds = self._deadline - journey.spent if journey.hops else None
            target, reply = await self._session.send_request(journey.at, headers, seconds=seconds, max_wire=max_wire)
            journey.received += reply.received
            if reply.status not in _REDIRECT_STATUSES:
                return reply
            journey.spent += reply.spent
            self._honour_retry_after(journey, reply)
            journey.hops += 1
            journey.permanent = journey.permanent and reply.status in _PERMANENT_STATUSES
            journey.at = resolve_location(str(target), reply.headers.get("Location"))
            if journey.at in seen:
                raise FetchFailure(Ending.REDIRECTS, f"{journey.asked} redirects in a circle.", status=reply.status)
            if journey.hops > MAX_REDIRECTS:
                raise FetchFailure(
                    Ending.REDIRECTS,
                    f"{journey.asked} redirects more than {MAX_REDIRECTS} times.",
                    status=reply.status,
                )
            if journey.spent >= self._deadline:
                raise FetchFailure(Ending.TIMEOUT, f"{journey.asked} was not reached within {self._deadline:g} s.")
            if journey.mine is not None and not journey.mine(journey.at):
                raise NotOurHost
            seen.add(journey.at)

    def _honour_retry_after(self, journey: FetchProgress, reply: HttpReply) -> None:
        """Honour Retry-After on a redirect (RFC 9110 §10.2.3): go on when it has passed."""
        now = self._clock()
        wait = parse_retry_after(reply.headers, now)
        if wait is None:
            return
        redirect = (journey.at, reply.headers.get("Location", ""))
        due = self._postponed.pop(redirect, None)
        if due is not None and due <= now:
            return
        while len(self._postponed) >= _MAX_POSTPONED:
            del self._postponed[next(iter(self._postponed))]
        due = self._postponed[redirect] = now + wait if due is None else due
        raise FetchFailure(
            Ending.THROTTLED,
            f"{journey.at} redirects and asks to wait {due - now:.0f} s before going on.",
            status=reply.status,
            retry_after=max(due - now, MINUTE),
        )


def resolve_location(here: str, location: str | None) -> str:
    """Where a redirect leads; raises `Failure` where that is nowhere we go."""
    if location is None:
        raise FetchFailure(Ending.REDIRECTS, f"{here} redirects without saying where to.")
    try:
        address = urldefrag(urljoin(here, location)).url if _SAFE_LOCATION.fullmatch(location) else ""
    except ValueError:
        address = ""
    if not address.lower().startswith(("http://", "https://")):
        raise FetchFailure(Ending.REDIRECTS, f"{here} redirects to something that is no web address.")
    return address
