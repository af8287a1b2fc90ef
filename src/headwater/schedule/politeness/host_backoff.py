"""Learns whether a Retry-After means the feed or the host.

The header does not say (RFC 9110 §10.2.3), so the answer is learned. After the first refusal only the feed is held, for
as long as the server asked, and the host is probed: after a short pause another feed may go. If that one is refused
too, the host meant everybody and is held as a whole; if it is answered, the host meant the feed. Later evidence can
overturn either conclusion, and after a week it is learned again. Every refusal also doubles the gap between requests to
the host. The gap halves in a day without refusals: a host that bears two requests a minute is not tried with three
every few minutes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from headwater.times import DAY, MINUTE, WEEK

PROBE = MINUTE  # the pause before another feed of the host is tried after a refusal of unknown scope
DEFAULT_PAUSE = 10 * MINUTE  # the pause if a refusal has no Retry-After
GAP, MAX_GAP = 1.0, 10 * MINUTE  # seconds between two requests to one host: usual, and after many refusals
REFUSED_GAP = 20.0  # after the first refusal
GAP_HALF_LIFE = DAY


class RetryAfterScope(StrEnum):
    """Whether the host's Retry-After means one feed or the whole host."""

    UNKNOWN = "unknown"
    FEED = "feed"
    HOST = "host"


@dataclass(frozen=True, slots=True)
class HostState:
    """The state of a host between requests. `held` lists the feeds it refused, each with the end of its pause."""

    scope: RetryAfterScope = RetryAfterScope.UNKNOWN
    learned: float | None = None
    not_before: float | None = None
    held: tuple[tuple[int, float], ...] = ()
    gap: float = GAP
    refusals: int = 0
    gap_at: float | None = None  # when `gap` was last computed

    def blocked_until(self, feed: int) -> float | None:
        """Return until when this feed must not be asked because of its host; None if it may be asked."""
        own = dict(self.held).get(feed)
        both = [moment for moment in (own, self.not_before) if moment is not None]
        return max(both) if both else None


def note_refusal(host: HostState, feed: int, at: float, retry_after: float | None) -> HostState:
    """Record that a feed of the host was answered with 429, 503 or a redirect with Retry-After.

    >>> one = note_refusal(HostState(), 1, 0.0, 3600.0)
    >>> one.scope, one.blocked_until(1), one.blocked_until(2)  # the others wait a minute, then one is tried
    (<RetryAfterScope.UNKNOWN: 'unknown'>, 3600.0, 60.0)
    >>> two = note_refusal(one, 2, 60.0, 3600.0)
    >>> two.scope, two.blocked_until(3)
    (<RetryAfterScope.HOST: 'host'>, 3660.0)
    """
    host = _expire_scope(host, at)
    pause = retry_after if retry_after is not None else min(DEFAULT_PAUSE * 2.0**host.refusals, WEEK / 7)
    others = [moment for other, moment in host.held if other != feed and moment > at]
    held = (*((f, moment) for f, moment in host.held if f != feed and moment > at), (feed, at + pause))
    scope, learned = host.scope, host.learned
    if others:  # two feeds refused at the same time: the host means everybody
        scope, learned = RetryAfterScope.HOST, at
    wait = {RetryAfterScope.HOST: pause, RetryAfterScope.UNKNOWN: min(PROBE, pause), RetryAfterScope.FEED: 0.0}[scope]
    return replace(
        host,
        scope=scope,
        learned=learned,
        not_before=max(host.not_before or 0.0, at + wait) if wait else host.not_before,
        held=held[-100:],
        gap=min(max(_current_gap(host, at) * 2, REFUSED_GAP), MAX_GAP),
        gap_at=at,
        refusals=min(host.refusals + 1, 30),
    )


def note_answer(host: HostState, feed: int, at: float) -> HostState:
    """Record that a feed of the host got any other answer: the host as a whole is not refusing.

    >>> host = note_answer(note_refusal(HostState(), 1, 0.0, 3600.0), 2, 60.0)
    >>> host.scope, host.blocked_until(1), host.blocked_until(2)
    (<RetryAfterScope.FEED: 'feed'>, 3600.0, None)
    """
    host = _expire_scope(host, at)
    others = [moment for other, moment in host.held if other != feed and moment > at]
    held = tuple((f, moment) for f, moment in host.held if f != feed and moment > at)
    told_feed = bool(others)  # another feed is refused while this one is answered
    return replace(
        host,
        scope=RetryAfterScope.FEED if told_feed else host.scope,
        learned=at if told_feed else host.learned,
        not_before=None if told_feed or (host.not_before or 0.0) <= at else host.not_before,
        held=held,
        gap=_current_gap(host, at),
        gap_at=at,
        refusals=max(host.refusals - 1, 0),
    )


def _current_gap(host: HostState, at: float) -> float:
    """Return the gap that a host's refusals require now."""
    calm = 0.0 if host.gap_at is None else max(at - host.gap_at, 0.0)
    gap: float = host.gap * 0.5 ** (calm / GAP_HALF_LIFE)
    return gap if gap > 2 * GAP else GAP


def _expire_scope(host: HostState, at: float) -> HostState:
    """Return the host without a scope that is too old to trust."""
    if host.learned is not None and at - host.learned > WEEK:
        return replace(host, scope=RetryAfterScope.UNKNOWN, learned=None)
    return host
