"""Computes when feeds and hosts may be asked again, and remembers the hosts that refused.

The rules themselves are pure: `schedule.politeness.rules` for feeds, `schedule.politeness.host_backoff` for hosts.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Floats
from headwater.formats.values.domains import registered_domain_of_url
from headwater.model import Ending, Known, Refresh
from headwater.schedule.politeness.host_backoff import GAP, HostState, note_answer, note_refusal
from headwater.schedule.politeness.rules import (
    MIN_INTERVAL,
    PolitenessFacts,
    compute_earliest_times,
    compute_pauses,
    load_facts,
)

_ANSWERS = frozenset({Ending.CHANGED, Ending.UNCHANGED, Ending.PARTIAL, Ending.GONE, Ending.MISSING})


class Politeness:
    """Keeps the politeness state of a server. `least` is the shortest pause between two refreshes of one feed."""

    def __init__(self, rng: random.Random, *, least: float = MIN_INTERVAL) -> None:
        self._rng = rng
        self.least_interval = least
        self.pushed_feeds: set[int] = set()  # feeds that a hub pushes: only a slow safety poll remains
        self._hosts: dict[str, HostState] = {}  # only hosts that have refused something lately

    def gather_facts(self, known: Sequence[Known]) -> PolitenessFacts:
        """Collect the facts of some feeds, as of their last refresh."""
        facts = PolitenessFacts.of(len(known))
        load_facts(facts, np.arange(len(known)), known)
        facts.pushed[:] = [one.feed_id in self.pushed_feeds for one in known]
        facts.jitter[:] = [self._rng.random() for _ in known]
        return facts

    def compute_earliest(self, facts: PolitenessFacts, now: float) -> Floats:
        """Return when each of these feeds, just refreshed, may be asked again."""
        return compute_earliest_times(facts, now, least=self.least_interval)[0]

    def compute_pauses(self, facts: PolitenessFacts) -> tuple[Floats, NDArray[np.int8]]:
        """Return the time that must pass between two polls of each feed, and the rule that asks for it."""
        return compute_pauses(facts, self.least_interval)

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
        spaced = refresh.at + host.gap if host.gap > GAP else -np.inf
        return domain, max(spaced, host.not_before if host.not_before is not None else -np.inf)

    def find_hold(self, known: Known, now: float) -> float | None:
        """Return when a server's Retry-After ends, which binds even a person's refresh; None if there is none."""
        host = self._hosts.get(registered_domain_of_url(known.url))
        holds = [known.not_before, host.blocked_until(known.feed_id) if host else None]
        until = max((moment for moment in holds if moment is not None), default=now)
        return until if until > now else None

    @property
    def slow_domains(self) -> Mapping[str, float]:
        """The domains that have refused requests lately, and the seconds to leave between two."""
        return {domain: host.gap for domain, host in self._hosts.items() if host.gap > GAP}

    @property
    def has_refusals(self) -> bool:
        """Whether any host has refused a request lately."""
        return bool(self._hosts)

    @property
    def held_domains(self) -> Mapping[str, float]:
        """The domains that may not be asked at all, and until when."""
        return {domain: host.not_before for domain, host in self._hosts.items() if host.not_before is not None}

    def save(self) -> bytes:
        return msgspec.json.encode(self._hosts)

    def load(self, blob: bytes) -> None:
        self._hosts = msgspec.json.decode(blob, type=dict[str, HostState])
