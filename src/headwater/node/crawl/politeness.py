"""Computes when feeds and hosts may be asked again, and remembers the hosts that refused.

The rules themselves are pure: `schedule.politeness.rules` for feeds, `schedule.politeness.host_backoff` for hosts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from headwater.arrays import Floats
from headwater.fetch.http.domains import registered_domain_of_url
from headwater.model import Ending, Known, Refresh
from headwater.schedule.politeness.host_backoff import GAP, HostState, note_answer, note_refusal
from headwater.schedule.politeness.rules import (
    LEAST_INTERVAL,
    PolitenessFacts,
    compute_earliest_times,
    load_facts,
    rate_to_interval,
)

_ANSWERS = frozenset({Ending.CHANGED, Ending.UNCHANGED, Ending.PARTIAL, Ending.GONE, Ending.MISSING})


class Politeness:
    """Keeps the politeness state of a server. `least` is the shortest pause between two refreshes of one feed."""

    def __init__(self, rng: np.random.Generator, *, least: float = LEAST_INTERVAL) -> None:
        self._rng = rng
        self.least_interval = least
        self.pushed_feeds: set[int] = set()  # feeds that a hub pushes: only a slow safety poll remains
        self._hosts: dict[str, HostState] = {}  # only hosts that have refused something lately

    def compute_earliest(self, known: Sequence[Known], rate: Floats, now: float) -> Floats:
        """Return when each of these feeds, just refreshed, may be asked again. `rate` is estimated (NaN: unknown)."""
        facts = PolitenessFacts.of(len(known))
        load_facts(facts, np.arange(len(known)), known)
        believed = np.isfinite(rate)
        facts.earned[believed] = rate_to_interval(rate[believed], self.least_interval)
        facts.pushed[:] = [one.feed_id in self.pushed_feeds for one in known]
        facts.jitter = self._rng.random(len(known))
        return compute_earliest_times(facts, now, least=self.least_interval)[0]

    def record_answer(self, refresh: Refresh, url: str, retry_after: float | None) -> tuple[str, float] | None:
        """Note an answer or a refusal of a host; return the domain and the end of its pause if that has changed."""
        if not self._hosts and refresh.ending is not Ending.THROTTLED:
            return None
        if refresh.ending is Ending.PARTIAL and refresh.status is None:
            return None  # pushed by a hub: the host itself has said nothing
        domain = registered_domain_of_url(url)
        host = self._hosts.get(domain)
        if refresh.ending is Ending.THROTTLED:
            host = note_refusal(host or HostState(), refresh.feed_id, refresh.at, retry_after)
        elif host is not None and refresh.ending in _ANSWERS:
            host = note_answer(host, refresh.feed_id, refresh.at)
        else:
            return None
        if host.refusals == 0 and host.gap <= GAP and not host.held:
            del self._hosts[domain]
        else:
            self._hosts[domain] = host
        return domain, host.not_before if host.not_before is not None else -np.inf

    def find_hold(self, known: Known, now: float) -> float | None:
        """Return when a server's Retry-After ends, which binds even a person's refresh; None if there is none."""
        host = self._hosts.get(registered_domain_of_url(known.url))
        holds = [known.not_before, host.blocked_until(known.feed_id) if host else None]
        until = max((moment for moment in holds if moment is not None), default=now)
        return until if until > now else None

    @property
    def held_domains(self) -> Mapping[str, float]:
        """The domains that may not be asked at all, and until when."""
        return {domain: host.not_before for domain, host in self._hosts.items() if host.not_before is not None}

    def save(self) -> bytes:
        return msgspec.json.encode(self._hosts)

    def load(self, blob: bytes) -> None:
        self._hosts = msgspec.json.decode(blob, type=dict[str, HostState])
