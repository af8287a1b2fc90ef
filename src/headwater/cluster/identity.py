"""Who this process is in the cluster, and how it is doing."""

from __future__ import annotations

import os
import resource
import socket
import time
from collections.abc import Callable, Mapping

from headwater import __version__
from headwater.cluster.messages import Report
from headwater.settings import Settings


class Identity:
    """`counts` and `problem` are asked whenever somebody wants to know."""

    def __init__(
        self,
        settings: Settings,
        role: str,
        *,
        capacity: int = 0,
        counts: Callable[[], Mapping[str, int]] = dict,
        problem: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.name = settings.member or f"{role}-{socket.gethostname()}-{os.getpid()}"
        self.role = role
        self._capacity = capacity
        self.counts = counts
        self.problem = problem
        self._started = time.time()

    def report(self) -> Report:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return Report(
            self.name,
            self.role,
            __version__,
            self._started,
            time.time(),
            self._capacity,
            dict(self.counts()),
            used.ru_utime + used.ru_stime,
            self.problem(),
            socket.gethostname(),
        )
