"""Manners applied: after each refresh, until when the feed and its host are to be left alone.

The rules are `schedule.manners` (feeds) and `schedule.hosts` (what a host's refusals mean); this keeps what they need
between refreshes and hands them whole batches.
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
    allowed_from,
    earned_interval,
    load_facts,
)

_ANSWERS = frozenset({Ending.CHANGED, Ending.UNCHANGED, Ending.PARTIAL, Ending.GONE, Ending.MISSING})


class Politeness:
    """`least` is the shortest pause between two refreshes of one feed; only a test network may lower it."""

    def __init__(self, rng: np.random.Generator, *, least: float = LEAST_INTERVAL) -> None:
        self._rng = rng
        self.least_interval = least
        self.pushed_feeds: set[int] = set()  # feeds that a hub pushes: only a slow safety poll remains
        self._hosts: dict[str, HostState] = {}  # only hosts that have refused something lately

    def compute_earliest(self, known: Sequence[Known], rate: Floats, now: float) -> Floats:
        """When each of these feeds, just refreshed, may be asked again. `rate` is what we believe (NaN: nothing)."""
        standing = PolitenessFacts.of(len(known))
        load_facts(standing, np.arange(len(known)), known)
        believed = np.isfinite(rate)
        standing.earned[believed] = earned_interval(rate[believed], self.least_interval)
        standing.pushed[:] = [one.feed_id in self.pushed_feeds for one in known]
        standing.jitter = self._rng.random(len(known))
        return allowed_from(standing, now, least=self.least_interval)[0]

    def record_answer(self, refresh: Refresh, url: str, retry_after: float | None) -> tuple[str, float] | None:
        """Learn what an answer says about the host; the domain and until when it is to be left alone, if it changed."""
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
        """Until when a server's own word forbids even a person's refresh, None if it does not."""
        host = self._hosts.get(registered_domain_of_url(known.url))
        said = [known.not_before, host.blocked_until(known.feed_id) if host else None]
        until = max((moment for moment in said if moment is not None), default=now)
        return until if until > now else None

    @property
    def held_domains(self) -> Mapping[str, float]:
        """Domains that are to be left alone as a whole, and until when."""
        return {domain: host.not_before for domain, host in self._hosts.items() if host.not_before is not None}

    def save(self) -> bytes:
        return msgspec.json.encode(self._hosts)

    def load(self, blob: bytes) -> None:
        self._hosts = msgspec.json.decode(blob, type=dict[str, HostState])
