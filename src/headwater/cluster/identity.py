"""Who this process is in the cluster, and how it is doing."""

from __future__ import annotations

import os
import resource
import socket
import time
from collections.abc import Callable, Mapping, Sequence

from headwater import __version__
from headwater.cluster.messages import MemberReport
from headwater.settings import Settings


class LocalMember:
    """`counts` and `problems` are asked whenever somebody wants to know; of problems the first is told."""

    def __init__(
        self,
        settings: Settings,
        role: str,
        *,
        capacity: int = 0,
        counts: Callable[[], Mapping[str, int]] = dict,
        problems: Sequence[Callable[[], str | None]] = (),
        outage: Callable[[], tuple[float, tuple[int, ...]] | None] = lambda: None,
    ) -> None:
        """`outage` is since when no server answers, and which partitions are needed to find out when that is over."""
        self.name = settings.member or f"{role}-{socket.gethostname()}-{os.getpid()}"
        self.role = role
        self._capacity = capacity
        self.counts = counts
        self.problems = list(problems)
        self.outage = outage
        self._started = time.time()

    def make_report(self) -> MemberReport:
        used = resource.getrusage(resource.RUSAGE_SELF)
        since, keep = self.outage() or (None, ())
        return MemberReport(
            self.name,
            self.role,
            __version__,
            self._started,
            time.time(),
            self._capacity if since is None else 0,
            dict(self.counts()),
            used.ru_utime + used.ru_stime,
            next(filter(None, (problem() for problem in self.problems)), None),
            socket.gethostname(),
            since,
            keep,
        )
