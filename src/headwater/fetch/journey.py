"""The journey of a fetch over redirects: where it has come to, what it cost, and where it goes next.

Redirects are followed by hand, so that the guard judges every hop and a server's Retry-After is heard on each.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urldefrag, urljoin

from headwater.fetch.etiquette import MINUTE, retry_after
from headwater.fetch.transport import Failure, Reply, Transport
from headwater.model import Document, Ending, Outcome, Validators

MOST_REDIRECTS = 10
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PERMANENT = frozenset({301, 308})
_MOST_POSTPONED = 10_000
_SAFE = re.compile(r"[^\x00-\x1f\x7f-\x9f\\]+")


@dataclass(frozen=True, slots=True)
class Way:
    """How far a fetch has come that was redirected to a host which somebody else talks to: it goes on there."""

    asked: str
    at: str
    started: float
    elapsed: float
    permanent: bool
    hops: int
    received: int
    spent: float


class Elsewhere(Exception):
    """The next hop is not ours."""


@dataclass(slots=True)
class Journey:
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
    def onwards(cls, way: Way, mine: Callable[[str], bool]) -> Journey:
        begin = time.monotonic() - way.elapsed
        return cls(
            way.asked, way.at, way.started, begin, way.permanent, way.hops, way.received, way.spent, mine
        )  # fmt: skip

    def way(self) -> Way:
        elapsed = time.monotonic() - self.begin
        return Way(
            self.asked, self.at, self.started, elapsed, self.permanent, self.hops, self.received, self.spent
        )  # fmt: skip

    def end(
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


class Redirects:
    """Follows redirects through a transport; remembers those that asked to wait before going on."""

    def __init__(self, transport: Transport, deadline: float, clock: Callable[[], float]) -> None:
        self._transport = transport
        self._deadline = deadline
        self._clock = clock
        self._postponed: dict[tuple[str, str], float] = {}

    async def follow(self, journey: Journey, headers: Mapping[str, str], max_wire: int | None = None) -> Reply:
        """Follow redirects to an answer. The same headers go on every hop: validators belong to the feed."""
        seen = {journey.at}
        while True:
            seconds = self._deadline - journey.spent if journey.hops else None
            target, reply = await self._transport.hop(journey.at, headers, seconds=seconds, max_wire=max_wire)
            journey.received += reply.received
            if reply.status not in _REDIRECTS:
                return reply
            journey.spent += reply.spent
            self._postpone(journey, reply)
            journey.hops += 1
            journey.permanent = journey.permanent and reply.status in _PERMANENT
            journey.at = next_address(str(target), reply.headers.get("Location"))
            if journey.at in seen:
                raise Failure(Ending.REDIRECTS, f"{journey.asked} redirects in a circle.", status=reply.status)
            if journey.hops > MOST_REDIRECTS:
                raise Failure(
                    Ending.REDIRECTS,
                    f"{journey.asked} redirects more than {MOST_REDIRECTS} times.",
                    status=reply.status,
                )
            if journey.spent >= self._deadline:
                raise Failure(Ending.TIMEOUT, f"{journey.asked} was not reached within {self._deadline:g} s.")
            if journey.mine is not None and not journey.mine(journey.at):
                raise Elsewhere
            seen.add(journey.at)

    def _postpone(self, journey: Journey, reply: Reply) -> None:
        """Honour Retry-After on a redirect (RFC 9110 §10.2.3): go on when it has passed."""
        now = self._clock()
        wait = retry_after(reply.headers, now)
        if wait is None:
            return
        redirect = (journey.at, reply.headers.get("Location", ""))
        due = self._postponed.pop(redirect, None)
        if due is not None and due <= now:
            return
        while len(self._postponed) >= _MOST_POSTPONED:
            del self._postponed[next(iter(self._postponed))]
        due = self._postponed[redirect] = now + wait if due is None else due
        raise Failure(
            Ending.THROTTLED,
            f"{journey.at} redirects and asks to wait {due - now:.0f} s before going on.",
            status=reply.status,
            retry_after=max(due - now, MINUTE),
        )


def next_address(here: str, location: str | None) -> str:
    """Where a redirect leads; raises `Failure` where that is nowhere we go."""
    if location is None:
        raise Failure(Ending.REDIRECTS, f"{here} redirects without saying where to.")
    try:
        address = urldefrag(urljoin(here, location)).url if _SAFE.fullmatch(location) else ""
    except ValueError:
        address = ""
    if not address.lower().startswith(("http://", "https://")):
        raise Failure(Ending.REDIRECTS, f"{here} redirects to something that is no web address.")
    return address
